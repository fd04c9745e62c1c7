//! Concurrent writers, readers, prunes and sweeps, one storage call at a time, in an order that a
//! seed chooses. After every call nothing may be lost (`docs/protocol.md`).
//!
//! `CUTPOINT_SEEDS=100000` runs that many seeds, `CUTPOINT_SEED=7` runs and shows one. All actors
//! run the code of the repository, and their actions are random.

mod actor;
mod at_once;
mod play;
mod random;
mod readers;
mod removers;
mod scripted;
mod world;
mod writers;
