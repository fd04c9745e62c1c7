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

use cutpoint_chunking::{Chunker, Spec};
use cutpoint_fingerprint::{Blake3, Sha1, Sha256};
use cutpoint_testing::thread_cpu_time;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose};
use crate::kind::Hash;
use crate::{LabError, Row};

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

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let data = task.set.joined(task.size_max);
    let mut rows = Vec::new();
    let mut contenders: Vec<(&str, Spec, Hash, Vec<Times>)> = Vec::new();
    for part in &task.algorithms {
        match choose(part, task.selection, task.target, task.set, goes_on) {
            ParameterChoice::Spec(spec) => {
                let name = part.name.get_ref().as_str();
                contenders.extend(
                    task.hashes.iter().map(|hash| (name, (*spec).clone(), *hash, Vec::new())),
                );
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
            let (_, spec, hash, times) = &mut contenders[(turn + round) % count];
            let chunker = spec.chunker();
            let measured = run(&data, &*chunker, *hash);
            if round > 0 {
                times.push(measured);
            }
        }
    }
    let bytes = data.len() as f64 / 1e9;
    for (name, spec, hash, times) in contenders {
        let speeds = |seconds: &dyn Fn(&Times) -> f64| -> Vec<f64> {
            times.iter().map(|times| bytes / seconds(times)).collect()
        };
        let mut found = vec![
            Row::of("wall_throughput", &speeds(&|times| times.wall), "GB/s"),
            Row::of(
                "slowest_stage_throughput",
                &speeds(&|times| times.busy.iter().copied().fold(1e-9, f64::max)),
                "GB/s",
            ),
            Row::new(
                "stored_bytes",
                times.first().map_or(0.0, |times| times.stored_bytes as f64),
                "bytes",
            ),
        ];
        for (index, stage) in STAGES.iter().enumerate() {
            let busy: Vec<f64> =
                times.iter().map(|times| times.busy[index] * 1e3 / bytes).collect();
            found.push(Row::of("busy", &busy, "ms/GB").variant(stage));
        }
        for row in &mut found {
            name.clone_into(&mut row.algorithm);
            row.spec = spec.to_string();
            hash.name().clone_into(&mut row.level);
        }
        rows.extend(found);
    }
    Ok(rows)
}

/// Chunks in order, with their keys after fingerprinting.
struct Batch<'a> {
    chunks: Vec<&'a [u8]>,
    keys: Vec<u128>,
}

fn run(data: &[u8], chunker: &dyn Chunker, hash: Hash) -> Times {
    let began = Instant::now();
    let mut times = Times::default();
    let (chunked, to_hash) = sync_channel(QUEUE_LEN);
    let (hashed, to_index) = sync_channel(QUEUE_LEN);
    let (indexed, to_write) = sync_channel(QUEUE_LEN);
    thread::scope(|scope| {
        let stages = [
            scope.spawn(move || cut(data, chunker, &chunked)),
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

fn cut<'a>(data: &'a [u8], chunker: &dyn Chunker, next: &SyncSender<Batch<'a>>) -> (f64, u64) {
    let mut batch = Batch { chunks: Vec::new(), keys: Vec::new() };
    let (mut start, mut sent) = (0, 0);
    for end in cutpoint_chunking::cuts(chunker, data) {
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
