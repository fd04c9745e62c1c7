//! Runs the program as a process: what it prints, what it leaves, how it ends.

mod algorithms;
mod bench;
mod cut;
mod damage;
mod failures;
mod forget;
mod json;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod old_versions;
mod optimize;
mod prune;
mod repair;
mod rollback;
mod round_trip;
mod s3;
mod sandbox;
mod schema;
mod secrets;
mod together;
