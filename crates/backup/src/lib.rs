//! From a folder to a snapshot and back: walking, the pipeline, restoring.
#![forbid(unsafe_code)]

pub mod backup;
pub mod files;
pub mod restore;
mod snapshots;
