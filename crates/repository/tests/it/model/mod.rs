//! All operations on a repository, in random order, with crashes and damage between, compared with
//! plain maps of the expected content.
//!
//! One process runs after another, and a backup may meet others before its commit.
//! (`interleaving.rs` tests all orders of calls.) `CUTPOINT_SEEDS=10000` runs that many seeds,
//! `CUTPOINT_SEED=7` runs one and prints its steps.

mod change;
mod expected;
mod perform;
mod place;
mod steps;
mod tally;

use crate::support::backup;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::expected::{Model, seen};
use crate::model::perform::{perform, settle};
use crate::model::place::{Place, clock_ns};
use crate::model::steps::{Cache, Move, PRUNE_ALL, SECRETS, SWEEP_ALL, Step, generate};
use crate::model::tally::Tally;
use crate::support::damaged_repository::{Findings, Store, check_on, everything, read};
use crate::support::object_damage::harmed;
use bytes::Bytes;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::segment::{ContainerRecord, Segment};
use cutpoint_repository::index::load_toc;
use cutpoint_repository::rules::{self, Mutant};
use cutpoint_repository::verify::check::{CheckOptions, Coverage, Finding, check, record};
use cutpoint_repository::{
    Class, Fingerprint, ObjectName, PartName, Reader, Repository, TicketId, View,
};
use cutpoint_storage::{Fault, Memory, ObjectKind, Storage};
use cutpoint_testing::SplitMix64;

const SEEDS: u64 = 40;
const STEPS: u64 = 40;

type Objects = BTreeMap<String, Bytes>;

/// One history.
struct Run {
    storage: Arc<dyn Storage>,
    cache: tempfile::TempDir,
    coverage: Mutex<Coverage>,
    model: Model,
    process: u32,
    step: u64,
    /// The original bytes of objects that are or were damaged.
    harmed: Objects,
    /// The chunks in containers that are or were damaged.
    chunks: HashSet<(Class, Fingerprint)>,
    remembered: Option<(Objects, Model, Objects)>,
    tally: Tally,
    is_shown: bool,
}

/// Returns the name of the other copy of an object.
fn twin_of(name: ObjectName) -> Option<ObjectName> {
    match name {
        ObjectName::Config { number, copy } => Some(ObjectName::Config { number, copy: !copy }),
        ObjectName::Key { id, copy } => Some(ObjectName::Key { id, copy: !copy }),
        _ => None,
    }
}

impl Run {
    fn new(seed: u64, is_shown: bool) -> Run {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let process = u32::try_from(seed * 4000 + 1).expect("seeds are small");
        backup::init_by(storage.clone(), process).expect("an empty memory takes a repository");
        let model = Model { secrets: BTreeSet::from([SECRETS[0]]), ..Model::default() };
        Run {
            storage,
            cache: tempfile::tempdir().expect("a temporary folder"),
            coverage: Mutex::default(),
            model,
            process: process + 1,
            step: 0,
            harmed: Objects::new(),
            chunks: HashSet::new(),
            remembered: None,
            tally: Tally::default(),
            is_shown,
        }
    }

    /// Returns the place where the next process acts.
    fn place(&mut self, cache: Cache) -> Place {
        let process = self.process;
        // Leaves some numbers for other processes that come in between.
        self.process += 8;
        let folder = match cache {
            Cache::None => None,
            Cache::New => Some(self.cache.path().join(process.to_string())),
            Cache::Old => Some(self.cache.path().join("old")),
        };
        Place {
            storage: self.storage.clone(),
            process,
            clock_ns: clock_ns(self.step),
            cache: folder,
        }
    }

    fn look(&mut self) -> Arc<Repository> {
        let place = self.place(Cache::None);
        place.look(&self.model)
    }

    /// Makes a move, and checks that the lists are as expected.
    fn apply(&mut self, next: &Move) {
        self.step += 1;
        let place = self.place(next.cache);
        match &next.step {
            Step::Harm { object, harm } => self.harm(*object, harm),
            Step::Heal => self.heal(),
            Step::Remember => {
                let state = (everything(&*self.storage), self.model.clone(), self.harmed.clone());
                self.remembered = Some(state);
            }
            Step::RollBack => self.roll_back(),
            Step::CheckPart(portion) => {
                let repository = place.open(self.storage.clone(), &self.model).expect("it opens");
                let coverage = Some(&self.coverage);
                let options = CheckOptions { read_data: Some(*portion), coverage, threads: 1 };
                let report = check(&Arc::new(repository), &options, &()).expect("memory works");
                let is_excused = self.model.is_harmed || self.model.is_half_changed;
                assert!(is_excused || report.error_count == 0, "{report:?}");
            }
            Step::RecordDamage => {
                let repository = self.look();
                let damages = check_on(&repository, true, 1).report.damages;
                assert!(self.model.is_harmed || damages.is_empty(), "{damages:?}");
                let recorded = record(&repository, &damages, |_, _| {});
                assert!(recorded.is_ok() || self.model.is_harmed, "{recorded:?}");
            }
            _ => {
                let done = perform(next, &place, &self.model);
                self.tally.add(&done.tally);
                if let Err(error) = &done.result {
                    self.tally.failures += 1;
                    let is_excused = next.fault != Fault::None || self.model.is_harmed;
                    assert!(is_excused, "fails, and nothing is wrong: {error}");
                }
                self.model = settle(done.allowed, &place);
            }
        }
        self.tally.steps += 1;
    }

    /// Checks the invariants after each step.
    fn verify(&mut self, random: &mut SplitMix64, is_thorough: bool) {
        let repository = self.look();
        let view = View::list(&repository).expect("memory lists");
        assert_eq!(seen(&view), self.model.expected(), "the snapshots that are listed");
        if self.model.is_harmed {
            let findings = check_on(&repository, true, 1);
            self.compare(&repository, &findings);
            return;
        }
        let read_data = is_thorough || random.below(4) == 0;
        let findings = check_on(&repository, read_data, 1);
        let errors = self.errors(&findings);
        assert!(errors.is_empty(), "nothing is damaged, and the check says: {errors:#?}");
        let place = self.place([Cache::None, Cache::New, Cache::Old][random.below(3)]);
        let repository = place.open(self.storage.clone(), &self.model).expect("it opens");
        let reader = Reader::open(Arc::new(repository), view).expect("it opens");
        let ids: Vec<TicketId> = self.model.snapshots.keys().copied().collect();
        let chosen = random.below(ids.len().max(1));
        for (number, id) in ids.iter().enumerate() {
            if is_thorough || number == chosen {
                self.restore(&reader, *id);
            }
        }
    }

    /// Returns the errors of a check, except for copies that an interrupted change has not put.
    fn errors<'a>(&self, findings: &'a Findings) -> Vec<&'a Finding> {
        let is_expected = |finding: &&Finding| {
            let folders = [ObjectKind::Config, ObjectKind::Key].map(ObjectKind::folder);
            self.model.is_half_changed && folders.iter().any(|it| finding.object.starts_with(it))
        };
        findings.all.iter().filter(|it| it.is_error()).filter(|it| !is_expected(it)).collect()
    }

    /// Checks that a snapshot is restored as it was saved: each file, and no other.
    fn restore(&self, reader: &Reader, id: TicketId) {
        let view = reader.view();
        let snapshot = view.commits[&id].snapshot().expect("it is listed");
        let mut missing = self.model.snapshots[&id].files.clone();
        for entry in reader.tree(&snapshot.root) {
            let entry = entry.expect("nothing is damaged");
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let expected = missing.remove(&name).unwrap_or_else(|| panic!("{id}: {name} is new"));
            let bytes = read(reader, &entry).expect("nothing is damaged");
            assert!(bytes == expected.bytes(), "{id}: {name} comes back as other bytes");
        }
        assert!(missing.is_empty(), "{id}: {:?} are gone", missing.keys());
    }

    /// Checks that the files that the check reports as damaged are those that cannot be restored,
    /// and come from damaged objects. The rest must be unchanged.
    fn compare(&self, repository: &Arc<Repository>, findings: &Findings) {
        for finding in self.errors(findings) {
            let Ok(name) = ObjectName::parse(&finding.object) else { continue };
            let mut names = [Some(name), twin_of(name)].into_iter().flatten();
            let is_harmed = names.any(|name| self.harmed.contains_key(&name.to_string()));
            assert!(is_harmed, "no step has damaged this: {finding:?}");
        }
        // Missing chunks lay in damaged objects. Their places were recorded in a segment, or in a
        // commit that has named one, and are unknown after the index was rebuilt without it.
        // Rescued chunks had lain in condemned containers, too.
        let condemned = View::list(repository).expect("memory lists").condemned();
        let nowhere = PartName { ticket: TicketId([0; 12]), count: 0 };
        let says_where = |name: &String| name.starts_with("index/") || name.starts_with("commits/");
        for damage in &findings.report.damages {
            let container = (damage.class, damage.container);
            let name = ObjectName::Container(container.0, container.1).to_string();
            let is_harmed = self.harmed.contains_key(&name)
                || condemned.contains(&container)
                || (damage.container == nowhere
                    && (self.chunks.contains(&(damage.class, damage.fingerprint))
                        || self.harmed.keys().any(says_where)));
            assert!(is_harmed, "no step has damaged this: {damage:?}");
        }
        let store = Store { storage: self.storage.clone(), repository: repository.clone() };
        store.compare_by(findings, "a damaged repository", &|id, path| {
            let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
            self.model.snapshots[&id].files[name].bytes()
        });
    }

    /// Returns the name of an object that counts: a number chooses among them.
    fn choose_object(
        &self,
        number: usize,
        repository: &Repository,
        view: &View,
        containers: &BTreeMap<(Class, PartName), ContainerRecord>,
    ) -> ObjectName {
        let objects = everything(&*self.storage);
        let newest = repository.config_number();
        let (taken, live, condemned) = (view.taken(), view.segments(), view.condemned());
        let counts = |name: ObjectName| match name {
            ObjectName::Config { number, .. } => number == newest,
            ObjectName::Commit(ticket) => !taken.contains(&ticket),
            ObjectName::Segment(part) => live.contains(&part),
            ObjectName::Container(class, part) => {
                containers.contains_key(&(class, part)) && !condemned.contains(&(class, part))
            }
            ObjectName::Similarity(_) | ObjectName::Parity { .. } | ObjectName::View { .. } => {
                false
            }
            ObjectName::Key { .. } | ObjectName::Ticket { .. } | ObjectName::Prune(_) => true,
        };
        let has_intact_twin = |name: ObjectName| {
            twin_of(name).is_none_or(|twin| {
                let twin = twin.to_string();
                objects.contains_key(&twin) && !self.harmed.contains_key(&twin)
            })
        };
        let names: Vec<ObjectName> = objects
            .keys()
            .filter(|name| !self.harmed.contains_key(*name))
            .filter_map(|name| ObjectName::parse(name).ok())
            .filter(|name| counts(*name) && has_intact_twin(*name))
            .collect();
        // Chosen by kind first, so that frequent kinds do not hide rare ones.
        let kinds: Vec<ObjectKind> = ObjectKind::ALL
            .into_iter()
            .filter(|kind| names.iter().any(|name| name.kind() == *kind))
            .collect();
        let kind = kinds[number % kinds.len()];
        let of_kind: Vec<_> = names.into_iter().filter(|name| name.kind() == kind).collect();
        of_kind[number / 7 % of_kind.len()]
    }

    /// Damages an object that counts.
    fn harm(&mut self, number: usize, harm: &str) {
        let repository = self.look();
        let view = View::list(&repository).expect("memory lists");
        let containers: BTreeMap<(Class, PartName), ContainerRecord> = view
            .segments()
            .into_iter()
            .filter_map(|part| repository.get(ObjectName::Segment(part)).ok())
            .flat_map(|body| Segment::decode(&body).expect("it opened").containers)
            .map(|container| ((container.class, container.name), container))
            .collect();
        let name = self.choose_object(number, &repository, &view, &containers);
        let path = name.to_string();
        let intact = self.storage.get(&path).expect("it is there");
        let concerned = snapshots_of(name, &view);
        if let ObjectName::Container(class, part) = name {
            let toc = load_toc(&repository, &containers[&(class, part)]);
            let chunks = toc.expect("it is intact").chunks.into_iter();
            self.chunks.extend(chunks.map(|chunk| (class, chunk.fingerprint)));
        }
        if self.is_shown {
            println!("    {path}: {harm}");
        }
        let store = Store { storage: self.storage.clone(), repository };
        store.replace(&path, harmed(&intact, harm));
        self.harmed.insert(path.clone(), intact.clone());
        self.model.is_harmed = true;
        self.tally.harms += 1;

        let findings = store.check(true);
        let is_unseen = harm == "deleted" && is_deletion_unseen(name, &view);
        assert!(is_unseen || findings.names(&path), "{path} ({harm}): {:#?}", findings.all);
        if name.kind() == ObjectKind::Prune {
            // Without it nothing can be written, nor is it known what is listed, so it is restored
            // by hand at once.
            let view = View::list(&store.repository).expect("memory lists");
            assert!(is_unseen || view.require_prunes().is_err(), "{path} ({harm}): not missed");
            store.replace(&path, Some(intact));
            self.harmed.remove(&path);
            return;
        }
        // The content of a damaged commit is unknown.
        let view = View::list(&store.repository).expect("memory lists");
        let now = seen(&view);
        for id in concerned {
            match (now.get(&id), self.model.snapshots.get_mut(&id)) {
                (Some(status), Some(kept)) => kept.status = status.clone(),
                (None, _) => drop(self.model.snapshots.remove(&id)),
                (Some(_), None) => panic!("{id} is back"),
            }
        }
    }

    /// Repairs damage. After that nothing is wrong any more.
    fn heal(&mut self) {
        // Restored by hand: objects of which only the copy of the complete repository is left.
        let store = Store { repository: self.look(), storage: self.storage.clone() };
        for (path, intact) in &self.harmed {
            let name = ObjectName::parse(path).expect("it was a name");
            let is_root = matches!(name.kind(), ObjectKind::Config | ObjectKind::Key);
            let twin = twin_of(name).map(|twin| twin.to_string());
            if is_root
                && twin.is_some_and(|twin| self.storage.head(&twin).expect("memory").is_some())
            {
                store.replace(path, Some(intact.clone()));
            }
        }
        let findings = check_on(&store.repository, true, 1);
        record(&store.repository, &findings.report.damages, |_, _| {}).expect("memory takes it");
        let mut steps = Vec::new();
        if self.model.is_half_changed {
            steps.push(Step::Rotate(self.model.secrets.iter().copied().collect()));
        }
        steps.push(Step::Settings(1));
        let held = self.model.expected().values().filter(|status| status.is_held).count();
        steps.extend(vec![Step::Release(0); held]);
        steps.push(Step::RepairIndex { dry_run: false });
        // The sources are unchanged, each time.
        steps.extend(self.model.sources().into_iter().map(|files| Step::BackUp {
            files,
            publish: true,
            parent: None,
            tag: 0,
        }));
        steps.extend([
            Step::RepairSnapshots { dry_run: false, forget: true },
            PRUNE_ALL,
            SWEEP_ALL,
        ]);
        for step in steps {
            let place = self.place(Cache::Old);
            let next = Move { step, fault: Fault::None, cache: Cache::Old, others: Vec::new() };
            let done = perform(&next, &place, &self.model);
            done.result.unwrap_or_else(|error| panic!("{:?}: {error}", next.step));
            self.tally.add(&done.tally);
            self.model = settle(done.allowed, &place);
        }
        let was_harmed = std::mem::take(&mut self.model.is_harmed);
        let findings = check_on(&self.look(), true, 1);
        let errors = self.errors(&findings);
        assert!(errors.is_empty(), "after all repairs (harmed: {was_harmed}): {errors:#?}");
    }

    /// Restores an earlier state of the storage, but not of the caches.
    fn roll_back(&mut self) {
        let Some((objects, model, harmed)) = self.remembered.clone() else { return };
        for name in everything(&*self.storage).keys() {
            self.storage.delete(name).expect("memory deletes");
        }
        for (name, bytes) in objects {
            self.storage.put_new(&name, bytes).expect("memory takes it");
        }
        (self.model, self.harmed) = (model, harmed);
        self.tally.rollbacks += 1;
    }
}

/// Returns the snapshots whose properties depend on the object.
fn snapshots_of(name: ObjectName, view: &View) -> Vec<TicketId> {
    let ObjectName::Commit(ticket) = name else { return Vec::new() };
    match view.commits.get(&ticket).map(|commit| &commit.outcome) {
        Some(Outcome::Snapshot(_)) => vec![ticket],
        Some(Outcome::Forget(ids)) => ids.clone(),
        Some(Outcome::Note(note)) => note.snapshot.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns `true` if no other object shows that the object was deleted.
fn is_deletion_unseen(name: ObjectName, view: &View) -> bool {
    match name {
        ObjectName::Ticket { .. } => true,
        ObjectName::Commit(ticket) => !view.seen().contains(&ticket),
        // The newest record, which no other client has seen yet.
        ObjectName::Prune(number) => {
            let seen = view.commits.values().map(|commit| commit.view.prune);
            let others = view.prunes.keys().copied().filter(|it| *it != number);
            seen.chain(others).all(|it| it < number)
        }
        _ => false,
    }
}

/// Runs a seed. Returns what happened, or how it failed and after which moves.
fn run(seed: u64, mutant: Option<Mutant>, is_shown: bool) -> Result<Tally, String> {
    rules::activate(mutant);
    let mut random = SplitMix64::new(seed ^ 0x30de1);
    let mut moves: Vec<Move> = Vec::new();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, is_shown);
        for step in 0..STEPS {
            let next = generate(&mut random);
            if is_shown {
                println!("{step:3} {next:?}");
            }
            moves.push(next.clone());
            run.apply(&next);
            run.verify(&mut random, step + 1 == STEPS);
        }
        run.tally
    }));
    rules::activate(None);
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let steps: String =
            moves.iter().enumerate().map(|(step, it)| format!("\n  {step:3} {it:?}")).collect();
        format!(
            "seed {seed}: {}\nafter these steps:{steps}\n\nto replay it: CUTPOINT_SEED={seed} \
             cargo test -p cutpoint-repository --test it model::random -- --nocapture",
            text.unwrap_or_default()
        )
    })
}

#[test]
fn random_histories_lose_nothing() {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    if let Some(seed) = number("CUTPOINT_SEED") {
        let tally = run(seed, None, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{tally:?}");
        return;
    }
    let seeds: u64 = number("CUTPOINT_SEEDS").unwrap_or(SEEDS);
    let began = std::time::Instant::now();
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let lock = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while lock().is_none() {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds {
                        return;
                    }
                    match run(seed, None, false) {
                        Ok(tally) => {
                            total.lock().unwrap_or_else(PoisonError::into_inner).add(&tally);
                        }
                        Err(failure) => drop(lock().get_or_insert(failure)),
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{seeds} seeds in {:.1} s: {total:?}", began.elapsed().as_secs_f64());
    if let Some(failure) = lock().take() {
        panic!("{failure}");
    }
    // Histories in which nothing happens would pass as well.
    let least = [
        total.failures,
        total.pruned_snapshots,
        total.swept_containers,
        total.rescued_chunks,
        total.harms,
        total.losses,
        total.rollbacks,
    ];
    assert!(seeds < 20 || least.iter().all(|count| *count > 0), "too tame: {total:?}");
}

/// The model notices violations: each broken rule that it can see, and that shows within few
/// histories.
#[test]
fn broken_rules_are_noticed() {
    for mutant in [Mutant::TakesExistsForOwn, Mutant::RescuesNothing, Mutant::DoesNotWait] {
        let caught = (0..100).find_map(|seed| Some((seed, run(seed, Some(mutant), false).err()?)));
        let (seed, failure) = caught.unwrap_or_else(|| panic!("{mutant:?} stays unnoticed"));
        println!("{mutant:?}: seed {seed}: {}", failure.lines().next().unwrap_or_default());
    }
}
