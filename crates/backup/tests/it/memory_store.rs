//! A snapshot in memory, its creation from a folder, and the comparison of two snapshots.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cutpoint_backup::restore::{
    RestoreMonitor, RestoreOptions, RestoreReport, SnapshotReader, restore,
};
use cutpoint_backup::source::{FileExtent, Walk, WalkOptions, WalkStep, open_file, xattrs};
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint};
use cutpoint_storage::{Error, Result};
use cutpoint_testing::digest::sha256;

/// The length of the chunks that files are cut into, in bytes.
pub(crate) const CHUNK_LEN: usize = 100_000;

/// Chunks, recipes and trees by their fingerprints.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    pub(crate) chunks: HashMap<Fingerprint, Arc<[u8]>>,
    recipes: HashMap<Fingerprint, Vec<Segment>>,
    trees: HashMap<Fingerprint, Vec<Entry>>,
    /// The number of chunks requested.
    pub(crate) asked: AtomicU64,
}

impl MemoryStore {
    pub(crate) fn chunk_of(&mut self, bytes: &[u8]) -> Segment {
        let fingerprint = Fingerprint(sha256(bytes));
        self.chunks.insert(fingerprint, bytes.into());
        Segment::Chunk { fingerprint, offset: 0, length: bytes.len() as u64 }
    }

    pub(crate) fn content_of(&mut self, segments: Vec<Segment>) -> Content {
        if segments.is_empty() {
            return Content::Empty;
        }
        if segments.len() < 3 {
            return Content::Segments(segments);
        }
        let fingerprint = Fingerprint(sha256(format!("{segments:?}").as_bytes()));
        self.recipes.insert(fingerprint, segments);
        Content::Recipe(fingerprint)
    }

    /// Returns a tree of `entries` in the given order.
    pub(crate) fn tree_of(&mut self, entries: Vec<Entry>) -> Content {
        if entries.is_empty() {
            return Content::Empty;
        }
        let fingerprint = Fingerprint(sha256(format!("{entries:?}").as_bytes()));
        self.trees.insert(fingerprint, entries);
        Content::Recipe(fingerprint)
    }

    /// Creates a file with the given bytes.
    pub(crate) fn file(&mut self, name: &str, bytes: &[u8]) -> Entry {
        let mut entry = Entry::new(name, EntryKind::File);
        entry.mode = 0o644;
        entry.size = bytes.len() as u64;
        let segments = bytes.chunks(CHUNK_LEN).map(|bytes| self.chunk_of(bytes)).collect();
        entry.content = self.content_of(segments);
        entry
    }

    /// Creates a folder with the given entries.
    pub(crate) fn folder(&mut self, name: &str, entries: Vec<Entry>) -> Entry {
        let mut entry = Entry::new(name, EntryKind::Folder);
        entry.mode = 0o755;
        entry.content = self.tree_of(entries);
        entry
    }

    /// Backs up `source`. Returns the tree of its entries.
    pub(crate) fn back_up(&mut self, source: &Path) -> Content {
        let source = source.canonicalize().unwrap();
        let walk = Walk::new(std::slice::from_ref(&source), WalkOptions::default()).unwrap();
        let mut open: Vec<(Entry, Vec<Entry>)> = vec![];
        for step in walk {
            match step {
                WalkStep::Enter { mut entry, folder, .. } => {
                    entry.xattrs = read_xattrs(xattrs::of_name(&folder, &entry.name));
                    open.push((entry, vec![]));
                }
                WalkStep::Item { mut entry, folder, .. } => {
                    if entry.kind == EntryKind::File {
                        let mut file = open_file(&folder, &entry).unwrap();
                        entry.xattrs = read_xattrs(file.xattrs());
                        let mut segments = vec![];
                        for extent in file.extents(0) {
                            match extent.unwrap() {
                                FileExtent::Hole { len, .. } => {
                                    segments.push(Segment::Hole { length: len });
                                }
                                FileExtent::Data { offset, len } => {
                                    let mut bytes = vec![0; usize::try_from(len).unwrap()];
                                    let count = file.read_at(&mut bytes, offset).unwrap();
                                    assert_eq!(count, bytes.len(), "bytes read");
                                    segments.extend(
                                        bytes.chunks(CHUNK_LEN).map(|bytes| self.chunk_of(bytes)),
                                    );
                                }
                            }
                        }
                        entry.content = self.content_of(segments);
                        assert_eq!(file.changed(&entry).unwrap(), None, "no process writes here");
                    } else {
                        entry.xattrs = read_xattrs(xattrs::of_name(&folder, &entry.name));
                    }
                    open.last_mut().unwrap().1.push(entry);
                }
                WalkStep::Leave => {
                    let (mut entry, entries) = open.pop().unwrap();
                    let is_source = open.len() + 1 == source.components().count() - 1;
                    entry.content = self.tree_of(entries);
                    if is_source {
                        return entry.content;
                    }
                    open.last_mut().unwrap().1.push(entry);
                }
                WalkStep::Excluded { .. } | WalkStep::Warning { .. } => {}
                WalkStep::Problem { path, error } => panic!("{}: {error}", path.display()),
            }
        }
        panic!("the source has no Leave");
    }
}

fn read_xattrs(read: xattrs::Xattrs) -> Vec<(Vec<u8>, Vec<u8>)> {
    assert!(read.problem.is_none(), "{:?}", read.problem);
    read.pairs
}

impl SnapshotReader for MemoryStore {
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        let Content::Recipe(fingerprint) = content else { panic!("no tree: {content:?}") };
        let entries =
            self.trees.get(fingerprint).ok_or_else(|| Error::missing("tree", fingerprint))?;
        Ok(Box::new(entries.iter().cloned().map(|entry| {
            // Stands for a tree that is damaged from here on.
            if entry.name == b"DAMAGE" { Err(Error::corrupt("tree", "damaged")) } else { Ok(entry) }
        })))
    }

    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>> {
        let Content::Recipe(fingerprint) = content else { panic!("no recipe: {content:?}") };
        let segments =
            self.recipes.get(fingerprint).ok_or_else(|| Error::missing("recipe", fingerprint))?;
        Ok(Box::new(segments.iter().copied().map(Ok)))
    }

    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes> {
        self.asked.fetch_add(1, Relaxed);
        let found = self.chunks.get(fingerprint).cloned().map(Bytes::from_owner);
        found.ok_or_else(|| Error::missing(format!("chunk {fingerprint}"), "is nowhere"))
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        Fingerprint(sha256(bytes))
    }
}

/// A monitor that records its events.
#[derive(Debug, Default)]
pub(crate) struct TestMonitor {
    pub(crate) problems: Mutex<Vec<(PathBuf, String)>>,
    pub(crate) warnings: Mutex<Vec<(PathBuf, String)>>,
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl RestoreMonitor for TestMonitor {
    fn progress(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.problems.lock().unwrap().push((path.to_owned(), message.to_owned()));
    }

    fn warning(&self, path: &Path, message: &str) {
        self.warnings.lock().unwrap().push((path.to_owned(), message.to_owned()));
    }
}

impl TestMonitor {
    /// Returns the paths with problems, sorted.
    pub(crate) fn problem_paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> =
            self.problems.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
        paths.sort();
        paths
    }
}

/// Restores with four threads.
pub(crate) fn restore_into(
    store: &MemoryStore,
    root: &Content,
    target: &Path,
    options: RestoreOptions,
) -> (RestoreReport, TestMonitor) {
    let monitor = TestMonitor::default();
    let options = RestoreOptions { threads: 4, ..options };
    let report = restore(store, root, target, &options, &monitor).unwrap();
    assert_eq!(
        report.failed_entries,
        monitor.problems.lock().unwrap().len() as u64,
        "each problem is told: {monitor:?}"
    );
    assert_eq!(report.warnings, monitor.warnings.lock().unwrap().len() as u64, "each warning");
    (report, monitor)
}

/// Returns everything below the folder of a snapshot, by path, without the properties that a
/// restore cannot keep. `inode` identifies the names of one file, numbered in order of appearance.
pub(crate) fn flatten(store: &MemoryStore, root: &Content) -> Vec<(PathBuf, Entry)> {
    let mut inodes = HashMap::new();
    let mut flat = vec![];
    let mut waiting = vec![(PathBuf::new(), root.clone())];
    while let Some((path, content)) = waiting.pop() {
        if content == Content::Empty {
            continue;
        }
        for entry in store.tree(&content).unwrap() {
            let mut entry = entry.unwrap();
            let path = path.join(std::ffi::OsStr::from_bytes(&entry.name));
            entry.ctime = cutpoint_repository::Time::default();
            entry.device = 0;
            let next = inodes.len() as u64;
            entry.inode = *inodes.entry(entry.inode).or_insert(next);
            if entry.kind == EntryKind::Folder {
                waiting.push((path.clone(), std::mem::replace(&mut entry.content, Content::Empty)));
            }
            flat.push((path, entry));
        }
    }
    flat
}

/// Panics at the first difference between the folders of two snapshots.
pub(crate) fn assert_same(store: &MemoryStore, one: &Content, other: &Content) {
    let (one, other) = (flatten(store, one), flatten(store, other));
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one, other, "an entry that is not restored as it was");
    }
    assert_eq!(one.len(), other.len(), "the number of entries");
}
