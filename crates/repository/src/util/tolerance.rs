//! Failures that concern one object, and failures that end a run.

use cutpoint_storage::{Error, Kind, Result};

/// Maximum number of objects that may fail to be read before the storage itself counts as failed.
const STORAGE_FAILURES_MAX: u32 = 16;

/// Decides whether a failure concerns one object, as a bad sector does, or the whole run, as a lost
/// connection does.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    storage_failures: u32,
}

impl Tolerance {
    /// Returns `error`, a failure to read an object, if it concerns only that object.
    ///
    /// # Errors
    ///
    /// Returns `error` as the failure of the whole run if the caller asked to stop, a storage is
    /// full, this machine computes wrong results, another client's change has ended the run, or the
    /// storage has failed for more than [`STORAGE_FAILURES_MAX`] objects.
    pub(crate) fn of_one(&mut self, error: Error) -> Result<Error> {
        match error.kind() {
            Kind::Interrupted | Kind::Full | Kind::Conflict | Kind::Machine => return Err(error),
            Kind::Storage => self.storage_failures += 1,
            _ => {}
        }
        if self.storage_failures > STORAGE_FAILURES_MAX { Err(error) } else { Ok(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_not_caused_by_one_object_are_not_tolerated() {
        let error = |kind| Error::new(kind, "data/00/x", "as the test has it");
        for kind in [Kind::Interrupted, Kind::Full, Kind::Conflict, Kind::Machine] {
            let returned = Tolerance::default().of_one(error(kind)).expect_err("it ends the run");
            assert_eq!(returned.kind(), kind);
        }
        let mut tolerance = Tolerance::default();
        for _ in 0..100 {
            tolerance.of_one(error(Kind::Corrupt)).expect("one object's");
        }
        for _ in 0..STORAGE_FAILURES_MAX {
            tolerance.of_one(error(Kind::Storage)).expect("a bad sector");
        }
        tolerance.of_one(error(Kind::Storage)).expect_err("the storage has failed");
    }
}
