//! Runs the program as a process, and checks its output, its effects and its exit codes.

mod algorithms;
mod bench;
mod help;
mod run;
mod sandbox;
mod schema;
mod trace;
mod tune;
