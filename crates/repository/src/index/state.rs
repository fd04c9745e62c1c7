//! The state of an index: its runs, and the exceptions that the view makes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::Error;

use super::fronts::FrontCache;
use super::location::{Location, Scope};
use super::runs::Run;
use super::tocs::TocCache;
use crate::format::commit::Damage;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::rules;

/// The state of an index, which its lock protects.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) runs: Vec<Arc<Run>>,
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

    /// Removes the file of a damaged run, which has been taken off the list. Returns the segments
    /// that the run covered.
    pub(super) fn drop_damaged(&mut self, damaged: &Run) -> Vec<PartName> {
        damaged.remove_file();
        self.damaged_run_count += 1;
        damaged.covers().to_vec()
    }

    /// Returns `true` if every segment that a run covers counts: it is in `live`, the segments of a
    /// view, or was added by this process.
    pub(super) fn is_live(&self, run: &Run, live: &BTreeSet<PartName>) -> bool {
        run.covers().iter().all(|segment| live.contains(segment) || self.own.contains(segment))
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
