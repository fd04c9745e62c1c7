//! Sweeping: deletes what a prune has condemned, once no writer can refer to it any more.
//!
//! Implements rules S1 to S5 of `docs/protocol.md`. A sweep waits for the writers that may still
//! refer to condemned containers, reads what these writers have committed, stores again what the
//! commits need, and only then deletes. Two sweeps may run at the same time, and an interrupted
//! sweep is repeated.
//!
//! In the order in which the files build on each other:
//!
//! - `options` and `outcome`: what a caller asks for, and what one step returns.
//! - `wait`: S1, the open writers (`Waiting::look`).
//! - `skipped`: the snapshots from which no writer can have taken anything over.
//! - `rescue`: S3 and S4, stores again what late snapshots need (`Rescuer::run`).
//! - `delete`: S5, the deletions (`Deleter::run`).
//! - `sweeper`: runs all of that for the lowest record ([`Sweeper::step`]).

mod delete;
mod options;
mod outcome;
mod rescue;
mod skipped;
mod sweeper;
mod wait;

pub use options::{AtOnce, SweepOptions};
pub use outcome::{LockedObjects, OpenWriter, Sweep, SweepReport};
pub use sweeper::Sweeper;
