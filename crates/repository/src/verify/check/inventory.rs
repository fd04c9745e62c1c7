//! The inventory of a check: the commits, prune records and writers that it has inventory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{ObjectKind, Result};

use super::context::{Check, Need};
use crate::format::commit::Commit;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::repo::repository::Repository;
use crate::repo::view::{Hidden, View};

/// Lists all objects.
pub(super) fn list(repository: &Repository) -> Result<BTreeMap<String, u64>> {
    let mut listing = BTreeMap::new();
    for kind in ObjectKind::ALL {
        listing.extend(repository.storage().list(kind.folder())?);
    }
    Ok(listing)
}

/// The commits, prunes and writers that a check has seen, and the objects that are hidden or gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    /// The commits and prunes.
    pub(super) view: View,
    /// The writers that have not ended.
    pub(super) unfinished: BTreeSet<TicketId>,
    /// The writers whose containers may be named only by objects that cannot be read.
    pub(super) hidden: Hidden,
    /// Containers that are gone.
    pub(super) gone: HashSet<(Class, PartName)>,
    /// Commits that a later writer has seen, and that are missing.
    pub(super) missing_commits: BTreeSet<TicketId>,
    /// Containers that are condemned.
    pub(super) condemned: HashSet<(Class, PartName)>,
    /// Containers with chunks that are recorded as unreadable.
    pub(super) recorded: HashSet<(Class, PartName)>,
}

impl Inventory {
    /// Returns the need for an object that this writer has put and no segment or commit names.
    pub(super) fn need(&self, ticket: TicketId) -> Need {
        let is_in_doubt = self.unfinished.contains(&ticket) || self.hidden.may_name(ticket);
        if is_in_doubt { Need::Named } else { Need::Unnamed }
    }

    /// Returns `true` if a container is condemned.
    pub(super) fn is_condemned(&self, container: &(Class, PartName)) -> bool {
        self.condemned.contains(container)
    }

    /// Returns `true` if chunks of a container are recorded as unreadable.
    pub(super) fn is_recorded(&self, container: &(Class, PartName)) -> bool {
        self.recorded.contains(container)
    }

    /// Returns the need for a container, given the need for the object that names it.
    pub(super) fn need_of_container(&self, class: Class, part: PartName, need: Need) -> Need {
        match need {
            Need::Named if self.recorded.contains(&(class, part)) => {
                Need::RecordedAsDamaged(class, part)
            }
            need => need,
        }
    }

    /// Adds commits and prunes that were put after the listing. Returns `true` if there were any.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. Objects that cannot be read are skipped; the next check
    /// reports them.
    pub(super) fn list_again(&mut self, check: &Check<'_>) -> Result<bool> {
        let storage = check.repository.storage();
        let given_up = self.view.given_up_prunes();
        let mut is_newer = false;
        for kind in [ObjectKind::Commit, ObjectKind::Prune] {
            for (path, _) in storage.list(kind.folder())? {
                let Ok(name) = ObjectName::parse(&path) else { continue };
                let is_known = match name {
                    ObjectName::Commit(ticket) => self.view.commits.contains_key(&ticket),
                    ObjectName::Prune(number) => {
                        self.view.prunes.contains_key(&number) || given_up.contains(&number)
                    }
                    _ => true,
                };
                if is_known || self.view.unreadable.contains_key(&name) {
                    continue;
                }
                let Ok(body) = check.repository.get(name) else { continue };
                is_newer |= self.take_up(name, &body).is_ok();
            }
        }
        Ok(is_newer)
    }

    /// Adds commits and prunes that other writers have seen, that no listing shows, and that can be
    /// read by their names.
    pub(super) fn look_by_name(&mut self, check: &Check<'_>) {
        let mut was_found = true;
        while was_found {
            was_found = false;
            for name in self.view.missed() {
                let body = check.repository.get(name);
                was_found |= body.is_ok_and(|body| self.take_up(name, &body).is_ok());
            }
        }
    }

    pub(super) fn take_up(&mut self, name: ObjectName, body: &[u8]) -> Result<()> {
        match name {
            ObjectName::Commit(ticket) => {
                self.view.commits.insert(ticket, Arc::new(Commit::decode(body)?));
            }
            ObjectName::Prune(number) => {
                self.view.prunes.insert(number, Arc::new(Prune::decode(body)?));
            }
            _ => {}
        }
        Ok(())
    }
}
