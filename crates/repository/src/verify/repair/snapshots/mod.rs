//! Repair of snapshots: writes copies of damaged snapshots without the lost data.
//!
//! A snapshot that has lost data gets a second one beside it, with everything that is left and
//! nothing that was not saved. A file that has lost a part has another name there, so that it
//! cannot be mistaken for a complete one; holes stand for the lost parts. The old snapshot stays.
//!
//! - `run.rs` finds the damaged snapshots, has each one rewritten, and forgets the old ones.
//!   `report.rs` has its options and results, and `copies.rs` recognizes repaired copies.
//! - `rewriter.rs` traverses a snapshot, folder by folder (`folder.rs`), and `files.rs` keeps what
//!   is left of a file.
//! - `chunks.rs`, `streams.rs` and `pieces.rs` tell which parts of a stream are missing.
//! - `losses.rs` counts and reports the losses.

mod chunks;
mod copies;
mod files;
mod folder;
mod losses;
mod pieces;
mod report;
mod rewriter;
mod run;
mod streams;

pub use copies::repaired_as;
pub use report::{
    PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotRepair, SnapshotsRepair,
};
pub use run::repair_snapshots;
