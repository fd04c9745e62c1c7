//! The speed of chunking and fingerprinting in memory, measured with contenders in turns.

use cutpoint_bench::{Comparison, Contender, Kind as Who, Limit, Turns, race};
use cutpoint_chunking::{Spec, cuts};
use cutpoint_fingerprint::{Blake3, Sha1, Sha256};
use cutpoint_testing::thread_cpu_time;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose, count_pairs, is_learned};
use crate::row::{LEARNING, SAME_CHUNKS};
use crate::{LabError, Levels, Row, counters};

/// The approximate size of a batch for fingerprinting in bytes, as in the store.
const BATCH_SIZE: usize = 1 << 20;

/// The variant of rows of data that was copied into a buffer just before it was cut.
const FRESH: &str = "fresh";

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let data = buffer(task)?;
    let mut rows = Vec::new();
    let mut chosen: Vec<(&str, Spec)> = Vec::new();
    for part in &task.algorithms {
        match choose(part, task.selection, task.target, task.set, goes_on) {
            ParameterChoice::Spec(spec) => {
                if is_learned(part) {
                    rows.push(learning_row(part.name.get_ref(), data.bytes(), task));
                }
                chosen.push((part.name.get_ref(), *spec));
            }
            ParameterChoice::None(reason) => rows.push(absent(part, reason)),
        }
        ask(goes_on)?;
    }
    let mut comparisons: Vec<Comparison<'_, usize>> =
        chosen.iter().map(|(_, spec)| comparison(spec, task)).collect();
    run(data.bytes(), &mut comparisons, task, goes_on)?;
    for ((name, spec), comparison) in chosen.iter().zip(&comparisons) {
        let mut found = speed_rows(comparison);
        found.extend(counter_rows(spec, data.bytes()));
        for row in &mut found {
            (*name).clone_into(&mut row.algorithm);
            row.spec = spec.to_string();
        }
        rows.extend(found);
    }
    if let Some(comparison) = comparisons.first() {
        rows.push(
            Row::of("cpu_throughput", comparison.read_speeds().values(), "GB/s")
                .level("plain read"),
        );
    }
    if task.fresh_size > 0 {
        rows.iter_mut().for_each(|row| FRESH.clone_into(&mut row.variant));
    }
    Ok(rows)
}

/// Measures the speed of counting pairs for BFBC, which precedes chunking and is not part of it.
fn learning_row(name: &str, data: &[u8], task: &Task<'_>) -> Row {
    let speeds: Vec<f64> = (0..task.repeat_count)
        .map(|_| {
            let began = thread_cpu_time();
            std::hint::black_box(count_pairs(std::iter::once(std::hint::black_box(data))));
            let elapsed = thread_cpu_time().saturating_sub(began).as_secs_f64();
            data.len() as f64 / 1e9 / elapsed.max(1e-9)
        })
        .collect();
    let row = Row::of("cpu_throughput", &speeds, "GB/s").level(LEARNING);
    Row { algorithm: name.to_owned(), ..row }.note("counting the pairs, before anything is cut")
}

/// Measures fingerprints of chunks of one size.
pub(super) fn fingerprint_rows(
    task: &Task<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Row>, LabError> {
    let data = buffer(task)?;
    let size = task.target;
    let mut comparisons = vec![
        Comparison::new(contenders("blake3", size, Blake3::levels(), |name| {
            let hash = Blake3::plain().at_level(name)?;
            Some(Box::new(move |chunks: &[&[u8]], found: &mut Vec<Vec<u8>>| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                keep(&digests, found);
            }) as Box<Digests>)
        })),
        Comparison::new(contenders("sha256", size, Sha256::levels(), |name| {
            let hash = Sha256::plain().at_level(name)?;
            Some(Box::new(move |chunks: &[&[u8]], found: &mut Vec<Vec<u8>>| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                keep(&digests, found);
            }) as Box<Digests>)
        })),
        Comparison::new(contenders("sha1", size, Sha1::levels(), |name| {
            let hash = Sha1::plain().at_level(name)?;
            Some(Box::new(move |chunks: &[&[u8]], found: &mut Vec<Vec<u8>>| {
                let mut digests = Vec::new();
                hash.digests(chunks, &mut digests);
                keep(&digests, found);
            }) as Box<Digests>)
        })),
    ];
    run(data.bytes(), &mut comparisons, task, goes_on)?;
    let mut rows = Vec::new();
    for (name, comparison) in ["BLAKE3", "SHA-256", "SHA-1"].iter().zip(&comparisons) {
        for mut row in speed_rows(comparison) {
            (*name).clone_into(&mut row.algorithm);
            rows.push(row);
        }
    }
    Ok(rows)
}

type Digests = dyn Fn(&[&[u8]], &mut Vec<Vec<u8>>);

/// Keeps the last digest of a batch, which suffices to compare levels.
fn keep<const SIZE: usize>(digests: &[[u8; SIZE]], found: &mut Vec<Vec<u8>>) {
    found.extend(digests.last().map(|digest| digest.to_vec()));
}

fn contenders(
    name: &str,
    size: usize,
    levels: Vec<&'static str>,
    make: impl Fn(&str) -> Option<Box<Digests>>,
) -> Vec<Contender<'static, Vec<u8>>> {
    let levels = levels.into_iter().filter(|level| *level != "emulated");
    let made = levels.filter_map(|level| {
        let digests = make(level)?;
        Some(Contender::new(
            Who::Level,
            format!("{name} {level}"),
            move |data: &[u8], found: &mut Vec<Vec<u8>>| {
                let chunks: Vec<&[u8]> = data.chunks(size).collect();
                for batch in chunks.chunks(BATCH_SIZE.div_ceil(size)) {
                    digests(batch, found);
                }
            },
        ))
    });
    made.collect()
}

/// Returns the concatenated bytes to cut, on large pages.
fn buffer(task: &Task<'_>) -> Result<cutpoint_bench::Buffer, LabError> {
    let size = task.set.size().min(task.size_max);
    let failed = |source| LabError::File { path: task.set.name.clone().into(), source };
    let mut buffer = cutpoint_bench::Buffer::new(size).map_err(failed)?;
    let mut filled = 0;
    for stream in task.set.streams() {
        let count = stream.len().min(size - filled);
        buffer.bytes_mut()[filled..filled + count].copy_from_slice(&stream[..count]);
        filled += count;
    }
    Ok(buffer)
}

fn comparison<'a>(spec: &Spec, task: &Task<'_>) -> Comparison<'a, usize> {
    let mut contenders = cutpoint_bench::levels(spec, &[]);
    match task.levels {
        // The best level is the last one for which the rule has code.
        Levels::Best => contenders = contenders.into_iter().next_back().into_iter().collect(),
        Levels::All => contenders.extend(cutpoint_bench::plain(spec)),
    }
    if task.papers {
        contenders.extend(cutpoint_bench::papers(spec));
        contenders.extend(cutpoint_bench::gearhash_crate(spec));
    }
    Comparison::new(contenders).fresh(task.fresh_size)
}

fn run<T: PartialEq>(
    data: &[u8],
    comparisons: &mut [Comparison<'_, T>],
    task: &Task<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), LabError> {
    let mut turns: Vec<&mut dyn Turns> =
        comparisons.iter_mut().map(|each| each as &mut dyn Turns).collect();
    race(data, &mut turns, Limit::Rounds(task.repeat_count), &mut |_| goes_on());
    ask(goes_on)
}

fn speed_rows<T>(comparison: &Comparison<'_, T>) -> Vec<Row> {
    let mut rows = Vec::new();
    for contender in comparison.contenders() {
        let agrees = contender.agrees();
        let note = if agrees { "" } else { "finds something else than the first level: a bug" };
        let same = Row::new(SAME_CHUNKS, f64::from(u8::from(agrees)), "");
        rows.push(same.level(contender.name()).note(note));
        rows.push(
            Row::of("cpu_throughput", contender.speeds().values(), "GB/s")
                .level(contender.name())
                .note(note),
        );
        rows.push(
            Row::of("wall_throughput", contender.wall_speeds().values(), "GB/s")
                .level(contender.name())
                .note(note),
        );
    }
    rows
}

fn counter_rows(spec: &Spec, data: &[u8]) -> Vec<Row> {
    let chunker = spec.chunker();
    let level = chunker.level().name();
    let counted = counters::count(&mut || {
        std::hint::black_box(cuts(&*chunker, std::hint::black_box(data)).count());
    });
    let counts = match counted {
        Ok(counts) => counts,
        Err(reason) => return vec![Row::new("counters_absent", 1.0, "").level(level).note(reason)],
    };
    let bytes = data.len().max(1) as f64;
    vec![
        Row::new("instructions_a_byte", counts.instructions as f64 / bytes, "").level(level),
        Row::new(
            "instructions_a_cycle",
            counts.instructions as f64 / counts.cycles.max(1) as f64,
            "",
        )
        .level(level),
        Row::new("branches_a_byte", counts.branches as f64 / bytes, "").level(level),
        Row::new(
            "mispredicted",
            100.0 * counts.branch_misses as f64 / counts.branches.max(1) as f64,
            "%",
        )
        .level(level),
    ]
}
