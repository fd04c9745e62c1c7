//! P4: examines each container, to find the dead ones and those that may be rewritten.

use std::sync::Arc;

use cutpoint_storage::Result;

use super::plan::PrunePlan;
use super::pulse::Pulse;
use super::rewriting::RewriteCandidate;
use super::sample::is_incompressible;
use super::survey::Survey;
use super::task::Task;
use super::usage::Usage;
use crate::format::grouping::Grouping;
use crate::format::toc::Toc;
use crate::gc::locate::{Container, LiveByContainer, LiveChunks};
use crate::gc::monitor::Phase;
use crate::index::ContainerToc;
use crate::repo::repository::Repository;
use crate::util::tolerance::Tolerance;

/// A container is small if its size is below the target size divided by this number.
const SMALL_DIVISOR: u32 = 8;

/// The examination of all containers.
pub(super) struct Examination<'a, 'w> {
    repository: &'a Repository,
    survey: &'a Survey,
    task: &'a Task,
    pulse: &'a Pulse<'w>,
    tolerance: Tolerance,
    pub(super) plan: PrunePlan,
    /// Numbers of the containers without live chunks, in ascending order.
    pub(super) dead: Vec<u32>,
    pub(super) candidates: Vec<RewriteCandidate>,
}

impl<'a, 'w> Examination<'a, 'w> {
    /// Examines the containers of `survey`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Survey::skip_read`] and of a temporary file, and `Interrupted` if the
    /// monitor cancels.
    pub(super) fn new(
        repository: &'a Repository,
        survey: &'a Survey,
        task: &'a Task,
        pulse: &'a Pulse<'w>,
    ) -> Result<Examination<'a, 'w>> {
        let plan = PrunePlan {
            forgotten_count: survey.forgotten.len() as u64,
            kept_count: survey.marked.len() as u64,
            orphan_count: survey.orphans.containers.len() as u64,
            rescued_count: survey.placement.only_condemned.len() as u64,
            inlined_count: survey.placement.inlined.len() as u64,
            inlined_bytes: survey.placement.inlined_bytes,
            released_bytes: survey.placement.released_bytes,
            ..PrunePlan::default()
        };
        let (dead, candidates, tolerance) = (Vec::new(), Vec::new(), Tolerance::default());
        let mut examination =
            Examination { repository, survey, task, pulse, tolerance, plan, dead, candidates };
        let containers = &survey.placement.containers;
        let total = containers.len() as u64;
        let is_dead = |container: &&Container| container.is_usable() && container.live_count == 0;
        let dead_count = containers.iter().filter(is_dead).count();
        let (placement, index) = (&survey.placement, survey.reader.index());
        // The cheaper of two ways to confirm what the hints have decided. It says nothing about a
        // record that a check has found damaged, of which a dead container may have a sound copy.
        let is_confirmed = survey.view.damaged().is_empty()
            && placement.staying_count() < dead_count
            && placement.is_confirmed(index, &|| pulse.beat())?;
        let mut live = placement.live()?;
        let is_regrouped = task.grouping.is_some();
        let wanted = (0..).zip(containers).map(|(number, container)| {
            let is_read = match container.live_count {
                0 => !is_confirmed,
                _ => is_partly_used(container) || is_regrouped,
            };
            let is_read = is_read && container.is_usable();
            ((number, container), is_read.then_some(container.record))
        });
        index.each_toc(wanted, |(number, container), toc| {
            pulse.monitor.progress(Phase::Examine, u64::from(number), total);
            pulse.beat()?;
            if container.is_usable() {
                examination.examine(number, container, toc, &mut live)?;
            }
            Ok(())
        })?;
        live.end()?;
        pulse.monitor.progress(Phase::Examine, total, total);
        Ok(examination)
    }

    /// Examines the container of this number, with its table of contents if it is needed.
    fn examine(
        &mut self,
        number: u32,
        container: &Container,
        toc: Option<Result<Arc<ContainerToc>>>,
        live: &mut LiveByContainer<'_>,
    ) -> Result<()> {
        let stored_len = u64::from(container.record.stored_len);
        self.plan.container_count += 1;
        self.plan.container_bytes += stored_len;
        if container.live_count > 0 {
            self.plan.pinned_count += u64::from(container.pinned_count);
        }
        // A container that cannot be read stays as it is.
        let toc = match toc.transpose() {
            Ok(toc) => toc,
            Err(error) => {
                let error = self.tolerance.of_one(error)?;
                return self.survey.skip_read(self.repository, error, self.pulse.monitor);
            }
        };
        // The hints that showed which chunks are live must cover all chunks.
        if let Some(Err(error)) = toc.as_ref().map(|toc| container.require_hints(&toc.toc)) {
            self.pulse.monitor.skipped(&error);
            return Ok(());
        }
        if container.live_count == 0 {
            self.plan.condemned_count += 1;
            self.plan.condemned_bytes += stored_len;
            self.dead.push(number);
            return Ok(());
        }
        let usage = match toc {
            None => Usage { live_bytes: stored_len, ..Usage::default() },
            Some(toc) => {
                let live = live.of(number)?;
                let Some(usage) = self.usage_of(container, &toc.toc, &live) else { return Ok(()) };
                usage
            }
        };
        let small_len = self.repository.config().container_size / SMALL_DIVISOR;
        let is_small = container.record.stored_len < small_len;
        if usage.live_bytes < stored_len || is_small || self.task.grouping.is_some() {
            let class = container.record.class;
            self.candidates.push(RewriteCandidate { number, class, stored_len, usage, is_small });
        }
        Ok(())
    }

    /// Returns the usage of a container by its table of contents, or `None` if the container stays
    /// as it is.
    fn usage_of(&mut self, container: &Container, toc: &Toc, live: &LiveChunks) -> Option<Usage> {
        let stored_len = u64::from(container.record.stored_len);
        let mut usage = Usage::of(&container.record, toc, live);
        if spares(self.task, toc, stored_len, &mut self.plan) {
            return None;
        }
        self.plan.pinned_bytes += usage.pinned_bytes;
        if container.live_count == container.hint_count {
            // The remainder was copied along with a region, and would be copied again.
            usage.live_bytes = stored_len;
        }
        Some(usage)
    }
}

/// Returns `true` if not all chunks of a container are reached by snapshots.
fn is_partly_used(container: &Container) -> bool {
    container.live_count < container.hint_count || container.pinned_count > 0
}

/// Returns `true` if a container is not worth optimizing, and counts it in `plan`.
fn spares(task: &Task, toc: &Toc, stored_len: u64, plan: &mut PrunePlan) -> bool {
    let Some(grouping) = task.grouping else { return false };
    let before = Grouping::decode(&toc.extra);
    if before.is_some_and(|before| !grouping.is_stronger_than(&before)) {
        plan.optimized_count += 1;
        plan.optimized_bytes += stored_len;
        return true;
    }
    if task.spares_incompressible && is_incompressible(&toc.regions) {
        plan.spared_count += 1;
        plan.spared_bytes += stored_len;
        return true;
    }
    false
}
