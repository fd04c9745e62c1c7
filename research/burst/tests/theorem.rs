//! Theorem 1: the bytes that a burst must keep so that head or tail still lead to the reference
//! chunk.

use cutpoint_burst::{Burst, Deduplicator, Options, Tau};
use proptest::prelude::*;

fn is_found(tau: Tau, reference: &[u8], chunk: &[u8]) -> bool {
    let mut deduplicator = Deduplicator::new(Options { tau, ..Options::BURST });
    deduplicator.write(reference);
    let fingerprint = deduplicator.write(chunk);
    deduplicator.burst(&fingerprint).is_some()
}

/// Generates a reference chunk and a chunk that results from it by one burst. The burst replaces at
/// most `pre_len_max` bytes of the reference chunk, given its length.
fn burst_alike(
    pre_len_max: impl Fn(usize) -> usize + Clone + 'static,
) -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    prop::collection::vec(any::<u8>(), 70..300)
        .prop_flat_map(move |reference| {
            let len = reference.len();
            let pre_len = 0..=pre_len_max(len).min(len);
            let data = prop::collection::vec(any::<u8>(), 0..200);
            (Just(reference), pre_len, any::<prop::sample::Index>(), data)
        })
        .prop_map(|(reference, pre_len, start, data)| {
            let start = start.index(reference.len() - pre_len + 1);
            let behind = &reference[start + pre_len..];
            let chunk = [&reference[..start], &data, behind].concat();
            (reference, chunk)
        })
}

proptest! {
    #[test]
    fn burst_applied_to_its_reference_is_the_chunk((reference, chunk) in burst_alike(|len| len)) {
        let burst = Burst::between(&reference, &chunk);
        prop_assert_eq!(burst.apply(&reference), Some(chunk));
    }

    /// If the lengths differ, the bound is on the length of the reference chunk.
    #[test]
    fn short_burst_is_found(
        tau in prop_oneof![(1..=32_usize).prop_map(Tau::Bytes), Just(Tau::Raw)],
        (reference, chunk) in burst_alike(|len| len - 64),
    ) {
        let Some(_) = tau.len(chunk.len()) else { return Ok(()) };
        prop_assume!(reference != chunk);
        prop_assert!(is_found(tau, &reference, &chunk));
    }

    /// If sub-chunks are a fraction of the chunk, the theorem holds for chunks of one length.
    #[test]
    fn short_burst_of_one_length_is_found(
        reference in prop::collection::vec(any::<u8>(), 70..300),
        divisor in 3..=8_usize,
        pre_len in any::<prop::sample::Index>(),
        start in any::<prop::sample::Index>(),
    ) {
        let tau = reference.len() / divisor;
        let pre_len = 1 + pre_len.index(reference.len() - 2 * tau);
        let start = start.index(reference.len() - pre_len + 1);
        let mut chunk = reference.clone();
        chunk[start..start + pre_len].iter_mut().for_each(|byte| *byte = !*byte);
        prop_assert!(is_found(Tau::Fraction(divisor), &reference, &chunk));
    }
}

/// The bound of the paper uses the length of the new chunk. If the new chunk is longer, the chunks
/// may have no byte in common.
#[test]
fn length_of_the_new_chunk_is_no_bound() {
    let (reference, chunk) = (b"aaaaaaaaaa", b"bbbbbbbbbbbbbb");
    let burst = Burst::between(reference, chunk);
    assert_eq!(burst.pre_len(), chunk.len() - 2 * 2);
    assert!(!is_found(Tau::Bytes(2), reference, chunk));
}

/// The theorem also holds for one byte more than its bound, and for no more than that.
#[test]
fn bound_could_be_one_byte_more() {
    let reference = b"hhccccccctt";
    let bound = reference.len() - 2 * 2;
    for (chunk, pre_len, is_met) in
        [(b"h--------tt", bound + 1, true), (b"h---------t", bound + 2, false)]
    {
        assert_eq!(Burst::between(reference, chunk).pre_len(), pre_len);
        assert_eq!(is_found(Tau::Bytes(2), reference, chunk), is_met, "{pre_len} bytes");
    }
}

/// An equal head is necessary and not sufficient: all bytes after it may be new, and are stored.
#[test]
fn equal_head_does_not_bound_the_burst() {
    let mut deduplicator = Deduplicator::new(Options::BURST);
    deduplicator.write(&[[1; 8], [2; 8], [3; 8], [4; 8], [5; 8], [6; 8], [7; 8], [8; 8]].concat());
    let mut chunk = vec![9; 64];
    chunk[..8].fill(1);
    let fingerprint = deduplicator.write(&chunk);
    assert_eq!(deduplicator.burst(&fingerprint).map(Burst::post_len), Some(56));
}

/// With a fraction, the heads of chunks of different lengths have different lengths, too.
#[test]
fn fraction_finds_no_chunk_of_another_length() {
    let reference = vec![7; 800];
    let longer = vec![7; 808];
    assert!(!is_found(Tau::Fraction(8), &reference, &longer));
    assert!(is_found(Tau::Bytes(100), &reference, &longer));
}
