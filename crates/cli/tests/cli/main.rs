//! Runs the program as a process: what it prints, what it leaves, how it ends.

mod algorithms;
mod bench;
mod cut;
mod damage;
mod failures;
mod json;
mod repair;
mod round_trip;
mod sandbox;
mod schema;
mod secrets;
