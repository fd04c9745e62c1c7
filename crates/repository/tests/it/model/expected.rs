//! A model of the expected content of a repository, as plain maps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cutpoint_repository::{Snapshot, TicketId, View};

use crate::support::backup::file;

/// The expected content of a file: that of a number, except for parts that a repair has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(super) number: u64,
    pub(super) holes: Vec<Range<u64>>,
}

impl Content {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = file(self.number);
        for hole in &self.holes {
            let place = |offset: u64| usize::try_from(offset).expect("files are small");
            bytes[place(hole.start)..place(hole.end)].fill(0);
        }
        bytes
    }
}

/// A snapshot that no prune has taken.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedSnapshot {
    pub(crate) files: BTreeMap<String, Content>,
    pub(super) started_ns: i64,
    pub(crate) status: Status,
}

/// The visible properties of a snapshot in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) is_forgotten: bool,
    pub(crate) is_held: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) description: String,
}

/// The expected content of the repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) snapshots: BTreeMap<TicketId, ExpectedSnapshot>,
    /// The secrets that open it.
    pub(crate) secrets: BTreeSet<u8>,
    /// Set if something is damaged and not repaired.
    pub(crate) is_harmed: bool,
    /// Set if a change of keys or settings was interrupted, so that one of two copies may be
    /// missing.
    pub(crate) is_half_changed: bool,
}

/// Returns all snapshots that no prune has taken, as a view has them.
pub(crate) fn seen(view: &View) -> BTreeMap<TicketId, Status> {
    let (forgotten, held) = (view.forgotten(), view.held());
    let all = view.snapshots().into_iter().chain(view.forgotten_snapshots());
    let status = |(id, snapshot): (TicketId, &Snapshot)| {
        let status = Status {
            is_forgotten: forgotten.contains(&id),
            is_held: held.contains(&id),
            tags: view.tags(id, snapshot).to_vec(),
            description: view.description(id, snapshot).to_owned(),
        };
        (id, status)
    };
    all.map(status).collect()
}

impl Model {
    /// Returns the expected list.
    pub(crate) fn expected(&self) -> BTreeMap<TicketId, Status> {
        self.snapshots.iter().map(|(id, kept)| (*id, kept.status.clone())).collect()
    }

    pub(super) fn ids(&self, is_it: impl Fn(&Status) -> bool) -> Vec<TicketId> {
        let chosen = self.snapshots.iter().filter(|(_, kept)| is_it(&kept.status));
        chosen.map(|(id, _)| *id).collect()
    }

    pub(super) fn status(&mut self, id: TicketId) -> &mut Status {
        &mut self.snapshots.get_mut(&id).expect("it was chosen among these").status
    }

    /// Returns the sets of files that were backed up, as far as complete files are left of them.
    pub(crate) fn sources(&self) -> BTreeSet<Vec<u64>> {
        let complete = |content: &&Content| content.holes.is_empty();
        let numbers = |kept: &ExpectedSnapshot| {
            kept.files.values().filter(complete).map(|it| it.number).collect()
        };
        self.snapshots.values().map(numbers).collect()
    }
}

pub(super) fn pick<T: Copy>(from: &[T], number: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[number % from.len()])
}
