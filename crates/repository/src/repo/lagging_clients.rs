//! Clients whose listings may lag: how they announce themselves, so that no sweep frees space at
//! once (S1, W9).
//!
//! A sweep that frees space at once relies on writers that it does not see: each of them has to see
//! the record. A client whose storage does not promise that ([`Visibility::Later`]) therefore puts a
//! mark beside the tickets before its first ticket, and waits until its listings show everything
//! that was put before the mark. A sweep that finds the mark in its listing of tickets keeps to the
//! settle delay; one that does not has put its record before the mark, and the client sees the
//! record. Either mark keeps a sweep from hurrying, because later clients rely on the second one,
//! and the first one may be missing: whoever removes both removes one of them first.

use std::time::Duration;

use bytes::Bytes;
use cutpoint_storage::{ObjectKind, Result, Visibility, WaitNotice, WaitReason, wait};

use crate::repo::repository::Repository;
use crate::rules;

/// The maximum time by which a listing may lag behind puts, half of the default settle delay of a
/// folder.
pub const LAG_MAX: Duration = Duration::from_secs(300);

/// The interval at which a client that waits looks whether another one has waited long enough.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// The file of the mark in the folder of tickets. No ticket has such a name. The content is a text
/// for people; only the name counts.
const ANNOUNCED: &str = "lagging";

/// The file of the second mark, which is put when the first one is [`LAG_MAX`] old.
const IN_FORCE: &str = "lagging.1";

/// The files of both marks.
pub(super) const MARKS: [&str; 2] = [ANNOUNCED, IN_FORCE];

/// The content of both marks.
const TEXT: &[u8] = b"Listings of some client of this repository may lag; docs/protocol.md, W9.\n";

fn path(file: &str) -> String {
    format!("{}/{file}", ObjectKind::Ticket.folder())
}

/// Returns `true` for the name of either mark in a listing.
pub(crate) fn is_mark(name: &str) -> bool {
    let file = name.strip_prefix(ObjectKind::Ticket.folder()).and_then(|it| it.strip_prefix('/'));
    file.is_some_and(|file| file == ANNOUNCED || file == IN_FORCE)
}

/// Returns `true` for the name of a mark that keeps a sweep from freeing space at once.
pub(super) fn delays_sweeps(name: &str) -> bool {
    is_mark(name) && (rules::must_heed_second_mark() || *name != path(IN_FORCE))
}

/// Returns `true` if listings of this client may lag behind puts of other clients. A new repository gets
/// both marks then: nothing was condemned before, so nothing has to be waited for.
///
/// # Errors
///
/// Returns any error of [`Storage::visibility`](cutpoint_storage::Storage::visibility).
pub fn may_lag(repository: &Repository) -> Result<bool> {
    let visibility = repository.storage().visibility()?;
    Ok(match visibility {
        Visibility::AtOnce => false,
        Visibility::IfProbed(_) => !repository.config().may_be_shared(visibility),
        Visibility::Later => true,
    })
}

/// W9: announces a client whose listings may lag, unless that was done before, and waits until its
/// listings show what was put before: for `lag`, the maximum by which they may lag ([`LAG_MAX`]).
/// The wait is told ([`Environment::tell_wait`](cutpoint_storage::Environment::tell_wait)).
///
/// Every writer calls this function itself. A program calls it before work that must not wait.
///
/// # Errors
///
/// Returns any error of the storage, and `Interrupted` if a request to stop ends the wait.
pub fn announce(repository: &Repository, lag: Duration) -> Result<()> {
    if !rules::must_announce_lag() || repository.is_lag_announced() || !may_lag(repository)? {
        return Ok(());
    }
    if !is_known(repository)? {
        put(repository, ANNOUNCED)?;
        if rules::must_wait_out_lag() {
            wait_out(repository, lag)?;
        }
        put(repository, IN_FORCE)?;
    }
    repository.set_lag_announced();
    Ok(())
}

/// Returns `true` if a lagging client was announced long enough ago.
fn is_known(repository: &Repository) -> Result<bool> {
    let mark = if rules::must_await_mark() { IN_FORCE } else { ANNOUNCED };
    Ok(repository.storage().head(&path(mark))?.is_some())
}

/// Waits for `lag`, or until another client has waited long enough. The time for which the machine
/// sleeps does not count, because a listing that a client or its system keeps does not age by every
/// clock meanwhile.
fn wait_out(repository: &Repository, lag: Duration) -> Result<()> {
    let environment = &**repository.environment();
    let lag_ns = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX);
    let until_ns = i64::try_from(lag_ns).unwrap_or(i64::MAX).saturating_add(environment.now_ns());
    let clock_ns = || match rules::may_count_sleep() {
        true => environment.elapsed_ns(),
        false => environment.awake_ns(),
    };
    let began_ns = clock_ns();
    let storage = repository.storage();
    let mut text = format!(
        "listings of {} may lag behind those of other clients, which free space at once until then \
         (once for a repository)",
        storage.describe()
    );
    if let Visibility::IfProbed(_) = storage.visibility()? {
        text.push_str("; `cutpoint config --probe` tests whether they do");
    }
    let notice = WaitNotice { reason: WaitReason::LaggingListings, text, until_ns };
    loop {
        let waited_ns = clock_ns().saturating_sub(began_ns);
        if waited_ns >= lag_ns || is_known(repository)? {
            return Ok(());
        }
        environment.tell_wait(&notice);
        let left = Duration::from_nanos(lag_ns - waited_ns);
        if !wait::sleep(environment, left.min(LOOK_EVERY)) {
            return Err(wait::interrupted(path(ANNOUNCED)));
        }
    }
}

pub(super) fn put(repository: &Repository, file: &str) -> Result<()> {
    repository.storage().put_new(&path(file), Bytes::from_static(TEXT)).map(drop)
}
