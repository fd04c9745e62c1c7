//! Completeness: the objects that a view lacks, and the errors of operations that need them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::View;
use super::checkpoint::{CheckpointReader, Wanted};
use crate::format::names::{ObjectName, TicketId};
use crate::format::newer::NewerClaim;
use crate::repo::repository::Repository;
use crate::rules;

impl View {
    /// Requires that no object claims a key epoch above that of the settings. Otherwise a writer
    /// that begins, and was shown outdated settings and keys, would seal with a secret that was
    /// given up. A writer that is running when an epoch begins goes on with its own.
    ///
    /// # Errors
    ///
    /// Returns a `WrongKey` error ([`NewerClaim::is_epoch_of`]) that names the first such object.
    pub fn require_epoch(&self) -> Result<()> {
        if rules::may_write_below_epoch() {
            return Ok(());
        }
        let newer = |error: &Error| match NewerClaim::of(error) {
            Some(newer @ NewerClaim::Epoch(_)) => Some(newer),
            _ => None,
        };
        let found = self.unresolved().filter_map(|(name, error)| Some((name, newer(error)?)));
        let found: Vec<(&ObjectName, NewerClaim)> = found.collect();
        let Some((name, newer)) = found.first().filter(|_| !self.ignores_newer) else {
            return Ok(());
        };
        let others = match found.len() {
            1 => String::new(),
            count => format!(" (as do {} others)", count - 1),
        };
        Err(Error::new(
            Kind::WrongKey,
            name,
            format!(
                "claims to be sealed with a key of epoch {}{others}, but settings and keys are of \
                 epoch {}: nothing is written with a key that may be revoked. Either older \
                 settings and keys were put back, or the object was planted (--ignore-newer skips \
                 it)",
                match newer {
                    NewerClaim::Epoch(epoch) => epoch.to_string(),
                    other => other.to_string(),
                },
                self.epoch
            ),
        )
        .with_source(*newer))
    }

    /// Requires that every prune record exists and could be read. A writer that does not know which
    /// containers are condemned would refer to data that is about to be deleted.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first record that is absent (`Missing`) or could not be read
    /// (`Corrupt`, or `Storage` if the storage failed).
    pub fn require_prunes(&self) -> Result<()> {
        if let Some(number) = self.missing_prunes().first() {
            return Err(Error::missing(
                ObjectName::Prune(*number),
                "not found, and nothing can be written safely without it; existing snapshots can \
                 be restored; `cutpoint check` names the remedy",
            ));
        }
        let prune = self.unresolved().find(|(name, _)| name.kind() == ObjectKind::Prune);
        match prune {
            None => Ok(()),
            Some((name, error)) => Err(hindered(
                name,
                error,
                "nothing can be written safely without it; existing snapshots can be restored",
            )),
        }
    }

    /// Returns this view, or a newer one if objects seem to be missing, because they may have been
    /// put while this one was listed. In the returned view nothing is unreadable, and no commit is
    /// gone that a writer has seen, except those that a prune has taken or a repair has given up.
    /// Only by such a view may anything be deleted, or forgotten by rules: an unknown commit may be
    /// a snapshot, or may have forgotten a snapshot that a rule would keep in place of another.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first such object (`Corrupt`, `Storage` if the storage
    /// failed, or `Missing`), or any error of [`View::list`].
    pub fn complete(self, repository: &Repository) -> Result<View> {
        if self.require_all().is_ok() {
            return Ok(self);
        }
        let view = self.list_again(repository)?;
        view.require_all().map(|()| view)
    }

    /// Returns the part of [`View::unreadable`] that still counts. Commits that a prune has taken
    /// or a repair has given up, and prune records that were given up, do not: nothing needs them
    /// any more. Every command that reports unreadable objects, and every one that stops because of
    /// them, uses this list, so that all commands agree.
    pub fn unresolved(&self) -> impl Iterator<Item = (&ObjectName, &Arc<Error>)> {
        let (taken, given_up) = match self.unreadable.is_empty() {
            true => (HashSet::new(), BTreeSet::new()),
            false => (self.taken(), self.given_up_prunes()),
        };
        self.unreadable.iter().filter(move |(name, _)| match name {
            ObjectName::Commit(id) => !taken.contains(id),
            ObjectName::Prune(number) => !given_up.contains(number),
            _ => true,
        })
    }

    /// Returns `true` if the commit of this ticket exists, whether or not it can be read.
    pub(crate) fn lists(&self, ticket: TicketId) -> bool {
        self.commits.contains_key(&ticket)
            || self.unreadable.contains_key(&ObjectName::Commit(ticket))
    }

    /// Returns the commits that some writer of this view has seen, or that the checkpoint has, and
    /// that are gone, although no prune has taken them and no repair has given them up. A commit
    /// that was put while this view was listed can seem to be gone; a newer view decides
    /// ([`View::look_for_gone`]).
    pub fn gone_commits(&self) -> BTreeSet<TicketId> {
        let taken = self.taken();
        let is_gone = |id: &TicketId| !self.lists(*id) && !taken.contains(id);
        let seen = self.seen().into_iter().chain(self.attested.commits.iter().copied());
        seen.filter(is_gone).collect()
    }

    /// Adds what the checkpoint on the storage attests, for a repair, which reads the objects
    /// themselves. Parts that cannot be read attest nothing.
    ///
    /// # Errors
    ///
    /// Returns any error of listing the parts.
    pub(crate) fn attest(&mut self, repository: &Repository) -> Result<()> {
        let commits = self.commits.keys().map(|ticket| (ObjectName::Commit(*ticket), 0));
        let listed: Wanted = commits.collect();
        let attested = CheckpointReader::new(repository, &listed).attest_all()?;
        self.attested.extend(&attested);
        Ok(())
    }

    /// Notes that an object existed when a checkpoint was made.
    pub(crate) fn attest_object(&mut self, name: ObjectName) {
        match name {
            ObjectName::Commit(ticket) if !self.commits.contains_key(&ticket) => {
                self.attested.commits.insert(ticket);
            }
            ObjectName::Prune(number) => self.attested.prune = self.attested.prune.max(number),
            _ => {}
        }
    }

    /// Returns [`View::gone_commits`], each with an error for messages, for commands that only
    /// list. If any commit seems to be gone, this lists again first. A commit that was put while
    /// this view was listed is in the newer view. For a commit that a prune has taken and a sweep
    /// has deleted meanwhile the newer view has the record, because records are put before anything
    /// is deleted.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`], which is called only if a commit seems to be gone.
    pub fn look_for_gone(&self, repository: &Repository) -> Result<Vec<(ObjectName, Error)>> {
        if self.gone_commits().is_empty() {
            return Ok(Vec::new());
        }
        let message = "missing, although other clients have seen it: a snapshot or a forget was \
                       deleted; put the object back, or give it up with `cutpoint repair snapshots \
                       --forget`";
        let gone = self.list_again(repository)?.gone_commits().into_iter();
        Ok(gone.map(ObjectName::Commit).map(|name| (name, Error::missing(name, message))).collect())
    }

    pub(super) fn require_all(&self) -> Result<()> {
        self.require_epoch()?;
        self.require_prunes()?;
        if let Some((name, error)) = self.unresolved().next() {
            return Err(hindered(
                name,
                error,
                "it is unknown which snapshots are needed and which are forgotten; nothing is \
                 deleted, or forgotten by rules",
            ));
        }
        match self.gone_commits().first() {
            None => Ok(()),
            Some(ticket) => Err(Error::missing(
                ObjectName::Commit(*ticket),
                "missing, although other clients have seen it: it is unknown which snapshots are \
                 needed and which are forgotten; nothing is deleted, or forgotten by rules; put \
                 the object back, or give it up with `cutpoint repair snapshots --forget`",
            )),
        }
    }
}

/// Returns the error of a command that needs `name`, which `error` prevented from being read. If
/// the storage failed, or a newer version wrote the object, no damage is known.
fn hindered(name: &ObjectName, error: &Error, consequence: &str) -> Error {
    let (kind, remedy) = match error.kind() {
        kind @ (Kind::Storage | Kind::Unsupported) => (kind, ""),
        _ => (Kind::Corrupt, "; `cutpoint check` names the remedy"),
    };
    Error::new(kind, name, format!("cannot be read, and {consequence}{remedy} ({error})"))
}
