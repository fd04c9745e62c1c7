//! Small data structures that every room may use.

pub(crate) mod at_once;
pub(crate) mod cache;
pub(crate) mod display;
pub(crate) mod extsort;
pub(crate) mod memory_limit;
pub(crate) mod private_file;
pub(crate) mod record_sort;
mod sorted_run;
pub(crate) mod threads;
pub(crate) mod tolerance;
