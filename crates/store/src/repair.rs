//! Repair: making the most of what is left. Nothing here deletes an object; what is given up is
//! named, and given up only where that was asked for.

mod data;
mod index;
mod objects;
mod snapshots;

use crate::error::{Error, Kind, Result};

pub use data::{DataOptions, DataRepair, repair_data};
pub use index::{IndexOptions, IndexRepair, repair_index};
pub use objects::{ObjectsOptions, ObjectsRepair, repair_objects};
pub use snapshots::{
    Fate, Loss, RepairMonitor, SnapshotOptions, SnapshotRepair, SnapshotsRepair, repair_snapshots,
    repaired_as,
};

/// How often others may end the ticket of a repair before it gives up.
const TRIES: usize = 3;

/// Whether an object is not what was put: no error of the medium, which may give it another time, and
/// nothing that a newer version wrote.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::WrongKey)
}

/// Returns `true` if an object that is listed is damaged, or is not there when it is asked for.
fn is_lost(error: &Error) -> bool {
    is_damage(error) || error.kind() == Kind::Missing
}

/// The outcome of an attempt that failed: `None` where another client had ended its ticket, so that it
/// is made anew.
fn anew_if_ended<T>(error: Error) -> Result<Option<T>> {
    if error.kind() == Kind::Conflict { Ok(None) } else { Err(error) }
}

/// Tries until nobody else has ended the ticket: `attempt` returns `None` where somebody has.
fn persist<T>(object: &str, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..TRIES {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    let message = "other clients ended its ticket again and again; try again later";
    Err(Error::new(Kind::Conflict, object, message))
}
