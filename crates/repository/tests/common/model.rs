//! A model of the expected content of a repository, as plain maps, and the effect of each step on
//! both.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::gc::prune::{OptimizeOptions, PruneOptions, optimize, plan, prune};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::repo::keys::Others;
use cutpoint_repository::snapshots::retention::{Candidate, Grouping, Period, Policy, judge};
use cutpoint_repository::snapshots::{forget, hold, note, release, unforget};
use cutpoint_repository::verify::check::{CheckMonitor, Portion};
use cutpoint_repository::verify::repair::{
    IndexOptions, PathLoss, RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotsRepair,
    repair_index, repair_snapshots,
};
use cutpoint_repository::{
    Committed, Purpose, Reader, Repository, Secret, Snapshot, TicketId, Unlock, View, Writer,
};
use cutpoint_storage::{Error, Fault, Faulty, Kind, Result, Storage};

use crate::backup::{Machine, back_up_by, file};
use crate::damage::everything;
use crate::overtaken::{Overtaken, When};
use crate::steps::{Move, SECRETS, Step, TAGS};

const MINUTE_NS: u64 = 60 * 1_000_000_000;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// The expected content of a file: that of a number, except for parts that a repair has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    number: u64,
    holes: Vec<Range<u64>>,
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
pub(crate) struct Kept {
    pub(crate) files: BTreeMap<String, Content>,
    started_ns: i64,
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
    pub(crate) snapshots: BTreeMap<TicketId, Kept>,
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

    fn ids(&self, is_it: impl Fn(&Status) -> bool) -> Vec<TicketId> {
        let chosen = self.snapshots.iter().filter(|(_, kept)| is_it(&kept.status));
        chosen.map(|(id, _)| *id).collect()
    }

    fn status(&mut self, id: TicketId) -> &mut Status {
        &mut self.snapshots.get_mut(&id).expect("it was chosen among these").status
    }

    /// Returns the sets of files that were backed up, as far as complete files are left of them.
    pub(crate) fn sources(&self) -> BTreeSet<Vec<u64>> {
        let whole = |content: &&Content| content.holes.is_empty();
        let numbers = |kept: &Kept| kept.files.values().filter(whole).map(|it| it.number).collect();
        self.snapshots.values().map(numbers).collect()
    }
}

fn pick<T: Copy>(from: &[T], number: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[number % from.len()])
}

pub(crate) fn key(secret: u8) -> Unlock {
    Unlock::KeyFile(Secret([secret; 32]))
}

/// The place where a step acts.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The storage behind every fault.
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) process: u32,
    pub(crate) clock_ns: u64,
    pub(crate) cache: Option<PathBuf>,
}

impl Place {
    /// Opens the repository by a secret of the model.
    pub(crate) fn open(&self, storage: Arc<dyn Storage>, model: &Model) -> Result<Repository> {
        let secret = *model.secrets.first().expect("there is always one");
        self.open_with(storage, secret)
    }

    fn open_with(&self, storage: Arc<dyn Storage>, secret: u8) -> Result<Repository> {
        let machine = Machine::at(self.process, self.clock_ns);
        let repository = Repository::open(storage, machine, &key(secret))?;
        Ok(match &self.cache {
            Some(cache) => repository.with_cache(cache.clone()),
            None => repository,
        })
    }

    /// Returns the repository without faults and without a cache, for inspection.
    pub(crate) fn look(&self, model: &Model) -> Arc<Repository> {
        let place = Place { cache: None, ..self.clone() };
        Arc::new(place.open(self.storage.clone(), model).expect("it always opens"))
    }
}

/// Counts of what happened, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) failures: u64,
    pub(crate) backups: u64,
    pub(crate) pruned_snapshots: u64,
    pub(crate) swept_containers: u64,
    pub(crate) rescued_chunks: u64,
    pub(crate) harms: u64,
    pub(crate) losses: u64,
    pub(crate) rollbacks: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.steps += other.steps;
        self.failures += other.failures;
        self.backups += other.backups;
        self.pruned_snapshots += other.pruned_snapshots;
        self.swept_containers += other.swept_containers;
        self.rescued_chunks += other.rescued_chunks;
        self.harms += other.harms;
        self.losses += other.losses;
        self.rollbacks += other.rollbacks;
    }
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) result: Result<()>,
    /// The possible contents of the repository: the result of the step, or after a failure also the
    /// content before.
    pub(crate) allowed: Vec<Model>,
    pub(crate) tally: Tally,
}

/// Makes a move on a storage that fails as the move says.
pub(crate) fn perform(next: &Move, place: &Place, model: &Model) -> Done {
    let faulty: Arc<dyn Storage> = match next.fault {
        Fault::None => place.storage.clone(),
        fault => Arc::new(Faulty::new(place.storage.clone(), fault)),
    };
    if next.others.is_empty() {
        return act(&next.step, place, &faulty, model);
    }
    // The other processes have smaller numbers, so they do not take this one for dead.
    let others = u32::try_from(next.others.len()).expect("they are few");
    let own = Place { process: place.process + others, ..place.clone() };
    let met: Arc<Mutex<Option<(Model, Tally)>>> = Arc::default();
    let meddle = {
        let (met, place, others) = (met.clone(), place.clone(), next.others.clone());
        let mut model = model.clone();
        move || {
            let mut tally = Tally::default();
            for (step, number) in others.iter().zip(0..) {
                // Later than the times of the previous process.
                let clock_ns = place.clock_ns + u64::from(number) * MINUTE_NS;
                let process = place.process + number;
                let place = Place { process, clock_ns, ..place.clone() };
                let done = act(step, &place, &place.storage, &model);
                tally.add(&done.tally);
                model = settle(done.allowed, &place);
            }
            *met.lock().unwrap_or_else(PoisonError::into_inner) = Some((model, tally));
        }
    };
    let storage = Overtaken::new(faulty, When::BeforePut("commits/"), meddle);
    let mut done = act(&next.step, &own, &(storage as Arc<dyn Storage>), model);
    let met = met.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((met, tally)) = met {
        done.tally.add(&tally);
        // A backup adds its snapshot to every possible content.
        for allowed in &mut done.allowed {
            let new = allowed.snapshots.iter().filter(|(id, _)| !model.snapshots.contains_key(id));
            let new: Vec<_> = new.map(|(id, kept)| (*id, kept.clone())).collect();
            *allowed = met.clone();
            allowed.snapshots.extend(new);
        }
    }
    done
}

/// Returns the model that the repository agrees with.
pub(crate) fn settle(allowed: Vec<Model>, place: &Place) -> Model {
    let repository = place.look(&allowed[0]);
    let view = View::list(&repository).expect("memory lists");
    let seen = seen(&view);
    let differences = |model: &Model| -> Vec<String> {
        let expected = model.expected();
        let ids: BTreeSet<_> = seen.keys().chain(expected.keys()).collect();
        let differ = ids.into_iter().filter(|id| seen.get(*id) != expected.get(*id));
        differ.map(|id| format!("{id}: {:?}, not {:?}", seen.get(id), expected.get(id))).collect()
    };
    let told: Vec<_> = allowed.iter().map(differences).collect();
    let found = allowed.into_iter().zip(&told).find(|(_, differences)| differences.is_empty());
    found.unwrap_or_else(|| panic!("the lists show something else: {told:#?}")).0
}

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

fn act(step: &Step, place: &Place, storage: &Arc<dyn Storage>, model: &Model) -> Done {
    let mut after = model.clone();
    let mut tally = Tally::default();
    let mut acts = || -> Result<()> {
        let mut repository = place.open(storage.clone(), model)?;
        if change_keys(step, &mut repository, place, &mut after)? {
            return Ok(());
        }
        let repository = Arc::new(repository);
        change(step, &repository, place, &mut after, &mut tally)
    };
    let result = acts();
    if let Err(error) = &result {
        let is_excused = Arc::ptr_eq(storage, &place.storage).then_some(model.is_harmed);
        assert!(is_excused != Some(false), "{step:?} fails, and nothing is wrong: {error}");
    }
    let mut allowed = vec![after];
    if result.is_err() {
        allowed.push(model.clone());
    }
    Done { result, allowed, tally }
}

/// Carries out a step that concerns keys or settings. Returns `true` if `step` is one.
fn change_keys(
    step: &Step,
    repository: &mut Repository,
    place: &Place,
    after: &mut Model,
) -> Result<bool> {
    let before = after.secrets.clone();
    let ids = |secret: u8| -> Vec<[u8; 16]> {
        let opened = place.open_with(place.storage.clone(), secret);
        opened.ok().and_then(|repository| repository.key_id()).into_iter().collect()
    };
    let result = match step {
        Step::AddKey(secret) if !before.contains(secret) => {
            after.secrets.insert(*secret);
            repository.add_key(&key(*secret), "").map(drop)
        }
        Step::RemoveKey(secret) if before.len() > 1 && before.contains(secret) => {
            after.secrets.remove(secret);
            ids(*secret).into_iter().try_for_each(|id| repository.remove_key(id, true))
        }
        Step::ReplaceKey(old, new) if before.contains(old) && !before.contains(new) => {
            after.secrets.remove(old);
            after.secrets.insert(*new);
            ids(*old)
                .into_iter()
                .try_for_each(|id| repository.replace_key(id, &key(*new)).map(drop))
        }
        Step::Rotate(secrets) => {
            let kept: BTreeSet<u8> =
                secrets.iter().copied().filter(|s| before.contains(s)).collect();
            if kept.is_empty() {
                return Ok(true);
            }
            after.secrets.clone_from(&kept);
            let kept: Vec<Unlock> = kept.into_iter().map(key).collect();
            repository.begin_epoch(&kept, Others::Remove).map(drop)
        }
        Step::Settings(level) => {
            let mut config = repository.config().clone();
            config.compression_level = *level;
            repository.set_config(config)
        }
        Step::AddKey(_) | Step::RemoveKey(_) | Step::ReplaceKey(..) => Ok(()),
        _ => return Ok(false),
    };
    let opens: BTreeSet<u8> = SECRETS
        .into_iter()
        .filter(|secret| match place.open_with(place.storage.clone(), *secret) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), Kind::WrongKey, "secret {secret}: {error}");
                false
            }
        })
        .collect();
    if result.is_ok() {
        assert_eq!(opens, after.secrets, "what opens the repository after {step:?}");
        // Settings are put again, both copies.
        after.is_half_changed &= !matches!(step, Step::Settings(_));
    } else {
        let must: BTreeSet<u8> = before.intersection(&after.secrets).copied().collect();
        let may: BTreeSet<u8> = before.union(&after.secrets).copied().collect();
        let is_allowed = opens.is_superset(&must) && opens.is_subset(&may) && !opens.is_empty();
        assert!(is_allowed, "{step:?} was cut off: {opens:?} open the repository, of {may:?}");
        // Neither model has these secrets, so the model takes those of the repository.
        (after.secrets, after.is_half_changed) = (opens, true);
    }
    result.map(|()| true)
}

/// Carries out every other step.
fn change(
    step: &Step,
    repository: &Arc<Repository>,
    place: &Place,
    after: &mut Model,
    tally: &mut Tally,
) -> Result<()> {
    match step {
        Step::BackUp { files, publish, parent, tag } => {
            let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
            let view = writer.view().clone();
            let mut taken = BTreeMap::new();
            let mut kept = BTreeMap::new();
            // W3, except for the rules of `cutting.rs` about damage.
            let parents: Vec<TicketId> = after
                .snapshots
                .keys()
                .copied()
                .filter(|id| view.may_take_over(*id) && view.damaged().is_empty())
                .collect();
            let parent = parent.and_then(|number| pick(&parents, number));
            if let Some(snapshot) = parent.and_then(|id| view.commits[&id].snapshot())
                && view.unreadable.is_empty()
            {
                let reader = Reader::open(repository.clone(), view.clone())?;
                for entry in reader.tree(&snapshot.root) {
                    let entry = entry?;
                    taken.insert(entry.name.clone(), entry);
                }
                kept.clone_from(&after.snapshots[&parent.expect("it was found")].files);
            }
            kept.extend(files.iter().map(|number| {
                (format!("file {number:04}"), Content { number: *number, holes: Vec::new() })
            }));
            let snapshot = Snapshot {
                started_ns: repository.environment().now_ns(),
                tags: vec![TAGS[*tag].to_owned()],
                ..Snapshot::empty()
            };
            let status = Status {
                is_forgotten: false,
                is_held: false,
                tags: snapshot.tags.clone(),
                description: String::new(),
            };
            let started_ns = snapshot.started_ns;
            let kept = Kept { files: kept, started_ns, status };
            let ticket = writer.ticket();
            after.snapshots.insert(ticket, kept);
            match back_up_by(writer, files, taken, *publish, snapshot)? {
                Committed::Done => tally.backups += 1,
                // Another client has ended it.
                Committed::Ended => drop(after.snapshots.remove(&ticket)),
            }
            Ok(())
        }
        Step::Forget(numbers) => {
            let there = after.ids(|status| !status.is_forgotten && !status.is_held);
            let chosen: BTreeSet<_> = numbers.iter().filter_map(|n| pick(&there, *n)).collect();
            for id in &chosen {
                after.status(*id).is_forgotten = true;
            }
            forget(repository, |_| Ok::<_, Error>(chosen.iter().copied().collect())).map(drop)
        }
        Step::Keep { last, tag } => keep(*last, *tag, repository, after),
        Step::BringBack(number) => {
            let Some(id) = pick(&after.ids(|status| status.is_forgotten), *number) else {
                return Ok(());
            };
            after.status(id).is_forgotten = false;
            unforget(repository, &[id]).map(drop)
        }
        Step::Hold(number) => {
            let Some(id) = pick(&after.ids(|_| true), *number) else { return Ok(()) };
            after.status(id).is_held = true;
            hold(repository, &[id]).map(drop)
        }
        Step::Release(number) => {
            let Some(id) = pick(&after.ids(|status| status.is_held), *number) else {
                return Ok(());
            };
            after.status(id).is_held = false;
            release(repository, &[id]).map(drop)
        }
        Step::Note { snapshot, tag, text } => {
            let Some(id) = pick(&after.ids(|_| true), *snapshot) else { return Ok(()) };
            let status = after.status(id);
            status.tags = vec![TAGS[*tag].to_owned()];
            status.description = format!("text {text}");
            let Status { tags, description, .. } = status.clone();
            note(repository, id, |new_tags, new_description| {
                new_tags.clone_from(&tags);
                new_description.clone_from(&description);
            })
            .map(drop)
        }
        Step::Prune { unused_max, rewrite_bytes_max, segment_count_max, small_count_max } => {
            let options = PruneOptions {
                unused_max: *unused_max,
                rewrite_bytes_max: *rewrite_bytes_max,
                segment_count_max: *segment_count_max,
                small_count_max: *small_count_max,
                is_alone: false,
            };
            let taken = after.ids(|status| status.is_forgotten && !status.is_held);
            after.snapshots.retain(|id, _| !taken.contains(id));
            let pruned = prune(repository, &options, &(), |_| true)?.expect("it was approved");
            assert_eq!(pruned.plan.forgotten_count, taken.len() as u64, "what a prune takes");
            tally.pruned_snapshots += pruned.plan.forgotten_count;
            Ok(())
        }
        Step::Optimize { compression_level, rewrite_bytes_max } => {
            let options = OptimizeOptions {
                region_size: 256 * 1024,
                compression_level: *compression_level,
                rewrite_bytes_max: *rewrite_bytes_max,
                spares_incompressible: false,
                is_alone: false,
            };
            let taken = after.ids(|status| status.is_forgotten && !status.is_held);
            after.snapshots.retain(|id, _| !taken.contains(id));
            let done = optimize(repository, &options, &(), |_| true)?.expect("it was approved");
            assert_eq!(done.plan.forgotten_count, taken.len() as u64, "it takes what a prune does");
            tally.pruned_snapshots += done.plan.forgotten_count;
            Ok(())
        }
        Step::PlanPrune => {
            without_writing(place, || plan(repository, &PruneOptions::default(), &()).map(drop))
        }
        Step::Sweep { is_patient, end_others } => {
            let defaults = SweepOptions { end_others: *end_others, ..SweepOptions::default() };
            let options = if *is_patient {
                defaults
            } else {
                SweepOptions { settle_ns: 0, commit_ns: 0, ..defaults }
            };
            let mut sweeper = Sweeper::new(repository.clone(), options);
            while let Sweep::Done(swept) = sweeper.step(&())? {
                tally.swept_containers += swept.container_count;
                tally.rescued_chunks += swept.rescued_count;
            }
            Ok(())
        }
        Step::RepairIndex { dry_run } => {
            let options = IndexOptions { dry_run: *dry_run, ..IndexOptions::default() };
            let repair = || repair_index(repository, &options, &()).map(drop);
            if *dry_run { without_writing(place, repair) } else { repair() }
        }
        Step::RepairSnapshots { dry_run, forget } => {
            let options = SnapshotOptions {
                dry_run: *dry_run,
                forget: *forget,
                read_data: Some(Portion::All),
                threads: 1,
            };
            let losses = Losses::default();
            let repair = || repair_snapshots(repository, &options, &losses);
            if *dry_run {
                return without_writing(place, || repair().map(drop));
            }
            let done = repair();
            let losses = losses.0.into_inner().unwrap_or_else(PoisonError::into_inner);
            tally.losses += losses.values().map(|losses| losses.len() as u64).sum::<u64>();
            adopt_repaired(&done, &losses, place, after);
            done.map(drop)
        }
        other => panic!("{other:?} is no step of the store"),
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
        after.snapshots.insert(*id, Kept { files, started_ns, status });
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
    let repaired = done.snapshots.iter().filter_map(|each| match each.fate {
        RepairOutcome::Repaired(twin) => Some(twin),
        _ => None,
    });
    assert_eq!(repaired.collect::<HashSet<_>>(), twins, "what it says that it has made");
}

/// Returns the time at which a step begins.
pub(crate) fn clock_ns(step: u64) -> u64 {
    (1 << 60) + step * 9 * HOUR_NS
}
