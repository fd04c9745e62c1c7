//! Repairs, which save as much as possible of the remaining data. No repair deletes an object
//! unless asked to; data that is given up is named, and given up only on request.
//!
//! - `objects.rs`: restores objects from their second copies, or from what is left of them.
//! - `data.rs`: rebuilds containers from parity.
//! - `index.rs`: rebuilds the index from the containers.
//! - `snapshots/`: writes what is left of snapshots that have lost data.

mod attempts;
mod data;
mod index;
mod objects;
mod snapshots;

pub use data::{DataOptions, DataRepair, repair_data};
pub use index::{IndexOptions, IndexRepair, repair_index};
pub use objects::{ObjectsOptions, ObjectsRepair, repair_objects};
pub use snapshots::{
    PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotRepair, SnapshotsRepair,
    repair_snapshots, repaired_as,
};
