//! Merged segments, and the clients that have the runs of the segments that they cover.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::gc::prune::{PruneOptions, PruneReport, prune};
use cutpoint_repository::write::end_writer;
use cutpoint_repository::{Class, Index, ObjectName, PartName, Repository, View};
use cutpoint_storage::{Layer, ObjectKind, Result, Storage};
use tempfile::TempDir;

use crate::support::backup::{self, back_up, restore_all, unlock};
use crate::support::machine::Machine;
use crate::support::overtaken::{OvertakenStorage, When};
use crate::support::pruning::{assert_clean, forget, memory, sweep_all};

/// Merges segments, and leaves containers as they are.
const MERGE: PruneOptions = PruneOptions {
    unused_max: 1.0,
    rewrite_bytes_max: 0,
    segment_count_max: 2,
    merged_hints_max: 1 << 20,
    small_count_max: usize::MAX,
    is_alone: false,
};

/// Opens the repository as a new process.
pub(crate) fn open(storage: &Arc<dyn Storage>) -> Arc<Repository> {
    static PROCESSES: AtomicU32 = AtomicU32::new(1);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    backup::open(storage.clone(), process).expect("it opens")
}

/// Records the segments that are read.
#[derive(Debug)]
struct SegmentReads {
    below: Arc<dyn Storage>,
    read: Mutex<BTreeSet<PartName>>,
}

impl Layer for SegmentReads {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn get_at_most(&self, name: &str, len_max: u64) -> Result<Bytes> {
        if let Ok(ObjectName::Segment(part)) = ObjectName::parse(name) {
            self.read.lock().expect("no panics").insert(part);
        }
        self.below.get_at_most(name, len_max)
    }
}

/// A machine with a cache.
pub(crate) struct Client {
    storage: Arc<SegmentReads>,
    cache: TempDir,
}

impl Client {
    pub(crate) fn new(storage: &Arc<dyn Storage>) -> Client {
        let read = Mutex::default();
        let storage = Arc::new(SegmentReads { below: storage.clone(), read });
        Client { storage, cache: TempDir::new().expect("made") }
    }

    pub(crate) fn open(&self) -> Arc<Repository> {
        let repository = Repository::open(self.storage.clone(), Machine::new(1000), &unlock());
        Arc::new(repository.expect("it opens").with_cache(self.cache.path().to_owned()))
    }

    /// Opens the index as another process of the machine.
    pub(crate) fn index(&self) -> Index {
        let repository = self.open();
        let view = View::list(&repository).expect("it lists");
        Index::open(repository, &view).expect("it opens")
    }

    /// Returns the segments that were read since the last call.
    pub(crate) fn take_reads(&self) -> BTreeSet<PartName> {
        std::mem::take(&mut *self.storage.read.lock().expect("no panics"))
    }

    pub(crate) fn runs(&self) -> Vec<std::path::PathBuf> {
        let folder = self.open().cache().expect("it has one").join("index");
        fs::read_dir(folder).expect("it lists").map(|it| it.expect("it lists").path()).collect()
    }
}

fn back_up_each(storage: &Arc<dyn Storage>, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        back_up(&open(storage), &[number], false).expect("it works");
    }
}

fn merge(storage: &Arc<dyn Storage>, options: &PruneOptions) -> PruneReport {
    let repository = open(storage);
    prune(&repository, options, &(), |_| true).expect("it works").expect("it ran")
}

pub(crate) fn list(storage: &Arc<dyn Storage>) -> View {
    View::list(&open(storage)).expect("it lists")
}

/// Returns the record of this number.
pub(crate) fn record(storage: &Arc<dyn Storage>, number: u64) -> Arc<Prune> {
    list(storage).prunes[&number].clone()
}

fn segment(storage: &Arc<dyn Storage>, part: PartName) -> Segment {
    let repository = open(storage);
    let body = repository.get(ObjectName::Segment(part)).expect("it is there");
    Segment::decode(&body).expect("it is intact")
}

/// Checks that `index` finds what an index without a cache finds.
pub(crate) fn expect_complete(storage: &Arc<dyn Storage>, index: &Index) {
    let repository = open(storage);
    let view = View::list(&repository).expect("it lists");
    let fresh = Index::open_without_cache(repository.clone(), &view).expect("it opens");
    assert!(index.unreadable().is_empty(), "{:?}", index.unreadable());
    let condemned = view.condemned();
    let names = |index: &Index| {
        let names = index.containers().into_iter().map(|each| (each.class, each.name));
        names.filter(|name| !condemned.contains(name)).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(index), names(&fresh), "containers");
    for part in view.segments() {
        let embedded = view.embedded_segment(&part).cloned();
        let segment = embedded.unwrap_or_else(|| segment(storage, part));
        for (hint, container) in &segment.hints {
            let mut fingerprint = [0; 32];
            fingerprint[..8].copy_from_slice(&hint.to_be_bytes());
            let record = segment.containers[*container as usize];
            let found = index
                .hinted_containers(record.class, &cutpoint_repository::Fingerprint(fingerprint))
                .expect("it reads");
            assert!(found.contains(&record.name), "{part}: {hint:x}");
        }
    }
}

/// A client that has the runs of all covered segments reads nothing, neither in a process that is
/// running nor in the next one, nor after another merge.
#[test]
fn merged_segment_is_not_read_by_a_client_that_has_its_origins() {
    let storage = memory();
    back_up_each(&storage, 0..12);
    let client = Client::new(&storage);
    let running = client.index();
    assert_eq!(client.take_reads(), list(&storage).segments(), "cold");
    assert_eq!(merge(&storage, &MERGE).plan.merged_segment_count, 12);
    let Prune { published, coverings, superseded, .. } = &*record(&storage, 1);
    assert_eq!((published.len(), superseded.len(), coverings.len()), (1, 12, 1));
    assert_eq!(coverings[0].covered.len(), 12);
    running.refresh(&list(&storage)).expect("it works");
    expect_complete(&storage, &running);
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), BTreeSet::new(), "nothing");
    // The covered segments are deleted.
    sweep_all(&open(&storage)).expect("it works");
    assert_eq!(storage.list(ObjectKind::Segment.folder()).expect("it lists").len(), 1);
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), BTreeSet::new(), "nothing");
    back_up_each(&storage, 12..14);
    let new: BTreeSet<PartName> =
        list(&storage).segments().into_iter().filter(|part| !published.contains(part)).collect();
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), new, "of the last backups");
    merge(&storage, &MERGE);
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), BTreeSet::new(), "nothing");
    assert_eq!(restore_all(&client.open()).expect("it restores"), 14);
    // A new machine reads the one segment that counts.
    let other = Client::new(&storage);
    expect_complete(&storage, &other.index());
    assert_eq!(other.take_reads(), list(&storage).segments(), "cold");
}

/// A client that lacks some of the covered segments reads these while they exist, and afterwards
/// the merged one, which makes its runs superfluous.
#[test]
fn missing_origins_are_read_while_they_exist() {
    for is_swept in [false, true] {
        let storage = memory();
        back_up_each(&storage, 0..10);
        let client = Client::new(&storage);
        client.index();
        let known = client.take_reads();
        back_up_each(&storage, 10..12);
        let missing: BTreeSet<PartName> =
            list(&storage).segments().difference(&known).copied().collect();
        merge(&storage, &MERGE);
        if is_swept {
            sweep_all(&open(&storage)).expect("it works");
        }
        let before = client.runs();
        expect_complete(&storage, &client.index());
        let expected = if is_swept { list(&storage).segments() } else { missing };
        assert_eq!(client.take_reads(), expected, "swept: {is_swept}");
        expect_complete(&storage, &client.index());
        assert_eq!(client.take_reads(), BTreeSet::new(), "the second time");
        let after = client.runs();
        let stays = before.iter().filter(|run| after.contains(run)).count();
        assert_eq!(stays, if is_swept { 0 } else { before.len() }, "{before:?} {after:?}");
    }
}

/// Damaged runs of covered segments are replaced by the merged segment, because the others may be
/// gone.
#[test]
fn damaged_runs_of_covered_segments_are_replaced() {
    for is_running in [false, true] {
        let storage = memory();
        back_up_each(&storage, 0..6);
        let client = Client::new(&storage);
        client.index();
        merge(&storage, &MERGE);
        sweep_all(&open(&storage)).expect("it works");
        client.take_reads();
        let index = is_running.then(|| client.index());
        assert_eq!(client.take_reads(), BTreeSet::new(), "nothing was read");
        for run in client.runs() {
            let mut bytes = fs::read(&run).expect("it is there");
            let last = bytes.len() - 6;
            bytes[last] ^= 1;
            fs::write(&run, bytes).expect("written");
        }
        let index = index.unwrap_or_else(|| client.index());
        expect_complete(&storage, &index);
        assert_eq!(client.take_reads(), list(&storage).segments(), "the merged one");
        index.rebuild().expect("it works");
        expect_complete(&storage, &index);
        expect_complete(&storage, &client.index());
        assert_eq!(restore_all(&client.open()).expect("it restores"), 6);
    }
}

/// Runs keep the hints of containers that a merged segment leaves out. They are given up once most
/// containers are condemned.
#[test]
fn runs_of_mostly_condemned_containers_are_given_up() {
    for (forgotten, reads) in [(2, 0), (6, 1)] {
        let storage = memory();
        back_up_each(&storage, 0..8);
        let client = Client::new(&storage);
        let before = client.index().containers().len();
        client.take_reads();
        let repository = open(&storage);
        forget(&repository, &(0..forgotten).collect::<Vec<_>>()).expect("it works");
        merge(&storage, &PruneOptions { segment_count_max: 500, ..MERGE });
        sweep_all(&repository).expect("it works");
        let condemned_count = list(&storage).condemned().len();
        assert!(condemned_count >= forgotten, "{condemned_count} of {before}");
        merge(&storage, &MERGE);
        let Prune { published, coverings, .. } = &*record(&storage, 2);
        assert_eq!((published.len(), coverings.len()), (1, 1));
        let index = client.index();
        expect_complete(&storage, &index);
        assert_eq!(client.take_reads().len(), reads, "{forgotten} of 8 forgotten");
        let gone = if reads == 0 { 0 } else { condemned_count };
        assert_eq!(index.containers().len(), before - gone, "{forgotten} of 8 forgotten");
        assert_eq!(restore_all(&client.open()).expect("it restores"), 8 - forgotten);
    }
}

/// A segment that leaves out a lost container, which no record condemns, does not stand for others.
#[test]
fn lost_container_prevents_coverings() {
    let storage = memory();
    back_up_each(&storage, 0..4);
    let repository = open(&storage);
    // Nothing needs the container, but no record condemns it.
    forget(&repository, &[0]).expect("it works");
    let client = Client::new(&storage);
    let index = client.index();
    let needed: BTreeSet<String> = storage
        .list(ObjectKind::Data.folder())
        .expect("it lists")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let view = list(&storage);
    let snapshots = view.takeable();
    let lost = needed.iter().find(|name| {
        matches!(ObjectName::parse(name), Ok(ObjectName::Container(Class::Data, part))
            if snapshots.contains(&part.ticket))
    });
    let lost = lost.expect("the first backup has a container");
    storage.delete(lost).expect("memory deletes");
    merge(&storage, &MERGE);
    let Prune { published, coverings, superseded, .. } = &*record(&storage, 1);
    assert!(!published.is_empty() && !superseded.is_empty(), "merged");
    assert!(coverings.is_empty(), "{coverings:?}");
    client.take_reads();
    index.refresh(&list(&storage)).expect("it works");
    assert!(!client.take_reads().is_empty(), "the merged segment was read");
    let is_lost = |class, name| ObjectName::Container(class, name).to_string() == *lost;
    let mut containers = index.containers().into_iter();
    assert!(!containers.any(|each| is_lost(each.class, each.name)), "it is not named any more");
}

/// Merged segments are not merged again, so that a second prune has nothing to do, whatever the
/// size of the index.
#[test]
fn merged_segments_are_not_merged_again() {
    let storage = memory();
    back_up_each(&storage, 0..12);
    let all = list(&storage).segments();
    let hint_count = |parts: &BTreeSet<PartName>| {
        parts.iter().map(|part| segment(&storage, *part).hints.len()).collect::<Vec<_>>()
    };
    let lens: Vec<u64> = storage
        .list(ObjectKind::Segment.folder())
        .expect("it lists")
        .into_iter()
        .map(|(_, len)| len)
        .collect();
    let len_max = *lens.iter().max().expect("some");
    // Every segment is small, and three or four of them are not.
    let merged_hints_max = usize::try_from(len_max / 12 * 2 + 2).expect("small");
    let options = PruneOptions { segment_count_max: 4, merged_hints_max, ..MERGE };
    let before: usize = hint_count(&all).iter().sum();
    let pruned = merge(&storage, &options);
    assert_eq!(pruned.plan.merged_segment_count, 12);
    let merged = list(&storage).segments();
    let counts = hint_count(&merged);
    assert_eq!(counts.iter().sum::<usize>(), before, "hints");
    let small = counts.iter().filter(|count| **count < merged_hints_max).count();
    assert!(counts.len() > 1 && small <= 1, "{counts:?} of {merged_hints_max}");
    assert_eq!(merge(&storage, &options).number, None, "nothing to do");
    // New segments are merged among themselves, once there are enough.
    back_up_each(&storage, 20..25);
    let again = merge(&storage, &options);
    assert!((5..=6).contains(&again.plan.merged_segment_count), "{again:?}");
    let stay = merged.intersection(&list(&storage).segments()).count();
    assert!(stay >= merged.len() - 1, "{stay} of {}", merged.len());
    let repository = open(&storage);
    sweep_all(&repository).expect("it works");
    assert_eq!(restore_all(&repository).expect("it restores"), 17);
    assert_clean(&repository, "after two merges");
}

/// Returns the number of times that the segments that count name each container.
fn expect_named_once(storage: &Arc<dyn Storage>) {
    let mut named = BTreeSet::new();
    for part in list(storage).segments() {
        for container in segment(storage, part).containers {
            let name = ObjectName::Container(container.class, container.name);
            assert!(named.insert(name), "{name} is named twice");
        }
    }
}

/// The merged segments of a prune that another client ended are merged again, large as they are.
#[test]
fn merged_segments_of_an_ended_prune_are_merged_again() {
    let storage = memory();
    back_up_each(&storage, 0..6);
    let other = open(&storage);
    let overtaken = OvertakenStorage::new(storage.clone(), When::BeforePut("prunes/"), move || {
        let tickets = other.storage().list(ObjectKind::Ticket.folder()).expect("it lists");
        for (name, _) in tickets {
            if let Ok(ObjectName::Ticket { ticket, .. }) = ObjectName::parse(&name) {
                end_writer(&other, ticket).expect("it works");
            }
        }
    });
    let small: PruneOptions = PruneOptions { merged_hints_max: 200, ..MERGE };
    let acting: Arc<dyn Storage> = overtaken.clone();
    let repository = open(&acting);
    prune(&repository, &small, &(), |_| true).ok();
    assert!(overtaken.has_acted(), "it was ended");
    merge(&storage, &small);
    expect_named_once(&storage);
    let repository = open(&storage);
    assert_eq!(restore_all(&repository).expect("it restores"), 6);
}

/// Of two clients that merge the same segments, the second one withdraws its merge.
#[test]
fn merge_of_segments_that_were_merged_meanwhile_is_withdrawn() {
    let storage = memory();
    back_up_each(&storage, 0..6);
    // Opened first, because a client takes processes that were opened before it for dead.
    let other = open(&storage);
    let overtaken = OvertakenStorage::new(storage.clone(), When::BeforePut("prunes/"), move || {
        let pruned = prune(&other, &MERGE, &(), |_| true).expect("it works").expect("it ran");
        assert_eq!(pruned.number, Some(1));
    });
    let client = Client::new(&storage);
    client.index();
    client.take_reads();
    let overtaken: Arc<dyn Storage> = overtaken;
    let repository = open(&overtaken);
    let pruned = prune(&repository, &MERGE, &(), |_| true).expect("it works").expect("it ran");
    assert_eq!(pruned.number, Some(2));
    let Prune { published, coverings, superseded, .. } = &*record(&storage, 2);
    assert!(published.is_empty() && coverings.is_empty(), "{published:?} {coverings:?}");
    assert_eq!(superseded.len(), 1, "its own segment");
    let published: BTreeSet<PartName> = record(&storage, 1).published.iter().copied().collect();
    assert_eq!(list(&storage).segments(), published);
    expect_named_once(&storage);
    expect_complete(&storage, &client.index());
    assert_eq!(client.take_reads(), BTreeSet::new(), "nothing");
    let repository = open(&storage);
    sweep_all(&repository).expect("it works");
    assert_eq!(storage.list(ObjectKind::Segment.folder()).expect("it lists").len(), 1);
    assert_eq!(restore_all(&repository).expect("it restores"), 6);
    assert_clean(&repository, "after two merges at once");
}

/// A repository without a cache may keep runs in files without names.
#[test]
fn temporary_folder_stays_empty() {
    let storage = memory();
    back_up_each(&storage, 0..12);
    let folder = TempDir::new().expect("made");
    let open = || {
        let repository = Repository::open(storage.clone(), Machine::new(1001), &unlock());
        Arc::new(repository.expect("it opens").with_temporary_folder(folder.path().to_owned()))
    };
    assert_eq!(restore_all(&open()).expect("it restores"), 12);
    let view = list(&storage);
    expect_complete(&storage, &Index::open(open(), &view).expect("it opens"));
    prune(&open(), &MERGE, &(), |_| true).expect("it works").expect("it ran");
    assert_eq!(restore_all(&open()).expect("it restores"), 12);
    let is_empty = |path: &Path| fs::read_dir(path).expect("it lists").next().is_none();
    assert!(is_empty(folder.path()), "files have no names");
}
