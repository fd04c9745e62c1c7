//! The parts that all storages behind a connection share.

mod patience;

pub(crate) use patience::{Passing, Patience};
