//! `volume stats`: shows the sizes of a virtual disk.

use anyhow::Result;
use cutpoint_terminal::units::short_size;
use cutpoint_volume::Statistics;

use super::control::{Answer, Request};
use crate::args::{Secrets, VolumeStats as Args};
use crate::event::{Event, Summary, VolumeStats, VolumeWrites};
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

pub(crate) fn run(args: &Args, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let answer = super::request(&args.folder, &Request::Stats, secrets, report)?;
    let Answer::Stats { stats } = answer else { return Ok(Exit::Well) };
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeStats(*stats)))?;
    } else {
        for (name, value) in lines(&stats) {
            report.line(&format!("{name:<12}{value}"))?;
        }
    }
    Ok(Exit::Well)
}

/// Returns the lines of the output: name and value.
fn lines(stats: &VolumeStats) -> Vec<(&'static str, String)> {
    let writes = &stats.writes;
    let blocks = |count: u64| units::count(count, "block");
    let stored = |bytes: u64, count: u64| format!("{} ({})", units::size(bytes), blocks(count));
    let mut lines = vec![
        ("size", short_size(stats.size_bytes)),
        ("block size", short_size(stats.block_size_bytes)),
        ("mode", stats.mode.clone()),
        ("compression", stats.compression.clone()),
        ("used", units::size(stats.used_bytes)),
        ("whole", stored(stats.full_bytes, stats.full_count)),
        ("bursts", stored(stats.burst_bytes, stats.burst_count)),
        ("deltas", stored(stats.delta_bytes, stats.delta_count)),
        ("ratio", stats.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        ("on disk", units::size(stats.physical_bytes)),
        ("tables", units::size(stats.table_bytes)),
        (
            "writes",
            format!(
                "{} whole, {} as bursts, {} as deltas, {} duplicates, {} zeros",
                writes.full_count,
                writes.burst_count,
                writes.delta_count,
                writes.duplicate_count + writes.burst_duplicate_count,
                writes.zero_count
            ),
        ),
        (
            "found",
            format!(
                "{} by head, {} by tail, {} exhausted",
                writes.head_hit_count,
                writes.tail_hit_count,
                writes.head_exhausted_count + writes.tail_exhausted_count
            ),
        ),
    ];
    if stats.pinned_count > 0 {
        let pinned = blocks(stats.pinned_count);
        lines.push(("pinned", format!("{pinned} that only bursts and deltas need")));
    }
    if stats.lost_block_count > 0 {
        lines.push(("lost", blocks(stats.lost_block_count)));
    }
    lines
}

/// Returns sizes and counts as an event.
pub(super) fn event(statistics: &Statistics) -> VolumeStats {
    let counters = statistics.counters;
    let [head_hit_count, tail_hit_count] = counters.hit_count;
    let [head_exhausted_count, tail_exhausted_count] = counters.exhausted_count;
    let [head_replaced_count, tail_replaced_count] = counters.replaced_count;
    let [head_entry_count, tail_entry_count] = statistics.view_count;
    VolumeStats {
        size_bytes: statistics.size,
        block_size_bytes: statistics.block_size,
        mode: statistics.mode.to_string(),
        compression: statistics.compression.to_string(),
        used_bytes: statistics.used_block_count * statistics.block_size,
        full_count: statistics.full_count,
        full_bytes: statistics.full_bytes,
        burst_count: statistics.burst_count,
        burst_bytes: statistics.burst_bytes,
        delta_count: statistics.delta_count,
        delta_bytes: statistics.delta_bytes,
        pinned_count: statistics.pinned_count,
        ratio: statistics.ratio(),
        live_bytes: statistics.live_bytes,
        physical_bytes: statistics.physical_bytes,
        table_bytes: statistics.table_bytes,
        table_memory_bytes: statistics.table_memory_bytes,
        lost_block_count: statistics.lost_block_count,
        layer_count: statistics.layer_count,
        fingerprint_entry_count: statistics.fingerprint_count,
        head_entry_count,
        tail_entry_count,
        feature_entry_count: statistics.feature_count,
        writes: VolumeWrites {
            full_count: counters.full_count,
            burst_count: counters.burst_count,
            burst_data_bytes: counters.burst_bytes,
            delta_count: counters.delta_count,
            duplicate_count: counters.duplicate_count,
            burst_duplicate_count: counters.burst_duplicate_count,
            zero_count: counters.zero_count,
            head_hit_count,
            tail_hit_count,
            head_exhausted_count,
            tail_exhausted_count,
            head_replaced_count,
            tail_replaced_count,
            cancelled_count: counters.cancelled_count,
            moved_count: counters.moved_count,
            rewritten_count: counters.rewritten_count,
        },
    }
}
