//! Parity: objects beside the containers, from which a partly damaged container can be rebuilt. The
//! reasons for the design are in `docs/decisions/0009-parity.md`.
//!
//! Nothing depends on parity, and nothing trusts it: a rebuilt container is like any other, and its
//! own seals and fingerprints decide. Parity objects may therefore be absent, damaged or left over
//! at any time.
//!
//! In the order in which the files build on each other:
//!
//! - `code`: the erasure code, from bytes to shards and back.
//! - `object`: the sealed object that holds the shards of a container ([`Parity`]).
//! - `listing`: the parity objects that exist ([`list`]).
//! - `rebuild`: rebuilds a container ([`rebuild_container`]).

mod code;
mod listing;
mod object;
mod rebuild;

pub(crate) use code::encode_again;
pub(crate) use listing::{ParityListing, list, sorted};
pub(crate) use object::{Parity, protect, read_table};
pub(crate) use rebuild::rebuild_container;
