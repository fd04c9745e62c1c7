//! The rule of BURST (paper 5, section III) that selects the old chunk with which a new chunk is
//! compared.
//!
//! [`Options`] define the head and the tail of a chunk. [`Views`] are HeadDT and TailDT, with the
//! counters that `c_max` bounds. Neither type depends on the location or the naming of chunks. DT
//! and BT are the caller's.

mod options;
mod views;

pub use options::{Options, ParseError, Side, SubChunks, Tau};
pub use views::{ViewStatistics, Views};
