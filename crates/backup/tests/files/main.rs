//! The file system as a source and as a target, against a store in memory.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod deep;
mod hostile;
mod overwrite;
mod round_trip;
mod store;
mod walking;
