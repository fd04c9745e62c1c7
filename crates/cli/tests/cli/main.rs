//! Runs the program as a process, and checks its output, its effects and its exit codes.

mod alarms;
mod bursts;
mod cut;
mod damage;
mod dump;
mod estimate;
mod failures;
mod forget;
mod guide;
mod help;
mod json;
mod keys;
mod modes;
mod optimize;
mod prune;
mod random_damage;
mod repair;
mod rollback;
mod round_trip;
mod s3;
mod sandbox;
mod schema;
mod secrets;
mod signals;
mod untrusted;
mod usage;
