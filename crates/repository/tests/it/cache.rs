//! The local index: damage to its files costs time and nothing else.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use crate::support::backup::{back_up, restore_all, unlock};
use crate::support::damaged_repository::{Store, build};
use crate::support::machine::Machine;
use cutpoint_repository::format::recipe::Segment as Piece;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::gc::prune::{PruneOptions, PrunePlan, plan};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::{Class, Fingerprint, Index, ObjectName, Reader, Repository, Scope, View};
use cutpoint_storage::{Environment, ObjectKind};
use tempfile::TempDir;

/// A day, after which half-written files are removed.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A repository with the content of [`build`], and a cache.
struct CachedRepository {
    store: Store,
    cache: TempDir,
}

impl CachedRepository {
    /// Creates a repository whose cache is complete.
    fn new() -> CachedRepository {
        let cached =
            CachedRepository { store: Store::new(&build()), cache: TempDir::new().expect("made") };
        assert_eq!(restore_all(&cached.open()).expect("nothing is damaged"), 2, "snapshots");
        assert!(!cached.runs().is_empty(), "there is a cache");
        cached
    }

    /// The repository as another process of this machine has it.
    fn open(&self) -> Arc<Repository> {
        with_cache(&self.store, self.cache.path())
    }

    fn folder(&self) -> PathBuf {
        self.open().cache().expect("it has one").join("index")
    }

    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).expect("it lists");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("it lists").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "run"));
        paths.sort();
        paths
    }

    fn expect_all_is_well(&self, case: &str) {
        let (storage, repository) = (self.store.storage.clone(), self.open());
        assert_eq!(restore_all(&repository).expect(case), 2, "{case}: snapshots");
        let store = Store { storage, repository: self.open() };
        let findings = store.check(true);
        assert_eq!(findings.report.error_count, 0, "{case}: {:#?}", findings.all);
        store.compare(&findings, case);
    }

    fn containers(&self) -> usize {
        let kinds = [ObjectKind::Data, ObjectKind::Meta].into_iter();
        kinds.map(|kind| self.store.storage.list(kind.folder()).expect("it lists").len()).sum()
    }
}

fn with_cache(store: &Store, cache: &Path) -> Arc<Repository> {
    static PROCESSES: AtomicU32 = AtomicU32::new(2);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    let repository = Repository::open(store.storage.clone(), Machine::new(process), &unlock());
    Arc::new(repository.expect("it opens").with_cache(cache.to_path_buf()))
}

/// Writes to the file itself, as a bad disk would. A process that has the file open sees the
/// change.
fn overwrite(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("it is there");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

type Change = (&'static str, fn(&mut Vec<u8>));

const CHANGES: [Change; 9] = [
    ("the last hint", |bytes| flip_behind(bytes, 4 + 12)),
    ("the last container number", |bytes| flip_behind(bytes, 4 + 4)),
    ("the last checksum", |bytes| flip_behind(bytes, 1)),
    ("the header", |bytes| bytes[17] ^= 1),
    ("the version", |bytes| bytes[7] = b'1'),
    ("the tables", |bytes| bytes[40] ^= 1),
    ("cut to nothing", Vec::clear),
    ("cut by a byte", |bytes| bytes.truncate(bytes.len() - 1)),
    ("zeros at the end", |bytes| {
        let len = bytes.len();
        bytes[len - 100..].fill(0);
    }),
];

fn flip_behind(bytes: &mut [u8], behind: usize) {
    let place = bytes.len() - behind;
    bytes[place] ^= 0x40;
}

#[test]
fn damaged_run_costs_only_time() {
    for (case, change) in CHANGES {
        let cached = CachedRepository::new();
        cached.runs().iter().for_each(|run| overwrite(run, change));
        cached.expect_all_is_well(case);
    }
}

#[test]
fn run_damaged_while_in_use_loses_nothing() {
    for (case, change) in CHANGES {
        let cached = CachedRepository::new();
        let repository = cached.open();
        let view = View::list(&repository).expect("it lists");
        let reader = Reader::open(repository.clone(), view.clone()).expect("it opens");
        cached.runs().iter().for_each(|run| overwrite(run, change));
        for (_, snapshot) in view.snapshots() {
            for entry in reader.tree(&snapshot.root) {
                let entry = entry.expect(case);
                for piece in reader.segments(&entry.content) {
                    let Piece::Chunk { fingerprint, .. } = piece.expect(case) else { continue };
                    reader.chunk(Class::Data, &fingerprint).expect(case);
                }
            }
        }
    }
}

/// Known chunks are not stored again.
#[test]
fn backup_finds_chunks_of_a_damaged_run() {
    for (case, change) in CHANGES {
        let cached = CachedRepository::new();
        cached.runs().iter().for_each(|run| overwrite(run, change));
        let before = cached.containers();
        back_up(&cached.open(), &[1, 2, 3], false).expect(case);
        assert_eq!(cached.containers(), before, "{case}: containers");
        assert_eq!(restore_all(&cached.open()).expect(case), 3, "{case}: snapshots");
    }
}

/// Ten runs of similar size become one. A damaged run is first read again.
#[test]
fn damaged_runs_are_not_merged() {
    for (case, change) in CHANGES {
        let cached = CachedRepository::new();
        let back_up_with = |cache: &Path, numbers: Range<u64>| {
            for number in numbers {
                let repository = with_cache(&cached.store, cache);
                back_up(&repository, &[number], false).expect(case);
            }
        };
        let view = || View::list(&cached.open()).expect("it lists");
        back_up_with(cached.cache.path(), 100..112);
        let index = Index::open(cached.open(), &view()).expect("it opens");
        let before = cached.runs();
        before.iter().for_each(|run| overwrite(run, change));
        // By another machine, one after another, so that each becomes a run.
        for number in 112..120 {
            back_up_with(TempDir::new().expect("made").path(), number..number + 1);
            index.refresh(&view()).expect(case);
        }
        let fresh = Index::open_without_cache(cached.open(), &view()).expect("it opens");
        let count = |index: &Index| index.statistics().hint_count;
        assert!(count(&fresh) > 100, "{case}: {} hints", count(&fresh));
        assert_eq!(count(&index), count(&fresh), "{case}: hints");
        assert!(cached.runs().iter().any(|run| !before.contains(run)), "{case}: none was merged");
        assert!(cached.runs().len() < 10, "{case}: {} runs", cached.runs().len());
    }
}

/// A run with valid checksums that names less than its segments do.
#[test]
fn wrong_run_does_not_hide_chunks() {
    for names_containers in [false, true] {
        let cached = lying(names_containers);
        cached.expect_all_is_well("lies");
        cached.expect_all_is_well("the truth again");
    }
}

/// A cache of valid runs that name no chunks, and containers only if `names_containers` is set.
fn lying(names_containers: bool) -> CachedRepository {
    let objects = build();
    let liar = Store::new(&objects);
    for name in objects.keys() {
        if let Ok(name @ ObjectName::Segment(_)) = ObjectName::parse(name) {
            let body = liar.repository.get(name).expect("it is there");
            let mut segment = Segment::decode(&body).expect("it decodes");
            segment.hints.clear();
            if !names_containers {
                segment.containers.clear();
            }
            liar.replace(&name.to_string(), None);
            liar.repository.seal_and_put(name, &segment.encode()).expect("memory takes it");
        }
    }
    let cached = CachedRepository::new();
    cached.runs().iter().for_each(|run| fs::remove_file(run).expect("it is there"));
    let repository = with_cache(&liar, cached.cache.path());
    Index::open(repository.clone(), &View::list(&repository).expect("it lists")).expect("it opens");
    assert!(!cached.runs().is_empty(), "the lies are cached");
    cached
}

/// A prune takes neither damage of the cache nor a wrong cache for a loss.
#[test]
fn prune_plan_is_independent_of_the_cache() {
    let options = PruneOptions { unused_max: 0.0, ..PruneOptions::default() };
    let plan =
        |cached: &CachedRepository, case: &str| plan(&cached.open(), &options, &()).expect(case);
    let expected = plan(&CachedRepository::new(), "nothing is damaged");
    assert!(expected.container_count > 3, "{expected:?}");
    for (case, change) in CHANGES {
        let cached = CachedRepository::new();
        cached.runs().iter().for_each(|run| overwrite(run, change));
        assert_eq!(plan(&cached, case), expected, "{case}");
    }
    assert_eq!(plan(&lying(true), "lies"), expected, "lies");
    // Orphans are indexed.
    let orphans = plan(&lying(false), "more lies");
    assert!(orphans.orphan_count > 0, "{orphans:?}");
    assert_eq!(PrunePlan { orphan_count: 0, ..orphans }, expected, "more lies");
}

/// A cache on a disk that fails at every call is given up, and the work goes on.
#[test]
fn unwritable_cache_is_given_up() {
    let cached = CachedRepository::new();
    let folder = cached.folder();
    fs::remove_dir_all(&folder).expect("removed");
    File::create(&folder).expect("a file in the place of the folder");
    cached.expect_all_is_well("no folder");
}

#[test]
fn half_written_files_are_removed() {
    let cached = CachedRepository::new();
    let now_ns = Machine::new(1).now_ns();
    let now = UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).expect("after 1970"));
    let leave = |name: &str, age: Duration| {
        let path = cached.folder().join(name);
        let file = File::create(&path).expect("made");
        file.set_modified(now - age).expect("set");
        path
    };
    let stale = leave("00.run.1-0.tmp", 2 * DAY);
    let recent = leave("00.run.2-0.tmp", DAY / 2);
    cached.expect_all_is_well("leftovers");
    assert!(!stale.exists(), "no process can still write this");
    assert!(recent.exists(), "a process may still write this");
}

/// Runs in files take the memory of their filters. Those of superseded segments are given up, unless
/// merged ones cover them.
#[test]
fn index_forgets_superseded_segments() {
    let cached = CachedRepository::new();
    let open = || {
        let view = View::list(&cached.open()).expect("it lists");
        let in_memory = cached.store.repository.clone();
        let fresh = Index::open_without_cache(in_memory, &view).expect("it opens");
        (Index::open(cached.open(), &view).expect("it opens"), fresh, view)
    };
    for number in 100..112 {
        back_up(&cached.open(), &[number], false).expect("it works");
    }
    let (index, fresh, _) = open();
    let (by_file, by_memory) = (index.statistics(), fresh.statistics());
    assert_eq!(by_file.hint_count, by_memory.hint_count);
    let hints_len = 12 * by_memory.hint_count;
    assert!(by_memory.memory_bytes > hints_len, "hints and filters: {by_memory:?}");
    assert!((1..hints_len).contains(&by_file.memory_bytes), "filters: {by_file:?}");
    let (storage, repository) = (cached.store.storage.clone(), cached.open());
    repair_index(&repository, &IndexOptions::default(), &()).expect("it works");
    let before = storage.list(ObjectKind::Segment.folder()).expect("it lists").len();
    let (again, fresh, view) = open();
    assert!(view.segments().len() < before, "superseded");
    index.refresh(&view).expect("it reads");
    let names = |index: &Index| {
        let containers = index.containers().into_iter();
        containers.map(|container| (container.class, container.name)).collect::<BTreeSet<_>>()
    };
    for index in [index, again] {
        assert_eq!(names(&index), names(&fresh), "containers");
        assert_eq!(index.statistics().hint_count, fresh.statistics().hint_count, "hints");
    }
}

/// A fork has everything up to the fork, and nothing that the original takes up later, and vice
/// versa.
#[test]
fn fork_is_independent_of_its_origin() {
    let cached = CachedRepository::new();
    let repository = cached.open();
    let before = View::list(&repository).expect("it lists");
    let index = Index::open(repository.clone(), &before).expect("it opens");
    let fork = index.fork();
    let known = first_chunks(&repository);
    back_up(&cached.open(), &[77], false).expect("nothing fails here");
    let new: Vec<_> =
        first_chunks(&repository).into_iter().filter(|chunk| !known.contains(chunk)).collect();
    assert_eq!(new.len(), 1, "one tree more");
    index.refresh(&View::list(&repository).expect("it lists")).expect("it opens");
    let has = |index: &Index, chunk: &Fingerprint| {
        index.find(Class::Meta, chunk, Scope::Write).expect("it reads").is_some()
    };
    for chunk in &known {
        assert!(has(&index, chunk) && has(&fork, chunk), "both know what there was");
    }
    assert!(has(&index, &new[0]), "taken up");
    assert!(!has(&fork, &new[0]), "by the other");
    // Files that one of them gives up can still be read by the other.
    assert!(index.rebuild().expect("it reads"), "there was a cache");
    assert!(known.iter().all(|chunk| has(&fork, chunk)), "the fork knows them still");
}

/// Returns the first chunk of each snapshot's tree.
fn first_chunks(repository: &Arc<Repository>) -> Vec<Fingerprint> {
    let view = View::list(repository).expect("it lists");
    let reader = Reader::open(repository.clone(), view.clone()).expect("it opens");
    let roots = view.snapshots().into_iter().map(|(_, snapshot)| &snapshot.root);
    let pieces = roots.filter_map(|root| reader.segments(root).next());
    pieces
        .filter_map(|piece| match piece.expect("it reads") {
            Piece::Chunk { fingerprint, .. } => Some(fingerprint),
            _ => None,
        })
        .collect()
}
