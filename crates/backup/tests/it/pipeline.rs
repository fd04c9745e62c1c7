//! The whole pipeline: stored bytes do not depend on threads, unchanged files are not read, and the
//! data of an interrupted run is reused.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use cutpoint_backup::restore::{RestoreOptions, restore};
use cutpoint_backup::save::{BackupMonitor, BackupOptions, BackupProgress, Source, backup};
use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::segment::ContainerRecord;
use cutpoint_repository::format::toc::{ChunkRecord, Form};
use cutpoint_repository::index::load_toc;
use cutpoint_repository::verify::check::{CheckOptions, Portion, check, record};
use cutpoint_repository::write::end_writer;
use cutpoint_repository::{
    Class, Index, ObjectName, Purpose, Reader, Repository, TicketId, View, Writer,
};
use cutpoint_storage::{Environment, Fault, Faulty, Kind, Local, Memory, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::folder_comparison::restore_and_compare;
use crate::seeded_repository::{SeededEnvironment, contents, init, unlock};

/// Makes a folder of many small files, some large ones, duplicates, zeros, a sparse file, and
/// links.
fn make_folder(root: &Path) {
    let mut random = SplitMix64::new(42);
    for folder in 0..8 {
        let folder = root.join(format!("folder {folder}"));
        fs::create_dir_all(&folder).expect("folder");
        for file in 0..60 {
            let size = random.below(9000);
            fs::write(folder.join(format!("file {file}")), random.take(size)).expect("file");
        }
    }
    let large = random.take(6_000_000);
    fs::write(root.join("large"), &large).expect("large");
    let mut shifted = b"in front".to_vec();
    shifted.extend_from_slice(&large);
    fs::write(root.join("shifted"), &shifted).expect("shifted");
    fs::write(root.join("zeros"), vec![0; 3_000_000]).expect("zeros");
    fs::write(root.join("empty"), b"").expect("empty");
    let sparse = fs::File::create(root.join("sparse")).expect("sparse");
    sparse.set_len(50_000_000).expect("length");
    sparse.write_all_at(b"an island", 20_000_001).expect("island");
    fs::hard_link(root.join("large"), root.join("large too")).expect("hard link");
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).expect("symbolic link");
}

#[test]
fn stored_bytes_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("folder");
    make_folder(folder.path());
    let mut first = None;
    for (threads, readers) in [(1, 0), (2, 1), (7, 4), (1, 32)] {
        let environment = SeededEnvironment::new(1000);
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &environment);
        let options = BackupOptions { readers, ..options(threads) };
        backup(&repository, files(folder.path()), &options, &()).expect("backup");
        restore_and_compare(&repository, folder.path());
        let stored = contents(&*storage);
        assert!(
            stored.keys().filter(|name| name.starts_with("data/")).count() > 1,
            "one container only"
        );
        match &first {
            None => first = Some(stored),
            Some(first) => {
                assert!(
                    first.keys().eq(stored.keys()),
                    "{threads}, {readers} threads put other objects"
                );
                for (name, bytes) in &stored {
                    let is_same = first[name] == *bytes;
                    assert!(is_same, "{threads}, {readers} threads put other bytes in {name}");
                }
            }
        }
    }
}

/// Sets the modification time of a file an hour back. Its ctime is the present, which is long
/// before `NOW_NS`.
fn settle(path: &Path) {
    let time = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(path).and_then(|f| f.set_modified(time)).expect("settle");
}

#[test]
fn unchanged_files_are_not_read_and_changed_ones_are() {
    let folder = tempfile::tempdir().expect("folder");
    make_folder(folder.path());
    let environment = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &environment);
    let run = |options: &BackupOptions| {
        backup(&repository, files(folder.path()), options, &()).expect("backup")
    };
    let first = run(&options(2));
    // Read are the files and one of the two names of `large`. The empty file and the links are not
    // read.
    assert_eq!(first.statistics.read_file_count, 8 * 60 + 5);
    assert_eq!(first.statistics.file_count, 8 * 60 + 6);
    let second = run(&options(2));
    assert_eq!(second.statistics.read_file_count, 0, "unchanged files were read");
    assert_eq!(second.statistics.new_bytes, 0);
    assert_eq!(second.statistics.stored_bytes, 0, "an unchanged tree cost something");
    assert_eq!(second.parent, first.snapshot);
    // The size is the same and the time is old, but the ctime is different.
    let path = folder.path().join("folder 3/file 7");
    let size = usize::try_from(path.metadata().expect("metadata").len()).expect("small");
    fs::write(&path, SplitMix64::new(99).take(size)).expect("write");
    settle(&path);
    let third = run(&options(2));
    assert_eq!(third.statistics.read_file_count, 1, "a changed file was not read");
    restore_and_compare(&repository, folder.path());
    let forced = run(&BackupOptions { force_read: true, ..options(2) });
    assert_eq!(forced.statistics.read_file_count, 8 * 60 + 5);
    // The file that was read alone before is now in a bundle with its neighbours.
    let new_bytes = forced.statistics.new_bytes;
    assert!((1..=65_536).contains(&new_bytes), "known data was stored again: {new_bytes}");
    let none = run(&BackupOptions { skip_if_unchanged: true, ..options(2) });
    assert_eq!(none.snapshot, None, "an unchanged tree became a snapshot");
    let view = View::list(&repository).expect("view");
    assert_eq!(view.snapshots().len(), 4);
}

/// Returns every record of a data chunk in this form: its container, and the offset of its region.
fn records(repository: &Arc<Repository>, form: Form) -> Vec<(ContainerRecord, u32, ChunkRecord)> {
    let view = View::list(repository).expect("view");
    let index = Index::open(repository.clone(), &view).expect("index");
    let mut records = Vec::new();
    for container in index.containers().into_iter().filter(|each| each.class == Class::Data) {
        let toc = load_toc(repository, &container).expect("table of contents");
        for chunk in toc.chunks.into_iter().filter(|chunk| chunk.form == form) {
            let region = &toc.regions[usize::from(chunk.region)];
            records.push((container, region.offset, chunk));
        }
    }
    records
}

/// A file has three versions, and the first two are forgotten. A chunk is damaged that no recipe of
/// a listed snapshot references, but delta chunks of the third version do. After a check, the file
/// is read again, even if it looks unchanged, and everything is intact.
#[test]
fn damaged_chunk_referenced_by_delta_chunks_only_is_stored_again() {
    for (form, is_touched) in
        [(Form::Full, false), (Form::Full, true), (Form::Literal, false), (Form::Literal, true)]
    {
        let case = format!("{form:?}, touched: {is_touched}");
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("database");
        let mut bytes = SplitMix64::bytes(5, 400_000);
        let environment = SeededEnvironment::new(1);
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &environment);
        let run = || backup(&repository, files(folder.path()), &options(1), &()).expect("backup");
        let mut previous = Vec::new();
        for version in 0..3 {
            for place in (0..bytes.len()).step_by(5000).filter(|_| version > 0) {
                bytes[place + 100 * version] ^= 1;
            }
            fs::write(&path, &bytes).expect("write");
            settle(&path);
            previous.extend(run().snapshot);
        }
        previous.pop();
        let mut writer = Writer::begin(repository.clone(), Purpose::Other).expect("writer");
        writer.commit(Outcome::Forget(previous), Vec::new(), &BTreeSet::new()).expect("forget");
        assert!(records(&repository, Form::Delta).len() > 20, "{case}: delta chunks");
        // The chunks that the first version has stored, or the second.
        let mut by_time = records(&repository, form);
        let view = View::list(&repository).expect("view");
        by_time.sort_by_key(|(container, ..)| {
            view.commits.get(&container.name.ticket).map(|commit| commit.time_ns)
        });
        let (container, offset, _) = &by_time[0];
        let name = ObjectName::Container(Class::Data, container.name).to_string();
        let mut damaged = storage.get(&name).expect("get").to_vec();
        damaged[*offset as usize + 5] ^= 1;
        storage.delete(&name).expect("delete");
        storage.put_new(&name, damaged.into()).expect("put");

        let read_data = Some(Portion::All);
        let check_options = CheckOptions { read_data, threads: 1, ..CheckOptions::default() };
        let found = check(&repository, &check_options, &()).expect("check");
        assert!(found.error_count > 0 && found.missing_count > 0, "{case}: {found:?}");
        record(&repository, &found.damages, |_, _| {}).expect("record");
        if is_touched {
            let time = SystemTime::now() - Duration::from_secs(1800);
            let file = fs::File::options().write(true).open(&path).expect("open");
            file.set_modified(time).expect("touch");
        }
        let healed = run();
        assert_eq!(healed.statistics.read_file_count, 1, "{case}: it is read again");
        assert!(healed.statistics.new_chunk_count > 0, "{case}: what was missing is new");
        let found = check(&repository, &check_options, &()).expect("check");
        assert_eq!(found.error_count, 0, "{case}: {found:?}");
        restore_and_compare(&repository, folder.path());
        // Another run has nothing to do.
        assert_eq!(run().statistics.read_file_count, 0, "{case}: it is not read again and again");
    }
}

/// Cancels once this number of bytes is stored.
struct StopAfter(u64, AtomicBool);

impl BackupMonitor for StopAfter {
    fn progress(&self, progress: &BackupProgress) {
        if progress.statistics.read_bytes >= self.0 {
            self.1.store(true, Ordering::SeqCst);
        }
    }

    fn cancelled(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }
}

#[test]
fn interrupted_run_commits_nothing_and_its_data_is_reused() {
    let folder = tempfile::tempdir().expect("folder");
    // The file is large enough to outlast a tick. A pipe without an end would serve as well.
    let large = SplitMix64::new(5).take(64 << 20);
    fs::write(folder.path().join("large"), &large).expect("large");
    let environment = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &environment);
    let monitor = StopAfter(1, AtomicBool::new(false));
    let stopped = backup(&repository, files(folder.path()), &options(2), &monitor);
    match stopped {
        Err(error) => assert_eq!(error.kind(), Kind::Interrupted, "{error}"),
        // The machine was faster than the first tick, so there is nothing to check.
        Ok(_) => return,
    }
    assert!(View::list(&repository).expect("view").snapshots().is_empty(), "a snapshot of a part");
    let before = storage.list("data").expect("list").len();
    let report = backup(&repository, files(folder.path()), &options(2), &()).expect("backup");
    let new: u64 = report.statistics.new_bytes;
    assert!(before == 0 || new < large.len() as u64, "what was stored was stored again");
    restore_and_compare(&repository, folder.path());
}

#[test]
fn every_failing_call_fails_the_run_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    fs::create_dir(folder.path().join("sub")).expect("sub");
    fs::write(folder.path().join("sub/a"), SplitMix64::new(1).take(300_000)).expect("a");
    fs::write(folder.path().join("b"), b"small").expect("b");
    let mut call = 0;
    let mut failures = 0;
    loop {
        let environment = SeededEnvironment::new(1);
        let memory: Arc<dyn Storage> = Arc::new(Memory::new());
        init(&memory, &environment);
        let open = |storage: Arc<dyn Storage>| {
            let environment: Arc<dyn Environment> = environment.clone();
            Repository::open(storage, environment, &unlock()).map(Arc::new)
        };
        let good = open(memory.clone()).expect("open");
        backup(&good, files(&folder.path().join("sub")), &options(1), &()).expect("first backup");
        let faulty = Arc::new(Faulty::new(memory.clone(), Fault::DeadBefore(call)));
        let result = open(faulty.clone())
            .and_then(|repository| backup(&repository, files(folder.path()), &options(2), &()));
        let is_done = faulty.calls() <= call;
        environment.dead.store(true, Ordering::SeqCst);
        if is_done {
            assert!(result.is_ok(), "a run without a failing call failed");
            break;
        }
        assert!(result.is_err(), "call {call} failed, and the run did not");
        failures += 1;
        // The next run finds the dead writer and ends it.
        let report = backup(&good, files(folder.path()), &options(2), &()).expect("next backup");
        assert!(report.snapshot.is_some());
        assert_eq!(View::list(&good).expect("view").snapshots().len(), 2, "at call {call}");
        restore_and_compare(&good, folder.path());
        call += 1;
    }
    assert!(failures > 10, "only {failures} calls were made to fail");
}

/// On a full disk, every stored container is published in the room of the reserve, and the next run
/// uses it.
#[test]
fn full_disk_loses_no_container() {
    const LEN: usize = 14_000_000;
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("large"), SplitMix64::bytes(1, LEN)).expect("large");
    let run_into = |fault| {
        let environment = SeededEnvironment::new(1);
        let memory: Arc<dyn Storage> = Arc::new(Memory::new());
        let good = init(&memory, &environment);
        let faulty = Arc::new(Faulty::new(memory.clone(), fault));
        let repository = Repository::open(faulty.clone(), environment.clone(), &unlock());
        let repository = Arc::new(repository.expect("it opens"));
        let opened = faulty.calls();
        let result = backup(&repository, files(folder.path()), &options(2), &());
        (memory, good, opened..faulty.calls(), result)
    };
    let (.., calls, result) = run_into(Fault::None);
    result.expect("nothing fails here");
    let mut containers_most = 0;
    // The first puts are of the ticket and of the first container. Nothing is stored by then.
    for at in calls.clone().step_by(calls.clone().count() / 12) {
        let (memory, good, _, result) = run_into(Fault::FullFrom(at));
        let Err(error) = result else {
            // The commit has been put by then.
            assert!(at + 4 > calls.end, "there is room at {at} of {calls:?}");
            continue;
        };
        assert_eq!(error.kind(), Kind::Full, "{error}");
        let head = |name| memory.head(name).expect("memory answers");
        let containers = memory.list("data").expect("memory lists");
        let options = CheckOptions { threads: 1, ..CheckOptions::default() };
        let report = check(&good, &options, &()).expect("it is checked");
        assert_eq!(report.unreferenced_count, 0, "of {} containers, at {at}", containers.len());
        if !containers.is_empty() {
            assert_eq!(head("tmp/reserve"), None, "the reserve is not given up");
        }
        let next_options = crate::backup_options::options(2);
        let next = backup(&good, files(folder.path()), &next_options, &()).expect("backup");
        let stored: u64 = containers.iter().map(|(_, len)| len).sum();
        let new = next.statistics.new_bytes;
        let limit = LEN as u64 + stored / 50 - stored;
        assert!(new <= limit, "{new} bytes are new, though {stored} were stored, at {at}");
        assert!(head("tmp/reserve").is_some(), "the reserve is not kept");
        restore_and_compare(&good, folder.path());
        containers_most = containers_most.max(containers.len());
    }
    // The number of calls before a given one depends on threads.
    assert!(containers_most >= 2, "{containers_most} containers are too few to mean anything");
}

/// A monitor with one method that panics.
#[derive(Clone, Copy, Debug)]
enum Panics {
    Progress,
    Reading,
    Cancelled,
}

const PANIC: &str = "the monitor panics";

impl BackupMonitor for Panics {
    fn progress(&self, _: &BackupProgress) {
        assert!(!matches!(self, Panics::Progress), "{PANIC}");
    }

    fn reading(&self, _: &Path) {
        assert!(!matches!(self, Panics::Reading), "{PANIC}");
    }

    fn cancelled(&self) -> bool {
        assert!(!matches!(self, Panics::Cancelled), "{PANIC}");
        false
    }
}

/// The panic ends the run, whichever thread it is in, and reaches the caller.
#[test]
fn panic_of_the_monitor_is_passed_on() {
    for monitor in [Panics::Progress, Panics::Reading, Panics::Cancelled] {
        let storage: Arc<dyn Storage> = Arc::new(Memory::new());
        let repository = init(&storage, &SeededEnvironment::new(1));
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            // The stream has no end, so the run has no other reason to end.
            let reader = Box::new(std::io::repeat(7));
            let source = Source::Stream { name: b"stream".to_vec(), reader };
            let run = || backup(&repository, source, &options(2), &monitor);
            let panic = catch_unwind(AssertUnwindSafe(run)).err();
            let text = panic.and_then(|panic| panic.downcast::<String>().ok());
            done.send(text).ok();
        });
        let text = ended.recv_timeout(Duration::from_secs(60)).expect("the run ends");
        assert!(text.is_some_and(|text| *text == PANIC), "{monitor:?}: its own panic");
    }
}

#[test]
fn stream_becomes_a_file() {
    let environment = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &environment);
    let bytes = SplitMix64::new(3).take(3_000_001);
    let source = || Source::Stream {
        name: b"dump.sql".to_vec(),
        reader: Box::new(std::io::Cursor::new(bytes.clone())),
    };
    let report = backup(&repository, source(), &options(2), &()).expect("backup");
    assert_eq!(report.statistics.size, bytes.len() as u64);
    let again = backup(&repository, source(), &options(2), &()).expect("backup");
    assert_eq!(again.statistics.new_bytes, 0, "the same stream was stored again");
    let reader = Reader::open(repository.clone(), View::list(&repository).expect("it lists"))
        .expect("reader");
    let view = reader.view();
    let target = tempfile::tempdir().expect("target");
    let (_, snapshot) = *view.snapshots().last().expect("a snapshot");
    restore(&reader, &snapshot.root, target.path(), &RestoreOptions::default(), &())
        .expect("restore");
    assert!(
        fs::read(target.path().join("dump.sql")).expect("dump") == bytes,
        "other bytes came back"
    );
}

/// Removes a file just before it is read.
struct RemoveAt(PathBuf);

impl BackupMonitor for RemoveAt {
    fn reading(&self, path: &Path) {
        if *path == self.0 {
            fs::remove_file(path).expect("it is there");
        }
    }
}

/// The file has one name less than before, and nothing else is lost.
#[test]
fn file_whose_first_name_vanishes_is_saved_under_its_next_name() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("b"), SplitMix64::new(1).take(100_000)).expect("file");
    fs::hard_link(path("b"), path("a")).expect("link");
    fs::hard_link(path("b"), path("c")).expect("link");
    let environment = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let repository = init(&storage, &environment);
    let monitor = RemoveAt(path("a"));
    // The file is opened only once the monitor has been told.
    let options = BackupOptions { readers: 0, ..options(2) };
    let report = backup(&repository, files(folder.path()), &options, &monitor).expect("backup");
    assert_eq!(report.statistics.problem_count, 1, "the name that vanished");
    assert_eq!(report.statistics.file_count, 2, "the names that are left");
    restore_and_compare(&repository, folder.path());
}

/// Ends the writer at work and removes the objects it has staged, as another machine does that
/// takes the writer for dead.
struct EndAt(PathBuf, Arc<dyn Storage>, Arc<Repository>, AtomicBool);

impl BackupMonitor for EndAt {
    fn reading(&self, path: &Path) {
        if *path != self.0 || self.3.swap(true, Ordering::SeqCst) {
            return;
        }
        for (name, _) in self.1.list("tickets").expect("list") {
            let ticket = name.strip_prefix("tickets/").and_then(TicketId::parse);
            end_writer(&self.2, ticket.expect("a ticket")).expect("it ends");
        }
        self.1.clean(&|_, _| true).expect("it is cleaned");
    }
}

/// The staged objects are gone, but the run restarts instead of failing.
#[test]
fn ended_run_restarts_on_a_disk() {
    let (folder, disk) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("disk"));
    for name in ["a", "b", "c"] {
        let seed = u64::from(name.as_bytes()[0]);
        fs::write(folder.path().join(name), SplitMix64::new(seed).take(6_000_000)).expect("file");
    }
    let environment = SeededEnvironment::new(1);
    let storage: Arc<dyn Storage> = Arc::new(Local::create(disk.path()).expect("a folder"));
    let repository = init(&storage, &environment);
    let monitor =
        EndAt(folder.path().join("c"), storage, repository.clone(), AtomicBool::new(false));
    let report = backup(&repository, files(folder.path()), &options(2), &monitor).expect("backup");
    assert_eq!(report.restart_count, 1, "it restarted");
    restore_and_compare(&repository, folder.path());
}
