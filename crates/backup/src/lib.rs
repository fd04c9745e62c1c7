//! Saves files and streams as snapshots in a repository, and restores them.
//!
//! * [`files`] walks the sources and reads them.
//! * [`backup`] stores what is new and commits a snapshot.
//! * [`restore`] writes the tree of a snapshot into a folder.
#![forbid(unsafe_code)]

pub mod backup;
pub mod files;
pub mod restore;
mod snapshots;
