//! Generators and models that the tests of all crates share.
//!
//! Everything is a function of a seed, so that failures are reproducible.

mod artificial;
#[cfg(feature = "browser")]
mod browser;
mod clock;
mod cloud_servers;
pub mod digest;
pub mod http;
pub mod input;
mod pages;
mod rclone;
mod s3_server;
mod s3_signature;
mod services;
mod skipped;
mod splitmix;
mod ssh_server;
pub mod stream;
pub mod tree;

pub use artificial::Artificial;
#[cfg(feature = "browser")]
pub use browser::{Browser, chromium};
pub use clock::thread_cpu_time;
pub use cloud_servers::CloudServer;
pub use pages::markdown_below;
pub use rclone::{RcloneServer, rclone_command};
pub use s3_server::{Bucket, S3Server};
pub use services::{free_port, program, services};
pub use skipped::skipped;
pub use splitmix::SplitMix64;
pub use ssh_server::SshServer;
