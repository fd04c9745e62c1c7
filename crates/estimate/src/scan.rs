//! Reading files once, for several ways to cut them: what the verbs of this crate have in common.
//!
//! ```text
//! source thread                 workers, a lane at a time            workers
//! walk, read -> Block (1 MiB) -> Cutter -> fingerprints -> Sink  ->  Job (compressing)
//! ```
//!
//! A *lane* is one way to cut: a [`Cutter`] and the [`Sink`] behind it. Every lane takes every block,
//! in order, on whatever thread is free; so what a lane finds does not depend on threads.

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
