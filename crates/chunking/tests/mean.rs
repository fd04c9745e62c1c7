//! The mean chunk size on random data is what was asked for, and what a spec says it is.
//!
//! `examples/means.rs` measures with 40,000 chunks a point; here are fewer, and a tolerance of three
//! standard errors beyond the 2 % that is promised.

use cutpoint_chunking::{Spec, cuts};
use cutpoint_testing::SplitMix64;

/// Returns the measured mean over `count` chunks, about.
fn measured(spec: &Spec, count: usize) -> f64 {
    let data = SplitMix64::bytes(99, spec.chunk_size_average() * count);
    let ends: Vec<usize> = cuts(&*spec.chunker(), &data).collect();
    // The last chunk is cut off by the end.
    let whole = ends.len() - 1;
    ends[whole - 1] as f64 / whole as f64
}

#[test]
fn means_are_met() {
    for avg in [2048, 4096, 5000, 8192, 10_007, 16_384, 24_576, 50_000] {
        for algorithm in ["seqcdc", "fastcdc"] {
            let spec: Spec = format!("{algorithm}:avg={avg}").parse().expect("the spec is right");
            let mean = measured(&spec, 2000);
            // The standard deviation is at most 0.75 of the mean: 1.7 % after 2000 chunks.
            assert!((mean / avg as f64 - 1.0).abs() < 0.05, "{spec}: {mean}");
        }
    }
}

/// The computed mean, at every average: within 0.2 %.
#[test]
fn parameters_give_the_mean() {
    let mut random = SplitMix64::new(21);
    let mut gap_count = 0;
    for round in 0..400 {
        let avg = 2048 + random.below([14_000, 100_000, 1_040_000][round % 3]);
        for (text, key) in [("seqcdc:avg=", "min="), ("fastcdc:avg=", "normal=")] {
            let spec: Spec = format!("{text}{avg}").parse().expect("the spec is right");
            let error = spec.chunk_size_average() as f64 / avg as f64 - 1.0;
            assert!(error.abs() < 0.002, "{text}{avg} gives {spec} ({key}): {error}");
            assert!(spec.chunk_size_min() * 8 >= avg, "{text}{avg} gives {spec}");
            assert!(spec.chunk_size_min() * 4 <= avg * 3, "{text}{avg} gives {spec}");
        }
        for level in 1..4 {
            let text = format!("fastcdc:avg={avg},level={level}");
            match text.parse::<Spec>() {
                Ok(spec) => {
                    let error = spec.chunk_size_average() as f64 / avg as f64 - 1.0;
                    assert!(error.abs() < 0.002, "{text} gives {spec}: {error}");
                }
                Err(error) => {
                    assert_eq!(error.parameter(), "avg", "{text}: {error}");
                    gap_count += 1;
                }
            }
        }
    }
    assert!(gap_count < 100, "{gap_count} of 1200 fall into gaps");
}

/// Means that others measured: those of Table I's parameters, and crate fastcdc's for a nominal
/// 8 KiB.
#[test]
fn published_means_are_computed() {
    for (text, mean) in [
        ("seqcdc:paper=4k", 3578.0),
        ("seqcdc:paper=8k", 7041.0),
        ("seqcdc:paper=16k", 13268.0),
        ("fastcdc:level=1,min=2048,normal=8192,max=65536", 9992.0),
        ("fastcdc:level=2,min=2048,normal=8192,max=65536", 9350.0),
    ] {
        let spec: Spec = text.parse().expect("the spec is right");
        let error = spec.chunk_size_average() as f64 / mean - 1.0;
        assert!(error.abs() < 0.01, "{text}: {} for {mean}", spec.chunk_size_average());
    }
}
