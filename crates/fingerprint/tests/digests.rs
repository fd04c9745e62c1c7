//! The digests of every level are those of the crates.

use std::fmt::Debug;

use cutpoint_fingerprint::{Blake3, Sha1, Sha256};
use cutpoint_testing::SplitMix64;
use sha2::Digest as _;

/// Appends the digest of each chunk.
type Digests<D> = Box<dyn Fn(&[&[u8]], &mut Vec<D>)>;

/// A hash function at one of its levels.
struct Hash<D> {
    level: &'static str,
    digests: Digests<D>,
    /// The digest by the crate.
    expected: fn(&[u8]) -> D,
}

const KEY: [u8; 32] = *b"thirty-two bytes that are secret";

/// BLAKE3 at every level of this CPU, plain and keyed.
fn blake3_hashes() -> Vec<Hash<[u8; 32]>> {
    let at = |hash: Blake3, expected: fn(&[u8]) -> [u8; 32]| {
        Blake3::levels().into_iter().map(move |level| {
            let hash = hash.clone().at_level(level).expect("it is available");
            let digests = Box::new(move |chunks: &[&[u8]], out: &mut _| hash.digests(chunks, out));
            Hash { level, digests, expected }
        })
    };
    let plain = at(Blake3::plain(), |chunk| blake3::hash(chunk).into());
    let keyed = at(Blake3::keyed(&KEY), |chunk| blake3::keyed_hash(&KEY, chunk).into());
    plain.chain(keyed).collect()
}

/// SHA-256 at every level of this CPU.
fn sha256_hashes() -> Vec<Hash<[u8; 32]>> {
    let at = |level| {
        let hash = Sha256::plain().at_level(level).expect("it is available");
        let digests = Box::new(move |chunks: &[&[u8]], out: &mut _| hash.digests(chunks, out));
        Hash { level, digests, expected: |chunk: &[u8]| sha2::Sha256::digest(chunk).into() }
    };
    Sha256::levels().into_iter().map(at).collect()
}

/// SHA-1 at every level of this CPU.
fn sha1_hashes() -> Vec<Hash<[u8; 20]>> {
    let at = |level| {
        let hash = Sha1::plain().at_level(level).expect("it is available");
        let digests = Box::new(move |chunks: &[&[u8]], out: &mut _| hash.digests(chunks, out));
        Hash { level, digests, expected: |chunk: &[u8]| sha1::Sha1::digest(chunk).into() }
    };
    Sha1::levels().into_iter().map(at).collect()
}

/// Compares the digests of `chunks` with those of the crate.
fn check<D: PartialEq + Debug>(hashes: &[Hash<D>], chunks: &[&[u8]]) {
    for Hash { level, digests, expected } in hashes {
        // Digests that the vector already holds stay.
        let mut found = vec![expected(b"before")];
        digests(chunks, &mut found);
        assert_eq!(found.len(), 1 + chunks.len(), "{level}");
        let before = std::iter::once(b"before".as_slice());
        for (chunk, found) in before.chain(chunks.iter().copied()).zip(found) {
            let (len, count) = (chunk.len(), chunks.len());
            assert_eq!(found, expected(chunk), "{level}: {len} bytes among {count} chunks");
        }
    }
}

/// Lengths around the edges of blocks, of leaves, and of trees that are not full. Each length is
/// hashed alone and beside another chunk, because a single chunk takes a code path of its own.
#[test]
fn digests_match_the_crate_at_every_length() {
    let data = SplitMix64::bytes(1, 70_000);
    let hashes = blake3_hashes();
    let mut lengths: Vec<usize> = (0..=2200).collect();
    for leaf_count in 3..=66_usize {
        lengths.extend([leaf_count * 1024 - 1, leaf_count * 1024, leaf_count * 1024 + 1]);
    }
    for len in lengths {
        check(&hashes, &[&data[..len]]);
        check(&hashes, &[&data[..len], &data[1..][..len / 2]]);
    }
}

/// Lengths around the edges of blocks, where the padding takes another block, for one to nine
/// chunks.
#[test]
fn stream_digests_match_the_crate_at_every_length() {
    let data = SplitMix64::bytes(4, 70_000);
    let (sha256, sha1) = (sha256_hashes(), sha1_hashes());
    let mut lengths: Vec<usize> = (0..=200).collect();
    for block_count in [4, 5, 16, 63, 64, 1000] {
        lengths.extend(block_count * 64 - 10..=block_count * 64 + 1);
    }
    for len in lengths {
        for count in [1, 2, 3, 4, 5, 9] {
            let chunks: Vec<&[u8]> = (0..count).map(|start| &data[start..start + len]).collect();
            check(&sha256, &chunks);
            check(&sha1, &chunks);
        }
    }
}

/// Batches of chunks of unequal sizes, in which lanes and streams end at different times.
#[test]
fn digests_match_the_crate_in_mixed_batches() {
    let data = SplitMix64::bytes(2, 1 << 20);
    let mut random = SplitMix64::new(3);
    let (blake3, sha256, sha1) = (blake3_hashes(), sha256_hashes(), sha1_hashes());
    for count in 0..=40 {
        for most in [0, 1, 64, 1024, 5000, 100_000] {
            let chunks: Vec<&[u8]> = (0..count)
                .map(|_| {
                    let len = random.below(most + 1);
                    let start = random.below(data.len() - len);
                    &data[start..start + len]
                })
                .collect();
            check(&blake3, &chunks);
            check(&sha256, &chunks);
            check(&sha1, &chunks);
        }
    }
}

/// Every level that this CPU has is tested, so that no level is left out unnoticed.
#[test]
fn every_level_of_this_cpu_is_tested() {
    fn levels<D>(hashes: &[Hash<D>]) -> Vec<&'static str> {
        hashes.iter().map(|hash| hash.level).collect()
    }
    let (blake3, streams) = (levels(&blake3_hashes()), levels(&sha256_hashes()));
    println!("BLAKE3: {}; SHA-256 and SHA-1: {}", blake3.join(", "), streams.join(", "));
    assert_eq!(streams, levels(&sha1_hashes()), "they have the same levels");
    for levels in [&blake3, &streams] {
        assert!(levels.contains(&"crate") && levels.contains(&"emulated"), "{levels:?}");
    }
    #[cfg(target_arch = "x86_64")]
    for (levels, name, has) in [
        (&blake3, "avx2", std::is_x86_feature_detected!("avx2")),
        (&blake3, "avx512", std::is_x86_feature_detected!("avx512f")),
        (&streams, "sha-ni", std::is_x86_feature_detected!("sha")),
    ] {
        assert_eq!(levels.contains(&name), has, "{name}");
    }
    assert!(Blake3::plain().at_level("avx1024").is_none());
    assert!(Sha256::plain().at_level("avx2").is_none());
    assert!(Sha1::plain().at_level("").is_none());
}

/// The debug output does not reveal the key.
#[test]
fn debug_output_omits_the_key() {
    let shown = format!("{:?}", Blake3::keyed(&[7; 32]));
    assert!(shown.contains("keyed: true") && !shown.contains('7'), "{shown}");
}
