//! Prints how fast each algorithm cuts, beside its reference, in GB (10^9 bytes) per
//! second of CPU time, and checks that both make the same cut-points.
//!
//! `cargo run --release -p cutpoint-chunking --example throughput [MiB] [rounds]`
//!
//! Data: SplitMix64 bytes and the text of the test inputs.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use cutpoint_chunking::{KeyMaterial, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: usize| {
        arguments.next().map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (size, rounds) = (argument(64) << 20, argument(20));
    println!(
        "{:<10} {:<62} {:>7} {:>6} {:>6} {:>6}",
        "data", "spec", "mean", "plain", "GB/s", "keyed"
    );
    for (name, data) in [
        ("random", SplitMix64::bytes(1, size)),
        ("text", input::text(size)),
        ("zeros", vec![0; size]),
    ] {
        for text in [
            "fastcdc:avg=8k",
            "fastcdc:avg=16k",
            "fastcdc:avg=64k",
            "fastcdc:level=1,min=4096,normal=16384,max=131072",
            "seqcdc:paper=8k",
            "seqcdc:avg=8k",
            "seqcdc:avg=16k",
            "seqcdc:avg=64k",
            "fastcdc:form=dedup-bench,avg=16k",
            "seqcdc:paper=8k,equal=break",
            "seqcdc:paper=8k,equal=break,rule=literal",
            "fixed:size=16k",
        ] {
            let spec: Spec = text.parse().expect("the spec is right");
            run(name, &data, &spec, rounds);
        }
    }
}

fn run(name: &str, data: &[u8], spec: &Spec, rounds: usize) {
    let chunker = spec.chunker();
    let mut expected = Vec::new();
    let plain_speed = measure(rounds.div_ceil(4), data.len(), || {
        expected = common::reference_cuts(spec, data);
    });
    let mut ends = Vec::new();
    let speed = measure(rounds, data.len(), || {
        ends.clear();
        ends.extend(cuts(black_box(&*chunker), data));
    });
    assert_eq!(ends.len(), expected.len(), "cut count of {spec} on {name}");
    assert!(ends == expected, "cut-points of {spec} on {name}");
    let mut material = [0; KeyMaterial::SIZE];
    material.copy_from_slice(&SplitMix64::bytes(9, KeyMaterial::SIZE));
    // 0 where it cannot be keyed.
    let keyed_speed = spec.keyed_chunker(&KeyMaterial::new(material)).map_or(0.0, |keyed| {
        measure(rounds, data.len(), || {
            black_box(cuts(black_box(&*keyed), data).count());
        })
    });
    let mean = data.len() / ends.len();
    println!(
        "{name:<10} {:<62} {mean:>7} {plain_speed:>6.2} {speed:>6.2} {keyed_speed:>6.2}",
        spec.to_string()
    );
}

/// Returns the speed of the rounds together in GB/s of CPU time.
///
/// Not that of the fastest: Linux may count the CPU time in steps of milliseconds.
fn measure(rounds: usize, size: usize, mut work: impl FnMut()) -> f64 {
    let started = cpu_seconds();
    for _ in 0..rounds {
        work();
    }
    let seconds = cpu_seconds() - started;
    let bytes = (size * rounds) as f64;
    bytes / seconds / 1e9
}

/// Returns the CPU time of this thread in seconds, as Linux counts it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts");
    let nanoseconds = text.split(' ').next().expect("the first field");
    nanoseconds.parse::<f64>().expect("a number") / 1e9
}
