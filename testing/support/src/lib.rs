//! Generators and models that the tests of all crates share.
//!
//! Everything is a function of a seed, so that failures are reproducible.

mod artificial;
mod clock;
pub mod digest;
pub mod http;
pub mod input;
mod s3_server;
mod s3_signature;
mod skipped;
mod splitmix;
pub mod stream;
pub mod tree;

pub use artificial::Artificial;
pub use clock::thread_cpu_time;
pub use s3_server::{Bucket, S3Server};
pub use skipped::skipped;
pub use splitmix::SplitMix64;
