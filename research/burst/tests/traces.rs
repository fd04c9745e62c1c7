//! The examples of the paper, and the errors of its listings, one by one.

use cutpoint_burst::{Burst, Deduplicator, Fingerprint, Options, Tau, Unknown};

/// Heads and tails of a quarter of the chunk, and one burst per reference chunk: the example of
/// section III-C.
const QUARTER_ONCE: Options = Options { tau: Tau::Fraction(4), c_max: 1, ..Options::BURST };

fn is_burst(deduplicator: &Deduplicator, fingerprint: &Fingerprint) -> bool {
    deduplicator.burst(fingerprint).is_some()
}

fn assert_burst(reference: &[u8], chunk: &[u8], range: std::ops::Range<usize>, data: &[u8]) {
    let burst = Burst::between(reference, chunk);
    assert_eq!((burst.range(), burst.data()), (range.clone(), data), "the burst");
    assert_eq!((burst.pre_len(), burst.post_len()), (range.len(), data.len()), "its lengths");
    assert_eq!(burst.apply(reference).as_deref(), Some(chunk), "what it makes");
}

#[test]
fn bandage_becomes_badge() {
    assert_burst(b"bandage", b"badge", 2..5, b"d");
}

#[test]
fn six_bytes_are_deleted() {
    assert_burst(b"deduplication", b"dedtion", 3..9, b"");
}

#[test]
fn one_byte_is_inserted() {
    assert_burst(b"word", b"world", 3..3, b"l");
}

#[test]
fn prefix_and_suffix_do_not_overlap() {
    assert_burst(&[0; 1024], &[0; 512], 512..1024, b"");
    assert_burst(&[0; 512], &[0; 1024], 512..512, &[0; 512]);
    assert_burst(b"abcabc", b"abc", 3..6, b"");
    assert_burst(b"", b"", 0..0, b"");
}

#[test]
fn burst_does_not_apply_to_a_shorter_chunk() {
    let burst = Burst::between(b"bandage", b"badge");
    assert_eq!(burst.apply(b"band"), None);
    assert_eq!(burst.apply(b"bandy").as_deref(), Some(&b"bad"[..]));
}

/// Section III-C, 1): the second miss becomes the reference chunk of later chunks, and the first
/// burst keeps the old one.
#[test]
fn exhausted_reference_is_replaced() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    let reference = deduplicator.write(b"hhaaaaaa");
    let first = deduplicator.write(b"hhbbbbbb");
    let second = deduplicator.write(b"hhcccccc");
    let third = deduplicator.write(b"hhdddddd");
    let stored = [reference, first, second, third].map(|chunk| is_burst(&deduplicator, &chunk));
    assert_eq!(stored, [false, true, false, true]);
    let burst = deduplicator.burst(&first).expect("a burst");
    assert_eq!((burst.range(), burst.data()), (2..8, &b"bbbbbb"[..]));

    deduplicator.delete(&second).expect("written");
    assert_eq!(deduplicator.read(&first).as_deref(), Ok(&b"hhbbbbbb"[..]), "is on the old one");
    assert_eq!(deduplicator.read(&third).as_deref(), Ok(&b"hhdddddd"[..]), "keeps its reference");
    deduplicator.delete(&reference).expect("written");
    deduplicator.delete(&third).expect("written");
    assert_eq!(deduplicator.read(&first).as_deref(), Ok(&b"hhbbbbbb"[..]), "keeps its reference");
    let statistics = deduplicator.statistics();
    assert_eq!(statistics.full_chunks.count, 1, "the second reference chunk went with its burst");
    assert_eq!(statistics.head_dt.table.entry_count, 0, "and its entry, which was the only one");
}

/// Algorithm 2, lines 3 to 5, and algorithm 3, lines 11 to 13: a block whose entry is exhausted is
/// neither lost nor written twice.
#[test]
fn exhausted_counter_loses_no_chunk() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    let chunks = [b"hhaaaaaa", b"hhbbbbbb", b"hhcccccc"];
    let fingerprints = chunks.map(|chunk| deduplicator.write(chunk));
    for (chunk, fingerprint) in chunks.iter().zip(&fingerprints) {
        assert_eq!(deduplicator.read(fingerprint).as_deref(), Ok(&chunk[..]));
    }
    let statistics = deduplicator.statistics();
    assert_eq!((statistics.full_chunks.count, statistics.bursts.count), (2, 1));
    assert_eq!(statistics.head_dt.exhausted_count, 1);
    assert_eq!(statistics.stored_bytes(), 8 + 6 + 8);
}

/// Algorithm 3, line 11: TailDT is looked up even if the entry of the head is exhausted.
#[test]
fn tail_is_used_if_the_head_is_exhausted() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    deduplicator.write(b"hhaaaatt");
    let by_head = deduplicator.write(b"hhbbbbuu");
    let by_tail = deduplicator.write(b"hhccaatt");
    let burst = deduplicator.burst(&by_tail).expect("found by its tail");
    assert_eq!((burst.range(), burst.data()), (2..4, &b"cc"[..]));
    assert!(is_burst(&deduplicator, &by_head), "found by its head");
    let statistics = deduplicator.statistics();
    assert_eq!((statistics.head_dt.burst_count, statistics.tail_dt.burst_count), (1, 1));

    let by_tail = deduplicator.write(b"iibbbbtt");
    assert!(
        !is_burst(&deduplicator, &by_tail),
        "the tail has its own counter, and it is exhausted"
    );

    let mut head_only = Deduplicator::new(Options { tau: Tau::Fraction(4), ..Options::HEAD });
    head_only.write(b"hhaaaatt");
    let missed = head_only.write(b"iiaaaatt");
    assert!(!is_burst(&head_only, &missed), "BURST-Head has no TailDT");
    assert_eq!(head_only.statistics().tail_dt.table.entry_count, 0);
}

/// Algorithms 3 and 5: in the listings, a duplicate of a burst raises one counter, and its deletion
/// lowers two.
#[test]
fn deleted_duplicate_of_a_burst_does_not_free_the_reference() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    let reference = deduplicator.write(b"hhaaaaaa");
    let first = deduplicator.write(b"hhbbbbbb");
    let second = deduplicator.write(b"hhbbbbbb");
    assert_eq!(first, second);
    deduplicator.delete(&reference).expect("written");
    deduplicator.delete(&second).expect("written");
    assert_eq!(deduplicator.read(&first).as_deref(), Ok(&b"hhbbbbbb"[..]));
    assert_eq!(deduplicator.read(&reference), Err(Unknown(reference)));

    deduplicator.delete(&first).expect("written twice");
    assert_eq!(deduplicator.read(&first), Err(Unknown(first)));
    assert_eq!(deduplicator.statistics().stored_bytes(), 0);
}

/// Algorithm 5, lines 8 to 17: entries are removed with their reference chunk, so that a new chunk
/// does not find them.
#[test]
fn entries_are_removed() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    let reference = deduplicator.write(b"hhaaaaaa");
    let burst = deduplicator.write(b"hhbbbbbb");
    deduplicator.delete(&burst).expect("written");
    let statistics = deduplicator.statistics();
    assert_eq!((statistics.dt.entry_count, statistics.bt.entry_count), (1, 0));
    deduplicator.delete(&reference).expect("written");
    let statistics = deduplicator.statistics();
    let sides = (statistics.head_dt.table.entry_count, statistics.tail_dt.table.entry_count);
    assert_eq!((statistics.dt.entry_count, sides), (0, (0, 0)));

    let later = deduplicator.write(b"hhcccccc");
    assert!(!is_burst(&deduplicator, &later), "no reference chunk is left");
    assert_eq!(deduplicator.read(&later).as_deref(), Ok(&b"hhcccccc"[..]));
}

/// The removal of an old reference chunk keeps an entry that a newer chunk has taken over.
#[test]
fn entries_of_a_newer_chunk_stay() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    let reference = deduplicator.write(b"hhaaaaaa");
    let burst = deduplicator.write(b"hhbbbbbb");
    deduplicator.write(b"hhcccccc");
    deduplicator.delete(&burst).expect("written");
    deduplicator.delete(&reference).expect("written");
    assert_eq!(deduplicator.statistics().full_chunks.count, 1, "the younger one");
    let later = deduplicator.write(b"hhdddddd");
    assert!(is_burst(&deduplicator, &later), "found by the head of the younger one");
}

/// Algorithm 5 never lowers the counter of a head or tail, so that `c_max` would be used up
/// forever.
#[test]
fn deleted_burst_makes_room_for_another() {
    let mut deduplicator = Deduplicator::new(QUARTER_ONCE);
    deduplicator.write(b"hhaaaaaa");
    for _ in 0..3 {
        let burst = deduplicator.write(b"hhbbbbbb");
        assert!(is_burst(&deduplicator, &burst), "the one that is allowed");
        deduplicator.delete(&burst).expect("written");
    }
    assert_eq!(deduplicator.statistics().head_dt.exhausted_count, 0);
}

/// Algorithm 1 starts counters at 1, section III-C at 0, and both are compared by "at most". Here
/// `c_max` is the maximum number of bursts, for the first reference chunk and for those that
/// replace it.
#[test]
fn c_max_counts_bursts() {
    for c_max in [0, 1, 3] {
        let mut deduplicator = Deduplicator::new(Options { c_max, ..QUARTER_ONCE });
        let stored: Vec<bool> = (b'a'..b'j')
            .map(|letter| {
                let chunk = [b'h', b'h', letter, letter, letter, letter, letter, letter];
                let fingerprint = deduplicator.write(&chunk);
                is_burst(&deduplicator, &fingerprint)
            })
            .collect();
        let period = c_max as usize + 1;
        let expected: Vec<bool> = (0..9).map(|number| number % period != 0).collect();
        assert_eq!(stored, expected, "c_max {c_max}");
    }
}

/// A deleted reference chunk stays while a burst needs it, and is readable again after it is
/// written.
#[test]
fn deleted_reference_still_serves() {
    let mut deduplicator = Deduplicator::new(Options { c_max: 3, ..QUARTER_ONCE });
    let reference = deduplicator.write(b"hhaaaaaa");
    let first = deduplicator.write(b"hhbbbbbb");
    deduplicator.delete(&reference).expect("written");
    assert_eq!(deduplicator.delete(&reference), Err(Unknown(reference)), "it is deleted");
    let second = deduplicator.write(b"hhcccccc");
    assert!(is_burst(&deduplicator, &second), "found by its head");
    assert_eq!(deduplicator.write(b"hhaaaaaa"), reference);
    assert_eq!(deduplicator.statistics().duplicate_count, 1, "it was there");
    for fingerprint in [first, second] {
        deduplicator.delete(&fingerprint).expect("written");
    }
    assert_eq!(deduplicator.read(&reference).as_deref(), Ok(&b"hhaaaaaa"[..]));
}

/// The depth is 1: no burst is a reference chunk.
#[test]
fn burst_is_no_reference() {
    let mut deduplicator = Deduplicator::new(Options { c_max: 3, ..QUARTER_ONCE });
    deduplicator.write(b"hhaaaaaa");
    deduplicator.write(b"hhbbbbuu");
    let whole = deduplicator.write(b"iiccccuu");
    assert!(!is_burst(&deduplicator, &whole), "the tail of a burst leads nowhere");
}

/// The raw variants compare 32 bytes directly. Chunks of at most twice that length have no head and
/// tail.
#[test]
fn raw_heads_are_32_bytes() {
    let chunk = |head: u8, len: usize| {
        let mut chunk = vec![b'h'; 31];
        chunk.push(head);
        chunk.resize(len, head);
        chunk
    };
    let mut deduplicator = Deduplicator::new(Options::HEAD_RAW);
    let mut second_is_burst = |heads: [u8; 2], len: usize| {
        deduplicator.write(&chunk(heads[0], len));
        let mut second = chunk(heads[1], len);
        *second.last_mut().expect("not empty") = b'z';
        let fingerprint = deduplicator.write(&second);
        is_burst(&deduplicator, &fingerprint)
    };
    assert!(second_is_burst([b'a', b'a'], 65), "31 and 1 byte are equal");
    assert!(!second_is_burst([b'b', b'c'], 65), "only 31 are");
    assert!(!second_is_burst([b'd', b'd'], 64), "head and tail leave nothing between them");
}

/// The counts of chunks and of bytes.
#[test]
fn statistics_of_a_few_writes() {
    let mut deduplicator = Deduplicator::new(Options { tau: Tau::Bytes(100), ..Options::BURST });
    let reference = vec![0; 4096];
    let mut changed = reference.clone();
    changed[1000..2024].fill(1);
    for chunk in [&reference, &reference, &changed, &changed, &reference] {
        deduplicator.write(chunk);
    }
    let shorter = deduplicator.write(&reference[..4000]);
    let mut little = reference.clone();
    little[2000] = 1;
    deduplicator.write(&little);
    let statistics = deduplicator.statistics();
    assert_eq!(statistics.duplicate_count, 2);
    assert_eq!((statistics.burst_duplicate_count, statistics.unique_count), (1, 1));
    assert_eq!((statistics.head_dt.burst_count, statistics.tail_dt.burst_count), (3, 0));
    assert_eq!((statistics.logical.count, statistics.logical.bytes), (7, 6 * 4096 + 4000));
    assert_eq!(statistics.burst_len_sixteenths[4], 1, "1024 of 4096 bytes");
    assert_eq!(statistics.burst_len_sixteenths[0], 1, "96 bytes are deleted, nothing is written");
    assert_eq!(statistics.burst_len_sixteenths[1], 1, "one byte");
    assert_eq!(statistics.stored_bytes(), 4096 + 1024 + 1);
    assert_eq!(statistics.full_chunks.sectors + statistics.bursts.sectors, 8 + 2 + 1);
    assert!((statistics.dedup_ratio() - 28576.0 / 5121.0).abs() < 1e-12);
    assert!((statistics.dedup_ratio_of_sectors() - 56.0 / 11.0).abs() < 1e-12);
    assert!(statistics.dt.entry_bytes >= 32 && statistics.bt.entry_bytes >= 64);
    assert_eq!(deduplicator.read(&shorter).as_deref(), Ok(&reference[..4000]));
}

#[test]
fn empty_deduplicator_has_a_ratio() {
    let mut deduplicator = Deduplicator::new(Options::default());
    assert!((deduplicator.statistics().dedup_ratio() - 1.0).abs() < 1e-12);
    let empty = deduplicator.write(b"");
    assert_eq!(deduplicator.read(&empty).as_deref(), Ok(&b""[..]));
    assert_eq!(deduplicator.delete(&empty), Ok(()));
    assert_eq!(deduplicator.delete(&empty), Err(Unknown(empty)));
}

/// The first bytes are those of BLAKE3 of the empty input.
#[test]
fn unknown_chunk_is_named() {
    let error = Unknown(Fingerprint::of(b"")).to_string();
    assert!(error.starts_with("chunk af1349b9f5f9a1a6a0404dea36dcc949"), "{error}");
    assert!(error.ends_with("adc112b7cc9a93cae41f3262: not known"), "{error}");
}
