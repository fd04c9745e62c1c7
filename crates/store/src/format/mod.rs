//! Bytes to values and back; no I/O, no keys. `docs/format.md` says the same in prose.
//!
//! A decoder trusts nothing: every length is checked against what is there before anything is
//! allocated, and every error says what was found.

pub mod map;
pub mod recipe;
pub mod tree;
