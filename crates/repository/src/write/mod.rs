//! Writing. A writer is a transaction; `docs/protocol.md` has the rules W1 to W8 and their reasons.
//!
//! Decisions are separate from computations, so that the stored bytes do not depend on threads. A
//! chunk takes this path:
//!
//! 1. [`Deduplicator`] (ordered) decides if the chunk is known (`known.rs`). A new chunk is
//!    compared with old ones by a [`DeltaStrategy`]: the previous version of the file or an earlier
//!    file of the run (`previous/`, `recent/`), or BURST (`burst/`). As a full chunk or as a delta chunk, it fills a region
//!    (`open_regions.rs`, `region_builder.rs`).
//! 2. [`RegionCodec`] (any thread) compresses the region (`region.rs`).
//! 3. [`ContainerWriter`] (ordered) seals the region into a container (`open_container.rs`), and
//!    names the container in an index segment (`segment_writer.rs`).
//! 4. [`Uploads`] (ordered) writes the parts of the objects to the storage, and [`Writer::put`]
//!    waits for each object.
//! 5. [`Writer::commit`] puts the commit (`commit.rs`), or [`prune_log`] a numbered record.
//!
//! [`Inline`] does all of this in the calling thread.

mod burst;
mod commit;
mod container;
mod cost;
mod dead_writers;
mod dedup;
mod delta;
mod inline;
mod known;
mod open_container;
mod open_regions;
mod part;
mod previous;
pub mod prune_log;
mod put_window;
mod recent;
mod recipe;
mod reencode;
mod references;
mod region;
mod region_builder;
mod segment_writer;
mod similarity;
mod similarity_writer;
mod strategies;
mod strategy;
mod ticket;
mod tree;
mod uploads;
mod width;
mod writer;

pub use burst::{BurstStatistics, Bursts};
pub use commit::{CommitResult, OwnSegments};
pub use container::{ContainerStatistics, ContainerWriter};
pub use cost::Limit;
pub(crate) use dead_writers::end_dead_among;
pub use dead_writers::end_writer;
pub use dedup::{ChunkSink, Deduplicator, DeltaStatistics};
pub use delta::Delta;
pub use inline::Inline;
pub use part::{CompletedObject, PublishedSegment, SealedPart};
pub use previous::{DeltaEncoder, RegionsAhead};
pub use put_window::PutWindow;
pub use recent::RecentRegions;
pub use recipe::{RecipeWriter, TREE_CUT};
pub(crate) use region::RawChunk;
pub use region::{EncodedRegion, PROBE_LEN, Probe, RawRegion, RegionBuffers, RegionCodec, Verify};
pub use strategies::delta_strategy;
pub use strategy::{DeltaStrategy, StoreDelta, StrategyRecord};
pub use tree::TreeWriter;
pub use uploads::{Upload, Uploads, WriteOutcome};
pub use writer::Writer;
