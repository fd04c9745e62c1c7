//! Bytes to values and back; no I/O, no keys. `docs/format.md` says the same in prose.
//!
//! A decoder trusts nothing: no length makes it allocate more than the bytes at hand could hold, and
//! every error says what was found.

pub mod bursts;
pub mod commit;
pub mod config;
pub mod directory;
pub mod ends;
pub mod extents;
pub mod grouping;
pub mod map;
mod packed;
pub mod parity;
pub mod prune;
pub mod recipe;
pub(crate) mod region;
pub mod repository_id;
pub mod segment;
pub mod suite;
pub mod ticket;
pub mod tree;

/// The length of the header of every object, in bytes.
pub const HEADER_LEN: usize = 64;
