//! The bars of a benchmark, for a terminal.

use anyhow::Result;
use cutpoint_bench::Samples;
use cutpoint_terminal::Report;

use super::{Setting, WorkResult, scale};

/// The width of a line if standard output is no terminal, in columns.
const WIDTH: usize = 100;
/// The minimum width reserved for the longest bar, in columns.
const BAR_MIN: usize = 10;

pub(super) fn print(setting: &Setting, measured: &[WorkResult], report: &Report) -> Result<()> {
    for line in setting.lines() {
        report.line(&line)?;
    }
    let rows = || measured.iter().flat_map(|each| &each.rows);
    let scale = scale(measured);
    let name_width = rows().map(|row| row.name.len()).fold("plain read".len(), usize::max);
    let width = report.out_width().unwrap_or(WIDTH);
    for each in measured {
        report.line("")?;
        report.line(&each.name)?;
        let sizes = &each.sizes;
        report.line(&format!(
            "  {} chunks, mean {:.0} bytes, deviation {:.0} bytes",
            sizes.count, sizes.mean, sizes.deviation
        ))?;
        let line = |name: &str, speeds: &Samples, ratios: &str| {
            let median = speeds.median();
            let spread = (speeds.upper_quartile() - speeds.lower_quartile()) / 2.0;
            let text = format!("  {name:<name_width$} {median:>8.2} +-{spread:<6.2} {ratios:<24} ");
            let bar_max = width.saturating_sub(text.len()).max(BAR_MIN);
            report.line(format!("{text}{}", bar(median / scale, bar_max)).trim_end())
        };
        line("plain read", &each.read_speeds, "")?;
        for row in &each.rows {
            let scalar = row.scalar_ratio.map(|ratio| format!("{ratio:>6.1}x scalar"));
            let read = each.read_ratio(row);
            line(
                &row.name,
                &row.speeds,
                &format!("{read:>5.2}x read{}", scalar.unwrap_or_default()),
            )?;
        }
    }
    Ok(())
}

/// Returns a bar of `share` of the width. A bar that does not fit ends in an arrow.
fn bar(share: f64, width: usize) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a share of the width of a terminal")]
    #[expect(clippy::cast_sign_loss, reason = "speeds are positive")]
    let length = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    let mut bar = "#".repeat(length);
    if share > 1.0 && bar.pop().is_some() {
        bar.push('>');
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_length_is_the_share() {
        assert_eq!(bar(1.0, 10), "##########", "all");
        assert_eq!(bar(0.24, 10), "##", "a quarter");
        assert_eq!(bar(30.0, 10), "#########>", "more than fits");
        assert_eq!(bar(0.0, 10), "", "nothing");
    }
}
