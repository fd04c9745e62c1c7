//! The chart as a self-contained file: SVG, alone or in a page with a table.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use cutpoint_bench::{Kind, Samples};
use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Rectangle, Text};
use plotters::style::{Color, IntoFont, RGBColor};

use super::{Setting, WorkResult, scale};

/// The width of the figure. All lengths are in pixels.
const WIDTH: i32 = 900;
const MARGIN: i32 = 12;
const LINE_HEIGHT: i32 = 17;
/// The left end of the bars, and the length of the longest one.
const BAR_LEFT: i32 = 150;
const BAR_WIDTH: i32 = 520;
/// The maximum number of characters of a name in a line.
const TITLE_LENGTH: usize = 110;

const BLACK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const READ: RGBColor = RGBColor(0xb0, 0xb0, 0xb0);
const LEVEL: RGBColor = RGBColor(0x2f, 0x6f, 0xb5);
const PAPER: RGBColor = RGBColor(0xd9, 0x8c, 0x2b);

/// Draws the chart.
pub(super) fn svg(setting: &Setting, measured: &[WorkResult]) -> Result<String> {
    let mut text = String::new();
    draw(setting, measured, &mut text).map_err(|error| anyhow!("the chart: {error}"))?;
    Ok(text)
}

fn draw(
    setting: &Setting,
    measured: &[WorkResult],
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let scale = scale(measured);
    // Each work has a line for its name, one for the plain read, its rows, and an empty line.
    let line_count =
        setting.lines().len() + measured.iter().map(|each| each.rows.len() + 3).sum::<usize>();
    let height = 2 * MARGIN + LINE_HEIGHT * i32::try_from(line_count)?;
    let area = SVGBackend::with_string(text, (WIDTH.cast_unsigned(), height.cast_unsigned()))
        .into_drawing_area();
    area.fill(&plotters::style::WHITE)?;
    // The backend reduces the size by a quarter.
    let style = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    let mut y = MARGIN;
    for line in setting.lines() {
        area.draw(&Text::new(line, (MARGIN, y), style(15)))?;
        y += LINE_HEIGHT;
    }
    for each in measured {
        y += LINE_HEIGHT;
        area.draw(&Text::new(shortened(&each.name), (MARGIN, y), style(16)))?;
        y += LINE_HEIGHT;
        let read = std::iter::once(("plain read", &each.read_speeds, READ, String::new()));
        let rows = each.rows.iter().map(|row| {
            let color = if row.kind == Kind::Level { LEVEL } else { PAPER };
            let ratio = format!(", {:.2}x read", each.read_ratio(row));
            (row.name.as_str(), &row.speeds, color, ratio)
        });
        for (name, speeds, color, ratio) in read.chain(rows) {
            // A bar that does not fit is as long as the longest one; its number shows the
            // difference.
            let length = (speeds.median() / scale).min(1.0) * f64::from(BAR_WIDTH);
            #[expect(clippy::cast_possible_truncation, reason = "at most the width of the chart")]
            let right = BAR_LEFT + length.round() as i32;
            area.draw(&Text::new(name.to_owned(), (MARGIN + 10, y), style(15)))?;
            let corners = [(BAR_LEFT, y + 1), (right.max(BAR_LEFT + 1), y + LINE_HEIGHT - 4)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            let label = format!("{:.2}{ratio}", speeds.median());
            area.draw(&Text::new(label, (right + 6, y), style(15)))?;
            y += LINE_HEIGHT;
        }
    }
    area.present()?;
    Ok(())
}

/// Shortens a name, because a specification can be longer than a line.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(TITLE_LENGTH) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns a page with the chart and all numbers, which is also valid XML.
pub(super) fn html(setting: &Setting, measured: &[WorkResult]) -> Result<String> {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n<title>cutpoint-lab bench</title>\n<style>\n\
         body { font-family: sans-serif; margin: 2em; }\n\
         table { border-collapse: collapse; }\n\
         td, th { padding: 0.15em 0.7em; text-align: right; border-bottom: 1px solid #ddd; }\n\
         td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) { text-align: left; }\n\
         </style>\n</head>\n<body>\n<h1>cutpoint-lab bench</h1>\n",
    );
    for line in setting.lines() {
        writeln!(page, "<p>{}</p>", escaped(&line))?;
    }
    page.push_str(&svg(setting, measured)?);
    page.push_str(
        "\n<table>\n<tr><th>work</th><th>by</th><th>GB/s</th><th>lower quartile</th>\
         <th>upper quartile</th><th>x plain read</th><th>x scalar</th><th>mean chunk bytes</th>\
         <th>deviation</th></tr>\n",
    );
    for each in measured {
        let mut row = |name: &str, speeds: &Samples, read: String, scalar: String| {
            writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{read}</td>\
                 <td>{scalar}</td><td>{:.0}</td><td>{:.0}</td></tr>",
                escaped(&each.name),
                escaped(name),
                speeds.median(),
                speeds.lower_quartile(),
                speeds.upper_quartile(),
                each.sizes.mean,
                each.sizes.deviation
            )
        };
        row("plain read", &each.read_speeds, String::new(), String::new())?;
        for contender in &each.rows {
            let read = format!("{:.2}", each.read_ratio(contender));
            let scalar = contender.scalar_ratio.map(|ratio| format!("{ratio:.1}"));
            row(&contender.name, &contender.speeds, read, scalar.unwrap_or_default())?;
        }
    }
    page.push_str("</table>\n</body>\n</html>\n");
    Ok(page)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
