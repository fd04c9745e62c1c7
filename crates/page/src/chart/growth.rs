//! The size of files and of the repository over time.

use std::fmt::Write as _;

use chrono::{Datelike, Local, TimeZone};
use cutpoint_terminal::units;

use super::{Frame, NARROW, open};
use crate::space::SnapshotSize;

/// The space at the left for sizes, and below for times.
const MARGIN: (f64, f64) = (74.0, 24.0);
const TOP: f64 = 10.0;

/// A day in milliseconds.
const DAY: i64 = 86_400_000;

/// A moment: its time in milliseconds, or its number, the size of the files of the newest snapshots, and the bytes
/// that all snapshots up to then have added.
type Point = (i64, u64, u64);

/// Draws how files and repository have grown. The snapshots are in the order of their times.
pub fn growth(snapshots: &[SnapshotSize], frame: Frame) -> String {
    let height = if frame.width < NARROW { 220.0 } else { 260.0 };
    let (points, is_counted) = points(snapshots);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return format!("{}</svg>\n", open(frame.width, 1.0, "growth", "no snapshots"));
    };
    let description = format!(
        "Growth from {} to {}: files of {}, {} stored",
        day(snapshots.first().map_or(0, |it| it.time)),
        day(snapshots.last().map_or(0, |it| it.time)),
        units::size(last.1),
        units::size(last.2)
    );
    let mut svg = open(frame.width, height, "growth", &description);
    let top_size = points.iter().map(|point| point.1.max(point.2)).max().unwrap_or(1).max(1);
    let step = step(top_size);
    let top_size = top_size.div_ceil(step).saturating_mul(step);
    let (left, bottom) = (MARGIN.0, height - MARGIN.1);
    let span = (last.0 - first.0).max(1) as f64;
    let width = (frame.width - left - 12.0).max(50.0);
    let x = |time: i64| left + (time - first.0) as f64 / span * width;
    let name = |time: i64| if is_counted { format!("{}.", time + 1) } else { day(time) };
    let y = |size: u64| bottom - size as f64 / top_size as f64 * (bottom - TOP);
    let mut size = 0;
    while size <= top_size {
        let line = y(size);
        let text = if size == 0 { "0".to_owned() } else { units::short_size(size) };
        writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/>\
             <text class=\"size end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            left + width,
            left - 8.0,
            line + 4.0
        )
        .ok();
        size += step;
    }
    let unit = if is_counted { 1 } else { DAY };
    // Labels of less than a unit would repeat themselves.
    let count = ((last.0 - first.0) / unit).clamp(1, if frame.width < NARROW { 2 } else { 5 });
    for number in 0..=count {
        let time = first.0 + (last.0 - first.0) * number / count;
        let class = match number {
            0 => "size",
            it if it == count => "size end",
            _ => "size middle",
        };
        let (at, below) = (x(time), height - 6.0);
        writeln!(svg, "<text class=\"{class}\" x=\"{at:.1}\" y=\"{below}\">{}</text>", name(time))
            .ok();
    }
    lines(&mut svg, &points, (&x, &y), bottom);
    if points.len() <= 60 {
        for point in &points {
            writeln!(
                svg,
                "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: files of {}, {} stored\
                 </title></circle>",
                x(point.0),
                y(point.1),
                name(point.0),
                units::size(point.1),
                units::size(point.2)
            )
            .ok();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the sizes of files as a line, and what is stored as an area above `bottom`.
fn lines(
    svg: &mut String,
    points: &[Point],
    (x, y): (&dyn Fn(i64) -> f64, &dyn Fn(u64) -> f64),
    bottom: f64,
) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let end = x(last.0);
    let mut files = String::new();
    let mut stored = format!("M{:.1} {bottom:.1}", x(first.0));
    for (number, point) in points.iter().enumerate() {
        let at = x(point.0);
        // The size stays until the next snapshot.
        match number {
            0 => write!(files, "M{at:.1} {:.1}", y(point.1)),
            _ => write!(files, "H{at:.1}V{:.1}", y(point.1)),
        }
        .ok();
        write!(stored, "H{at:.1}V{:.1}", y(point.2)).ok();
    }
    write!(stored, "H{end:.1}V{bottom:.1}Z").ok();
    write!(files, "H{end:.1}").ok();
    writeln!(svg, "<path class=\"stored\" d=\"{stored}\"/><path class=\"files\" d=\"{files}\"/>")
        .ok();
}

/// Returns the sizes after each snapshot. If all are of one day, they are numbered instead, which is
/// said by `true`.
fn points(snapshots: &[SnapshotSize]) -> (Vec<Point>, bool) {
    let times = (snapshots.first().map(|it| it.time), snapshots.last().map(|it| it.time));
    let is_counted = matches!(times, (Some(first), Some(last)) if last - first < DAY);
    let mut number = -1;
    let mut newest: Vec<u64> = Vec::new();
    let mut added = 0_u64;
    let point = |snapshot: &SnapshotSize| {
        if newest.len() <= snapshot.series {
            newest.resize(snapshot.series + 1, 0);
        }
        newest[snapshot.series] = snapshot.size;
        added = added.saturating_add(snapshot.added_bytes);
        number += 1;
        let time = if is_counted { number } else { snapshot.time };
        (time, newest.iter().fold(0_u64, |sum, it| sum.saturating_add(*it)), added)
    };
    (snapshots.iter().map(point).collect(), is_counted)
}

/// Returns the distance of the lines for sizes up to `size`: 1, 2 or 5 of a unit, times a power of ten.
fn step(size: u64) -> u64 {
    let mut unit = 1_u64;
    while size / 1024 >= unit && unit < 1 << 50 {
        unit *= 1024;
    }
    let mut step = unit;
    for factor in [1, 2, 5, 10, 20, 50, 100, 200, 500] {
        step = unit.saturating_mul(factor);
        if size / step < 5 {
            break;
        }
    }
    step.max(1)
}

/// Returns the day of a time, in local time.
fn day(milliseconds: i64) -> String {
    match Local.timestamp_millis_opt(milliseconds).single() {
        Some(time) => format!("{}-{:02}-{:02}", time.year(), time.month(), time.day()),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(time: i64, series: usize, size: u64, added_bytes: u64) -> SnapshotSize {
        SnapshotSize { time, host: "host".to_owned(), series, size, added_bytes }
    }

    #[test]
    fn newest_snapshot_of_each_series_counts() {
        let mut snapshots = [(1, 0, 100, 50), (2, 1, 10, 5), (3, 0, 120, 7)]
            .map(|(days, series, size, added)| snapshot(days * DAY, series, size, added));
        let expected = [(DAY, 100, 50), (2 * DAY, 110, 55), (3 * DAY, 130, 62)];
        assert_eq!(points(&snapshots), (expected.to_vec(), false), "sums");
        snapshots[2].time = DAY + 1;
        snapshots[1].time = DAY + 1;
        let expected = [(0, 100, 50), (1, 110, 55), (2, 130, 62)];
        assert_eq!(points(&snapshots), (expected.to_vec(), true), "numbers of one day");
        let svg = growth(&snapshots, Frame::of_width(900));
        assert!(svg.contains("class=\"files\"") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(growth(&[], Frame::of_width(900)).ends_with("</svg>\n"), "no snapshots");
        assert!(growth(&snapshots[..1], Frame::of_width(300)).contains("class=\"stored\""), "one");
    }

    #[test]
    fn lines_are_at_round_sizes() {
        for size in [0, 1, 1023, 1024, 5000, 123_456_789, 1 << 59] {
            let step = step(size);
            assert!(size / step < 10, "{size} in steps of {step}");
        }
        assert_eq!(step(3 << 30), 1 << 30, "GiB");
    }
}
