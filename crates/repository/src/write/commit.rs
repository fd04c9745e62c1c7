//! Objects that can exist only once: commits and prune records (rule W6).

use bytes::Bytes;
use cutpoint_storage::stop;
use cutpoint_storage::wait::{self, Finishing};
use cutpoint_storage::{Error, Kind, Put, Result};

use crate::crypto::seal_object;
use crate::format::commit::{Commit, Outcome, ViewRecord};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::segment::Segment;
use crate::repo::repository::Repository;
use crate::repo::require_len;
use crate::rules;

/// Maximum number of attempts to put an object that can exist only once.
const COMMIT_TRIES: usize = 5;

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitResult {
    /// The commit exists.
    Done,
    /// Another client has ended the ticket before, and nothing was committed. The caller should
    /// begin again; a new writer finds the chunks that were stored.
    Ended,
}

/// The index segments of a writer, for its commit.
#[derive(Debug, Default)]
pub struct OwnSegments {
    /// The segments that were put.
    pub names: Vec<PartName>,
    /// A further segment, for containers that no other one names. It is to lie in the commit.
    pub embedded: Option<Segment>,
}

impl From<Vec<PartName>> for OwnSegments {
    fn from(names: Vec<PartName>) -> OwnSegments {
        OwnSegments { names, embedded: None }
    }
}

/// Returns the commit of a writer that ends without a result. `is_own` is that of [`Outcome::Void`].
pub(super) fn void_commit(
    repository: &Repository,
    is_own: bool,
    segments: Vec<PartName>,
    view: ViewRecord,
) -> Commit {
    Commit {
        outcome: Outcome::Void { is_own },
        segments,
        embedded: None,
        view,
        time_ns: repository.environment().now_ns(),
        extra: Vec::new(),
    }
}

/// Puts `commits/<ticket>` with the given commit.
pub(super) fn put_commit(
    repository: &Repository,
    ticket: TicketId,
    commit: &Commit,
) -> Result<CommitResult> {
    put_first(repository, ObjectName::Commit(ticket), &commit.encode())
}

/// Seals and puts an object that can exist only once. The name decides: the second client finds
/// what the first has put, and gets [`CommitResult::Ended`].
///
/// # Errors
///
/// Returns any error of the storage if the stored content remains unknown.
pub(crate) fn put_first(
    repository: &Repository,
    name: ObjectName,
    body: &[u8],
) -> Result<CommitResult> {
    let _publishing = publishing(repository);
    let path = name.to_string();
    // A retry sends the same bytes, because a newly sealed object would need a new name.
    let bytes = seal_object(repository.keys(), name, repository.salt()?, body);
    require_len(name, bytes.len() as u64)?;
    let mut failure = None;
    for _ in 0..COMMIT_TRIES {
        match put_and_compare(repository, &path, &bytes) {
            Ok(Some(true)) => return Ok(CommitResult::Done),
            Ok(Some(false)) => return Ok(CommitResult::Ended),
            Ok(None) => {}
            // The put may still have succeeded, so it is repeated until the outcome is known.
            Err(error) => {
                if error.kind() == Kind::Full {
                    repository.give_up_reserve();
                }
                failure = Some(error);
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::new(Kind::Storage, name, "the storage neither accepts nor has the object")
    }))
}

/// Gives this thread time to publish what is stored if a stop is requested.
pub(super) fn publishing(repository: &Repository) -> Finishing {
    wait::finishing(&**repository.environment(), stop::PUBLISHING_MAX)
}

/// Puts `bytes` at `path`. Returns `Some(true)` if the object there equals `bytes` afterwards,
/// `Some(false)` if it differs, and `None` if there is no object.
fn put_and_compare(repository: &Repository, path: &str, bytes: &Bytes) -> Result<Option<bool>> {
    if rules::may_replace_commit() {
        repository.storage().delete(path)?;
    }
    let put = repository.storage().put_new(path, bytes.clone());
    if let Ok(put) = put
        && rules::counts_as_committed(put == Put::Created)
    {
        return Ok(Some(true));
    }
    match repository.storage().get(path) {
        // Other clients already see the object, but its sync may be what failed.
        Ok(found) if found == *bytes => repository.storage().sync(path).map(|()| Some(true)),
        Ok(_) => Ok(Some(false)),
        Err(error) if error.kind() == Kind::Missing => put.map(|_| None),
        Err(error) => Err(error),
    }
}
