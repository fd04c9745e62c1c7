//! Reading: from a fingerprint to bytes, and from a snapshot to its trees and recipes.
//!
//! A range of bytes of a file travels through these files, from the storage to the caller:
//!
//! 1. `plan.rs`: a caller that knows ahead what it will read announces it to a [`ReadPlan`].
//! 2. `regions/`: the regions that are wanted, fetched, or decoded and kept.
//! 3. `region.rs`: a region is read from its container, opened and decoded.
//! 4. `chunk_bytes.rs`, `assemble.rs`: the bytes of a full chunk lie in its region, and those of a
//!    delta chunk are assembled from full chunks.
//! 5. `reader.rs`: the [`Reader`] finds the locations of a chunk, tries them, and verifies the
//!    bytes.
//! 6. `streams.rs`: recipes and trees give the chunks of a file and the entries of a folder, in
//!    order. `trees_ahead.rs` reads the trees of a walk ahead.
//!
//! `burst.rs` classifies stored delta chunks.

mod assemble;
mod burst;
mod chunk_bytes;
mod plan;
mod reader;
mod region;
mod regions;
mod streams;
mod trees_ahead;

pub(crate) use assemble::{gather, no_full_chunk};
pub use burst::StoredBurst;
pub use chunk_bytes::ChunkBytes;
pub use plan::{ReadPlan, ReadStep};
pub use reader::Reader;
pub use regions::ReadStatistics;
pub use streams::{Entries, Segments};
pub use trees_ahead::{TreesAhead, TreesAheadEnd};
