//! The table of an estimate, for a terminal.

use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use cutpoint_terminal::units::percent;

use super::default_mode::DefaultMode;
use super::{Results, Row, gigabytes_per_second};
use crate::report::Report;
use crate::{escape, units};

const HEADINGS: [&str; 9] = [
    "algorithm",
    "mean chunk",
    "dedup",
    "bursts",
    "stored",
    "with bursts",
    "metadata",
    "index",
    "GB/s",
];

/// The explanations of the columns. Each is shown only with its column.
const LEGEND: [(&str, bool); 7] = [
    ("dedup: savings if each chunk is stored once", false),
    ("bursts: savings if also only the new part of similar chunks is stored", true),
    ("stored: size in a repository, compressed and with all metadata, and the savings", false),
    ("with bursts: the same, if only the new part of similar chunks is stored", true),
    ("metadata: part of the stored size that is not content of files", false),
    ("index: memory for the index, a tenth of it with a cache", false),
    ("GB/s: cutting and fingerprinting, CPU time of one thread", false),
];

/// The headings of the default mode.
const DEFAULT_MODE_HEADINGS: [&str; 6] =
    ["default mode", "size", "changed", "of it new", "added", "stored"];

/// The explanation of the default mode.
const DEFAULT_MODE_LEGEND: [&str; 3] = [
    "default mode: what a backup with the default settings stores, counted by making one",
    "changed: data in chunks that resemble others; of them only the new part is stored",
    "added: by this backup; stored: size of the repository after it, and the savings",
];

pub(super) fn print(results: &Results<'_>, report: &Report) -> Result<()> {
    let Results { estimated, rows, default_mode } = results;
    let counts = &estimated.counts;
    let holes = match counts.hole_bytes {
        0 => String::new(),
        bytes => format!(", {} of it holes", units::size(bytes)),
    };
    report.line(&format!(
        "{}, {}{holes}; {}",
        units::count(counts.file_count, "file"),
        units::size(counts.size),
        units::duration(report.elapsed())
    ))?;
    report.line("")?;
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    // Without bursts, their columns are left out.
    let has_bursts = rows.iter().any(|row| row.found.bursts.is_some());
    let is_shown = |column: usize| has_bursts || !matches!(column, 3 | 5);
    print_lines(&lines, is_shown, report)?;
    for row in *rows {
        if let Some(sample) = &row.found.sample
            && let Some((low, high)) = sample.space_savings_interval()
        {
            let what = match sample.rate {
                1 => "exact, because the sample has all chunks".to_owned(),
                rate => format!(
                    "between {} and {} (95 %), from one chunk in {rate}",
                    percent(Some(low)),
                    percent(Some(high))
                ),
            };
            report.line(&format!("{}: savings of dedup {what}", row.label))?;
        }
    }
    if !default_mode.versions.is_empty() {
        report.line("")?;
        let read = counts.size - counts.hole_bytes;
        print_lines(&default_mode_lines(default_mode, read), |_| true, report)?;
    }
    report.line("")?;
    let legend = LEGEND.iter().filter(|(_, is_of_bursts)| has_bursts || !is_of_bursts);
    legend.map(|(line, _)| line).try_for_each(|line| report.line(line))?;
    if !default_mode.versions.is_empty() {
        DEFAULT_MODE_LEGEND.iter().try_for_each(|line| report.line(line))?;
    }
    Ok(())
}

/// Prints the lines of a table, with the columns that are shown.
fn print_lines<const N: usize>(
    lines: &[[String; N]],
    is_shown: impl Fn(usize) -> bool,
    report: &Report,
) -> Result<()> {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate().filter(|(column, _)| is_shown(*column)) {
            let width = widths[column];
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        report.line(text.trim_end())?;
    }
    Ok(())
}

/// Returns the table of the default mode. `read` is the size of all data without holes, of which the
/// last row has the savings if it is that of the last backup.
pub(super) fn default_mode_lines(default_mode: &DefaultMode, read: u64) -> Vec<[String; 6]> {
    let DefaultMode { versions, is_interrupted, .. } = default_mode;
    let mut lines = vec![DEFAULT_MODE_HEADINGS.map(str::to_owned)];
    for (number, version) in versions.iter().enumerate() {
        let statistics = &version.backup.statistics;
        let stored = version.backup.stored.total();
        let is_last = number + 1 == versions.len() && !is_interrupted;
        lines.push([
            match &version.path {
                Some(path) => escape::for_terminal(path.as_os_str().as_bytes()).to_string(),
                None => "one backup".to_owned(),
            },
            units::size(statistics.size),
            units::size(statistics.delta_chunk_bytes),
            units::size(statistics.literal_bytes),
            units::size(version.backup.added_bytes),
            match is_last {
                true => format!("{} ({})", units::size(stored), percent(savings(stored, read))),
                false => units::size(stored),
            },
        ]);
    }
    lines
}

/// Returns the space savings; `None` if nothing was read.
fn savings(stored: u64, read: u64) -> Option<f64> {
    (read > 0).then(|| 1.0 - stored as f64 / read as f64)
}

fn cells(row: &Row<'_>) -> [String; HEADINGS.len()] {
    let found = row.found;
    let stored = |savings: &cutpoint_estimate::Savings| {
        format!("{} ({})", units::size(savings.stored_bytes), percent(savings.space_savings()))
    };
    let mean = found.dedup.read_bytes.checked_div(found.dedup.chunk_count);
    let none = || "-".to_owned();
    [
        row.label.to_owned(),
        mean.map_or_else(none, units::size),
        percent(found.dedup.space_savings()),
        found.bursts.map_or_else(none, |bursts| percent(bursts.dedup.space_savings())),
        stored(&found.stored),
        found.bursts.map_or_else(none, |bursts| stored(&bursts.stored)),
        units::size(found.metadata_bytes),
        units::size(found.index_memory_bytes),
        gigabytes_per_second(found).map_or_else(none, |speed| format!("{speed:.2}")),
    ]
}
