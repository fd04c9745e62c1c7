//! The file system, as a source and as a target.
