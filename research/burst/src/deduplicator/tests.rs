//! Random writes, reads and deletions compared with a map, with a check of the tables after each.

use std::collections::{BTreeMap, BTreeSet};

use cutpoint_testing::SplitMix64;
use proptest::prelude::*;

use super::*;
use crate::{Payloads, SubChunks, Tau};

/// The written chunks, each with the number of writes minus the number of deletions.
type Model = BTreeMap<Fingerprint, (Vec<u8>, u64)>;

fn all(lens: impl Iterator<Item = usize>) -> Payloads {
    lens.fold(Payloads::default(), |mut sum, len| {
        sum.add(len);
        sum
    })
}

/// Checks that the tables agree with each other, with the statistics and with the model.
fn verify(deduplicator: &Deduplicator, model: &Model) {
    let Deduplicator { options, dt, bt, views, statistics } = deduplicator;
    let used = || model.iter().filter(|(_, (_, use_count))| *use_count > 0);
    let full_chunks = dt.iter().filter(|(_, whole)| whole.use_count > 0).map(|(found, _)| found);
    let stored: BTreeSet<_> = full_chunks.chain(bt.keys()).collect();
    assert_eq!(stored, used().map(|(found, _)| found).collect(), "what can be read");
    for (fingerprint, (chunk, use_count)) in used() {
        assert_eq!(deduplicator.read(fingerprint).as_ref(), Ok(chunk), "what is read");
        let whole = dt.get(fingerprint).map(|whole| whole.use_count);
        let burst = bt.get(fingerprint).map(|entry| entry.use_count);
        assert_eq!(whole.xor(burst), Some(*use_count), "in DT or in BT");
    }
    for (fingerprint, whole) in dt {
        let bursts = bt.values().filter(|entry| entry.reference == *fingerprint).count() as u64;
        assert_eq!(whole.burst_count, bursts, "bursts of a reference chunk");
        assert!(whole.use_count + bursts > 0, "a chunk that nobody needs is gone");
    }
    for side in Side::ALL {
        for (key, reference, burst_count) in views.entries(side) {
            let chunk = &dt[&reference].data;
            assert_eq!(sub_fingerprint(options, side, chunk), Some(key), "the key");
            let found = |burst: &&BurstEntry| burst.reference == reference && burst.side == side;
            let bursts = bt.values().filter(found).count();
            assert_eq!(burst_count as usize, bursts, "bursts of an entry");
            assert!(burst_count <= options.c_max, "no more than c_max");
        }
    }
    assert_eq!(
        statistics.full_chunks,
        all(dt.values().map(|whole| whole.data.len())),
        "full chunks"
    );
    assert_eq!(statistics.bursts, all(bt.values().map(|entry| entry.burst.post_len())), "bursts");
    assert_eq!(statistics.burst_len_sixteenths.iter().sum::<u64>(), bt.len() as u64, "histogram");
    let written = model.values().flat_map(|(chunk, count)| (0..*count).map(|_| chunk.len()));
    assert_eq!(statistics.logical, all(written), "logical");
    assert_eq!(deduplicator.statistics().dt.entry_count, dt.len() as u64, "DT");
}

/// Returns a chunk made of few heads, middles and tails, so that all kinds of matches occur.
fn chunk(number: u64) -> Vec<u8> {
    let mut numbers = SplitMix64::new(number);
    let mut piece = |kind: &[u8], len: usize| -> Vec<u8> {
        let letter = kind[numbers.below(kind.len())];
        vec![letter; len]
    };
    let head = piece(b"efghij", 32);
    let middle_len = [0, 1, 40, 192, 192, 192][usize::from(number.to_le_bytes()[0] % 6)];
    let middle = piece(b"mnop", middle_len);
    let tail = piece(b"tu", 32);
    [head, middle, tail].concat()
}

fn options() -> impl Strategy<Value = Options> {
    let sub_chunks =
        prop_oneof![Just(SubChunks::None), Just(SubChunks::Head), Just(SubChunks::HeadAndTail)];
    let tau = prop_oneof![
        Just(Tau::Raw),
        Just(Tau::Fraction(8)),
        (0..12_usize).prop_map(Tau::Fraction),
        (0..70_usize).prop_map(Tau::Bytes),
    ];
    let c_max = prop_oneof![Just(1), Just(3), Just(255), Just(0)];
    (sub_chunks, tau, c_max).prop_map(|(sub_chunks, tau, c_max)| Options { sub_chunks, tau, c_max })
}

fn run(options: Options, steps: &[(u8, u64)]) -> Deduplicator {
    let mut deduplicator = Deduplicator::new(options);
    let mut model = Model::new();
    for (verb, number) in steps {
        let chunk = chunk(*number);
        let fingerprint = Fingerprint::of(&chunk);
        let use_count = &mut model.entry(fingerprint).or_insert((chunk.clone(), 0)).1;
        if *verb < 3 {
            assert_eq!(deduplicator.write(&chunk), fingerprint, "its name");
            *use_count += 1;
        } else {
            let left = use_count.checked_sub(1);
            assert_eq!(deduplicator.delete(&fingerprint).ok(), left.map(|_| ()), "as the model");
            *use_count = left.unwrap_or(0);
        }
        if *use_count == 0 {
            assert_eq!(deduplicator.read(&fingerprint), Err(Unknown(fingerprint)), "deleted");
        }
        verify(&deduplicator, &model);
    }
    for (fingerprint, (_, use_count)) in &mut model {
        for left in (0..*use_count).rev() {
            assert_eq!(deduplicator.delete(fingerprint), Ok(()), "written");
            *use_count = left;
        }
    }
    verify(&deduplicator, &model);
    deduplicator
}

/// Returns `true` for a deduplicator from which all chunks were deleted: everything but the counts
/// of outcomes is as in the beginning.
fn is_empty(statistics: &Statistics) -> bool {
    let Statistics { dt, bt, head_dt, tail_dt, .. } = statistics;
    let entries = [dt, bt, &head_dt.table, &tail_dt.table].map(|table| table.entry_count);
    entries == [0; 4] && statistics.stored_bytes() == 0 && statistics.logical == Payloads::default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_order_of_calls_agrees_with_a_map(
        options in options(),
        steps in prop::collection::vec((0..5_u8, 0..60_u64), 0..80),
    ) {
        prop_assert!(is_empty(&run(options, &steps).statistics()));
    }
}

#[test]
fn every_kind_of_match_occurs_in_the_model() {
    let mut numbers = SplitMix64::new(1);
    let steps: Vec<_> = (0..2000).map(|_| (numbers.byte() % 5, numbers.next() % 60)).collect();
    for variant in [Options::BURST, Options::HEAD, Options::RAW, Options::HEAD_RAW] {
        for c_max in [1, 3, 255] {
            let options = Options { c_max, ..variant };
            let met = run(options, &steps).statistics();
            assert!(
                met.duplicate_count > 0 && met.burst_duplicate_count > 0,
                "{options:?}: {met:?}"
            );
            assert!(met.unique_count > 0 && met.head_dt.burst_count > 0, "{options:?}: {met:?}");
            let has_tail = variant.sub_chunks == SubChunks::HeadAndTail;
            assert_eq!(met.tail_dt.burst_count > 0, has_tail, "{options:?}: {met:?}");
            let exhausted_count = met.head_dt.exhausted_count + met.tail_dt.exhausted_count;
            assert_eq!(exhausted_count > 0, c_max < 255, "{options:?}: {met:?}");
        }
    }
    let legacy = run(Options::LEGACY, &steps).statistics();
    assert_eq!((legacy.head_dt.burst_count, legacy.burst_duplicate_count), (0, 0));
}
