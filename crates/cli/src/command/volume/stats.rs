//! `volume stats`: shows the sizes of a virtual disk.

use std::path::Path;

use anyhow::Result;
use cutpoint_terminal::units::short_size;

use super::control::{Answer, Request};
use crate::args::{Secrets, VolumeStats as Args};
use crate::event::{Event, Summary, VolumeStats};
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

pub(crate) fn run(args: &Args, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let answer = super::request(&args.folder, &Request::Stats, secrets, report)?;
    let Answer::Stats { stats } = answer else { return Ok(Exit::Well) };
    if args.prometheus {
        prometheus(&args.folder, &stats, report)?;
    } else if report.is_json() {
        report.event(&Event::Summary(Summary::VolumeStats(*stats)))?;
    } else {
        for (name, value) in lines(&stats) {
            report.line(&format!("{name:<12}{value}"))?;
        }
    }
    Ok(Exit::Well)
}

/// Prints all numbers of the event as metrics of the volume in a folder.
fn prometheus(folder: &Path, stats: &VolumeStats, report: &Report) -> Result<()> {
    let path = std::path::absolute(folder)?.to_string_lossy().into_owned();
    let path = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let value = serde_json::to_value(stats)?;
    let numbers = |prefix: &str, value: &serde_json::Value| {
        let fields = value.as_object().into_iter().flatten();
        let named = fields.filter(|(_, value)| value.is_number());
        named.map(|(name, value)| (format!("{prefix}_{name}"), value.clone())).collect::<Vec<_>>()
    };
    let gauges = numbers("cutpoint_volume", &value).into_iter().map(|it| (it, "gauge", ""));
    let writes = numbers("cutpoint_volume_writes", &value["writes"]).into_iter();
    for ((name, value), kind, suffix) in gauges.chain(writes.map(|it| (it, "counter", "_total"))) {
        report.line(&format!("# TYPE {name}{suffix} {kind}"))?;
        report.line(&format!("{name}{suffix}{{volume=\"{path}\"}} {value}"))?;
    }
    Ok(())
}

/// Returns the bytes of all tables, and of each that has any.
fn tables(stats: &VolumeStats) -> String {
    let each = [
        ("map", stats.map_table_bytes),
        ("stored blocks", stats.stored_table_bytes),
        ("fingerprints", stats.fingerprint_table_bytes),
        ("heads", stats.head_table_bytes),
        ("tails", stats.tail_table_bytes),
        ("features", stats.feature_table_bytes),
    ];
    let each = each.into_iter().filter(|(_, bytes)| *bytes > 0);
    let each: Vec<String> =
        each.map(|(name, bytes)| format!("{name} {}", units::size(bytes))).collect();
    let all = units::size(stats.table_bytes);
    if each.is_empty() { all } else { format!("{all}: {}", each.join(", ")) }
}

fn on_disk(stats: &VolumeStats) -> String {
    let limit = stats.limit_bytes.map(|limit| format!(", limit {}", units::size(limit)));
    units::size(stats.physical_bytes) + &limit.unwrap_or_default()
}

fn mode(stats: &VolumeStats) -> String {
    let verified = if stats.verifies_duplicates { ", duplicates verified" } else { "" };
    format!("{}{verified}", stats.mode)
}

/// Returns the lines of the output: name and value.
fn lines(stats: &VolumeStats) -> Vec<(&'static str, String)> {
    let writes = &stats.writes;
    let blocks = |count: u64| units::count(count, "block");
    let stored = |bytes: u64, count: u64| format!("{} ({})", units::size(bytes), blocks(count));
    let mut lines = vec![
        ("size", short_size(stats.size_bytes)),
        ("block size", short_size(stats.block_size_bytes)),
        ("mode", mode(stats)),
        ("compression", stats.compression.clone()),
        ("used", units::size(stats.used_bytes)),
        ("whole", stored(stats.full_bytes, stats.full_count)),
        ("bursts", stored(stats.burst_bytes, stats.burst_count)),
        ("deltas", stored(stats.delta_bytes, stats.delta_count)),
        ("ratio", stats.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        ("on disk", on_disk(stats)),
        ("tables", tables(stats)),
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
                "{} by head, {} by tail, {} exhausted, {} replaced, {} cancelled",
                writes.head_hit_count,
                writes.tail_hit_count,
                writes.head_exhausted_count + writes.tail_exhausted_count,
                writes.head_replaced_count + writes.tail_replaced_count,
                writes.cancelled_count
            ),
        ),
    ];
    if writes.burst_count > 0 {
        let lengths = format!(
            "bursts with at most 1/8 of a block new: {}; 1/4: {}; 1/2: {}; more: {}",
            writes.burst_eighth_count,
            writes.burst_quarter_count,
            writes.burst_half_count,
            writes.burst_longer_count
        );
        lines.push(("lengths", lengths));
    }
    if stats.pinned_count > 0 {
        let pinned = blocks(stats.pinned_count);
        lines.push(("pinned", format!("{pinned} that only bursts and deltas need")));
    }
    if stats.lost_block_count > 0 {
        lines.push(("lost", blocks(stats.lost_block_count)));
    }
    lines
}
