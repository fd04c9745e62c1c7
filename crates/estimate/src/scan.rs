//! Reading files once for several ways to cut them, the common part of estimate, trace and tune.
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
mod source;

pub(crate) use cutter::{Chunk, Cutter, Sink};
pub(crate) use engine::{Lane, run};
pub(crate) use job::{Job, Tools};
pub use source::{Monitor, Progress, ScanCounts, ScanOptions};
pub(crate) use source::{Until, expected_of};
