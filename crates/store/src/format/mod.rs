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
pub mod segment;
pub mod ticket;
pub mod tree;
