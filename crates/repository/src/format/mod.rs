//! Encoding and decoding of all values, without I/O and keys. `docs/format.md` describes the same
//! format in prose.
//!
//! Decoders trust nothing: no length makes a decoder allocate more than the available bytes could
//! hold, and every error describes what was found.
//!
//! - Encodings: `map.rs` (metadata), `packed.rs` (numbers of fixed or variable length).
//! - Names and values: `names.rs`, `fingerprint.rs`, `repository_id.rs`, `suite.rs`, `newer.rs`.
//! - Objects of one part: `config.rs`, `ticket.rs`, `commit.rs`, `prune.rs`, `segment.rs`,
//!   `edges.rs` with `bursts.rs`, `parity.rs`, `view_part.rs`.
//! - Containers: `toc.rs` with `grouping.rs`, `region.rs`, and `extents.rs` for delta chunks.
//! - Chunks of metadata: `recipe.rs`, `tree.rs` with `encoded_entry.rs`.

pub mod bursts;
pub mod commit;
pub mod config;
pub mod edges;
pub mod encoded_entry;
pub mod extents;
pub mod fingerprint;
pub mod grouping;
pub mod map;
pub mod names;
pub mod newer;
pub mod origin;
mod packed;
pub mod parity;
pub mod prune;
pub mod recipe;
pub(crate) mod region;
pub mod repository_id;
pub mod segment;
pub mod suite;
pub mod ticket;
pub mod toc;
pub mod tree;
pub mod view_part;

/// The length of the header of every object, in bytes.
pub const HEADER_LEN: usize = 64;
