//! Attempts of a repair, whose ticket other clients may end, and the errors that are damage.

use cutpoint_storage::{Error, Kind, Result};

/// Maximum number of attempts of a repair whose ticket is ended by other clients.
const TRIES: usize = 3;

/// Returns `true` if the object is damaged. An error of the storage does not count, because the
/// object may be readable another time, nor does an object of a newer version.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::WrongKey)
}

/// Returns `true` if a listed object is damaged, or is missing when it is read.
pub(super) fn is_missing_or_damaged(error: &Error) -> bool {
    is_damage(error) || error.kind() == Kind::Missing
}

/// Converts the error of a failed attempt: `None` if another client has ended its ticket, so that
/// the attempt is repeated.
pub(super) fn restart_if_ended<T>(error: Error) -> Result<Option<T>> {
    if error.kind() == Kind::Conflict { Ok(None) } else { Err(error) }
}

/// Repeats `attempt` until it returns a result; `None` means that another client has ended its
/// ticket.
pub(super) fn persist<T>(
    object: &str,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    for _ in 0..TRIES {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    let message = "the ticket was repeatedly ended by other clients; try again later";
    Err(Error::new(Kind::Conflict, object, message))
}
