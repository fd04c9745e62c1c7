//! A self-contained page with a chart and all numbers.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use cutpoint_estimate::Savings;
use cutpoint_terminal::page::{self, escaped};
use cutpoint_terminal::units::percent;

use super::table::default_mode_lines;
use super::{Results, Row, gigabytes_per_second};
use crate::units;

/// The width of the chart. All lengths are in pixels of the chart, which scales with the page.
const WIDTH: f64 = 640.0;
const BAR_HEIGHT: f64 = 16.0;
const LINE_HEIGHT: f64 = 22.0;
const LABEL_HEIGHT: f64 = 20.0;
/// The space for a number behind the longest bar.
const NUMBER_WIDTH: f64 = 150.0;

/// The meaning of each bar, and its style class.
const BARS: [(&str, &str); 4] = [
    ("dedup", "one"),
    ("dedup, with bursts", "two"),
    ("stored", "three"),
    ("stored, with bursts", "four"),
];

pub(super) fn html(results: &Results<'_>, elapsed: Duration) -> Result<String> {
    let Results { estimated, rows, .. } = results;
    let counts = &estimated.counts;
    let mut body = String::new();
    writeln!(
        body,
        "<p>{}, {}, read in {}. {}</p>",
        units::count(counts.file_count, "file"),
        units::size(counts.size),
        units::duration(elapsed),
        match (counts.is_partial, counts.problem_count) {
            (true, _) =>
                "The run was interrupted: the results cover a part of the data.".to_owned(),
            (false, 0) => String::new(),
            (false, count) => format!("{} could not be read.", units::count(count, "file")),
        }
    )?;
    chart(&mut body, rows)?;
    table(&mut body, rows)?;
    body.push_str(
        "<p><b>dedup</b>: each chunk counts once. <b>bursts</b>: of a chunk that resembles \
         another, only the new part counts. <b>stored</b>: size in a repository, compressed and \
         with all metadata. <b>index</b>: memory for the index, a tenth of it with a cache. \
         <b>GB/s</b>: cutting and fingerprinting, CPU time of one thread, 10^9 bytes.</p>\n",
    );
    default_mode(&mut body, results)?;
    space(&mut body, results);
    let style = format!("{}{}", cutpoint_page::chart::STYLE, cutpoint_page::report::STYLE);
    Ok(page::styled("cutpoint estimate", &style, &body))
}

/// Appends what takes the space of the repository that the default mode makes.
fn space(body: &mut String, results: &Results<'_>) {
    let Some(space) = &results.default_mode.space else { return };
    body.push_str("<h2>What takes the space, in the default mode</h2>\n");
    cutpoint_page::report::sections(body, space);
}

/// Returns the bars of a configuration, in bytes.
fn bars(row: &Row<'_>) -> [Option<Savings>; 4] {
    let bursts = row.found.bursts;
    [
        Some(row.found.dedup),
        bursts.map(|bursts| bursts.dedup),
        Some(row.found.stored),
        bursts.map(|bursts| bursts.stored),
    ]
}

fn chart(body: &mut String, rows: &[Row<'_>]) -> Result<()> {
    let read = rows.iter().map(|row| row.found.dedup.read_bytes).max().unwrap_or(0).max(1);
    let bar_count: usize = rows.iter().map(|row| bars(row).iter().flatten().count()).sum();
    let height = rows.len() as f64 * (LABEL_HEIGHT + 10.0) + bar_count as f64 * LINE_HEIGHT;
    body.push_str("<h2>Data that remains</h2>\n<p class=\"legend\">");
    for (name, class) in BARS {
        write!(body, "<span class=\"key {class}\"></span>{name} ")?;
    }
    writeln!(
        body,
        "</p>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"Remaining bytes by configuration; the table has the numbers\">"
    )?;
    let mut y = 0.0;
    for row in rows {
        let middle = y + LABEL_HEIGHT - 5.0;
        writeln!(body, "<text x=\"0\" y=\"{middle}\">{}</text>", escaped(row.label))?;
        y += LABEL_HEIGHT;
        for (savings, (name, class)) in bars(row).iter().zip(BARS) {
            let Some(savings) = savings else { continue };
            let share = savings.stored_bytes as f64 / read as f64;
            let length = share.min(1.0) * (WIDTH - NUMBER_WIDTH);
            let number = format!(
                "{} ({})",
                units::size(savings.stored_bytes),
                percent(savings.space_savings())
            );
            writeln!(
                body,
                "<rect class=\"{class}\" x=\"0\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\">\
                 <title>{}: {name}: {number}</title></rect>\
                 <text class=\"number\" x=\"{:.1}\" y=\"{:.1}\">{number}</text>",
                length.max(1.0),
                escaped(row.label),
                length + 6.0,
                y + BAR_HEIGHT - 3.0
            )?;
            y += LINE_HEIGHT;
        }
        y += 10.0;
    }
    body.push_str("</svg>\n");
    Ok(())
}

fn table(body: &mut String, rows: &[Row<'_>]) -> Result<()> {
    body.push_str(
        "<h2>All numbers</h2>\n<div class=\"wide\"><table>\n<tr><th>algorithm</th><th>chunks</th>\
         <th>unique</th><th>mean chunk</th><th>dedup</th><th>ratio</th><th>95 % interval</th>\
         <th>bursts</th><th>compressed</th><th>metadata</th><th>stored</th><th>ratio</th>\
         <th>stored, with bursts</th><th>ratio</th><th>index</th><th>GB/s</th></tr>\n",
    );
    let ratio = |savings: &Savings| {
        savings.dedup_ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let none = || "-".to_owned();
    for row in rows {
        let found = row.found;
        let interval = found.sample.as_ref().and_then(|sample| sample.space_savings_interval());
        let interval = interval.map_or_else(none, |(low, high)| {
            format!("{} to {}", percent(Some(low)), percent(Some(high)))
        });
        let cells = [
            found.dedup.chunk_count.to_string(),
            found.dedup.unique_chunk_count.to_string(),
            found.dedup.chunk_size_mean().map_or_else(none, |mean| format!("{mean:.0}")),
            percent(found.dedup.space_savings()),
            ratio(&found.dedup),
            interval,
            found.bursts.map_or_else(none, |bursts| percent(bursts.dedup.space_savings())),
            found.compressed_bytes.map_or_else(none, units::size),
            units::size(found.metadata_bytes),
            units::size(found.stored.stored_bytes),
            ratio(&found.stored),
            found.bursts.map_or_else(none, |bursts| units::size(bursts.stored.stored_bytes)),
            found.bursts.map_or_else(none, |bursts| ratio(&bursts.stored)),
            units::size(found.index_memory_bytes),
            gigabytes_per_second(found).map_or_else(none, |speed| format!("{speed:.2}")),
        ];
        write!(body, "<tr><td title=\"{}\">{}</td>", escaped(&found.spec), escaped(row.label))?;
        cells.iter().try_for_each(|cell| write!(body, "<td>{cell}</td>"))?;
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
    Ok(())
}

/// Appends what a backup with the default settings would store, if it was counted.
fn default_mode(body: &mut String, results: &Results<'_>) -> Result<()> {
    let counts = &results.estimated.counts;
    if results.default_mode.versions.is_empty() {
        return Ok(());
    }
    body.push_str("<h2>Default mode</h2>\n<div class=\"wide\"><table>\n");
    let lines = default_mode_lines(results.default_mode, counts.size - counts.hole_bytes);
    for (number, line) in lines.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        body.push_str("<tr>");
        line.iter().try_for_each(|cell| write!(body, "<{tag}>{}</{tag}>", escaped(cell)))?;
        body.push_str("</tr>\n");
    }
    body.push_str(
        "</table></div>\n<p><b>stored</b>: size of the repository that a backup with the default \
         settings makes, delta chunks and bundles of small files included, counted by making it. \
         <b>changed</b>: data in chunks that resemble others, of which only the new part is \
         stored. <b>added</b>: by this backup.</p>\n",
    );
    Ok(())
}
