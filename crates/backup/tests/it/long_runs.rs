//! Limits on the data that a long run can lose: an index segment every 256 MiB or 60 s, and a
//! partial snapshot before its ticket is a day old.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cutpoint_backup::copy::CopyMonitor;
use cutpoint_backup::restore::{RestoreOptions, restore};
use cutpoint_backup::save::{BackupMonitor, BackupOptions, Source, backup};
use cutpoint_backup::source::FileSystem;
use cutpoint_repository::{Reader, Repository, View};
use cutpoint_storage::{Kind, Storage};
use cutpoint_testing::SplitMix64;

use crate::backup_options::{files, options};
use crate::manual_clock::{Clock, HOUR_NS, MountedFileSystem, SECOND_NS, make};

/// A limit longer than the pipeline takes to reach the awaited state.
const PATIENCE: Duration = Duration::from_secs(40);

const FILE_LEN: usize = 300_000;

/// Returns the bytes of a file.
fn file_bytes(number: usize) -> Vec<u8> {
    SplitMix64::bytes(number as u64, FILE_LEN)
}

/// Makes `count` files, from `00` on, in two folders.
fn make_files(root: &Path, count: usize) {
    for number in 0..count {
        let folder = root.join(if number < count / 2 { "a" } else { "b" });
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("{number:02}")), file_bytes(number)).expect("a file");
    }
}

/// Waits until the storage has an object in the folder `prefix`. Returns `true` if it appeared.
fn wait_for(storage: &dyn Storage, prefix: &str) -> bool {
    let began = Instant::now();
    while storage.list(prefix).expect("memory lists").is_empty() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}

/// Calls a function whenever a file begins to be read, and records the files.
struct AtFile<F> {
    read: Mutex<Vec<PathBuf>>,
    at: F,
    cancelled: AtomicBool,
}

impl<F: Fn(usize) -> bool + Sync> AtFile<F> {
    /// `at` gets the number of the file, and returns `true` to stop the run.
    fn new(at: F) -> AtFile<F> {
        AtFile { read: Mutex::default(), at, cancelled: AtomicBool::new(false) }
    }
}

impl<F: Fn(usize) -> bool + Sync> BackupMonitor for AtFile<F> {
    fn reading(&self, path: &Path) {
        self.read.lock().expect("no panic").push(path.to_path_buf());
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if (self.at)(name.parse().expect("a number")) {
            self.cancelled.store(true, Ordering::SeqCst);
        }
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
}

/// The stored data is published after 60 s, however little it is.
#[test]
fn stored_data_is_published_every_minute() {
    const COUNT: usize = 60;
    let folder = tempfile::tempdir().expect("a folder");
    make_files(folder.path(), COUNT);
    let (clock, storage, repository) = make();
    // The observations are checked after the run, because a panic during it would leave the other
    // threads waiting.
    let [stored, early, published] = [const { AtomicBool::new(false) }; 3];
    let monitor = AtFile::new(|file| match file {
        30 => {
            stored.store(wait_for(&*storage, "data"), Ordering::SeqCst);
            let is_early = !storage.list("index").expect("memory lists").is_empty();
            early.store(is_early, Ordering::SeqCst);
            clock.advance(61 * SECOND_NS);
            false
        }
        50 => {
            published.store(wait_for(&*storage, "index"), Ordering::SeqCst);
            true
        }
        _ => false,
    });
    let error = backup(&repository, files(folder.path()), &options(2), &monitor)
        .expect_err("it was interrupted");
    assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    assert!(stored.into_inner(), "nothing was stored");
    assert!(!early.into_inner(), "published before its time");
    assert!(published.into_inner(), "nothing was published");
    assert!(View::list(&repository).expect("view").snapshots().is_empty(), "no snapshot");
    let next = backup(&repository, files(folder.path()), &options(2), &()).expect("backup");
    let (new, all) = (next.statistics.new_bytes, (COUNT * FILE_LEN) as u64);
    assert!(new <= all - 3_500_000, "{new} of {all} bytes are new: a container was not used");
    assert_eq!(next.statistics.read_file_count, COUNT as u64, "there was no parent");
}

/// A stream of `left` bytes. With `pause`, it waits near its end until the storage has an index
/// segment, records whether one appeared, and fails.
struct Stream {
    random: SplitMix64,
    left: usize,
    pause: Option<(Arc<dyn Storage>, Arc<AtomicBool>)>,
}

/// The number of bytes before the end of a stream at which it pauses.
const PAUSE_LEFT: usize = 8 << 20;

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((storage, published)) = &self.pause
            && self.left <= PAUSE_LEFT
        {
            published.store(wait_for(&**storage, "index"), Ordering::SeqCst);
            return Err(io::Error::other("the other end is gone"));
        }
        // The length is always the same, so that every reader sees the same bytes.
        let len = self.left.min(64 * 1024).min(buffer.len());
        buffer[..len].copy_from_slice(&self.random.take(len));
        self.left -= len;
        Ok(len)
    }
}

/// The stored data is published after 256 MiB, however fast it was stored.
#[test]
fn stored_data_is_published_every_256_mebibytes() {
    const LEN: usize = 300 << 20;
    let (_, storage, repository) = make();
    let stream = |pause| Source::Stream {
        name: b"stream".to_vec(),
        reader: Box::new(Stream { random: SplitMix64::new(1), left: LEN, pause }),
    };
    let published = Arc::new(AtomicBool::new(false));
    let pause = Some((storage, published.clone()));
    let error = backup(&repository, stream(pause), &options(2), &()).expect_err("the stream broke");
    assert!(error.to_string().contains("the other end is gone"), "{error}");
    // The end of a run also publishes, so the publication must come before that.
    assert!(published.load(Ordering::SeqCst), "nothing was published in time");
    assert!(View::list(&repository).expect("view").snapshots().is_empty(), "no snapshot");
    let next = backup(&repository, stream(None), &options(2), &()).expect("backup");
    let new = next.statistics.new_bytes;
    assert!(new < (LEN - (250 << 20)) as u64, "{new} bytes are new: what was stored is not used");
}

/// W8: a run that takes longer than the life of a ticket ends in a partial snapshot and continues
/// from there. No file is read twice, and the last snapshot is complete.
#[test]
fn long_run_continues_from_a_checkpoint() {
    run_for_long(&options(2));
}

/// The same run has read the files in a checkpoint, so even a run that reads every file continues
/// from it.
#[test]
fn long_run_with_force_read_continues_from_a_checkpoint() {
    run_for_long(&BackupOptions { force_read: true, ..options(2) });
}

/// If times prove nothing, a run still completes, because it need not compare the files that it has
/// read itself.
#[test]
fn long_run_without_reliable_times_continues_from_a_checkpoint() {
    let unknown = Arc::new(MountedFileSystem(FileSystem::default()));
    run_for_long(&BackupOptions { file_systems: unknown, ..options(2) });
}

fn run_for_long(options: &BackupOptions) {
    const COUNT: usize = 40;
    let folder = tempfile::tempdir().expect("a folder");
    make_files(folder.path(), COUNT);
    let (clock, storage, repository) = make();
    let jumps = AtomicU64::new(0);
    let monitor = AtFile::new(|file| {
        // Two tickets grow old one after the other, in two steps each, which are short enough for a
        // ticket to stay fresh (W5). There are no further steps, because a run that reads
        // everything again would never end.
        if [6, 14, 24, 32].contains(&file) && jumps.fetch_add(1, Ordering::SeqCst) < 4 {
            let tickets = storage.list("tickets").expect("list").len();
            clock.advance(11 * HOUR_NS);
            // The thread that puts objects renews the ticket and notices that it is old.
            let began = Instant::now();
            while storage.list("tickets").expect("list").len() == tickets
                && began.elapsed() < PATIENCE
            {
                sleep(Duration::from_millis(5));
            }
            sleep(Duration::from_millis(250));
        }
        false
    });
    let report = backup(&repository, files(folder.path()), options, &monitor).expect("backup");
    assert_eq!(report.restart_count, 2, "two tickets grew old");
    let mut read = monitor.read.into_inner().expect("no panic");
    assert_eq!(read.len(), COUNT, "a file was read twice: {read:?}");
    read.sort();
    read.dedup();
    assert_eq!(read.len(), COUNT, "each file was read: {read:?}");

    let view = View::list(&repository).expect("view");
    let snapshots = view.snapshots();
    let partial: Vec<_> = snapshots.iter().map(|(_, snapshot)| snapshot.partial).collect();
    assert_eq!(partial, [true, true, false], "two checkpoints and the end");
    let parents: Vec<_> = snapshots.iter().map(|(_, snapshot)| snapshot.parent).collect();
    assert_eq!(parents, [None, Some(snapshots[0].0), Some(snapshots[1].0)], "one from the other");
    // Rule W3 measures from the moment before which nothing was read.
    let begun = snapshots[0].1.started_ns;
    let since: Vec<_> = snapshots.iter().map(|(_, snapshot)| snapshot.read_since_ns).collect();
    assert_eq!(since, [None, Some(begun), Some(begun)], "the run began with the first");
    let counts: Vec<_> = snapshots.iter().map(|(_, s)| s.statistics.file_count).collect();
    assert_eq!(counts, [15, 33, COUNT as u64], "what was complete");
    let (last, snapshot) = snapshots[2];
    assert_eq!(report.snapshot, Some(last), "the last one is reported");
    assert_eq!(snapshot.statistics.new_bytes, (7 * FILE_LEN) as u64, "nothing is stored again");

    let target = tempfile::tempdir().expect("a target");
    let root = snapshot.root.clone();
    let reader = Reader::open(repository.clone(), view).expect("reader");
    restore(&reader, &root, target.path(), &RestoreOptions::default(), &()).expect("restore");
    let back = target.path().join(folder.path().strip_prefix("/").expect("absolute"));
    for number in 0..COUNT {
        let path =
            back.join(if number < COUNT / 2 { "a" } else { "b" }).join(format!("{number:02}"));
        assert!(fs::read(path).is_ok_and(|bytes| bytes == file_bytes(number)), "file {number}");
    }
}

/// Another client forgets the checkpoint, and the files are read again.
#[test]
fn long_run_without_its_checkpoint_reads_the_files_again() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("long"), SplitMix64::bytes(4, LONG_LEN / 2)).expect("a file");
    let (clock, storage, repository) = make();
    let monitor = Ages { steps_max: 2, ..Ages::new(&clock, &storage) };
    clock.forgets.set(storage).expect("it is set once");
    let report = backup(&repository, files(folder.path()), &options(2), &monitor).expect("backup");
    assert_eq!((report.restart_count, report.parent), (1, None), "it restarted, with nothing");
    assert_eq!(report.statistics.read_bytes, LONG_LEN as u64 / 2, "all is read again");
}

/// Makes two tickets grow old one after the other while a file is read, in two steps each as above.
/// Each step waits until the ticket was renewed after the previous one.
pub(crate) struct Ages {
    clock: Arc<Clock>,
    storage: Arc<dyn Storage>,
    asked: AtomicU64,
    steps: AtomicU64,
    steps_max: u64,
}

impl Ages {
    pub(crate) fn new(clock: &Arc<Clock>, storage: &Arc<dyn Storage>) -> Ages {
        let (clock, storage) = (clock.clone(), storage.clone());
        Ages { clock, storage, asked: AtomicU64::new(0), steps: AtomicU64::new(0), steps_max: 4 }
    }
}

impl BackupMonitor for Ages {
    /// Called about once per mebibyte.
    fn cancelled(&self) -> bool {
        let tickets = self.storage.list("tickets").expect("memory lists");
        let renewals = tickets.iter().filter(|(name, _)| name.contains('.')).count() as u64;
        let begun = tickets.len() as u64 - renewals;
        let steps = self.steps.load(Ordering::SeqCst);
        let is_begun = self.asked.fetch_add(1, Ordering::SeqCst) > 4;
        if is_begun && steps < self.steps_max.min(2 * begun) && renewals == steps {
            self.clock.advance(11 * HOUR_NS);
            self.steps.fetch_add(1, Ordering::SeqCst);
        }
        // The pause lets the data read so far be put.
        sleep(Duration::from_millis(10));
        false
    }
}

impl CopyMonitor for Ages {}

pub(crate) const LONG_LEN: usize = 80 << 20;

/// Checks the snapshots that a run with [`Ages`] has made of one long file, which must restore to
/// `bytes`.
fn check_checkpoints(repository: &Arc<Repository>, path: &Path, bytes: &[u8], stored: usize) {
    let view = View::list(repository).expect("view");
    let snapshots = view.snapshots();
    let partial: Vec<_> = snapshots.iter().map(|(_, snapshot)| snapshot.partial).collect();
    assert_eq!(partial, [true, true, false], "two checkpoints and the end");
    let sizes: Vec<_> = snapshots.iter().map(|(_, s)| s.statistics.size).collect();
    assert!(0 < sizes[0] && sizes[0] < sizes[1] && sizes[1] < sizes[2], "it grows: {sizes:?}");
    assert_eq!(sizes[2], bytes.len() as u64, "its size");
    let new: u64 = snapshots.iter().map(|(_, s)| s.statistics.new_bytes).sum();
    assert_eq!(new, stored as u64, "nothing is stored twice");
    let read: u64 = snapshots.iter().map(|(_, s)| s.statistics.read_bytes).sum();
    let again = read - stored as u64;
    assert!(again <= 4 << 20, "{again} bytes were read again");
    let target = tempfile::tempdir().expect("a target");
    let root = snapshots[2].1.root.clone();
    let reader = Reader::open(repository.clone(), view).expect("reader");
    restore(&reader, &root, target.path(), &RestoreOptions::default(), &()).expect("restore");
    let back = fs::read(target.path().join(path)).expect("the file");
    assert!(back == bytes, "other bytes came back");
}

/// W8: a stream that takes longer than the life of a ticket continues under the next one, byte by
/// byte.
#[test]
fn long_stream_continues_from_a_checkpoint() {
    let (clock, storage, repository) = make();
    let monitor = Ages::new(&clock, &storage);
    let bytes = SplitMix64::bytes(2, LONG_LEN);
    let stream = || Source::Stream {
        name: b"stream".to_vec(),
        reader: Box::new(io::Cursor::new(bytes.clone())),
    };
    let options = BackupOptions { force_read: true, ..options(2) };
    let report = backup(&repository, stream(), &options, &monitor).expect("backup");
    assert_eq!(report.restart_count, 2, "two tickets grew old");
    check_checkpoints(&repository, Path::new("stream"), &bytes, LONG_LEN);
    let again = backup(&repository, stream(), &options, &()).expect("backup");
    assert_eq!(again.statistics.new_bytes, 0, "it was cut where it is cut without a pause");
}

/// W8: the same holds for a file, which must not have changed meanwhile.
#[test]
fn long_file_continues_from_a_checkpoint() {
    const HOLE_LEN: usize = 5 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long");
    let mut bytes = SplitMix64::bytes(3, LONG_LEN);
    bytes[1 << 20..][..HOLE_LEN].fill(0);
    let file = fs::File::create(&path).expect("a file");
    file.write_all_at(&bytes[..1 << 20], 0).expect("its beginning");
    let behind = (1 << 20) + HOLE_LEN;
    file.write_all_at(&bytes[behind..], behind as u64).expect("its end");
    let (clock, storage, repository) = make();
    let monitor = Ages::new(&clock, &storage);
    let report = backup(&repository, files(&path), &options(2), &monitor).expect("backup");
    assert_eq!(report.restart_count, 2, "two tickets grew old");
    let below = path.strip_prefix("/").expect("absolute");
    check_checkpoints(&repository, below, &bytes, LONG_LEN - HOLE_LEN);
}

/// W5: a run that slept so long that other clients may have ended its ticket does not commit what
/// it found before, but restarts, even if the ticket was renewed afterwards.
#[test]
fn run_that_slept_too_long_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    make_files(folder.path(), 10);
    let (clock, storage, repository) = make();
    let slept = AtomicBool::new(false);
    let monitor = AtFile::new(|file| {
        if file == 5 && !slept.swap(true, Ordering::SeqCst) {
            let tickets = storage.list("tickets").expect("list").len();
            clock.advance(13 * HOUR_NS);
            let began = Instant::now();
            while storage.list("tickets").expect("list").len() == tickets
                && began.elapsed() < PATIENCE
            {
                sleep(Duration::from_millis(5));
            }
        }
        false
    });
    let report = backup(&repository, files(folder.path()), &options(2), &monitor).expect("backup");
    assert_eq!(report.restart_count, 1, "it restarted");
    let view = View::list(&repository).expect("view");
    assert_eq!(view.snapshots().len(), 1, "snapshots");
}
