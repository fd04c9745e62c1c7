//! Files that are taken over without reading them, and files that must be read; names of one file;
//! reads that end early.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use cutpoint_backup::restore::{RestoreMonitor, RestoreOptions, RestoreReport, restore};
use cutpoint_backup::save::{BackupMonitor, BackupOptions, BackupReport, backup};
use cutpoint_backup::source::FileSystem;
use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::{Entry, Reader, Repository, Statistics, View};
use cutpoint_testing::{SplitMix64, skipped};

use crate::backup_options::{files, options};
use crate::forged_snapshot::forge;
use crate::manual_clock::{Clock, HOUR_NS, MountedFileSystem, SECOND_NS, make};

pub(crate) const DAY_NS: i64 = 24 * HOUR_NS;

/// A folder, a repository, and a clock that starts at the time of the folder's last change.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    clock: Arc<Clock>,
    pub(crate) repository: Arc<Repository>,
    pub(crate) file_system: FileSystem,
    /// The number of threads that read ahead.
    readers: usize,
}

impl Place {
    pub(crate) fn new() -> Place {
        let (clock, _, repository) = make();
        let file_system = FileSystem {
            identity: "ext4 1".to_owned(),
            settling_ns: Some(60 * SECOND_NS),
            mtime_settling_ns: Some(60 * SECOND_NS),
            copies_mtime: false,
        };
        let folder = tempfile::tempdir().expect("a folder");
        Place { folder, clock, repository, file_system, readers: 8 }
    }

    /// A place whose files are opened only once the monitor has been told.
    fn without_readers() -> Place {
        Place { readers: 0, ..Place::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    /// Writes a file and sets the clock to the time of the change.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        let meta = path.metadata().expect("metadata");
        let now_ns = meta.ctime() * SECOND_NS + meta.ctime_nsec();
        self.clock.set(now_ns);
        path
    }

    pub(crate) fn advance(&self, ns: i64) {
        self.clock.advance(ns);
    }

    pub(crate) fn options(&self) -> BackupOptions {
        let file_systems = Arc::new(MountedFileSystem(self.file_system.clone()));
        BackupOptions { file_systems, readers: self.readers, ..options(1) }
    }

    fn back_up(&self, monitor: &dyn BackupMonitor) -> BackupReport {
        let source = files(self.folder.path());
        backup(&self.repository, source, &self.options(), monitor).expect("backup")
    }

    /// Runs a backup. Returns the number of files that it reads.
    fn read_count(&self) -> u64 {
        self.back_up(&()).statistics.read_file_count
    }

    fn reader(&self) -> Reader {
        let view = View::list(&self.repository).expect("view");
        Reader::open(self.repository.clone(), view).expect("reader")
    }

    /// Returns the entry of `path` in the newest snapshot.
    pub(crate) fn entry(&self, path: &Path) -> Entry {
        let reader = self.reader();
        let view = reader.view();
        let snapshots = view.snapshots();
        let (_, snapshot) = *snapshots.last().expect("a snapshot");
        let mut content = snapshot.root.clone();
        let mut found = None;
        for name in path.strip_prefix("/").expect("absolute") {
            let mut entries = reader.tree(&content).map(|entry| entry.expect("an entry"));
            let entry = entries.find(|entry| entry.name == name.as_encoded_bytes());
            let entry = entry.unwrap_or_else(|| panic!("{} is missing", path.display()));
            content = entry.content.clone();
            found = Some(entry);
        }
        found.expect("not the root")
    }

    /// Restores the newest snapshot. Returns the path of the restored folder.
    pub(crate) fn restore(
        &self,
        target: &Path,
        monitor: &dyn RestoreMonitor,
    ) -> (PathBuf, RestoreReport) {
        let reader = self.reader();
        let view = reader.view();
        let snapshots = view.snapshots();
        let (_, snapshot) = *snapshots.last().expect("a snapshot");
        let root = snapshot.root.clone();
        let done = restore(&reader, &root, target, &RestoreOptions::default(), monitor);
        (target.join(self.path("").strip_prefix("/").expect("absolute")), done.expect("restore"))
    }
}

/// A monitor that records messages, and calls a function for each file that is read and each check
/// for cancellation.
struct Heard<F> {
    said: Mutex<Vec<(PathBuf, String)>>,
    at: F,
}

impl<F: Fn(Option<&Path>) + Sync> Heard<F> {
    fn new(at: F) -> Heard<F> {
        Heard { said: Mutex::default(), at }
    }

    fn note(&self, path: &Path, message: &str) {
        self.said.lock().expect("no panic").push((path.to_owned(), message.to_owned()));
    }

    fn said(&self) -> Vec<(PathBuf, String)> {
        self.said.lock().expect("no panic").clone()
    }
}

impl<F: Fn(Option<&Path>) + Sync> BackupMonitor for Heard<F> {
    fn problem(&self, path: &Path, message: &str) {
        self.note(path, message);
    }

    fn warning(&self, path: &Path, message: &str) {
        self.note(path, message);
    }

    fn reading(&self, path: &Path) {
        (self.at)(Some(path));
    }

    fn cancelled(&self) -> bool {
        (self.at)(None);
        false
    }
}

impl<F: Fn(Option<&Path>) + Sync> RestoreMonitor for Heard<F> {
    fn warning(&self, path: &Path, message: &str) {
        self.note(path, message);
    }
}

/// A store through a shared mapping into a dirty page changes no time before the page is written,
/// so a file is not settled until then.
#[test]
fn file_is_read_again_until_its_pages_were_written_before_a_run() {
    let place = Place::new();
    place.write("database", b"version 1");
    place.advance(59 * SECOND_NS);
    assert_eq!(place.read_count(), 1, "the first run reads it");
    place.advance(DAY_NS);
    assert_eq!(place.read_count(), 1, "changed less than a minute before the parent began");
    place.advance(DAY_NS);
    assert_eq!(place.read_count(), 0, "changed long before the parent began");
}

#[test]
fn file_is_read_unless_older_than_the_settling_interval() {
    for (age_ns, read_count) in [(60 * SECOND_NS, 1), (60 * SECOND_NS + 1, 0)] {
        let place = Place::new();
        place.write("file", b"bytes");
        place.advance(age_ns);
        place.read_count();
        place.advance(DAY_NS);
        assert_eq!(place.read_count(), read_count, "{age_ns} ns");
    }
}

/// An image with fixed times and inode numbers can take the place of another one.
#[test]
fn different_file_system_at_the_path_is_read() {
    let mut place = Place::new();
    place.write("file", b"bytes");
    place.advance(DAY_NS);
    assert_eq!(place.read_count(), 1, "the first run reads it");
    place.file_system.identity = "ext4 2".to_owned();
    place.advance(SECOND_NS);
    let options = BackupOptions { skip_if_unchanged: true, ..place.options() };
    let second = backup(&place.repository, files(place.folder.path()), &options, &());
    let second = second.expect("backup");
    assert_eq!(second.statistics.read_file_count, 1, "the file system is another one");
    assert!(second.snapshot.is_some(), "the next run is to compare with the new file system");
    assert_eq!(place.read_count(), 0, "the file system is the same");
    place.file_system.identity = String::new();
    assert_eq!(place.read_count(), 1, "nothing is known of it");
    assert_eq!(place.read_count(), 1, "nothing is known of both");
}

/// Such times come from a mount of a server, from FUSE, or from FAT.
#[test]
fn file_with_unreliable_times_is_read() {
    let mut place = Place::new();
    let same = place.write("same", b"ctime is mtime");
    let later = place.write("later", b"ctime is later");
    let at = |path: &Path, before: u64| {
        let time = SystemTime::now() - Duration::from_secs(before);
        File::options().write(true).open(path).and_then(|f| f.set_modified(time)).expect("set");
    };
    at(&later, 3600);
    // The time is in the future, which is impossible for a ctime.
    let ctime = same.metadata().expect("metadata");
    let ahead = Duration::from_nanos(u64::try_from(ctime.ctime_nsec()).expect("positive"));
    let ahead = ahead + Duration::from_secs(u64::try_from(ctime.ctime()).expect("positive") + 60);
    let file = File::options().write(true).open(&same).expect("it opens");
    file.set_modified(SystemTime::UNIX_EPOCH + ahead).expect("set");
    place.advance(2 * DAY_NS);
    assert_eq!(place.read_count(), 2, "the first run reads all");
    assert_eq!(place.read_count(), 0, "ctime is enough");
    place.file_system.copies_mtime = true;
    assert_eq!(place.read_count(), 1, "a ctime that is not later than mtime can be a copy");
    place.file_system.settling_ns = None;
    assert_eq!(place.read_count(), 2, "no time is long enough");
    let heard = Heard::new(|_| {});
    place.back_up(&heard);
    let said = heard.said();
    assert!(said.iter().any(|(_, text)| text.contains("every file is read")), "{said:?}");
}

/// Otherwise, an incomplete or changing file would stay in that state in all later snapshots.
#[test]
fn file_with_defective_entry_is_read() {
    for (defect, read_count) in [(None, 0), (Some(Defect::Short), 1), (Some(Defect::Changed), 1)] {
        let place = Place::new();
        place.write("file", b"bytes");
        place.advance(DAY_NS);
        place.read_count();
        let view = View::list(&place.repository).expect("view");
        let (_, snapshot) = view.snapshots()[0];
        forge(&place.repository, snapshot, &|entry, _| entry.defect = defect);
        place.advance(DAY_NS);
        assert_eq!(place.read_count(), read_count, "{defect:?}");
    }
}

/// The mtime of a file can be set to the value that its next change will give it.
#[test]
fn file_with_future_times_is_read() {
    let place = Place::new();
    let path = place.write("file", b"bytes");
    let ahead = SystemTime::now() + Duration::from_secs(30 * 24 * 3600);
    File::options().write(true).open(&path).and_then(|f| f.set_modified(ahead)).expect("set");
    place.advance(DAY_NS);
    place.read_count();
    place.advance(DAY_NS);
    assert_eq!(place.read_count(), 1, "its mtime is yet to come");
    place.advance(60 * DAY_NS);
    place.read_count();
    assert_eq!(place.read_count(), 0, "its mtime is long ago");
}

/// The times come from a server whose clock is behind. A file that looks old by the clock of this
/// machine is young by that of the server.
#[test]
fn file_with_remote_times_is_read_until_a_day_old() {
    let mut place = Place::new();
    place.file_system.settling_ns = Some(DAY_NS);
    place.write("file", b"bytes");
    // The server is two minutes behind, and the file was written just now.
    place.advance(120 * SECOND_NS);
    assert_eq!(place.read_count(), 1, "the first run reads it");
    place.advance(DAY_NS);
    assert_eq!(place.read_count(), 1, "it can have changed since within one tick of its clock");
    place.advance(SECOND_NS);
    assert_eq!(place.read_count(), 0, "it was old when the parent began");
}

/// A file of the kernel that claims a page in size and has a few bytes.
const SHORT: &str = "/sys/kernel/uevent_seqnum";

#[test]
fn file_that_ends_early_is_reported_and_marked() {
    let place = Place::new();
    if !Path::new(SHORT).metadata().is_ok_and(|meta| meta.len() == 4096) {
        return skipped(&format!("there is no {SHORT} of 4096 bytes: no read ended early"));
    }
    let run = |heard: &dyn BackupMonitor| {
        backup(&place.repository, files(Path::new(SHORT)), &place.options(), heard).expect("backup")
    };
    // Such a file gets new times when its attributes are read for the first time.
    run(&());
    let heard = Heard::new(|_| {});
    let done = run(&heard);
    assert_eq!(done.statistics.problem_count, 1, "{:?}", heard.said());
    let [(path, message)] = &heard.said()[..] else { panic!("{:?}", heard.said()) };
    assert_eq!(path, Path::new(SHORT));
    let bytes = fs::read(SHORT).expect("it can be read");
    let numbers = format!("expected 4096, read {}", bytes.len());
    assert!(message.contains("ended early") && message.contains(&numbers), "{message}");
    let entry = place.entry(Path::new(SHORT));
    assert_eq!((entry.size, entry.defect), (bytes.len() as u64, Some(Defect::Short)));

    let again = run(&Heard::new(|_| {}));
    let counts = (again.statistics.read_file_count, again.statistics.problem_count);
    assert_eq!(counts, (1, 1), "it is read again");

    let target = tempfile::tempdir().expect("a target");
    let heard = Heard::new(|_| {});
    let (_, report) = place.restore(target.path(), &heard);
    assert_eq!((report.failed_entries, report.warnings), (0, 1), "{:?}", heard.said());
    assert!(heard.said()[0].1.contains("ended early"), "{:?}", heard.said());
}

/// A restore reports what a folder lacks.
#[test]
fn folder_with_unsaved_file_is_marked() {
    let place = Place::without_readers();
    place.write("folder/gone", b"bytes");
    place.write("folder/there", b"bytes");
    let heard = Heard::new(|path: Option<&Path>| {
        if let Some(path) = path.filter(|path| path.ends_with("gone")) {
            fs::remove_file(path).expect("it is there");
        }
    });
    assert_eq!(place.back_up(&heard).statistics.problem_count, 1, "{:?}", heard.said());
    assert_eq!(place.entry(&place.path("folder")).defect, Some(Defect::Lacking));
    assert_eq!(place.entry(&place.path("folder/there")).defect, None);
    let target = tempfile::tempdir().expect("a target");
    let heard = Heard::new(|_| {});
    place.restore(target.path(), &heard);
    let [(path, message)] = &heard.said()[..] else { panic!("{:?}", heard.said()) };
    assert!(path.ends_with("folder") && message.contains("could not be saved"), "{message}");
    place.advance(SECOND_NS);
    assert_eq!(place.back_up(&()).statistics.problem_count, 0);
    assert_eq!(place.entry(&place.path("folder")).defect, None, "it lacks nothing now");
}

/// A sparse file is truncated in its second data range while it is read. The data behind the cut
/// does not appear elsewhere.
#[test]
fn file_truncated_during_reading_ends_at_the_cut() {
    const CUT: u64 = 30_000_000;
    let place = Place::new();
    let bytes = SplitMix64::bytes(1, 8 << 20);
    let path = place.write("sparse", b"");
    let file = File::options().write(true).open(&path).expect("it opens");
    for offset in [0, 24 << 20, 48 << 20] {
        file.write_all_at(&bytes, offset).expect("an island");
    }
    let asked = AtomicU64::new(0);
    let is_reading = AtomicU64::new(0);
    let heard = Heard::new(|path: Option<&Path>| match path {
        Some(_) => is_reading.store(1, Ordering::SeqCst),
        // Called once per mebibyte, so this is in the first part of the second data range.
        None if is_reading.load(Ordering::SeqCst) == 1
            && asked.fetch_add(1, Ordering::SeqCst) == 11 =>
        {
            file.set_len(CUT).expect("cut short");
        }
        None => {}
    });
    let done = place.back_up(&heard);
    assert_eq!(done.statistics.problem_count, 1, "{:?}", heard.said());
    assert!(heard.said()[0].1.contains("size changed from"), "{:?}", heard.said());
    let entry = place.entry(&path);
    assert_eq!((entry.size, entry.defect), (CUT, Some(Defect::Changed)));
    let target = tempfile::tempdir().expect("a target");
    let (back, _) = place.restore(target.path(), &());
    assert!(fs::read(back.join("sparse")).expect("it is there") == fs::read(&path).expect("read"));
}

/// A reused inode number looks the same as a file that is written to between its names: the number
/// is equal, and the times differ.
#[test]
fn different_file_with_same_inode_is_read() {
    let place = Place::without_readers();
    let first = place.write("a/1", b"the first bytes");
    fs::create_dir(place.path("z")).expect("made");
    for name in ["z/1", "z/2", "z/3"] {
        fs::hard_link(&first, place.path(name)).expect("linked");
    }
    place.write("m", b"between");
    let heard = Heard::new(|path: Option<&Path>| {
        if path.is_some_and(|path| path.ends_with("m")) {
            fs::write(&first, b"other bytes").expect("written");
        }
    });
    let done = place.back_up(&heard);
    assert_eq!(done.statistics.read_file_count, 3, "both states, and what is between");
    assert_eq!(done.statistics.problem_count, 0, "{:?}", heard.said());
    let target = tempfile::tempdir().expect("a target");
    let (back, report) = place.restore(target.path(), &());
    assert_eq!(fs::read(back.join("a/1")).expect("read"), b"the first bytes");
    for name in ["z/1", "z/2", "z/3"] {
        assert_eq!(fs::read(back.join(name)).expect("read"), b"other bytes", "{name}");
    }
    let inode =
        |name: &str| back.join(name).metadata().map(|meta| meta.ino()).expect("it is there");
    assert_eq!((inode("z/2"), inode("z/3")), (inode("z/1"), inode("z/1")), "they are one file");
    assert_ne!(inode("a/1"), inode("z/1"), "they are two files");
    assert_eq!(report.linked_names, 2);
}

/// A file that changes between the examination of its first name and its opening is saved as it was
/// read.
#[test]
fn file_changed_before_opening_keeps_its_further_names() {
    let place = Place::without_readers();
    let first = place.write("a/1", b"the first bytes");
    for name in ["b", "c"] {
        fs::create_dir(place.path(name)).expect("made");
        fs::hard_link(&first, place.path(&format!("{name}/1"))).expect("linked");
    }
    let heard = Heard::new(|path: Option<&Path>| {
        if path.is_some_and(|path| path.ends_with("a/1")) {
            fs::write(&first, b"other bytes").expect("written");
        }
    });
    let done = place.back_up(&heard);
    assert_eq!(done.statistics.read_file_count, 1, "the other names are links");
    assert_eq!(done.statistics.problem_count, 0, "{:?}", heard.said());
    let target = tempfile::tempdir().expect("a target");
    let (back, report) = place.restore(target.path(), &());
    for name in ["a/1", "b/1", "c/1"] {
        assert_eq!(fs::read(back.join(name)).expect("read"), b"other bytes", "{name}");
    }
    assert_eq!(report.linked_names, 2, "they are one file");
}

/// A name added meanwhile changes no byte, so all names stay links of one file.
#[test]
fn file_with_added_name_is_restored_as_links() {
    let place = Place::without_readers();
    let first = place.write("a", b"bytes");
    fs::hard_link(&first, place.path("z")).expect("linked");
    place.write("m", b"between");
    let heard = Heard::new(|path: Option<&Path>| {
        if path.is_some_and(|path| path.ends_with("m")) {
            fs::hard_link(&first, place.path("n")).expect("linked");
        }
    });
    place.back_up(&heard);
    let target = tempfile::tempdir().expect("a target");
    let (back, _) = place.restore(target.path(), &());
    let inode = |name: &str| -> io::Result<u64> { Ok(back.join(name).metadata()?.ino()) };
    assert_eq!(inode("a").expect("a"), inode("z").expect("z"), "they are one file");
}

/// A monitor that waits in the first file that is read until the look-ahead has reported, which
/// counts the rest of the source meanwhile.
struct Waits {
    expected: Mutex<Option<Statistics>>,
    until: Instant,
}

impl Waits {
    fn new() -> Waits {
        Waits { expected: Mutex::default(), until: Instant::now() + Duration::from_secs(60) }
    }

    /// Returns what the look-ahead has reported.
    fn expectation(&self) -> Statistics {
        self.expected.lock().expect("no panic").take().expect("an expectation")
    }
}

impl BackupMonitor for Waits {
    fn looks_ahead(&self) -> bool {
        true
    }

    fn expected(&self, statistics: &Statistics) {
        *self.expected.lock().expect("no panic") = Some(*statistics);
    }

    fn reading(&self, _: &Path) {
        while self.expected.lock().expect("no panic").is_none() && Instant::now() < self.until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn look_ahead_expects_the_files_that_will_be_read() {
    let place = Place::new();
    for number in 0..9 {
        place.write(&format!("{number}/a"), &[number; 1000]);
        fs::hard_link(place.path(&format!("{number}/a")), place.path(&format!("{number}/b")))
            .expect("linked");
    }
    place.advance(HOUR_NS);
    assert_eq!(place.read_count(), 9, "each file is read once");
    place.advance(HOUR_NS);
    place.write("3/a", &[33; 3000]);
    place.write("7/new", &[7; 500]);
    let waits = Waits::new();
    let report = place.back_up(&waits);
    let expected = waits.expectation();
    let counted = |it: &Statistics| (it.file_count, it.size, it.read_file_count, it.read_bytes);
    assert_eq!(counted(&expected), (19, 8 * 1000 + 3000 + 500, 2, 3500));
    let done = report.statistics;
    assert_eq!((done.file_count, done.read_file_count), (19, 2), "as expected");
}

/// Holes are not read, so they do not belong to the work.
#[test]
fn look_ahead_leaves_out_the_holes_of_large_files() {
    let place = Place::new();
    place.write("a", &[1; 500]);
    let sparse = File::create(place.path("sparse")).expect("created");
    sparse.write_all_at(&[8; 4096], 16 << 20).expect("written");
    let stored = sparse.metadata().expect("metadata").blocks() * 512;
    let waits = Waits::new();
    let done = place.back_up(&waits).statistics;
    let expected = waits.expectation();
    assert_eq!(expected.read_bytes, done.read_bytes, "what was read");
    assert_eq!(expected.size, 500 + (16 << 20) + 4096, "with holes");
    match stored {
        0..0x10_0000 => assert!(expected.read_bytes < 1 << 20, "{} bytes", expected.read_bytes),
        _ => skipped("no holes here"),
    }
}
