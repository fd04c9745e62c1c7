//! Bytes to values and back; no I/O, no keys. `docs/format.md` says the same in prose.
//!
//! A decoder trusts nothing: every length is checked against what is there before anything is
//! allocated, and every error says what was found.

pub mod commit;
pub mod config;
pub mod directory;
pub mod map;
mod packed;
pub mod prune;
pub mod recipe;
pub mod segment;
pub mod ticket;
pub mod tree;
