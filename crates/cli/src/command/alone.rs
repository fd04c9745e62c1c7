//! Numbered records on storage that does not create objects atomically, where of two clients that put
//! the same number at once both believe that theirs is stored.

use anyhow::Result;

use super::prune::is_alone;
use crate::args::Alone;
use crate::escape;
use crate::exit::Failure;
use crate::session::Session;

/// Requires storage that creates objects atomically, or, with `--exclusive`, that no other client is
/// active. The storage is not probed: what `init` or `config --probe` has found counts, and what the
/// storage says of itself.
///
/// # Errors
///
/// Fails with exit code 2 if the storage does not, or if the answer is no, and with exit code 15 if
/// other clients may be active.
pub(super) fn require_alone(args: Alone, session: &Session) -> Result<()> {
    let storage = session.repository.storage();
    let place = escape::for_terminal(storage.describe().as_bytes());
    if !args.exclusive {
        if session.repository.creates_atomically()? {
            return Ok(());
        }
        let message = format!(
            "{place}: this storage does not create objects atomically, so that this change or one \
             of another client could be lost"
        );
        return Err(Failure::failed(message)
            .with_remedy("--exclusive makes it anyway, if no other client is active")
            .into());
    }
    let question = format!("{place}: is this the only client until the command is done?");
    if is_alone(session, args.yes, &question)? {
        return Ok(());
    }
    Err(Failure::failed("--exclusive: not confirmed; nothing was done").into())
}
