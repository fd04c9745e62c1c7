//! Garbage collection: finding the chunks that no snapshot needs, and deleting them.

pub(crate) mod locate;
pub mod prune;
pub mod sweep;
