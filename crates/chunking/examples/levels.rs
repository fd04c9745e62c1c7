//! Prints how fast algorithms cut on each level of this CPU, in GB (10^9 bytes) per second of CPU time,
//! with a plain read of the same memory and the crates that are rivals, in turns; medians.
//!
//! `cargo run --release -p cutpoint-chunking --example levels [MiB] [rounds] [FILE|random] [SPEC...]`

use std::hint::black_box;

use cutpoint_chunking::{Level, Spec, cuts};
use cutpoint_testing::SplitMix64;

const SPECS: [&str; 22] = [
    "seqcdc:avg=8k",
    "seqcdc:avg=16k",
    "seqcdc:avg=64k",
    "ram:avg=8k",
    "ae:avg=8k",
    "ae:avg=8k,extremum=min",
    "maxp:avg=8k",
    "mii:avg=8k",
    "fastcdc:level=1,min=2048,normal=8192,max=32768",
    "fastcdc:level=1,min=4096,normal=8192,max=32768",
    "fastcdc:avg=16k",
    "fastcdc:avg=64k",
    "fastcdc:form=dedup-bench,avg=16k",
    "gear:bits=13",
    "gear:bits=13,table=cutpoint32",
    "gear:bits=13,table=gearhash,start=carry",
    "rabin:bits=13",
    "rabin:bits=13,window=64,min=2048,max=65536",
    "crc:bits=13",
    "buzhash:avg=8k",
    "buzhash:avg=8k,table=cutpoint32",
    "pci:avg=8k",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| {
        arguments.next().map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (size, rounds) = (number(64) << 20, number(5));
    let name = arguments.next().unwrap_or_else(|| "random".into());
    let mut data = match name.as_str() {
        "random" => SplitMix64::bytes(1, size),
        path => std::fs::read(path).expect("a file that can be read"),
    };
    data.truncate(size);
    let specs: Vec<String> = arguments.collect();
    let specs: Vec<&str> =
        if specs.is_empty() { SPECS.to_vec() } else { specs.iter().map(String::as_str).collect() };
    println!("{name}, {} MiB, {rounds} rounds", data.len() >> 20);
    for text in specs {
        let spec: Spec = match text.parse() {
            Ok(spec) => spec,
            Err(error) => {
                println!("{text}: {error}");
                continue;
            }
        };
        run(&data, &spec, rounds);
    }
}

fn run(data: &[u8], spec: &Spec, rounds: usize) {
    let chunkers: Vec<_> = Level::available()
        .into_iter()
        .map(|level| (level, spec.chunker_at(level)))
        .filter(|(level, chunker)| chunker.level() == *level)
        .collect();
    let mut speeds = vec![Vec::new(); chunkers.len() + 1];
    let mut counts = vec![0; chunkers.len()];
    for _ in 0..rounds {
        speeds[0].push(measure(data.len(), || {
            black_box(sum(black_box(data)));
        }));
        for (index, (_, chunker)) in chunkers.iter().enumerate() {
            speeds[index + 1].push(measure(data.len(), || {
                counts[index] = cuts(&**chunker, black_box(data)).count();
            }));
        }
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{spec}: {counts:?}");
    let medians: Vec<f64> = speeds
        .into_iter()
        .map(|mut each| {
            each.sort_by(f64::total_cmp);
            each[each.len() / 2]
        })
        .collect();
    print!("{spec}: mean {}, read {:.1}", data.len() / counts[0].max(1), medians[0]);
    for ((level, _), speed) in chunkers.iter().zip(&medians[1..]) {
        print!(", {} {speed:.2} ({:.1}x)", level.name(), speed / medians[1]);
    }
    println!();
}

/// Reads all of it.
fn sum(data: &[u8]) -> u64 {
    data.as_chunks()
        .0
        .iter()
        .fold(0, |sum: u64, &bytes| sum.wrapping_add(u64::from_le_bytes(bytes)))
}

fn measure(size: usize, work: impl FnOnce()) -> f64 {
    let started = cpu_seconds();
    work();
    size as f64 / (cpu_seconds() - started) / 1e9
}

/// Returns the CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
