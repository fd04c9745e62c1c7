//! Reads files once for several ways to cut them: the part that [`estimate()`](crate::estimate())
//! has in common with programs that do something else with the chunks.
//!
//! ```text
//! source thread                 workers, a lane at a time            workers
//! walk, read -> Block (1 MiB) -> Cutter -> fingerprints -> Sink  ->  Job (compressing)
//! ```
//!
//! A *lane* is one way to cut: a [`Cutter`] and the [`Sink`] for its chunks. Every lane processes
//! every block in order, on any thread that is free. The result of a lane therefore does not depend
//! on the number of threads.

mod block;
mod cutter;
mod engine;
mod job;
mod shard;
mod source;

pub use crate::files::{FileExtent, SourceFile, WalkOptions};
pub use cutter::{Chunk, Cutter, Sink};
pub use engine::{Lane, run};
pub use job::{Job, Tools};
pub use shard::Shard;
pub use source::{Monitor, Progress, ScanCounts, ScanOptions, expected_of, open_files};
