//! Imperfect matching: a chunk that is new, as pieces of bytes that are old.
//!
//! A [`Window`] holds a stretch of an old stream. [`Window::find`] takes a new chunk apart into
//! [`Piece`]s: copies out of the window, and literals between them. BURST's burst (paper 5, section
//! III-A) is the special case of two copies, prefix and suffix of one old chunk, and a literal between
//! them. As the new stream goes on, the window moves along the old one; what it holds and has indexed
//! stays, so that no old byte is looked at twice. Where much was inserted or removed, a [`Scout`] says how
//! far to go.
//! [`super_features`] tell which chunks resemble each other, wherever they are. [`burst`] is the paper's own
//! rule, for who wants just that.
//!
//! ```
//! use cutpoint_matching::{Piece, Window};
//!
//! let old = b"the quick brown fox jumps over the lazy dog, and then goes home";
//! let new = b"the quick brown fox jumps over one lazy cat, and then goes home";
//! let mut window = Window::new(1000);
//! window.push(old);
//! let mut pieces = Vec::new();
//! window.find(new, 1000, &mut pieces);
//! assert_eq!(pieces[0], Piece::Copy { position: 1000, len: 31 });
//! ```

#![forbid(unsafe_code)]

pub mod burst;
mod common;
mod features;
mod scout;
mod window;

pub use common::{common_ends, common_prefix, common_suffix};
pub use features::{SUPER_FEATURE_COUNT, super_features};
pub use scout::Scout;
pub use window::{COPY_LEN_MIN, Piece, Window};
