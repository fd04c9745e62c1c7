//! The chunks that this writer has stored last, to which later chunks of the same run refer (C1, C3).
//!
//! They cannot be read back from the storage, because the time at which that is possible depends on
//! timing, and the stored bytes must not. So the writer keeps its last regions in memory as they
//! were encoded ([`RecentRegions`]), finds chunks in them ([`RecentChunks`]), and knows the order in
//! which all chunks of the run came ([`RecentStream`]): an old stream for files that resemble an
//! earlier one of the same run.

mod budget;
mod chunks;
mod regions;
mod stream;

pub(super) use chunks::{Extents, RecentChunks};
pub use regions::RecentRegions;
pub(super) use stream::RecentStream;
