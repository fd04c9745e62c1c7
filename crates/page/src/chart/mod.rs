//! Drawings of what takes the space, as SVG without script. The page that holds them has their style
//! ([`STYLE`]), so that they follow its colours in light and dark.
//!
//! Names are escaped twice: characters that hide or reorder text, and those of markup.

mod growth;
mod steps;
mod treemap;

pub use growth::growth;
pub use steps::steps;
pub use treemap::treemap;

use cutpoint_terminal::page::escaped;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The style of the drawings. Colours are variables of the page.
pub const STYLE: &str = include_str!("../assets/chart.css");

/// The width at which labels become shorter.
const NARROW: f64 = 600.0;
/// The width of a character of a label, in pixels.
const CHARACTER_WIDTH: f64 = 6.6;

/// The bytes of a name that are escaped in an address.
const IN_ADDRESS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Escapes a name of any bytes for an address.
pub(crate) fn encoded(name: &[u8]) -> String {
    percent_encode(name, IN_ADDRESS).to_string()
}

/// The size of a drawing, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// The width.
    pub width: f64,
    /// The height of a map.
    pub height: f64,
}

impl Frame {
    /// Returns a frame of this width.
    pub fn of_width(width: usize) -> Frame {
        let width = f64::from(u32::try_from(width).unwrap_or(u32::MAX));
        let height = if width < NARROW { width * 1.1 } else { (width * 0.5).clamp(320.0, 560.0) };
        Frame { width, height: height.round() }
    }
}

/// Returns a text, cut off so that it fits into a width, as text for markup; `None` if nothing of it fits.
fn fitted(text: &str, width: f64) -> Option<String> {
    let fitting = (width / CHARACTER_WIDTH).floor();
    let count = text.chars().count();
    if count as f64 <= fitting {
        return Some(escaped(text));
    }
    // Three characters and the ellipsis tell something.
    if fitting < 4.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "4 or more")]
    let kept: String = text.chars().take(fitting as usize - 1).collect();
    Some(format!("{}\u{2026}", escaped(&kept)))
}

/// Begins a drawing.
fn open(width: f64, height: f64, class: &str, description: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {class}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(description)
    )
}
