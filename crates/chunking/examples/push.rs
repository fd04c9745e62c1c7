//! Prints the speed of `Push` with buffers of each size beside that of cutting the whole data, in
//! GB (10^9 bytes) per second of CPU time: medians of rounds in turns, and their ratio.
//!
//! `cargo run --release -p cutpoint-chunking --example push [MIB] [ROUNDS] [LEVEL] [FILE]... [SPEC]...`
//!
//! `LEVEL` is a level of this CPU by its name. Without a `FILE`, the data is random bytes and text.

use std::hint::black_box;
use std::path::Path;

use cutpoint_chunking::{Chunker, Level, Push, Spec, cuts};
use cutpoint_testing::{SplitMix64, input, thread_cpu_time};

const KIB_SIZES: [usize; 5] = [4, 16, 64, 256, 1024];
const SPECS: [&str; 8] = [
    "fastcdc:avg=8k",
    "fastcdc:avg=16k",
    "fastcdc:avg=64k",
    "gear:bits=13",
    "rabin:avg=8k,max=64k",
    "seqcdc:avg=16k",
    "ae:avg=16k",
    "tttd:avg=8k",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| {
        arguments.next().map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (size, rounds) = (number(64) << 20, number(9));
    let mut texts: Vec<String> = arguments.collect();
    let mut level = Level::best();
    if let Some(named) = texts
        .first()
        .and_then(|text| Level::available().into_iter().find(|level| level.name() == text))
    {
        level = named;
        texts.remove(0);
    }
    let files: Vec<String> = texts.extract_if(.., |text| Path::new(text).is_file()).collect();
    if texts.is_empty() {
        texts = SPECS.iter().map(ToString::to_string).collect();
    }
    let heads = KIB_SIZES.map(|kib| format!("{:>16}", format!("{kib} KiB")));
    println!("{:<8} {:<28} {:>8}{}", level.name(), "spec", "whole", heads.concat());
    let mut inputs: Vec<(&str, Vec<u8>)> = Vec::new();
    for file in &files {
        let mut data = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        data.truncate(size);
        inputs.push((&file[file.len().saturating_sub(8)..], data));
    }
    if files.is_empty() {
        inputs = vec![("random", SplitMix64::bytes(1, size)), ("text", input::text(size))];
    }
    for (name, data) in &inputs {
        for text in &texts {
            let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let speeds = measure(&*spec.chunker_at(level), data, rounds);
            let columns =
                speeds[1..].iter().map(|speed| format!("{speed:>8.2} ({:.2})", speed / speeds[0]));
            println!("{name:<8} {text:<28} {:>8.2} {}", speeds[0], columns.collect::<String>());
        }
    }
}

/// Returns the median speeds of cutting all data, and of pushing it in buffers of each size.
fn measure(chunker: &dyn Chunker, data: &[u8], rounds: usize) -> Vec<f64> {
    let expected = cuts(chunker, data).count();
    let mut speeds = vec![Vec::new(); 1 + KIB_SIZES.len()];
    for _ in 0..rounds {
        for (index, speeds) in speeds.iter_mut().enumerate() {
            let started = thread_cpu_time().as_secs_f64();
            let count = match index.checked_sub(1) {
                None => cuts(black_box(chunker), data).count(),
                Some(index) => {
                    let mut count = 0;
                    let mut push = Push::new(chunker);
                    for buffer in data.chunks(KIB_SIZES[index] << 10) {
                        push.push(buffer, |chunk| {
                            count += usize::from(!black_box(chunk).is_empty())
                        });
                    }
                    push.finish(|_| count += 1);
                    count
                }
            };
            let seconds = thread_cpu_time().as_secs_f64() - started;
            assert_eq!(count, expected, "{chunker:?}: the number of chunks");
            speeds.push(data.len() as f64 / seconds / 1e9);
        }
    }
    let median = |mut speeds: Vec<f64>| {
        speeds.sort_unstable_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    };
    speeds.into_iter().map(median).collect()
}
