//! The steps from files to stored bytes: each a bar, of which a part remains.

use std::fmt::Write as _;

use cutpoint_terminal::units;

use super::{Frame, NARROW, open};
use crate::space::Totals;

/// The height of a step on a wide drawing, and on a narrow one.
const HEIGHTS: (f64, f64) = (34.0, 54.0);
/// The height of a bar.
const BAR_HEIGHT: f64 = 16.0;

/// A step: its name, and the sizes before and after it.
type Step = (&'static str, u64, u64);

/// Draws deduplication, delta encoding and compression, and what all of it makes of the files.
pub fn steps(totals: &Totals, frame: Frame) -> String {
    let Totals { logical_bytes, unique_bytes, matched_bytes, compressed_bytes, .. } = *totals;
    let steps: [Step; 4] = [
        ("Each chunk once", logical_bytes, unique_bytes),
        ("Only what differs", unique_bytes, matched_bytes),
        ("Compressed", matched_bytes, compressed_bytes),
        ("In all, with metadata", logical_bytes, totals.stored_bytes),
    ];
    let is_narrow = frame.width < NARROW;
    let row_height = if is_narrow { HEIGHTS.1 } else { HEIGHTS.0 };
    let description = format!(
        "{} of files in all snapshots take {}",
        units::size(logical_bytes),
        units::size(totals.stored_bytes)
    );
    let height = row_height * steps.len() as f64;
    let mut svg = open(frame.width, height, "steps", &description);
    let (left, right) = if is_narrow { (0.0, 0.0) } else { (160.0, 300.0) };
    let width = (frame.width - left - right).max(50.0);
    for (number, (name, before, after)) in steps.into_iter().enumerate() {
        let y = number as f64 * row_height;
        let remains = (after as f64 / before.max(1) as f64).min(1.0);
        let bar_y = if is_narrow { y + 22.0 } else { y + 7.0 };
        let text_y = if is_narrow { y + 15.0 } else { y + 20.0 };
        let is_last = number + 1 == steps.len();
        let class = if is_last { "part whole" } else { "part" };
        write!(
            svg,
            "<g><title>{name}: {} of {} remain</title><text class=\"name\" x=\"0\" \
             y=\"{text_y:.1}\">{name}</text><rect class=\"gone\" x=\"{left}\" y=\"{bar_y:.1}\" \
             width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" rx=\"3\"/><rect class=\"{class}\" \
             x=\"{left}\" y=\"{bar_y:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"3\"/>",
            units::size(after),
            units::size(before),
            (width * remains).max(2.0),
        )
        .ok();
        let sizes = format!("{} \u{2192} {}", units::size(before), units::size(after));
        let saved = saved(before, after);
        let x = frame.width;
        let text = if is_narrow { saved } else { format!("{sizes}, {saved}") };
        writeln!(svg, "<text class=\"size end\" x=\"{x:.1}\" y=\"{text_y:.1}\">{text}</text></g>")
            .ok();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns what a step saves, as text.
fn saved(before: u64, after: u64) -> String {
    match after.checked_sub(before) {
        Some(0) => "saves nothing".to_owned(),
        Some(more) => format!("adds {}", units::size(more)),
        None => {
            format!("saves {}", units::percent(Some(1.0 - after as f64 / before.max(1) as f64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_say_what_they_save() {
        assert_eq!(saved(100, 100), "saves nothing", "nothing");
        assert_eq!(saved(100, 1124), "adds 1.0 KiB", "more");
        assert_eq!(saved(1000, 255), "saves 74.5 %", "less");
        let svg = steps(&Totals::default(), Frame::of_width(400));
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "an empty repository: {svg}"
        );
    }
}
