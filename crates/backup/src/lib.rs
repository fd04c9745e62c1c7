//! Saves files and streams as snapshots in a repository, and restores them.
//!
//! * [`source`] walks the sources and reads them.
//! * [`save`] stores what is new and commits a snapshot.
//! * [`restore`] writes the tree of a snapshot into a folder.
#![forbid(unsafe_code)]

pub mod restore;
pub mod save;
pub mod source;
