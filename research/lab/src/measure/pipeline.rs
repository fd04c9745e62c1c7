//! The four stages of a deduplicating system in one thread each: chunking, fingerprinting,
//! indexing, and discarding instead of writing.
//!
//! Source: Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking Algorithm", section
//! 4.4 (P-Dedupe). The index is in memory, and the last stage discards its input.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use cutpoint_chunking::Spec;
use cutpoint_fingerprint::{Blake3, Sha1, Sha256};
use cutpoint_testing::thread_cpu_time;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose};
use crate::kind::Hash;
use crate::{LabError, Levels, Row};

/// The approximate number of bytes in a batch that one stage passes to the next.
const BATCH_SIZE: usize = 1 << 20;
/// The maximum number of batches that wait between two stages.
const QUEUE_LEN: usize = 4;

/// The CPU seconds of each stage, and the wall-clock seconds of all.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    busy: [f64; 4],
    wall: f64,
    stored_bytes: u64,
}

const STAGES: [&str; 4] = ["chunking", "fingerprinting", "indexing", "writing"];

/// The number of threads of a pipeline. With fewer processors, the stages wait for each other, and
/// the time of the wall says nothing.
const THREAD_COUNT: usize = 4;

/// The number of bytes that plain code cuts at once, as a program that reads into a buffer does.
const PLAIN_SIZE: usize = 8 << 20;

/// The code that cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// The best level of this CPU.
    Fast,
    /// The rule as its paper states it.
    Plain,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Code::Fast => "fast",
            Code::Plain => "plain",
        }
    }
}

/// A pipeline, and its measured times.
struct Contender<'a> {
    name: &'a str,
    spec: Spec,
    code: Code,
    hash: Hash,
    times: Vec<Times>,
}

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let data = task.set.joined(task.size_max);
    let mut rows = Vec::new();
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for part in &task.algorithms {
        match choose(part, task.selection, task.target, task.set, goes_on) {
            ParameterChoice::Spec(spec) => {
                let has_plain = cutpoint_oracle::cuts(&spec.to_string(), &[]).is_some();
                let codes: &[Code] = match task.levels {
                    Levels::All if has_plain => &[Code::Fast, Code::Plain],
                    _ => &[Code::Fast],
                };
                for (code, hash) in
                    codes.iter().flat_map(|code| task.hashes.iter().map(move |hash| (*code, *hash)))
                {
                    let (name, spec) = (part.name.get_ref().as_str(), (*spec).clone());
                    contenders.push(Contender { name, spec, code, hash, times: Vec::new() });
                }
            }
            ParameterChoice::None(reason) => rows.push(absent(part, reason)),
        }
        ask(goes_on)?;
    }
    // Round 0 is a warm-up.
    for round in 0..=task.repeat_count {
        let count = contenders.len();
        for turn in 0..count {
            ask(goes_on)?;
            let contender = &mut contenders[(turn + round) % count];
            let measured = run(&data, &contender.spec, contender.code, contender.hash);
            if round > 0 {
                contender.times.push(measured);
            }
        }
    }
    let bytes = data.len() as f64 / 1e9;
    rows.extend(contenders.iter().flat_map(|contender| contender.rows(bytes)));
    Ok(rows)
}

impl Contender<'_> {
    /// Returns the rows of the times for this number of GB.
    fn rows(&self, bytes: f64) -> Vec<Row> {
        let code = self.code.name();
        let speeds = |seconds: &dyn Fn(&Times) -> f64| -> Vec<f64> {
            self.times.iter().map(|times| bytes / seconds(times)).collect()
        };
        let slowest = speeds(&|times| times.busy.iter().copied().fold(1e-9, f64::max));
        let mut rows = vec![
            Row::of("slowest_stage_throughput", &slowest, "GB/s")
                .note("by the law of four free cores: the CPU time of the slowest stage"),
        ];
        let has_cores =
            std::thread::available_parallelism().is_ok_and(|count| count.get() >= THREAD_COUNT);
        if has_cores {
            rows.push(Row::of("wall_throughput", &speeds(&|times| times.wall), "GB/s"));
        }
        let stored = self.times.first().map_or(0.0, |times| times.stored_bytes as f64);
        rows.push(Row::new("stored_bytes", stored, "bytes"));
        let mut medians = Vec::new();
        for (index, stage) in STAGES.iter().enumerate() {
            let busy: Vec<f64> =
                self.times.iter().map(|times| times.busy[index] * 1e3 / bytes).collect();
            let row = Row::of("busy", &busy, "ms/GB").variant(format!("{code}, {stage}"));
            medians.push((row.value, *stage));
            rows.push(row);
        }
        let sum: f64 = medians.iter().map(|(busy, _)| busy).sum();
        let slowest = medians.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        if let Some((busy, stage)) = slowest {
            rows.push(Row::new("bottleneck", 100.0 * busy / sum.max(1e-9), "%").note(*stage));
        }
        for row in &mut rows {
            if row.variant.is_empty() {
                code.clone_into(&mut row.variant);
            }
            self.name.clone_into(&mut row.algorithm);
            row.spec = self.spec.to_string();
            self.hash.name().clone_into(&mut row.level);
        }
        rows
    }
}

/// Chunks in order, with their keys after fingerprinting.
struct Batch<'a> {
    chunks: Vec<&'a [u8]>,
    keys: Vec<u128>,
}

fn run(data: &[u8], spec: &Spec, code: Code, hash: Hash) -> Times {
    let chunker = spec.chunker();
    let text = spec.to_string();
    let began = Instant::now();
    let mut times = Times::default();
    let (chunked, to_hash) = sync_channel(QUEUE_LEN);
    let (hashed, to_index) = sync_channel(QUEUE_LEN);
    let (indexed, to_write) = sync_channel(QUEUE_LEN);
    thread::scope(|scope| {
        let stages = [
            scope.spawn(move || match code {
                Code::Fast => cut(data, cutpoint_chunking::cuts(&*chunker, data), &chunked),
                Code::Plain => cut(data, plain_cuts(&text, data), &chunked),
            }),
            scope.spawn(move || fingerprint(hash, &to_hash, &hashed)),
            scope.spawn(move || index(&to_index, &indexed)),
            scope.spawn(move || write(&to_write)),
        ];
        for (place, stage) in stages.into_iter().enumerate() {
            // A stage that panics ends the others, and this one with them.
            match stage.join() {
                Ok((busy, stored_bytes)) => {
                    times.busy[place] = busy;
                    times.stored_bytes += stored_bytes;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    times.wall = began.elapsed().as_secs_f64();
    times
}

/// Returns the CPU seconds of this thread so far, which exclude its waiting for other threads.
fn busy() -> f64 {
    thread_cpu_time().as_secs_f64()
}

/// Returns the cut-points of plain code, which cuts piece by piece.
fn plain_cuts<'a>(text: &'a str, data: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    data.chunks(PLAIN_SIZE).enumerate().flat_map(move |(number, piece)| {
        let ends = cutpoint_oracle::cuts(text, piece).into_iter().flatten();
        ends.map(move |end| number * PLAIN_SIZE + end)
    })
}

fn cut<'a>(
    data: &'a [u8],
    ends: impl Iterator<Item = usize>,
    next: &SyncSender<Batch<'a>>,
) -> (f64, u64) {
    let mut batch = Batch { chunks: Vec::new(), keys: Vec::new() };
    let (mut start, mut sent) = (0, 0);
    for end in ends {
        batch.chunks.push(&data[start..end]);
        start = end;
        if end - sent >= BATCH_SIZE || end == data.len() {
            sent = end;
            let full =
                std::mem::replace(&mut batch, Batch { chunks: Vec::new(), keys: Vec::new() });
            if next.send(full).is_err() {
                break;
            }
        }
    }
    (busy(), 0)
}

fn fingerprint<'a>(
    hash: Hash,
    given: &Receiver<Batch<'a>>,
    next: &SyncSender<Batch<'a>>,
) -> (f64, u64) {
    for mut batch in given {
        append_keys(hash, &batch.chunks, &mut batch.keys);
        if next.send(batch).is_err() {
            break;
        }
    }
    (busy(), 0)
}

fn index<'a>(given: &Receiver<Batch<'a>>, next: &SyncSender<Vec<&'a [u8]>>) -> (f64, u64) {
    let mut known = HashSet::new();
    for batch in given {
        let pairs = batch.chunks.into_iter().zip(batch.keys);
        let new = pairs.filter(|(_, key)| known.insert(*key)).map(|(chunk, _)| chunk).collect();
        if next.send(new).is_err() {
            break;
        }
    }
    (busy(), 0)
}

fn write(given: &Receiver<Vec<&[u8]>>) -> (f64, u64) {
    let mut bytes = 0;
    for new in given {
        bytes += new.iter().map(|chunk| black_box(chunk).len() as u64).sum::<u64>();
    }
    (busy(), bytes)
}

/// Appends the first 16 bytes of the digest of each chunk.
fn append_keys(hash: Hash, chunks: &[&[u8]], keys: &mut Vec<u128>) {
    fn cut<const SIZE: usize>(digests: &[[u8; SIZE]], keys: &mut Vec<u128>) {
        keys.extend(
            digests
                .iter()
                .filter_map(|digest| digest.first_chunk())
                .map(|key| u128::from_le_bytes(*key)),
        );
    }
    match hash {
        Hash::Blake3 => {
            let mut digests = Vec::new();
            Blake3::plain().digests(chunks, &mut digests);
            cut(&digests, keys);
        }
        Hash::Sha256 => {
            let mut digests = Vec::new();
            Sha256::plain().digests(chunks, &mut digests);
            cut(&digests, keys);
        }
        Hash::Sha1 => {
            let mut digests = Vec::new();
            Sha1::plain().digests(chunks, &mut digests);
            cut(&digests, keys);
        }
    }
}
