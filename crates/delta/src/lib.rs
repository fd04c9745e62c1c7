//! Delta encoding: a new chunk as copies of old bytes and literals.
//!
//! A [`Window`] holds a stretch of an old stream. [`Window::find`] splits a new chunk into
//! [`Piece`]s: copies from the window, and literals between the copies. The burst of BURST (paper
//! 5, section III-A) is the special case of two copies, the prefix and the suffix of one old chunk,
//! and a literal between them. As the new stream advances, the window moves along the old one. The
//! bytes that stay in the window keep their index entries, so that no old byte is indexed twice.
//! Where much was inserted or removed, a [`Resync`] finds the position in the old stream at which
//! to continue. Where many records are almost equal, an [`Aligner`] finds those that are equal.
//!
//! [`super_features`] detect chunks that resemble each other, wherever the chunks are. [`burst`] is
//! the rule of the paper itself.
//!
//! ```
//! use cutpoint_delta::{Piece, Window, position_behind};
//!
//! let old = b"the quick brown fox jumps over the lazy dog, and then goes home";
//! let new = b"the quick brown fox jumps over one lazy cat, and then goes home";
//! let mut window = Window::new(0);
//! window.push(old);
//! let mut pieces = Vec::new();
//! window.find(new, 0, &mut pieces);
//!
//! // The new bytes again, from the old ones and the literals.
//! let mut rebuilt = Vec::new();
//! for piece in pieces {
//!     rebuilt.extend_from_slice(match piece {
//!         Piece::Copy { position, len } => &old[position as usize..][..len],
//!         Piece::Literal { len } => &new[rebuilt.len()..][..len],
//!     });
//! }
//! assert_eq!(rebuilt, new);
//! ```

#![forbid(unsafe_code)]

mod aligner;
mod anchors;
pub mod burst;
mod common;
mod features;
mod piece;
mod resync;
mod window;

pub use aligner::Aligner;
pub use common::{common_edges, common_prefix, common_suffix};
pub use features::{SUPER_FEATURE_COUNT, super_features};
pub use piece::{Piece, position_behind};
pub use resync::Resync;
pub use window::{COPY_LEN_MIN, Window};
