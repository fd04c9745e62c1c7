//! The state of an index: its runs, and the exceptions that the view makes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::Error;

use super::fronts::FrontCache;
use super::location::{Location, Scope};
use super::reading::ReadSegments;
use super::runs::{DAMAGED_RUNS_MAX, Run, RunStore};
use super::segments::Segments;
use super::tocs::TocCache;
use crate::format::commit::Damage;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::rules;

/// The state of an index, which its lock protects.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) runs: Vec<Arc<Run>>,
    /// The segments that `runs` stand for.
    pub(super) segments: Arc<Segments>,
    /// Containers that no readable segment names, and the unreadable objects that made the search
    /// for them necessary.
    pub(super) unnamed: Option<Arc<Run>>,
    pub(super) hiding: BTreeSet<ObjectName>,
    /// Number of runs whose files were damaged.
    pub(super) damaged_run_count: u32,
    pub(super) tocs: TocCache,
    pub(super) fronts: FrontCache,
    pub(super) condemned: HashSet<(Class, PartName)>,
    pub(super) damaged: HashSet<Damage>,
    pub(super) unreadable: BTreeMap<ObjectName, Arc<Error>>,
    /// Segments that were added by [`Index::add`], which no view names yet.
    pub(super) own: BTreeSet<PartName>,
}

impl State {
    pub(super) fn all_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.unnamed).map(|run| &**run)
    }

    /// Removes the file of a damaged run, which has been taken off the list.
    pub(super) fn drop_damaged(&mut self, damaged: &Run) {
        damaged.remove_file();
        self.damaged_run_count += 1;
    }

    /// Returns the place in which new runs are kept, which is `store` unless too many of its runs
    /// were damaged.
    pub(super) fn store<'a>(&self, store: &'a RunStore) -> &'a RunStore {
        if self.damaged_run_count < DAMAGED_RUNS_MAX { store } else { &RunStore::Memory }
    }

    /// Returns `true` if the hints of every segment that a run covers may be used: it is among
    /// `segments`, or was added by this process.
    pub(super) fn is_usable(&self, run: &Run, segments: &Segments) -> bool {
        let mut covers = run.covers().iter();
        covers.all(|segment| segments.is_usable(segment) || self.own.contains(segment))
    }

    /// Returns the segments whose hints the index must have.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &PartName> {
        let own = self.own.iter().filter(|segment| !self.segments.is_usable(segment));
        let wanted = self.segments.live().iter().chain(own);
        wanted.filter(|name| !self.unreadable.contains_key(&ObjectName::Segment(**name)))
    }

    /// Returns the segments that the usable runs cover.
    pub(super) fn available(&self, segments: &Segments) -> HashSet<PartName> {
        let usable = self.runs.iter().filter(|run| self.is_usable(run, segments));
        usable.flat_map(|run| run.covers().iter().copied()).collect()
    }

    /// Takes up segments that were read. Returns `true` if their runs were damaged meanwhile.
    pub(super) fn take_up(&mut self, read: ReadSegments) -> bool {
        self.runs.extend(read.runs);
        self.unreadable.extend(read.unreadable);
        self.damaged_run_count += read.damaged_run_count;
        read.damaged_run_count > 0
    }

    /// Takes up the segments of another view. Drops the runs that are not usable any more, and
    /// those all of whose hints are in other runs.
    pub(super) fn change_segments(&mut self, segments: Arc<Segments>) {
        let superfluous = segments.superfluous(&self.available(&segments));
        let mut runs = std::mem::take(&mut self.runs);
        runs.retain(|run| {
            self.is_usable(run, &segments)
                && !run.covers().iter().all(|segment| superfluous.contains(segment))
        });
        (self.runs, self.segments) = (runs, segments);
    }

    pub(super) fn allows(&self, location: &Location, class: Class, scope: Scope) -> bool {
        let container = &location.container;
        if container.class != class {
            return false;
        }
        if scope == Scope::Read {
            return true;
        }
        let damage =
            Damage { class, container: container.name, fingerprint: location.chunk().fingerprint };
        !self.is_condemned(class, container.name) && !self.damaged.contains(&damage)
    }

    pub(super) fn is_condemned(&self, class: Class, container: PartName) -> bool {
        !rules::may_use_condemned() && self.condemned.contains(&(class, container))
    }
}
