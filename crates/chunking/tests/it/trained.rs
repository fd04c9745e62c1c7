//! Parameters that are learned from data: the pairs of BFBC, compared with the lists, and the
//! markers of SampleByte.

use std::path::Path;

use cutpoint_chunking::algorithm::bfbc::{self, PairCounts};
use cutpoint_chunking::algorithm::samplebyte::ByteCounts;
use cutpoint_chunking::{Chunker, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};

/// Returns the counts of data that is added in two portions.
fn counted(data: &[u8]) -> PairCounts {
    let mut counts = PairCounts::new();
    let (one, other) = data.split_at(data.len() / 3);
    counts.add(one);
    counts.add(&[]);
    counts.add(other);
    counts
}

#[test]
fn learned_pairs_match_lists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/oracle/paper");
    let text = std::fs::read_to_string(folder.join("bfbc_divisors.csv")).expect("it is there");
    let mut last = (String::new(), PairCounts::new());
    let mut line_count = 0;
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [input, kind, target, min, pairs] = columns[..] else { panic!("{line}") };
        if last.0 != input {
            last = (input.to_owned(), counted(&input::by_name(input).expect("it is known")));
        }
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let params = match kind {
            "bfbc" => last.1.most_frequent(3, number(min)),
            _ => last.1.for_average(number(target), number(min)),
        };
        let mut expected: Vec<[u8; 2]> = pairs
            .split_whitespace()
            .map(|pair| u16::from_str_radix(pair, 16).expect("a pair").to_be_bytes())
            .collect();
        expected.sort_unstable();
        assert_eq!(params.pairs, expected, "{line}");
        line_count += 1;
    }
    assert_eq!(line_count, 54, "lines");
}

#[test]
fn pairs_are_counted_within_streams() {
    let mut counts = PairCounts::default();
    counts.add(b"aaab");
    counts.add(b"a");
    counts.end_stream();
    counts.add(b"b");
    assert_eq!(counts.ranked(), [(*b"aa", 2), (*b"ab", 1), (*b"ba", 1)]);
    assert_eq!((counts.count(*b"aa"), counts.count(*b"bb")), (2, 0));
    assert_eq!(counts.size(), 6);
}

#[test]
fn learned_pairs_give_the_mean() {
    let data = SplitMix64::bytes(71, 8 << 20);
    for mean in [512, 2000, 10_007] {
        let spec = Spec::try_from(counted(&data).for_average(mean, 2)).expect("it is right");
        let count = cuts(&*spec.chunker(), &data).count();
        let error = data.len() as f64 / count as f64 / mean as f64 - 1.0;
        assert!(error.abs() < 0.05, "{spec}: {mean}, {error}");
    }
}

#[test]
fn learned_markers_give_the_mean() {
    for data in [SplitMix64::bytes(72, 1 << 20), input::text(1 << 20)] {
        let mut counts = ByteCounts::new();
        counts.add(&data);
        for period in [32, 64, 128, 200] {
            let params = counts.for_period(period);
            let spec = Spec::try_from(params).expect("it is right");
            let count = cuts(&*spec.chunker(), &data).count();
            let error = data.len() as f64 / count as f64 / period as f64 - 1.0;
            assert!(error.abs() < 0.1, "{spec}: {error}");
        }
    }
    let none = ByteCounts::default().for_period(64);
    assert_eq!(none.check().expect_err("there are no markers").parameter(), "markers");
}

/// Of 24 bytes, two values give a mean of 8 behind the skip, and a third would give 6. Neither is
/// nearer to the target of 7.
#[test]
fn marker_is_chosen_only_if_mean_gets_nearer() {
    let mut counts = ByteCounts::new();
    counts.add(&[b'x'; 20]);
    counts.add(b"aabc");
    assert_eq!(counts.for_period(14).markers, *b"a");
}

#[test]
fn params_with_unsorted_pairs_are_refused() {
    let params = |pairs| bfbc::Params { pairs, chunk_size_min: 2, chunk_size_max: None };
    for pairs in [vec![*b"aa", *b"aa"], vec![*b"ab", *b"aa"]] {
        assert_eq!(params(pairs).check().expect_err("they do not rise").parameter(), "pairs");
    }
    for text in ["6162.6162", "616", "61620", "6162.", "", "616G", "616A", "+616"] {
        let text = format!("bfbc:pairs={text},min=2");
        let error = text.parse::<Spec>().expect_err("no pairs");
        assert_eq!(error.parameter(), "pairs", "{text}");
    }
    let spec: Spec = "bfbc:pairs=6520.2074,min=4".parse().expect("any order");
    assert_eq!(spec.to_string(), "bfbc:pairs=2074.6520,min=4");
    assert_eq!(spec.chunker().chunk_size_max(), None);
}
