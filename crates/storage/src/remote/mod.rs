//! The parts that all storages behind a connection share.

mod batch;
mod patience;

pub(crate) use batch::settle;
pub(crate) use patience::{Passing, Patience};
