//! The table of an estimate, for a terminal.

use anyhow::Result;
use cutpoint_estimate::EstimateReport;
use cutpoint_terminal::units::percent;

use super::{Row, gigabytes_per_second};
use crate::report::Report;
use crate::units;

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
const LEGEND: [(&str, bool); 8] = [
    ("dedup: savings if each chunk is stored once", false),
    ("bursts: savings if also only the new part of similar chunks is stored", true),
    ("stored: size in a repository, compressed and with all metadata, and the savings", false),
    ("with bursts: the same, if only the new part of similar chunks is stored", true),
    ("metadata: part of the stored size that is not content of files", false),
    ("index: memory for the index, a tenth of it with a cache", false),
    ("GB/s: cutting and fingerprinting, CPU time of one thread", false),
    ("Savings by delta encoding in backups beyond bursts are not counted.", false),
];

pub(super) fn print(estimated: &EstimateReport, rows: &[Row<'_>], report: &Report) -> Result<()> {
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
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    for line in &lines {
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
    for row in rows {
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
    report.line("")?;
    let legend = LEGEND.iter().filter(|(_, is_of_bursts)| has_bursts || !is_of_bursts);
    legend.map(|(line, _)| line).try_for_each(|line| report.line(line))
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
