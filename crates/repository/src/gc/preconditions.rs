//! Conditions without which nothing is condemned or deleted: the index is complete (P1), and every
//! live chunk was found (P3, S4).

use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::locate::Placement;
use crate::index::Index;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::memory_limit::MemoryUse;

/// Opens the index of everything that `view` names.
///
/// # Errors
///
/// Returns `Corrupt` if a segment cannot be read, `Conflict` if one is gone, and `Invalid` if the
/// memory limit does not suffice for a prune.
pub(crate) fn open_index(repository: &Arc<Repository>, view: &View) -> Result<Index> {
    let index = Index::open(repository.clone(), view)?;
    let statistics = index.statistics();
    let memory = MemoryUse::prune(repository.part_sizes(0), statistics.container_count);
    repository.memory().thread_count(1, &memory, statistics.memory_bytes)?;
    require_readable(&index).map(|()| index)
}

/// Checks that every segment that counts could be read. This includes segments that were reread
/// because their cached copies were damaged.
///
/// # Errors
///
/// Returns `Corrupt` if a segment cannot be read, and `Conflict` if one is gone.
pub(crate) fn require_readable(index: &Index) -> Result<()> {
    match index.unreadable().into_iter().next() {
        None => Ok(()),
        Some((name, error)) if error.kind() == Kind::Missing => {
            // A sweep may have deleted it since the view was listed. If not, the error returns at
            // the next attempt.
            Err(Error::new(
                Kind::Conflict,
                name,
                "not found; unless a sweep has just deleted it, `cutpoint repair index` rebuilds \
                 the index",
            ))
        }
        Some((name, error)) => Err(Error::corrupt(
            name,
            format!(
                "cannot be read, so the stored containers are not known, and nothing is deleted; \
                 `cutpoint repair index` rebuilds the index ({error})"
            ),
        )),
    }
}

/// P3: checks that every live chunk exists before anything is condemned.
///
/// # Errors
///
/// Returns `Missing`, naming the first chunk that is not stored anywhere.
pub(crate) fn require_nothing_missing(placement: &Placement) -> Result<()> {
    match placement.missing.first() {
        None => Ok(()),
        Some((class, fingerprint)) => Err(Error::missing(
            format!("{class} chunk {fingerprint}"),
            format!(
                "needed by a snapshot, but in no container ({} such chunks); nothing is deleted; \
                 `cutpoint check` names the affected files, `cutpoint repair index` finds chunks \
                 that only the index has lost, `cutpoint repair snapshots` omits the rest",
                placement.missing_count
            ),
        )),
    }
}
