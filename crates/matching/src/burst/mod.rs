//! BURST's rule (paper 5, section III): which old chunk a new one is compared with.
//!
//! [`Options`] say what the head and the tail of a chunk are; [`Views`] are HeadDT and TailDT, with the
//! counters that `c_max` bounds. Neither knows where chunks are, nor how they are named. What DT and BT
//! are is up to the caller.

mod options;
mod views;

pub use options::{Options, ParseError, Side, SubChunks, Tau};
pub use views::{ViewStatistics, Views};
