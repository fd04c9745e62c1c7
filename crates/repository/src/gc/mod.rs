//! Garbage collection.

pub(crate) mod locate;
mod marking;
mod monitor;
mod preconditions;
pub mod prune;
pub mod sweep;
