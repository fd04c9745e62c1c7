//! The steps of a writer, and of a repair of index or snapshots.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::gc::prune::{OptimizeOptions, PruneOptions, optimize, plan, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::snapshots::retention::{Candidate, Grouping, Period, Policy, judge};
use cutpoint_repository::snapshots::{forget, hold, note, release, unforget};
use cutpoint_repository::verify::check::{CheckMonitor, Portion};
use cutpoint_repository::verify::repair::{
    IndexOptions, PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotsRepair,
    repair_index, repair_snapshots,
};
use cutpoint_repository::{
    CommitResult, Purpose, Reader, Repository, Snapshot, TicketId, View, Writer,
};
use cutpoint_storage::{Error, Result};

use super::expected::{Content, ExpectedSnapshot, Model, Status, pick, seen};
use super::place::Place;
use super::tally::Tally;
use crate::model::steps::{Step, TAGS};
use crate::support::backup::back_up_by;
use crate::support::damaged_repository::everything;

type LossesOf = BTreeMap<TicketId, Vec<(Vec<u8>, PathLoss)>>;

/// Collects what a repair gives up.
#[derive(Default)]
struct Losses(Mutex<LossesOf>);

impl CheckMonitor for Losses {}

impl RepairMonitor for Losses {
    fn loss(&self, snapshot: TicketId, path: &[u8], loss: &PathLoss) {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        losses.entry(snapshot).or_default().push((path.to_vec(), loss.clone()));
    }
}

/// A step of a writer or a repair: the repository on which it acts, and the model that it changes.
pub(super) struct Change<'a> {
    pub(super) repository: &'a Arc<Repository>,
    pub(super) place: &'a Place,
    pub(super) after: &'a mut Model,
    pub(super) tally: &'a mut Tally,
}

impl Change<'_> {
    /// Carries out a step that concerns neither keys nor settings.
    pub(super) fn run(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::BackUp { files, publish, parent, tag } => {
                self.back_up(files, *publish, *parent, TAGS[*tag])
            }
            Step::Forget(numbers) => self.forget(numbers),
            Step::Keep { last, tag } => keep(*last, *tag, self.repository, self.after),
            Step::BringBack(number) => self.bring_back(*number),
            Step::Hold(number) => self.hold(*number),
            Step::Release(number) => self.release(*number),
            Step::Note { snapshot, tag, text } => {
                self.note(*snapshot, TAGS[*tag], &format!("text {text}"))
            }
            Step::Prune { unused_max, rewrite_bytes_max, segment_count_max, small_count_max } => {
                self.prune(&PruneOptions {
                    unused_max: *unused_max,
                    rewrite_bytes_max: *rewrite_bytes_max,
                    segment_count_max: *segment_count_max,
                    small_count_max: *small_count_max,
                    ..PruneOptions::default()
                })
            }
            Step::Optimize { compression_level, rewrite_bytes_max } => {
                self.optimize(&OptimizeOptions {
                    region_size: 256 * 1024,
                    compression_level: *compression_level,
                    rewrite_bytes_max: *rewrite_bytes_max,
                    spares_incompressible: false,
                    is_alone: false,
                })
            }
            Step::PlanPrune => without_writing(self.place, || {
                plan(self.repository, &PruneOptions::default(), &()).map(drop)
            }),
            Step::Sweep { is_patient, end_others } => self.sweep(*is_patient, *end_others),
            Step::RepairIndex { dry_run } => self.repair_index(*dry_run),
            Step::RepairSnapshots { dry_run, forget } => self.repair_snapshots(*dry_run, *forget),
            other => panic!("{other:?} is no step of a writer or a repair"),
        }
    }

    /// Backs up `files`, and takes over the entries of the parent with this number.
    fn back_up(
        &mut self,
        files: &[u64],
        publish: bool,
        parent: Option<usize>,
        tag: &str,
    ) -> Result<()> {
        let writer = Writer::begin(self.repository.clone(), Purpose::Backup)?;
        let view = writer.view().clone();
        let mut taken = BTreeMap::new();
        let mut kept = BTreeMap::new();
        // W3, except for the rules of a backup about damage.
        let parents: Vec<TicketId> = self
            .after
            .snapshots
            .keys()
            .copied()
            .filter(|id| view.may_take_over(*id) && view.damaged().is_empty())
            .collect();
        let parent = parent.and_then(|number| pick(&parents, number));
        if let Some(snapshot) = parent.and_then(|id| view.commits[&id].snapshot())
            && view.unreadable.is_empty()
        {
            let reader = Reader::open(self.repository.clone(), view.clone())?;
            for entry in reader.tree(&snapshot.root) {
                let entry = entry?;
                taken.insert(entry.name.clone(), entry);
            }
            kept.clone_from(&self.after.snapshots[&parent.expect("it was found")].files);
        }
        kept.extend(files.iter().map(|number| {
            (format!("file {number:04}"), Content { number: *number, holes: Vec::new() })
        }));
        let snapshot = Snapshot {
            started_ns: self.repository.environment().now_ns(),
            tags: vec![tag.to_owned()],
            ..Snapshot::empty()
        };
        let status = Status {
            is_forgotten: false,
            is_held: false,
            tags: snapshot.tags.clone(),
            description: String::new(),
        };
        let started_ns = snapshot.started_ns;
        let kept = ExpectedSnapshot { files: kept, started_ns, status };
        let ticket = writer.ticket();
        self.after.snapshots.insert(ticket, kept);
        match back_up_by(writer, files, taken, publish, snapshot)? {
            CommitResult::Done => self.tally.backups += 1,
            // Another client has ended it.
            CommitResult::Ended => drop(self.after.snapshots.remove(&ticket)),
        }
        Ok(())
    }

    fn forget(&mut self, numbers: &[usize]) -> Result<()> {
        let there = self.after.ids(|status| !status.is_forgotten && !status.is_held);
        let chosen: BTreeSet<_> = numbers.iter().filter_map(|n| pick(&there, *n)).collect();
        for id in &chosen {
            self.after.status(*id).is_forgotten = true;
        }
        forget(self.repository, |_| Ok::<_, Error>(chosen.iter().copied().collect())).map(drop)
    }

    fn bring_back(&mut self, number: usize) -> Result<()> {
        let Some(id) = pick(&self.after.ids(|status| status.is_forgotten), number) else {
            return Ok(());
        };
        self.after.status(id).is_forgotten = false;
        unforget(self.repository, &[id]).map(drop)
    }

    fn hold(&mut self, number: usize) -> Result<()> {
        let Some(id) = pick(&self.after.ids(|_| true), number) else { return Ok(()) };
        self.after.status(id).is_held = true;
        hold(self.repository, &[id]).map(drop)
    }

    fn release(&mut self, number: usize) -> Result<()> {
        let Some(id) = pick(&self.after.ids(|status| status.is_held), number) else {
            return Ok(());
        };
        self.after.status(id).is_held = false;
        release(self.repository, &[id]).map(drop)
    }

    fn note(&mut self, number: usize, tag: &str, text: &str) -> Result<()> {
        let Some(id) = pick(&self.after.ids(|_| true), number) else { return Ok(()) };
        let status = self.after.status(id);
        status.tags = vec![tag.to_owned()];
        status.description = text.to_owned();
        let Status { tags, description, .. } = status.clone();
        note(self.repository, id, |new_tags, new_description| {
            new_tags.clone_from(&tags);
            new_description.clone_from(&description);
        })
        .map(drop)
    }

    /// Removes the snapshots that a prune takes from the model, and returns their number.
    fn take_forgotten(&mut self) -> u64 {
        let taken = self.after.ids(|status| status.is_forgotten && !status.is_held);
        self.after.snapshots.retain(|id, _| !taken.contains(id));
        taken.len() as u64
    }

    fn prune(&mut self, options: &PruneOptions) -> Result<()> {
        let taken_count = self.take_forgotten();
        let pruned = prune(self.repository, options, &(), |_| true)?.expect("it was approved");
        assert_eq!(pruned.plan.forgotten_count, taken_count, "snapshots that a prune takes");
        self.tally.pruned_snapshots += pruned.plan.forgotten_count;
        Ok(())
    }

    fn optimize(&mut self, options: &OptimizeOptions) -> Result<()> {
        let taken_count = self.take_forgotten();
        let done = optimize(self.repository, options, &(), |_| true)?.expect("it was approved");
        assert_eq!(done.plan.forgotten_count, taken_count, "it takes what a prune does");
        self.tally.pruned_snapshots += done.plan.forgotten_count;
        Ok(())
    }

    fn sweep(&mut self, is_patient: bool, end_others: bool) -> Result<()> {
        let defaults = SweepOptions { end_others, ..SweepOptions::default() };
        let options = if is_patient {
            defaults
        } else {
            SweepOptions { settle_ns: 0, commit_ns: 0, ..defaults }
        };
        let mut sweeper = Sweeper::new(self.repository.clone(), options);
        while let Sweep::Done(swept) = sweeper.step(&())? {
            self.tally.swept_containers += swept.container_count;
            self.tally.rescued_chunks += swept.rescued_count;
        }
        Ok(())
    }

    fn repair_index(&mut self, dry_run: bool) -> Result<()> {
        let options = IndexOptions { dry_run, ..IndexOptions::default() };
        let repair = || repair_index(self.repository, &options, &()).map(drop);
        if dry_run { without_writing(self.place, repair) } else { repair() }
    }

    fn repair_snapshots(&mut self, dry_run: bool, forget: bool) -> Result<()> {
        let options =
            SnapshotOptions { dry_run, forget, read_data: Some(Portion::All), threads: 1 };
        let losses = Losses::default();
        let repair = || repair_snapshots(self.repository, &options, &losses);
        if dry_run {
            return without_writing(self.place, || repair().map(drop));
        }
        let done = repair();
        let losses = losses.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.tally.losses += losses.values().map(|losses| losses.len() as u64).sum::<u64>();
        adopt_repaired(&done, &losses, self.place, self.after);
        done.map(drop)
    }
}

/// Forgets the snapshots that a rule does not keep. The model follows the plain meaning of the
/// rule.
fn keep(
    last: u32,
    tag: Option<usize>,
    repository: &Arc<Repository>,
    after: &mut Model,
) -> Result<()> {
    let tag = tag.map(|tag| TAGS[tag].to_owned());
    let mut by_age: Vec<TicketId> = after.ids(|status| !status.is_forgotten && !status.is_held);
    by_age.sort_by_key(|id| (after.snapshots[id].started_ns, *id));
    for id in by_age.iter().rev().skip(last as usize) {
        let status = after.status(*id);
        status.is_forgotten = !tag.iter().any(|tag| status.tags.contains(tag));
    }
    let policy = Policy {
        counts: vec![(Period::Each, last)],
        tags: tag.into_iter().collect(),
        ..Policy::default()
    };
    let grouping = Grouping { by_host: false, by_paths: false, by_tags: false };
    let now_ns = repository.environment().now_ns();
    let mut by_less = None;
    forget(repository, |view| {
        let held = view.held();
        let snapshots = view.snapshots();
        let candidates: Vec<Candidate<'_>> =
            snapshots.iter().map(|(id, it)| Candidate::new(view, &held, *id, it)).collect();
        let groups = judge(&policy, grouping, &candidates, now_ns, &|_| 0)?;
        let verdicts = groups.into_iter().flat_map(|group| group.verdicts);
        let chosen: Vec<_> = verdicts.filter(|it| !it.is_kept()).map(|it| it.id).collect();
        by_less = (!view.unreadable.is_empty()).then(|| chosen.clone());
        Ok::<_, Error>(chosen)
    })?;
    // A commit could not be read this time, so the client decides by what it sees.
    if let Some(chosen) = by_less {
        for id in by_age {
            after.status(id).is_forgotten = chosen.contains(&id);
        }
    }
    Ok(())
}

fn without_writing(place: &Place, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = everything(&*place.storage);
    let result = act();
    assert!(everything(&*place.storage) == before, "a dry run has written something");
    result
}

/// Takes over the result of a repair of snapshots, finished or not.
fn adopt_repaired(
    done: &Result<SnapshotsRepair>,
    losses: &BTreeMap<TicketId, Vec<(Vec<u8>, PathLoss)>>,
    place: &Place,
    after: &mut Model,
) {
    let view = View::list(&place.look(after)).expect("memory lists");
    let seen = seen(&view);
    let mut twins = HashSet::new();
    for (id, status) in &seen {
        if after.snapshots.contains_key(id) {
            continue;
        }
        let snapshot = view.commits[id].snapshot().expect("it is listed");
        let old = snapshot.parent.and_then(|parent| Some((parent, after.snapshots.get(&parent)?)));
        let (parent, old) = old.unwrap_or_else(|| panic!("{id} is of no snapshot that there was"));
        let old = old.clone();
        let mut files = old.files;
        for (path, loss) in &losses[&parent] {
            let name = String::from_utf8_lossy(&path[1..]).into_owned();
            match loss {
                PathLoss::Entries => panic!("{id}: a folder without entries is left of {parent}"),
                PathLoss::File { size } => {
                    let gone = files.remove(&name).expect("a file that there was");
                    assert_eq!(*size, gone.bytes().len() as u64, "{id}: {name}");
                }
                PathLoss::Parts { ranges, kept_as, .. } => {
                    let mut content = files.remove(&name).expect("a file that there was");
                    content.holes.extend(ranges.iter().cloned());
                    files.insert(String::from_utf8_lossy(kept_as).into_owned(), content);
                }
            }
        }
        assert!(status.description.contains("repaired from"), "{id}: {status:?}");
        assert_eq!(status.tags, old.status.tags, "{id}: a repaired snapshot has the tags");
        let (started_ns, status) = (snapshot.started_ns, status.clone());
        let status = Status { is_forgotten: false, is_held: false, ..status };
        after.snapshots.insert(*id, ExpectedSnapshot { files, started_ns, status });
        twins.insert(*id);
    }
    for id in losses.keys() {
        let Some(kept) = after.snapshots.get_mut(id) else { continue };
        match done {
            Ok(done) => kept.status.is_forgotten |= done.forgotten.contains(id),
            // Interrupted: the next repair completes the work.
            Err(_) => kept.status.is_forgotten |= seen.get(id).is_some_and(|it| it.is_forgotten),
        }
    }
    let Ok(done) = done else { return };
    let repaired = done.snapshots.iter().filter_map(|each| match each.outcome {
        RepairOutcome::Repaired(twin) => Some(twin),
        _ => None,
    });
    assert_eq!(repaired.collect::<HashSet<_>>(), twins, "what it says that it has made");
}
