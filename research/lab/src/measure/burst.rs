//! BURST on blocks of fixed size, in the variants of its paper: `docs/notes/burst.md`.

use cutpoint_burst::{Burst, Deduplicator, Options, VARIANTS};
use cutpoint_testing::thread_cpu_time;

use super::{Task, ask};
use crate::{LabError, Row};

/// The number of variants of which growth is measured, from the first on.
const GROWTH_COUNT: usize = 4;

/// The maximum number of blocks, at equal distances, that are compared with all others.
const SAMPLE_COUNT: usize = 4096;

/// Measures figure 6(a) and table II: ratios, and the sizes of tables.
pub(super) fn ratio_rows(
    task: &Task<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (name, options) in VARIANTS {
        let mut deduplicator = Deduplicator::new(options);
        let began = thread_cpu_time();
        for stream in task.set.streams() {
            ask(goes_on)?;
            write(&mut deduplicator, stream, task);
        }
        let elapsed = thread_cpu_time().saturating_sub(began).as_secs_f64();
        let statistics = deduplicator.statistics();
        let mut add = |row: Row| rows.push(Row { algorithm: name.to_owned(), ..row });
        add(Row::new("dedup_ratio", statistics.dedup_ratio(), ""));
        add(Row::new("dedup_ratio_of_sectors", statistics.dedup_ratio_of_sectors(), ""));
        add(Row::new("stored_bytes", statistics.stored_bytes() as f64, "bytes"));
        let tables = [
            ("DT", statistics.dt),
            ("HeadDT", statistics.head_dt.table),
            ("TailDT", statistics.tail_dt.table),
            ("BT", statistics.bt),
        ];
        for (table, size) in tables {
            add(Row::new("table_entries", size.entry_count as f64, "entries").variant(table));
            add(Row::new("table_bytes", size.entry_bytes as f64, "bytes").variant(table));
        }
        for (side, counts) in [("head", statistics.head_dt), ("tail", statistics.tail_dt)] {
            add(Row::new("hits", counts.burst_count as f64, "bursts").variant(side));
            add(Row::new("rejects", counts.exhausted_count as f64, "chunks").variant(side));
        }
        add(Row::new("cpu_throughput", task.set.size() as f64 / 1e9 / elapsed.max(1e-9), "GB/s"));
    }
    Ok(rows)
}

/// Measures figure 8: the ratio after each version.
pub(super) fn growth_rows(
    task: &Task<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (name, options) in &VARIANTS[..GROWTH_COUNT] {
        let mut deduplicator = Deduplicator::new(*options);
        let mut ratios = Vec::new();
        for version in &task.set.versions {
            for stream in &version.streams {
                ask(goes_on)?;
                write(&mut deduplicator, stream, task);
            }
            ratios.push(deduplicator.statistics().dedup_ratio());
        }
        let last = ratios.last().copied().unwrap_or(1.0);
        let row =
            Row::new("growth", last, "").samples(&ratios).note("the ratio after each version");
        rows.push(Row { algorithm: (*name).to_owned(), ..row });
    }
    Ok(rows)
}

/// Measures figure 1: the length of the best burst from any other block, as a share of the block,
/// and the length of the burst that BURST stores.
pub(super) fn burst_rows(
    task: &Task<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Row>, LabError> {
    let mut room = task.size_max;
    let mut chunks: Vec<&[u8]> = Vec::new();
    for chunk in task.set.streams().flat_map(|stream| stream.chunks(task.target)) {
        let Some(left) = room.checked_sub(chunk.len()) else { break };
        room = left;
        chunks.push(chunk);
    }
    let step = chunks.len().div_ceil(SAMPLE_COUNT).max(1);
    let sample: Vec<usize> = (0..chunks.len()).step_by(step).collect();
    let mut best: Vec<usize> = sample.iter().map(|number| chunks[*number].len()).collect();
    // Each block stays in the cache while it is compared with all of the sample.
    for (number, reference) in chunks.iter().enumerate() {
        ask(goes_on)?;
        for (sampled, best) in sample.iter().zip(&mut best) {
            let chunk = chunks[*sampled];
            if *sampled != number {
                let (prefix, suffix) = Burst::kept(reference, chunk);
                *best = (*best).min(chunk.len() - prefix - suffix);
            }
        }
    }
    let short = best.iter().filter(|best| (1..task.target.div_ceil(4)).contains(*best)).count();
    let short = 100.0 * short as f64 / best.len().max(1) as f64;
    let mut counts = [0_u64; 17];
    for (sampled, best) in sample.iter().zip(best) {
        counts[(16 * best).div_ceil(chunks[*sampled].len())] += 1;
    }
    let mut all_pairs = shares("best of all pairs", counts);
    let row = Row::new("burst_below_a_quarter_of_the_size", short, "%");
    all_pairs.push(Row { algorithm: "best of all pairs".to_owned(), ..row });

    let mut deduplicator = Deduplicator::new(Options::BURST);
    for chunk in &chunks {
        deduplicator.write(chunk);
    }
    let statistics = deduplicator.statistics();
    let mut counts = statistics.burst_len_sixteenths;
    // A burst that only deletes counts as short, because the blocks are not equal.
    counts[1] += counts[0];
    counts[0] = statistics.duplicate_count + statistics.burst_duplicate_count;
    counts[16] += statistics.unique_count;
    Ok([all_pairs, shares("written by BURST 255", counts)].concat())
}

/// Returns the rows of the shares by sixteenths of a block: 0 counts equal blocks, and 16 blocks
/// with next to nothing in common.
fn shares(what: &str, counts: [u64; 17]) -> Vec<Row> {
    let sum = counts.iter().sum::<u64>().max(1) as f64;
    let percent = counts.map(|count| 100.0 * count as f64 / sum);
    let rows = [
        Row::new("burst_shares", sum, "blocks")
            .samples(&percent)
            .note("percent of blocks by sixteenths of a block, rounded up"),
        Row::new("equal", percent[0], "%"),
        Row::new("burst_to_a_quarter", percent[1..=4].iter().sum(), "%"),
        Row::new("burst_above_three_quarters", percent[13..].iter().sum(), "%"),
    ];
    rows.map(|row| Row { algorithm: what.to_owned(), ..row }).to_vec()
}

fn write(deduplicator: &mut Deduplicator, stream: &[u8], task: &Task<'_>) {
    for chunk in stream.chunks(task.target) {
        deduplicator.write(chunk);
    }
}
