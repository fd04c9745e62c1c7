//! The parts that all storages behind a connection share.

mod batch;
#[cfg(any(feature = "rest", feature = "s3"))]
pub(crate) mod network;
mod patience;

pub(crate) use batch::settle;
pub(crate) use patience::{Passing, Patience};
