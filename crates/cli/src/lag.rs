//! The failures of commands that wait for a lagging listing
//! ([`cutpoint_repository::repo::lagging`]).

use cutpoint_repository::repo::lagging::{LagError, Pauses};
use cutpoint_storage::Storage;

use crate::exit::{Exit, Failure};
use crate::interrupt;

/// Creates the pauses of a command that begins.
pub(crate) fn pauses() -> Pauses {
    Pauses::new(interrupt::environment())
}

/// Returns the error of a command that has waited for a listing of `storage`: with exit code 2 if
/// the pauses are used up, and with exit code 130 if a request to stop ended a pause.
pub(crate) fn failure(error: LagError, storage: &dyn Storage) -> anyhow::Error {
    match error {
        LagError::Other(error) => error.into(),
        LagError::Interrupted => {
            Failure::new(Exit::Interrupted, cutpoint_terminal::report::INTERRUPTED).into()
        }
        LagError::Unlisted { name, waited } => {
            let message = format!(
                "{}: {name} exists, but listings do not show it (expected within {} s)",
                storage.describe(),
                waited.as_secs()
            );
            Failure::new(Exit::Failed, message)
                .with_remedy(
                    "run the same command again later, because listings of this storage lag \
                     behind; `cutpoint doctor` tests the storage",
                )
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cutpoint_repository::ObjectName;
    use cutpoint_storage::{Error, Kind, Memory};

    use super::*;

    #[test]
    fn end_of_waiting_has_its_exit_code() {
        let storage = Memory::new();
        let name = ObjectName::Config { number: 0, copy: false };
        let waited = Duration::from_secs(8);
        let unlisted = failure(LagError::Unlisted { name, waited }, &storage);
        assert_eq!(Exit::of(&unlisted), Exit::Failed, "{unlisted:#}");
        assert!(unlisted.to_string().contains("config/"), "{unlisted:#}");
        let interrupted = failure(LagError::Interrupted, &storage);
        assert_eq!(Exit::of(&interrupted), Exit::Interrupted, "{interrupted:#}");
        let other = Error::new(Kind::Full, "x", "no space left");
        let other = failure(other.into(), &storage);
        assert_eq!(Exit::of(&other), Exit::Full, "{other:#}");
    }
}
