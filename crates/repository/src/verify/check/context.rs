//! The state that the parts of a check share, and the reporting of findings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::finding::{CheckMonitor, Finding, FindingKind};
use super::remedies::{RemedySource, remedies};
use super::remedy::Remedy;
use super::report::CheckReport;
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::newer::NewerClaim;
use crate::format::segment::ContainerRecord;
use crate::parity::ParityListing;
use crate::repo::repository::Repository;
use crate::util::tolerance::Tolerance;

/// Maximum number of missing chunks, and of affected paths, that are reported one by one; the rest
/// is counted.
pub(super) const REPORTED_MAX: u64 = 1000;

/// The degree to which an object is needed, which decides the severity of damage to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A commit, a prune or a writer that has not ended names the object.
    Named,
    /// A container that is named, and recorded as damaged. The check of the snapshots decides
    /// whether any of them still needs it.
    RecordedAsDamaged(Class, PartName),
    /// Nothing names the object.
    Unnamed,
    /// The object has served its purpose, and no client reads it any more.
    Obsolete,
}

/// A finding about a container that was recorded as damaged before.
pub(super) struct DeferredFinding {
    container: (Class, PartName),
    finding: Finding,
}

/// What the parts of a check share: the repository, its listing, and the state of the check.
pub(super) struct Check<'a> {
    pub(super) repository: &'a Arc<Repository>,
    pub(super) monitor: &'a dyn CheckMonitor,
    /// The name and the length of every object.
    pub(super) listing: BTreeMap<String, u64>,
    /// The parity objects of the listing.
    pub(super) parity: ParityListing,
    pub(super) state: Mutex<State>,
}

/// The results so far, which several threads change.
#[derive(Default)]
pub(super) struct State {
    pub(super) report: CheckReport,
    pub(super) tolerance: Tolerance,
    /// Objects about which an error was found.
    pub(super) reported: HashSet<String>,
    /// The records of containers in the index.
    pub(super) records: HashMap<(Class, PartName), ContainerRecord>,
    /// Places from which the chunk cannot be read.
    pub(super) unreadable: HashSet<Damage>,
    /// Places from which the chunk can be read, although another part of their container is
    /// damaged. Their chunks should be stored again.
    pub(super) at_risk: HashSet<Damage>,
    /// Delta chunks that lack a full chunk. The delta chunks themselves are stored correctly.
    pub(super) unassembled: HashSet<Damage>,
    /// Full chunks that delta chunks lack, each with the reason.
    pub(super) lacking: HashMap<(Class, Fingerprint), Error>,
    /// Containers of which every byte was read.
    pub(super) read: HashSet<(Class, PartName)>,
    /// Containers with a usable parity object.
    pub(super) protected: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    pub(super) refused: HashSet<(Class, PartName)>,
    /// Findings whose severity is not known yet.
    pub(super) deferred: Vec<DeferredFinding>,
    /// The remedies by damaged object, cached because a container can have thousands of findings.
    pub(super) remedies: HashMap<String, Vec<Remedy>>,
    /// The key epochs in the headers of commits.
    pub(super) epochs: BTreeMap<TicketId, u32>,
}

impl Check<'_> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a finding to the monitor, and counts it.
    pub(super) fn report(&self, kind: FindingKind, object: impl ToString, message: impl ToString) {
        let object = object.to_string();
        let mut finding =
            Finding { kind, object, message: message.to_string(), remedies: Vec::new() };
        if finding.is_error() {
            finding.remedies = self.remedies(&finding.object);
        }
        {
            let mut state = self.lock();
            if finding.is_error() {
                state.report.error_count += 1;
                state.reported.insert(finding.object.clone());
            } else {
                state.report.note_count += 1;
            }
        }
        self.monitor.finding(&finding);
    }

    /// Returns the commands that resolve an error about `object`. They are determined once per
    /// object.
    pub(super) fn remedies(&self, object: &str) -> Vec<Remedy> {
        if let Some(known) = self.lock().remedies.get(object) {
            return known.clone();
        }
        let name = ObjectName::parse(object);
        let record = match name {
            Ok(ObjectName::Container(class, part)) => {
                self.lock().records.get(&(class, part)).copied()
            }
            _ => None,
        };
        let source = RemedySource {
            repository: self.repository,
            has_parity: !self.parity.is_empty(),
            record,
            stored_len: self.listing.get(object).copied().unwrap_or(0),
        };
        let remedies = remedies(&source, object);
        if name.is_ok() {
            self.lock().remedies.insert(object.to_owned(), remedies.clone());
        }
        remedies
    }

    /// Reports `error` as a finding about `object`, so that the check can go on.
    ///
    /// # Errors
    ///
    /// Returns an `Interrupted` error if the check was cancelled, or `error` if more objects
    /// cannot be read than single bad sectors explain ([`Tolerance`]).
    pub(super) fn report_error(
        &self,
        object: impl ToString,
        error: Error,
        need: Need,
    ) -> Result<()> {
        let kind = match error.kind() {
            Kind::Interrupted => return Err(error),
            Kind::Missing => FindingKind::Missing,
            _ => FindingKind::Corrupt,
        };
        let mut message = plain(&object, &error);
        if NewerClaim::of(&error).is_some() && is_commit(&object) {
            message.push_str(
                "; `cutpoint repair snapshots --forget --ignore-newer` gives up a planted commit",
            );
        }
        if error.kind() == Kind::Storage {
            message.push_str(
                "; if the storage still refuses the object, delete it there and check again: it \
                 then counts as missing",
            );
        }
        self.report_by_need(kind, object, message, need);
        self.lock().tolerance.of_one(error).map(drop)
    }

    /// Reports a problem of `object`, with a severity according to `need`.
    pub(super) fn report_by_need(
        &self,
        kind: FindingKind,
        object: impl ToString,
        message: String,
        need: Need,
    ) {
        match need {
            Need::Named => self.report(kind, object, message),
            Need::RecordedAsDamaged(class, part) => {
                let object = object.to_string();
                let finding = Finding { kind, object, message, remedies: Vec::new() };
                let mut state = self.lock();
                state.reported.insert(finding.object.clone());
                state.deferred.push(DeferredFinding { container: (class, part), finding });
            }
            Need::Unnamed => {
                let message = format!("not referenced; {message}");
                self.report(FindingKind::Foreign, object, message);
            }
            Need::Obsolete => {
                let message = format!("no longer needed; {message}");
                self.report(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Reports the deferred findings. They are errors if something in the container is `needed`.
    pub(super) fn report_deferred(&self, needed: &HashSet<(Class, PartName)>) {
        let deferred = std::mem::take(&mut self.lock().deferred);
        for DeferredFinding { container, finding: Finding { kind, object, message, .. } } in
            deferred
        {
            if needed.contains(&container) {
                self.report(kind, object, message);
            } else {
                let message = format!("{message}; no listed snapshot needs the damaged part");
                self.report(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Returns `true` if a finding about the object of `error` was reported.
    pub(super) fn is_reported(&self, error: &Error) -> bool {
        let object = error.object();
        let object = object.split_once(": ").map_or(object, |(object, _)| object);
        self.lock().reported.contains(object)
    }

    pub(super) fn stop_if_cancelled(&self) -> Result<()> {
        if self.monitor.cancelled() {
            Err(Error::new(Kind::Interrupted, "check", "interrupted"))
        } else {
            Ok(())
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut CheckReport)) {
        change(&mut self.lock().report);
    }
}

fn is_commit(object: &impl ToString) -> bool {
    ObjectName::parse(&object.to_string()).is_ok_and(|name| name.kind() == ObjectKind::Commit)
}

/// Removes the name of the object from the beginning of a message, because most errors include it.
pub(super) fn plain(object: &impl ToString, message: impl ToString) -> String {
    let message = message.to_string();
    let prefix = format!("{}: ", object.to_string());
    message.strip_prefix(&prefix).map_or_else(|| message.clone(), str::to_owned)
}
