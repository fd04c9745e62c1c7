//! Writers: their beginning, their leftovers, and how dead ones are ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;

use crate::support::backup::{CHUNK_LEN, back_up, file, init, init_with, open, previous};
use crate::support::damaged_repository::check_on;
use crate::support::failing_reads::FailingReads;
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::verify::check::{CheckOptions, Portion, check};
use cutpoint_repository::write::{
    ContainerWriter, Deduplicator, DeltaEncoder, Inline, OwnSegments, PutWindow, RegionCodec,
    Upload, Uploads,
};
use cutpoint_repository::{
    Class, CommitResult, Index, ObjectName, PartName, Purpose, Reader, Repository, TicketId,
    Verify, View, Writer,
};
use cutpoint_storage::{
    Error, Fault, Faulty, Kind, Layer, Local, Memory, ObjectKind, Put, Result, Storage,
};

/// The object that keeps room for a full disk.
const RESERVE: &str = "tmp/reserve";

fn memory() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init(storage.clone()).expect("an empty memory takes a repository");
    storage
}

fn has_reserve(storage: &dyn Storage) -> bool {
    storage.head(RESERVE).expect("memory answers").is_some()
}

/// A writer that frees room may use the reserve. One that takes more room may not.
#[test]
fn reserve_is_only_for_writers_that_free_room() {
    for (purpose, begins) in
        [(Purpose::Backup, false), (Purpose::Prune, true), (Purpose::Other, true)]
    {
        let storage = memory();
        let full = Arc::new(Faulty::new(storage.clone(), Fault::FullFrom(0)));
        let begun = Writer::begin(open(full, 1).expect("it opens"), purpose);
        assert_eq!(begun.is_ok(), begins, "{purpose:?}");
        assert!(begun.err().is_none_or(|error| error.kind() == Kind::Full), "{purpose:?}");
        assert_eq!(has_reserve(&*storage), !begins, "{purpose:?}");
    }
}

/// A writer that is open when the disk becomes full can end by using the reserve, with a result or
/// without.
#[test]
fn reserve_lets_writers_end() {
    let end = |fault: Fault| {
        let storage = memory();
        let faulty = Arc::new(Faulty::new(storage.clone(), fault));
        let repository = open(faulty.clone(), 1).expect("it opens");
        let mut writer = Writer::begin(repository, Purpose::Other).expect("it begins");
        let calls = faulty.calls();
        let outcome = Outcome::Forget(Vec::new());
        let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new());
        (calls, committed.map_err(|error| error.to_string()), has_reserve(&*storage))
    };
    let (calls, committed, reserve) = end(Fault::None);
    assert_eq!((committed, reserve), (Ok(CommitResult::Done), true), "there is room");
    let (_, committed, reserve) = end(Fault::FullFrom(calls));
    assert_eq!((committed, reserve), (Ok(CommitResult::Done), false), "the disk is full");
    let (_, committed, reserve) = end(Fault::FailsAt(calls));
    assert_eq!((committed, reserve), (Ok(CommitResult::Done), true), "it fails once");
    for (kind, reserve) in [(Kind::Full, false), (Kind::Storage, true)] {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        let mut writer = Writer::begin(repository, Purpose::Other).expect("it begins");
        let error = Error::new(kind, "the test", "fails");
        assert_eq!(writer.abandon(&error).expect("it ends"), CommitResult::Done);
        assert_eq!(has_reserve(&*storage), reserve, "{kind:?}");
    }
}

/// A storage that takes a container only while another one is being put, and may refuse metadata.
#[derive(Debug, Default)]
struct Together {
    memory: Memory,
    refuses_meta: bool,
    put_count: Mutex<usize>,
    changed: Condvar,
}

impl Layer for Together {
    fn below(&self) -> &dyn Storage {
        &self.memory
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put> {
        if name.starts_with("data/") || name.starts_with("meta/") {
            let mut put_count = self.put_count.lock().expect("no thread panics");
            *put_count += 1;
            self.changed.notify_all();
            let alone = |count: &mut usize| *count < 2;
            let waited = self.changed.wait_timeout_while(put_count, Duration::from_secs(20), alone);
            let is_refused = self.refuses_meta && name.starts_with("meta/");
            if is_refused || waited.expect("no thread panics").1.timed_out() {
                return Err(Error::new(Kind::Storage, name, "refused"));
            }
        }
        self.memory.put_new(name, bytes)
    }

    fn requests_ahead_max(&self) -> usize {
        2
    }
}

/// Begins a writer, and a deduplicator of its chunks.
fn begin(repository: &Arc<Repository>) -> (Writer, Deduplicator) {
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let index = Index::open(repository.clone(), writer.view()).expect("it opens");
    let dedup =
        Deduplicator::new(repository.keys().clone(), Arc::new(index), 16 * 1024, Verify::All);
    (writer, dedup.expect("there is memory"))
}

/// Begins a writer that stores a file as data and as metadata.
fn begin_with_both_classes(repository: &Arc<Repository>) -> (Writer, ContainerWriter) {
    let (writer, mut dedup) = begin(repository);
    let bytes = file(1);
    for class in [Class::Data, Class::Meta] {
        let fingerprint = repository.keys().fingerprint(class, &bytes);
        dedup.store(class, fingerprint, &bytes).expect("it stores");
    }
    dedup.flush();
    let mut containers = ContainerWriter::new(repository.clone(), writer.ticket());
    let mut codec = RegionCodec::new(1).expect("there is memory");
    for region in dedup.take_regions() {
        let encoded = codec.encode(region, Vec::new()).expect("it compresses");
        containers.append(encoded).expect("it seals");
    }
    (writer, containers)
}

/// Finishes containers, and returns the objects that are to be put.
fn finish(repository: &Arc<Repository>, containers: &mut ContainerWriter) -> Vec<Upload> {
    containers.finish().expect("it seals");
    take_uploads(repository, containers)
}

fn take_uploads(repository: &Arc<Repository>, containers: &mut ContainerWriter) -> Vec<Upload> {
    let (mut uploads, mut uploaded) = (Uploads::default(), Vec::new());
    for part in containers.take_parts() {
        uploaded.extend(uploads.write(repository, part).expect("it is kept").upload);
    }
    uploaded
}

/// A storage that has restarted if the test says so.
#[derive(Debug, Default)]
struct Restarting {
    memory: Memory,
    had_outage: AtomicBool,
}

impl Layer for Restarting {
    fn below(&self) -> &dyn Storage {
        &self.memory
    }

    fn had_outage(&self) -> bool {
        self.had_outage.load(Ordering::SeqCst)
    }
}

/// After a restart of the storage, a writer publishes nothing that the storage has lost, and what is
/// left. So the next attempt stores only the lost chunks again, and a check finds nothing.
#[test]
fn writer_publishes_what_a_restarted_storage_has_left() {
    let (both, data, meta): (&[_], &[_], &[_]) =
        (&[Class::Data, Class::Meta], &[Class::Data], &[Class::Meta]);
    for (lost, is_embedded, left) in [
        ("meta/", false, data),
        ("data/", false, meta),
        ("data/", true, meta),
        // The next prune indexes the containers.
        ("index/", false, &[]),
        // No sweep would wait for the writer.
        ("tickets/", false, both),
    ] {
        let restarting = Arc::new(Restarting::default());
        let storage: Arc<dyn Storage> = restarting.clone();
        init_with(storage.clone(), 0, false, 0).expect("it takes a repository");
        let repository = open(storage.clone(), 1).expect("it opens");
        let (mut writer, mut containers) = begin_with_both_classes(&repository);
        let mut segments = OwnSegments::default();
        if is_embedded {
            segments.embedded = containers.finish_embedding().expect("it seals");
            assert!(segments.embedded.is_some(), "it is small");
        } else {
            containers.finish().expect("it seals");
            segments.names = containers.segments().to_vec();
        }
        for upload in take_uploads(&repository, &mut containers) {
            writer.put(upload).expect("it is put");
        }
        restarting.had_outage.store(true, Ordering::SeqCst);
        for (name, _) in storage.list(lost.trim_end_matches('/')).expect("it lists") {
            storage.delete(&name).expect("it goes");
        }
        let outcome = Outcome::Forget(Vec::new());
        let committed = writer.commit(outcome, segments, &BTreeSet::new());
        assert_eq!(committed.expect("it ends"), CommitResult::Ended, "{lost}");
        assert!(writer.has_lost(), "{lost}");
        let view = View::list(&repository).expect("it lists");
        let index = Index::open(repository.clone(), &view).expect("it opens");
        for class in both {
            let fingerprint = repository.keys().fingerprint(*class, &file(1));
            let places = index.hinted_containers(*class, &fingerprint).expect("it looks");
            assert_eq!(!places.is_empty(), left.contains(class), "{lost}, {is_embedded}: {class}");
        }
        let errors = check_on(&repository, true, 1).report.error_count;
        assert_eq!(errors, 0, "{lost}, {is_embedded}");
    }
}

/// Containers of both classes are put at the same time, and before the segment that names them. If one
/// fails, a writer that gives up publishes the other.
#[test]
fn containers_that_end_together_are_put_at_a_time() {
    for refuses_meta in [false, true] {
        let storage: Arc<dyn Storage> = Arc::new(Together { refuses_meta, ..Together::default() });
        init_with(storage.clone(), 0, false, 0).expect("it takes a repository");
        let repository = open(storage.clone(), 1).expect("it opens");
        let (mut writer, mut containers) = begin_with_both_classes(&repository);
        let (keys, bytes) = (repository.keys(), file(1));
        let fingerprint = |class| keys.fingerprint(class, &bytes);
        let mut uploaded = finish(&repository, &mut containers);
        let segment = uploaded.pop().filter(Upload::is_segment).expect("the last one");
        assert!(uploaded.len() >= 2 && !uploaded.iter().any(Upload::is_segment), "containers");
        let put = std::thread::scope(|scope| {
            let window = &mut PutWindow::new(scope, repository.clone(), 2);
            for upload in uploaded {
                assert!(writer.put_within(window, upload)?.is_none(), "no segment");
            }
            let published = writer.put_within(window, segment);
            assert!(window.is_empty(), "a segment is put alone");
            published
        });
        if refuses_meta {
            let error = put.expect_err("one is refused");
            assert_eq!(writer.abandon(&error).expect("it ends"), CommitResult::Done);
        } else {
            assert!(put.expect("they are put").is_some(), "a segment");
            let end = Error::new(Kind::Interrupted, "the test", "stops here");
            assert_eq!(writer.abandon(&end).expect("it ends"), CommitResult::Done);
        }
        let view = View::list(&repository).expect("it lists");
        let index = Index::open(repository.clone(), &view).expect("it opens");
        for (class, is_there) in [(Class::Data, true), (Class::Meta, !refuses_meta)] {
            let places = index.hinted_containers(class, &fingerprint(class)).expect("it looks");
            assert_eq!(!places.is_empty(), is_there, "{class}, {refuses_meta}");
        }
    }
}

/// A container was put and the segment that names it was not: a writer that gives up publishes it.
#[test]
fn containers_of_an_abandoned_writer_are_found() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    let (mut writer, mut dedup) = begin(&repository);
    let (keys, bytes) = (repository.keys(), file(1));
    let chunks: Vec<&[u8]> = bytes.chunks(10_000).collect();
    let fingerprint = keys.fingerprint(Class::Data, chunks[0]);
    assert!(!dedup.has_regions(), "nothing was stored");
    for chunk in &chunks {
        let fingerprint = keys.fingerprint(Class::Data, chunk);
        assert!(dedup.store(Class::Data, fingerprint, chunk).expect("it stores"), "it is new");
    }
    assert!(dedup.has_regions(), "two are full");
    dedup.flush();
    assert_eq!((dedup.new_chunk_count(Class::Data), dedup.new_bytes(Class::Data)), (3, 30_000));
    assert_eq!((dedup.new_chunk_count(Class::Meta), dedup.new_bytes(Class::Meta)), (0, 0));
    let mut containers = ContainerWriter::new(repository.clone(), writer.ticket());
    let mut codec = RegionCodec::new(1).expect("there is memory");
    for (region, number) in dedup.take_regions().into_iter().zip(0..) {
        assert_eq!((region.number(), region.len(), region.is_empty()), (number, 10_000, false));
        let encoded = codec.encode(region, Vec::new()).expect("it compresses");
        assert_eq!(encoded.number(), number, "as it was");
        containers.append(encoded).expect("it seals");
    }
    assert!(!dedup.has_regions(), "all were taken");
    let mut uploaded = finish(&repository, &mut containers);
    assert_eq!(uploaded.len(), 2, "a container, and a segment");
    let container = uploaded.remove(0);
    let len = container.len();
    assert!(writer.put(container).expect("memory takes it").is_none(), "no segment");
    let (name, listed) = storage.list("data").expect("memory lists").remove(0);
    assert_eq!(listed, len, "{name}");
    let error = Error::new(Kind::Interrupted, "the test", "stops here");
    assert_eq!(writer.abandon(&error).expect("it ends"), CommitResult::Done);
    let view = View::list(&repository).expect("memory lists");
    let index = Index::open(repository, &view).expect("it opens");
    let places = index.hinted_containers(Class::Data, &fingerprint).expect("it looks");
    assert_eq!(places, [PartName { ticket: writer.ticket(), count: 0 }], "it is found");
}

/// New versions of old chunks are counted if they became delta chunks.
#[test]
fn delta_chunks_are_counted() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    init_with(storage.clone(), 0, true, 0).expect("an empty memory takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[100], false).expect("it works");
    let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
    let index = Index::open(repository.clone(), writer.view()).expect("it opens");
    let (index, keys) = (Arc::new(index), repository.keys());
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), writer.view().clone());
    let mut encoder = DeltaEncoder::new(&reader, &index, writer.ticket());
    encoder.begin(previous(&reader, 101).expect("it reads").as_ref());
    let mut dedup = Deduplicator::new(keys.clone(), index.clone(), 16 * 1024, Verify::All)
        .expect("there is memory");
    // Every other chunk has one new byte.
    let mut new = 0;
    for chunk in file(101).chunks(CHUNK_LEN) {
        let fingerprint = keys.fingerprint(Class::Data, chunk);
        let stored = dedup.store_similar(fingerprint, chunk, &mut encoder);
        new += u64::from(stored.expect("it stores"));
    }
    let counted = dedup.delta_chunks();
    assert_eq!((new, counted.count, counted.bytes), (3, 3, 3 * CHUNK_LEN as u64), "{counted:?}");
    assert!((1..600).contains(&counted.literal_bytes), "{counted:?}");
}

/// Parity is also made of staged containers.
#[test]
fn staged_containers_have_parity() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("repository");
    let storage: Arc<dyn Storage> = Arc::new(Local::create(&path).expect("it can be made"));
    init_with(storage.clone(), 0, false, 10).expect("an empty folder takes a repository");
    let repository = open(storage.clone(), 1).expect("it opens");
    back_up(&repository, &[1, 2, 3], false).expect("it works");
    let options =
        CheckOptions { read_data: Some(Portion::All), threads: 1, ..CheckOptions::default() };
    let report = check(&repository, &options, &()).expect("the folder works");
    assert_eq!((report.error_count, report.unprotected_count), (0, 0), "{report:?}");
    assert_eq!(storage.list("parity").expect("it lists").len(), 2, "data and trees");
}

/// A storage with staged leftovers, which asks for each if it may be removed.
#[derive(Debug)]
struct Leftovers {
    inner: Arc<dyn Storage>,
    /// The name of each staged put, and its age in seconds.
    staged: Vec<(String, u64)>,
    /// The answers of each call.
    judged: Mutex<Vec<Vec<bool>>>,
}

impl Layer for Leftovers {
    fn below(&self) -> &dyn Storage {
        &*self.inner
    }

    fn clean(&self, is_stale: &dyn Fn(&str, u64) -> bool) -> Result<usize> {
        let judged = self.staged.iter().map(|(name, age_s)| is_stale(name, *age_s)).collect();
        self.judged.lock().expect("no test panics in here").push(judged);
        Ok(0)
    }
}

/// Leftovers of interrupted puts are removed at once if their writers have ended, the others after
/// a day.
#[test]
fn leftovers_of_dead_writers_are_removed() {
    const DAY_S: u64 = 24 * 3600;
    let storage = memory();
    // No process takes one with a greater number for dead.
    let begin = |process| {
        let repository = open(storage.clone(), process).expect("it opens");
        Writer::begin(repository, Purpose::Backup).expect("it begins").ticket()
    };
    let (alive, dead) = (begin(9), begin(1));
    let names = |ticket: TicketId| {
        let part = PartName { ticket, count: 0 };
        [
            ObjectName::Ticket { ticket, renewal: 1 },
            ObjectName::Commit(ticket),
            ObjectName::Segment(part),
            ObjectName::Container(Class::Data, part),
            ObjectName::Container(Class::Meta, part),
            ObjectName::Parity {
                class: Class::Data,
                container: PartName { ticket: TicketId([0; 12]), count: 0 },
                writer: ticket,
            },
        ]
        .map(|name| name.to_string())
    };
    let mut staged = Vec::new();
    let mut expected = Vec::new();
    for (ticket, age_s, goes) in
        [(dead, 0, true), (alive, 0, false), (alive, DAY_S, false), (alive, DAY_S + 1, true)]
    {
        staged.extend(names(ticket).map(|name| (name, age_s)));
        expected.extend([goes; 6]);
    }
    for (age_s, goes) in [(0, false), (DAY_S, false), (DAY_S + 1, true)] {
        staged.push((RESERVE.to_owned(), age_s));
        expected.push(goes);
    }
    let judged = Mutex::default();
    let leftovers = Arc::new(Leftovers { inner: storage.clone(), staged, judged });
    let repository = open(leftovers.clone(), 2).expect("it opens");
    for ended in [&[dead][..], &[]] {
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        assert_eq!(writer.ended(), ended);
        writer.void(Vec::new()).expect("memory takes it");
        // No further writer had died at the second time.
        let judged = leftovers.judged.lock().expect("no panics");
        assert_eq!(*judged, std::slice::from_ref(&expected), "once");
    }
}

/// A client that ends a dead writer names what that writer had published, and nothing else. A
/// segment that is only unreadable at this moment is not given up.
#[test]
fn dead_writer_keeps_its_segments() {
    for (kind, names_it) in
        [(None, true), (Some(Kind::Missing), false), (Some(Kind::Storage), true)]
    {
        let storage = memory();
        let repository = open(storage.clone(), 1).expect("it opens");
        back_up(&repository, &[1, 2], true).expect("it works");
        let writer = Writer::begin(repository, Purpose::Backup);
        let mut inline = Inline::new(writer.expect("it begins"), Verify::All).expect("it begins");
        inline.store_data(&file(3)).expect("memory takes it");
        inline.publish().expect("memory takes it");
        let dead = inline.writer().ticket();
        drop(inline);
        let segment = PartName { ticket: dead, count: 0 };
        if let Some(kind) = kind {
            let name = ObjectName::Segment(segment).to_string();
            let failing = FailingReads::new(&storage, &name, kind, 1);
            let begun =
                Writer::begin(open(failing, 2).expect("it opens"), Purpose::Other).map(drop);
            let failed = begun.err().map(|error| error.kind());
            assert_eq!(failed, Some(kind).filter(|kind| *kind == Kind::Storage), "{kind:?}");
        }
        let repository = open(storage.clone(), 3).expect("it opens");
        Writer::begin(repository.clone(), Purpose::Other).expect("it begins");
        let view = View::list(&repository).expect("memory lists");
        let expected = if names_it { vec![segment] } else { vec![] };
        assert_eq!(view.commits[&dead].segments, expected, "{kind:?}");
        assert!(view.segments().len() > 1, "others have some, too");
    }
}

/// A sweep may delete a commit between a listing and the read, but then a record explains it.
#[test]
fn commit_that_vanishes_without_a_record_is_unreadable() {
    let storage = memory();
    let repository = open(storage.clone(), 1).expect("it opens");
    for number in 0..3 {
        back_up(&repository, &[number], false).expect("it works");
    }
    // No record has taken the commit, so nothing explains that it is missing.
    for kind in [Kind::Missing, Kind::Storage] {
        let failing = FailingReads::new(&storage, ObjectKind::Commit.folder(), kind, 1);
        let view = View::list(&open(failing, 2).expect("it opens")).expect("it lists");
        assert_eq!((view.commits.len(), view.unreadable.len()), (2, 1), "{kind:?}");
    }
}
