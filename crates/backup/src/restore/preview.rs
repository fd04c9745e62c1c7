//! A dry run: what a restore would do, without writing anything.

use std::path::Path;

use cutpoint_repository::{Entry, EntryKind};

use super::deletion::Deletion;
use super::failure::Failure;
use super::job::Role;
use super::link_names::LinkNames;
use super::metadata;
use super::monitor::RestoreAction;
use super::options::Overwrite;
use super::place::{EXISTS, IS_FOLDER, Occupant, Place};
use super::restore_state::{RestoreState, count};
use super::snapshot_walk::{FolderRole, SnapshotWalk};
use super::target_visit::{Standing, Visitor};

/// Counts and reports what a restore would do.
pub(super) struct Preview<'r, 'a> {
    state: &'r RestoreState<'a>,
    deletion: Option<Deletion<'r, 'a>>,
    names: LinkNames,
}

impl<'r, 'a> Preview<'r, 'a> {
    pub(super) fn new(state: &'r RestoreState<'a>) -> Preview<'r, 'a> {
        let deletion = state.options.delete.then(|| Deletion::new(state));
        Preview { state, deletion, names: LinkNames::default() }
    }

    /// Counts anything but a folder that would be written.
    fn count(&mut self, path: &Path, entry: &Entry, occupant: &Occupant) {
        let counts = &self.state.counts;
        let action = match occupant {
            Occupant::Replace => RestoreAction::Replace,
            _ => RestoreAction::Create,
        };
        if *occupant == Occupant::Replace {
            count(&counts.replaced_entries, 1);
        }
        let mut bytes = 0;
        match (self.names.role(entry), entry.kind) {
            (Role::Further(_), kind) => counts.add_name(kind),
            (_, EntryKind::File) => {
                bytes = entry.size;
                count(&counts.written_files, 1);
                count(&counts.written_bytes, bytes);
            }
            (_, kind) => count(counts.of_special(kind), 1),
        }
        self.state.monitor.action(action, path, bytes);
    }
}

impl Visitor for Preview<'_, '_> {
    fn folder(&mut self, path: &Path, entry: &Entry, standing: Standing) -> bool {
        if let Some(deletion) = &mut self.deletion {
            deletion.folder(path, entry, standing);
        }
        let action = match standing {
            Standing::Folder => return true,
            Standing::SomethingElse if self.state.options.overwrite == Overwrite::Never => {
                self.state.fail(path, &Failure::Refused(EXISTS));
                return false;
            }
            Standing::SomethingElse => {
                count(&self.state.counts.replaced_entries, 1);
                RestoreAction::Replace
            }
            Standing::Nothing => RestoreAction::Create,
        };
        count(&self.state.counts.made_folders, 1);
        self.state.monitor.action(action, &path.join(""), 0);
        true
    }

    fn enter(&mut self, role: FolderRole) {
        if let Some(deletion) = &mut self.deletion {
            deletion.enter(role);
        }
    }

    fn item(&mut self, path: &Path, place: Option<Place>, entry: Entry) {
        let overwrite = self.state.options.overwrite;
        let occupant = match &place {
            None => Ok(Occupant::Nothing),
            Some(place) => place.occupant(&entry, overwrite),
        };
        match occupant {
            Ok(Occupant::Same(..)) => {
                let differs =
                    |place: &Place| metadata::differs(&self.state.owners, &place.handle, &entry);
                if place.as_ref().is_some_and(differs) {
                    count(&self.state.counts.adjusted_entries, 1);
                    self.state.monitor.action(RestoreAction::Adjust, path, 0);
                } else {
                    count(&self.state.counts.unchanged_entries, 1);
                }
            }
            // The folder is deleted before.
            Ok(Occupant::Refused(IS_FOLDER)) if self.deletion.is_some() => {
                self.count(path, &entry, &Occupant::Replace);
            }
            Ok(Occupant::Refused(reason)) => self.state.fail(path, &Failure::Refused(reason)),
            Ok(occupant) => self.count(path, &entry, &occupant),
            Err(error) => self.state.fail(path, &Failure::Target(error)),
        }
        if let Some(deletion) = &mut self.deletion {
            deletion.item(path, place, entry);
        }
    }

    fn skipped(&mut self, name: &[u8]) {
        if let Some(deletion) = &mut self.deletion {
            deletion.skipped(name);
        }
    }

    fn problem(&mut self, path: &Path, failure: Failure) {
        self.state.fail(path, &failure);
        if let Some(deletion) = &mut self.deletion {
            deletion.problem(path, failure);
        }
    }

    fn leave(&mut self, walk: &mut SnapshotWalk<'_>, place: Option<&Place>) {
        if let Some(deletion) = &mut self.deletion {
            deletion.leave(walk, place);
        }
    }
}
