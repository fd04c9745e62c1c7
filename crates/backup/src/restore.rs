//! From a snapshot to files.
