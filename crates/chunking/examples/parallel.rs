//! Prints how fast several threads cut, beside one, in GB (10^9 bytes) per second of wall time, and
//! checks that all find the same cut-points.
//!
//! `cargo run --release -p cutpoint-chunking --example parallel [MiB] [rounds] [threads] [FILE]`
//!
//! A line is a spec on some data: the median of the rounds with one thread and with several, which
//! alternate, and the median of the ratios within a round; with the whole buffer at once (`cuts`), and
//! from a reader, whose bytes are copied into a buffer (`Chunks`). Wall time: other programs that run
//! meanwhile make these figures worthless.

use std::error::Error;
use std::hint::black_box;
use std::num::NonZero;
use std::time::Instant;

use cutpoint_chunking::{Chunker, Chunks, Parallel, Spec, cuts};
use cutpoint_testing::{SplitMix64, input};

/// Rules that find back soon and late, fast and slow ones, small chunks and large ones.
const SPECS: [&str; 8] = [
    "seqcdc:avg=8k",
    "seqcdc:avg=64k",
    "fastcdc:avg=16k",
    "fastcdc:avg=1m",
    "rabin:avg=8k",
    "ae:avg=8k",
    // No two threads' lists ever meet, as no segment begins at a multiple of the size.
    "fixed:size=8191",
    "gear:bits=13",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (size, rounds, thread_count) = (number(512)? << 20, number(5)?, number(2)?);
    let thread_count = NonZero::new(thread_count).ok_or("at least one thread")?;
    let mut data = vec![("random", SplitMix64::bytes(1, size))];
    if let Some(path) = arguments.next() {
        let mut bytes = std::fs::read(path)?;
        bytes.truncate(size);
        data.push(("file", bytes));
    }
    data.push(("zeros", vec![0; size]));
    // Every other stretch is one where lists cannot meet.
    let mut mixed = input::text(size);
    mixed.chunks_mut(5 << 20).step_by(2).for_each(|stretch| stretch.fill(0));
    data.push(("mixed", mixed));
    println!(
        "{:<7} {:<18} {:>9} {:>9} {:>6}   {:>9} {:>9} {:>6}",
        "data", "spec", "cuts: 1", thread_count, "ratio", "Chunks: 1", thread_count, "ratio"
    );
    for (name, data) in &data {
        for text in SPECS {
            let spec: Spec = text.parse()?;
            let alone = spec.chunker();
            let parallel = Parallel::new(spec.chunker(), thread_count);
            let expected: Vec<usize> = cuts(&*alone, data).collect();
            if !cuts(&parallel, data).eq(expected.iter().copied()) {
                return Err(format!("{spec}: other cut-points of {name}").into());
            }
            let whole = |chunker: &dyn Chunker| cuts(chunker, data).count();
            let read = |chunker: &dyn Chunker| {
                let mut chunks = Chunks::new(chunker, &data[..]);
                let mut count = 0;
                while let Ok(Some(_)) = chunks.next() {
                    count += 1;
                }
                count
            };
            let whole = compare(rounds, data.len(), [&*alone, &parallel], whole);
            let read = compare(rounds, data.len(), [&*alone, &parallel], read);
            println!(
                "{name:<7} {text:<18} {:>9.2} {:>9.2} {:>6.2}   {:>9.2} {:>9.2} {:>6.2}",
                whole[0], whole[1], whole[2], read[0], read[1], read[2]
            );
        }
    }
    Ok(())
}

/// Returns the median speeds of `work` with the two chunkers, in GB/s, and of their ratios.
fn compare(
    rounds: usize,
    size: usize,
    chunkers: [&dyn Chunker; 2],
    work: impl Fn(&dyn Chunker) -> usize,
) -> [f64; 3] {
    let speed = |chunker| {
        let started = Instant::now();
        black_box(work(black_box(chunker)));
        size as f64 / started.elapsed().as_secs_f64() / 1e9
    };
    let mut figures = [const { Vec::new() }; 3];
    for _ in 0..rounds.max(1) {
        let (alone, parallel) = (speed(chunkers[0]), speed(chunkers[1]));
        figures[0].push(alone);
        figures[1].push(parallel);
        figures[2].push(parallel / alone);
    }
    figures.map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    })
}
