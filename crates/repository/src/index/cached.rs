//! The runs that earlier processes of this machine have left in the cache.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::runs::{self, Run};
use super::segments::Segments;
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::repo::view::View;

/// Opens the runs in `folder` that stand for segments of `view`, and removes the others.
///
/// Runs of segments that merged ones cover are used as well. They keep the hints of containers that
/// a merged segment leaves out, so they are given up once most containers are condemned.
pub(super) fn open(folder: &Path, view: &View, now_ns: i64) -> Vec<Arc<Run>> {
    let segments = Segments::new(view);
    let is_usable = |covers: &[PartName]| {
        !covers.is_empty() && covers.iter().all(|segment| segments.is_usable(segment))
    };
    let mut runs = runs::open_all(folder, is_usable, now_ns);
    let of_runs: HashSet<PartName> = runs.iter().flat_map(|run| run.covers()).copied().collect();
    let superfluous = segments.superfluous(&of_runs);
    let is_outdated = |run: &Run| run.covers().iter().any(|it| !segments.live().contains(it));
    let gives_up = runs.iter().any(|run| is_outdated(run)) && is_mostly_condemned(&runs, view);
    runs.retain(|run| {
        let goes = gives_up && is_outdated(run)
            || run.covers().iter().all(|segment| superfluous.contains(segment));
        if goes {
            run.remove_file();
        }
        !goes
    });
    runs
}

/// Returns `true` if more than half of the containers of `runs` are condemned.
fn is_mostly_condemned(runs: &[Arc<Run>], view: &View) -> bool {
    let condemned: HashSet<(Class, PartName)> = view.condemned();
    let containers = || runs.iter().flat_map(|run| run.containers());
    let dead = containers().filter(|it| condemned.contains(&(it.class, it.name)));
    dead.count() * 2 > containers().count()
}
