//! Small data structures that every room may use.

pub(crate) mod cache;
pub(crate) mod extsort;
pub(crate) mod tolerance;
