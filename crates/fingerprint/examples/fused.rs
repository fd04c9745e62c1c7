//! Prints the speed at which one thread turns bytes in memory into fingerprints, in GB (10^9 bytes)
//! per second of its CPU time, next to the speed of cutting everything first and then
//! fingerprinting with the crate.
//!
//! `cargo run --release -p cutpoint-fingerprint --example fused [--spec SPEC] [--threads 2] [FILE]`
//!
//! A portion is a number of bytes that are cut, and then fingerprinted while they are in the cache.
//! Without a file the data is random.

mod common;

use std::hint::black_box;
use std::sync::{Barrier, Mutex};

use common::{Work, median, speeds};
use cutpoint_chunking::{Chunker, Spec, cuts};
use cutpoint_fingerprint::{Blake3, Sha256};
use cutpoint_testing::{SplitMix64, thread_cpu_time};

/// The size of the random data in bytes: three times the largest third-level cache of the machines
/// measured on.
const RANDOM_SIZE: usize = 96 << 20;
const ROUNDS: usize = 11;

/// Computes the digests of a batch and discards them.
type Hash<'a> = &'a dyn Fn(&[&[u8]]);

fn main() {
    let (mut spec, mut threads, mut file) = ("seqcdc:avg=8k".to_owned(), 1_usize, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--spec" => spec = arguments.next().expect("a specification"),
            "--threads" => {
                threads = arguments.next().and_then(|text| text.parse().ok()).expect("a number");
            }
            _ => file = Some(argument),
        }
    }
    let chunker = spec.parse::<Spec>().expect("a specification").chunker();
    let data = match &file {
        Some(file) => std::fs::read(file).expect("a file that can be read"),
        None => SplitMix64::bytes(1, RANDOM_SIZE),
    };
    let count = cuts(&*chunker, &data).count();
    let kind = if file.is_some() { "of a file" } else { "random" };
    println!("{spec}, {} bytes {kind}, {count} chunks", data.len());
    if threads == 1 { one_thread(&*chunker, &data) } else { split(&*chunker, &data, threads) }
}

fn one_thread(chunker: &dyn Chunker, data: &[u8]) {
    let blake3 = |level: Option<&str>| {
        let hash = Blake3::keyed(&[7; 32]);
        let hash = level.map_or(Some(hash.clone()), |level| hash.at_level(level));
        let hash = hash.expect("it is available");
        move |chunks: &[&[u8]]| {
            let mut digests = Vec::with_capacity(chunks.len());
            hash.digests(chunks, &mut digests);
            black_box(digests);
        }
    };
    let sha256 = |level: Option<&str>| {
        let hash = level.map_or(Some(Sha256::plain()), |level| Sha256::plain().at_level(level));
        let hash = hash.expect("it is available");
        move |chunks: &[&[u8]]| {
            let mut digests = Vec::with_capacity(chunks.len());
            hash.digests(chunks, &mut digests);
            black_box(digests);
        }
    };
    let none = |chunks: &[&[u8]]| {
        black_box(chunks);
    };
    let (blake3_crate, blake3) = (blake3(Some("crate")), blake3(None));
    let (sha256_crate, sha256) = (sha256(Some("crate")), sha256(None));
    let mut rows: Vec<(&str, usize, Hash<'_>)> = vec![("nothing", usize::MAX, &none)];
    let portions = [64, 128, 256, 512, 1024, 2048, 4096].map(|kib: usize| kib << 10);
    for (function, by_crate, by_lanes) in [
        ("blake3", &blake3_crate as Hash<'_>, &blake3 as Hash<'_>),
        ("sha256", &sha256_crate, &sha256),
    ] {
        rows.push((function, usize::MAX, by_crate));
        rows.push((function, 1 << 20, by_crate));
        rows.push((function, usize::MAX, by_lanes));
        rows.extend(portions.map(|portion| (function, portion, by_lanes)));
    }
    let mut works: Vec<Work<'_>> = Vec::new();
    for (_, portion, hash) in &rows {
        works.push(Box::new(move || fingerprint(chunker, black_box(data), *portion, hash)));
    }
    let speeds = speeds(ROUNDS, data.len(), &mut works);
    println!("{:>9} {:>9} {:>7} {:>6}", "function", "portion", "by", "GB/s");
    let (mut former, mut base, mut row) = ("", 0.0, 0);
    for ((function, portion, _), speed) in rows.iter().zip(&speeds) {
        if former != *function {
            (former, base, row) = (function, *speed, 0);
        }
        let by = match (row, *function) {
            (_, "nothing") => "",
            (..2, _) => "crate",
            _ => "lanes",
        };
        let portion = match portion {
            &usize::MAX => "all".to_owned(),
            portion => format!("{} KiB", portion >> 10),
        };
        println!("{function:>9} {portion:>9} {by:>7} {speed:6.2} ({:4.2}x)", speed / base);
        row += 1;
    }
}

/// Cuts `data`, and hashes the chunks whenever about `portion` bytes are cut.
fn fingerprint(chunker: &dyn Chunker, data: &[u8], portion: usize, hash: Hash<'_>) {
    let (mut ends, mut start) = (Vec::new(), 0);
    while start < data.len() {
        let next = cut_portion(chunker, data, start, portion, &mut ends);
        hash(&chunks(data, start, &ends));
        start = next;
    }
}

/// Cuts about `portion` bytes from the cut-point `start` on, and no more, so that the bytes are
/// still in the cache when they are hashed. Stores the ends of the chunks in `ends`, and returns
/// the last end.
fn cut_portion(
    chunker: &dyn Chunker,
    data: &[u8],
    start: usize,
    portion: usize,
    ends: &mut Vec<usize>,
) -> usize {
    ends.clear();
    let mut size = portion;
    while ends.is_empty() {
        let stop = start.saturating_add(size).min(data.len());
        chunker.next_cuts(&data[start..stop], 0, stop < data.len(), ends);
        size = size.saturating_mul(2);
    }
    ends.iter_mut().for_each(|end| *end += start);
    ends[ends.len() - 1]
}

/// Returns the chunks of `data` that begin at `start` and end at `ends`.
fn chunks<'a>(data: &'a [u8], mut start: usize, ends: &[usize]) -> Vec<&'a [u8]> {
    let chunk = |end: &usize| &data[std::mem::replace(&mut start, *end)..*end];
    ends.iter().map(chunk).collect()
}

/// Measures several threads on portions of 1 MiB with BLAKE3.
///
/// In the first measurement, threads begin at true cut-points found beforehand, so that each thread
/// cuts as a single thread would. The time of several threads is the CPU time of the slowest one,
/// which is the time that they would take on idle cores. In the second measurement, no cut-points
/// are known, and the threads take turns in cutting.
fn split(chunker: &dyn Chunker, data: &[u8], threads: usize) {
    assert_eq!(chunker.context_size(), 0, "a portion is cut as if it began the stream");
    let hash = Blake3::keyed(&[7; 32]);
    let hash = |chunks: &[&[u8]]| {
        let mut digests = Vec::with_capacity(chunks.len());
        hash.digests(chunks, &mut digests);
        black_box(digests);
    };
    let mut parts = Vec::new();
    let (mut start, mut wanted) = (0, data.len() / threads);
    for end in cuts(chunker, data) {
        if end >= wanted || end == data.len() {
            parts.push(&data[start..end]);
            (start, wanted) = (end, wanted + data.len() / threads);
        }
    }
    let work = |part: &[u8]| {
        let started = thread_cpu_time().as_secs_f64();
        fingerprint(chunker, black_box(part), 1 << 20, &hash);
        thread_cpu_time().as_secs_f64() - started
    };
    let (mut alone, mut beside, mut walls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(work(data));
        let barrier = Barrier::new(parts.len());
        let started = std::time::Instant::now();
        let slowest = std::thread::scope(|scope| {
            let run = |part| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(part)
                })
            };
            let running: Vec<_> = parts.iter().map(|part| run(*part)).collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("it ends well"))
                .fold(0.0, f64::max)
        });
        walls.push(started.elapsed().as_secs_f64());
        beside.push(slowest);
    }
    let mut together = Vec::new();
    for _ in 0..ROUNDS {
        let started = std::time::Instant::now();
        let next = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| take_turns(chunker, data, &next, &hash));
            }
            take_turns(chunker, data, &next, &hash);
        });
        together.push(started.elapsed().as_secs_f64());
    }
    let speed = |seconds: f64| data.len() as f64 / seconds / 1e9;
    let (alone, beside, wall) = (median(alone), median(beside), median(walls));
    println!("one thread: {:.2} GB/s of CPU time", speed(alone));
    println!(
        "{} threads: {:.2} GB/s of the slowest one's CPU time ({:.2}x); {:.2} GB/s by the clock",
        parts.len(),
        speed(beside),
        alone / beside,
        speed(wall)
    );
    let together = median(together);
    println!(
        "{threads} threads that take turns in cutting: {:.2} GB/s by the clock ({:.2}x)",
        speed(together),
        alone / together
    );
}

/// Cuts a portion while no other thread does, and hashes the portion while others may cut, so that
/// no cut-point has to be known beforehand. `next` is the start of the next portion.
fn take_turns(chunker: &dyn Chunker, data: &[u8], next: &Mutex<usize>, hash: Hash<'_>) {
    let mut ends = Vec::new();
    loop {
        let mut next = next.lock().expect("no thread panics");
        let start = *next;
        if start == data.len() {
            return;
        }
        *next = cut_portion(chunker, data, start, 1 << 20, &mut ends);
        drop(next);
        hash(&chunks(data, start, &ends));
    }
}
