//! `volume stats`: shows the sizes of a virtual disk.

use anyhow::Result;
use cutpoint_terminal::units::short_size;
use cutpoint_volume::{Access, Statistics};

use crate::args::VolumeStats as Args;
use crate::event::{Event, Summary, VolumeStats, VolumeWrites};
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

pub(crate) fn run(args: &Args, report: &Report) -> Result<Exit> {
    let volume = super::open(&args.folder, Access::Read)?;
    let statistics = volume.statistics().map_err(|error| super::failure(&args.folder, &error))?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeStats(event(&statistics))))?;
    } else {
        for (name, value) in lines(&statistics) {
            report.line(&format!("{name:<12}{value}"))?;
        }
    }
    Ok(Exit::Well)
}

/// Returns the lines of the output: name and value.
fn lines(statistics: &Statistics) -> Vec<(&'static str, String)> {
    let Statistics { counters, block_size, .. } = statistics;
    let [head_hits, tail_hits] = counters.hit_count;
    let [head_exhausted, tail_exhausted] = counters.exhausted_count;
    let blocks = |count: u64| units::count(count, "block");
    let stored = |bytes: u64, count: u64| format!("{} ({})", units::size(bytes), blocks(count));
    let mut lines = vec![
        ("size", short_size(statistics.size)),
        ("block size", short_size(*block_size)),
        ("mode", statistics.mode.to_string()),
        ("used", units::size(statistics.used_block_count * block_size)),
        ("whole", stored(statistics.full_bytes, statistics.full_count)),
        ("bursts", stored(statistics.burst_bytes, statistics.burst_count)),
        ("ratio", statistics.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        ("on disk", units::size(statistics.physical_bytes)),
        (
            "writes",
            format!(
                "{} whole, {} as bursts, {} duplicates, {} zeros",
                counters.full_count,
                counters.burst_count,
                counters.duplicate_count + counters.burst_duplicate_count,
                counters.zero_count
            ),
        ),
        (
            "found",
            format!(
                "{head_hits} by head, {tail_hits} by tail, {} exhausted",
                head_exhausted + tail_exhausted
            ),
        ),
    ];
    if statistics.pinned_count > 0 {
        let pinned = blocks(statistics.pinned_count);
        lines.push(("pinned", format!("{pinned} that only bursts need")));
    }
    if statistics.lost_block_count > 0 {
        lines.push(("lost", blocks(statistics.lost_block_count)));
    }
    lines
}

fn event(statistics: &Statistics) -> VolumeStats {
    let counters = statistics.counters;
    let [head_hit_count, tail_hit_count] = counters.hit_count;
    let [head_exhausted_count, tail_exhausted_count] = counters.exhausted_count;
    let [head_replaced_count, tail_replaced_count] = counters.replaced_count;
    let [head_entry_count, tail_entry_count] = statistics.view_count;
    VolumeStats {
        size_bytes: statistics.size,
        block_size_bytes: statistics.block_size,
        mode: statistics.mode.to_string(),
        used_bytes: statistics.used_block_count * statistics.block_size,
        full_count: statistics.full_count,
        full_bytes: statistics.full_bytes,
        burst_count: statistics.burst_count,
        burst_bytes: statistics.burst_bytes,
        pinned_count: statistics.pinned_count,
        ratio: statistics.ratio(),
        live_bytes: statistics.live_bytes,
        physical_bytes: statistics.physical_bytes,
        lost_block_count: statistics.lost_block_count,
        head_entry_count,
        tail_entry_count,
        writes: VolumeWrites {
            full_count: counters.full_count,
            burst_count: counters.burst_count,
            burst_data_bytes: counters.burst_bytes,
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
        },
    }
}
