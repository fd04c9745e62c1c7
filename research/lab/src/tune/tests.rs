//! The grids, the simulation and the ranks.

use cutpoint_chunking::cuts;

use super::candidate::PAPER_SIZES;
use super::random::MEAN_TOLERANCE;
use super::rank::{mark_best, mark_best_of_algorithms};
use super::*;

/// The simulation compared with the exact chain of the chunking crate, for the rows of Table I.
#[test]
fn simulated_means_are_true() {
    let random = Random::new(32 << 20, 8192);
    for size in PAPER_SIZES {
        let params = Params::paper(size).expect("a row");
        let mean = random.mean(random.signs.cuts(&params)).expect("a mean");
        let truth = params.mean();
        assert!((mean / truth - 1.0).abs() < 0.03, "{size}: {mean}, not {truth}");
    }
    assert_eq!(random.simulated_count.into_inner(), PAPER_SIZES.len(), "simulations");
}

/// Every combination must be valid, and at least half of the combinations of an algorithm must
/// reach the wanted mean.
#[test]
fn every_algorithm_gets_the_mean() {
    for target in [2048, 16_000, 45_056] {
        let random = Random::new(200 * target, target);
        for about in algorithms() {
            let grid = grid(about.name, target);
            let found: Vec<Candidate> = grid.iter().filter_map(|open| random.fit(open)).collect();
            println!("{} at {target}: {} of {}", about.name, found.len(), grid.len());
            for each in &found {
                assert_eq!(each.spec.algorithm(), about.name, "its own");
                let text = each.spec.to_string();
                assert_eq!(text.parse(), Ok(each.spec.clone()), "{text}");
                let mean = each.random_mean.expect("a mean");
                assert!((mean / target as f64 - 1.0).abs() <= MEAN_TOLERANCE, "{text}: {mean}");
            }
            // SeqCDC has a search of its own, BFBC learns, and samplebyte has no such mean.
            let has_none = ["seqcdc", "bfbc", "samplebyte"].contains(&about.name);
            assert_eq!(grid.is_empty(), has_none, "{}", about.name);
            let least = match (about.name, target) {
                // The target is too small for UltraCDC. For Ronomon it is between two numbers
                // of bits, where `avg=` uses another minimum size.
                ("ultracdc", 2048) | ("ronomon", 45_056) => 0,
                _ => grid.len().div_ceil(2),
            };
            assert!(found.len() >= least, "{} at {target}: {}", about.name, found.len());
        }
    }
}

#[test]
fn fastcdc_and_gear_have_every_level() {
    for target in [2048, 16_000, 45_056] {
        let random = Random::new(1, target);
        for (name, levels) in [("fastcdc", 0..=3), ("gear", 1..=3)] {
            let found: Vec<String> = grid(name, target)
                .iter()
                .filter_map(|open| random.fit(open))
                .map(|candidate| candidate.spec.to_string())
                .collect();
            for level in levels {
                let text = format!("level={level},");
                let of_level = found.iter().filter(|spec| spec.contains(&text));
                assert!(of_level.count() > 0, "{name} at {target}: {text}");
            }
        }
    }
}

#[test]
fn specification_by_average_is_bounded() {
    for about in algorithms() {
        let found = by_average(about.name, 6232);
        let expected = !matches!(about.name, "bfbc" | "samplebyte");
        assert_eq!(found.is_some(), expected, "{}", about.name);
    }
}

#[test]
fn pairs_are_learned_for_the_sample() {
    let text = cutpoint_testing::input::text(4 << 20);
    let found = bfbc_learned(std::slice::from_ref(&text), 8192);
    assert!(!found.is_empty(), "something is learned");
    for each in &found {
        let count = cuts(&*each.spec.chunker(), &text).count();
        let mean = text.len() / count;
        assert!((5000..13_000).contains(&mean), "{}: {mean}", each.spec);
    }
}

fn tuned(stored_bytes: u64, bytes_per_second: f64) -> TuneResult {
    TuneResult {
        spec: "fixed:size=4k".parse().expect("a spec"),
        origin: Origin::Grid,
        random_mean: None,
        savings: Savings::default(),
        metadata_bytes: 0,
        net: Savings { stored_bytes, ..Savings::default() },
        bytes_per_second,
        is_best: false,
        is_best_of_algorithm: false,
    }
}

#[test]
fn best_of_an_algorithm_is_its_first_except_paper_rows() {
    let of = |text: &str, origin| TuneResult {
        spec: text.parse().expect("a spec"),
        origin,
        ..tuned(1, 1.0)
    };
    let mut all = [
        of("seqcdc:paper=4k", Origin::Paper),
        of("fixed:size=4k", Origin::Average),
        of("seqcdc:avg=8k", Origin::Average),
        of("fixed:size=8k", Origin::Grid),
        of("seqcdc:avg=9k", Origin::Grid),
    ];
    mark_best_of_algorithms(&mut all);
    let best: Vec<bool> = all.iter().map(|each| each.is_best_of_algorithm).collect();
    assert_eq!(best, [false, true, true, false, false], "one of each");
}

#[test]
fn pareto_front_is_marked() {
    let paper = TuneResult { origin: Origin::Paper, ..tuned(9, 9.0) };
    let mut all =
        [paper, tuned(10, 5.0), tuned(10, 4.0), tuned(11, 5.0), tuned(12, 7.0), tuned(13, 6.0)];
    mark_best(&mut all);
    let best: Vec<bool> = all.iter().map(|each| each.is_best).collect();
    assert_eq!(best, [false, true, false, false, true, false], "the first and the fastest");
}
