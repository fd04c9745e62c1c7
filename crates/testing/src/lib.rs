//! Generators and models that the tests of all crates share.
//!
//! Everything is a function of a seed, so a test that fails once fails always.

pub mod digest;
pub mod input;
mod splitmix;
pub mod stream;

pub use splitmix::SplitMix64;
