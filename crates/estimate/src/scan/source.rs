//! The source: goes through files as a backup does, and reads them.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_backup::files::{
    Extent, Handle, SourceFile, Step, Walk, WalkOptions, open_file, xattrs,
};
use cutpoint_store::format::tree::{Entry, EntryKind};

use super::block::{BLOCK_SIZE, Block, EVENT_COUNT_MAX, Event};

/// What is read, and how.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// What is left out of them.
    pub walk: WalkOptions,
    /// Of so many parts of the files, which one is read, from 0: whoever reads all of them, on one
    /// machine or several, has read each file once. Which part a file is in, its path decides,
    /// or where it has several its inode.
    pub shard: Option<(u32, u32)>,
    /// Only files whose names have a hash in this share of all hashes: about that share of files, and
    /// of one name all or none.
    pub name_share: Option<f64>,
    /// How many threads cut and compress; 0 is as many as there are processors.
    pub threads: usize,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that were read.
    pub file_count: u64,
    /// Their bytes, holes among them.
    pub size: u64,
}

/// Who looks on.
pub trait Monitor: Sync {
    /// The scan is so far.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// There are so many files and bytes in all. Comes once, some time after the beginning.
    fn expected(&self, file_count: u64, size: u64) {
        let _ = (file_count, size);
    }

    /// `path` could not be read. It is counted.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// `path` is read.
    fn reading(&self, path: &Path) {
        let _ = path;
    }

    /// Whether to stop. Asked often; what was read until then counts.
    fn cancelled(&self) -> bool {
        false
    }
}

/// What a scan has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Files that were read, links to one of them not counted.
    pub file_count: u64,
    /// Folders that were entered, those above the sources among them.
    pub folder_count: u64,
    /// Names that were left out by patterns and the like.
    pub excluded_count: u64,
    /// What could not be read.
    pub problem_count: u64,
    /// Bytes of files, holes among them.
    pub size: u64,
    /// Bytes of holes, which are not read.
    pub hole_bytes: u64,
    /// Whether somebody asked to stop before the end.
    pub is_partial: bool,
}

impl ScanOptions {
    /// Whether a file of this path is to be read.
    fn includes(&self, path: &Path, entry: &Entry) -> bool {
        let hash = |bytes: &[u8]| {
            let mut first = [0; 8];
            first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
            u64::from_le_bytes(first)
        };
        let in_shard = self.shard.is_none_or(|(number, count)| {
            let inode = entry.inode.to_le_bytes();
            // All names of a file are in one part.
            let identity: &[u8] =
                if entry.is_hard_link() { &inode } else { path.as_os_str().as_bytes() };
            hash(identity) % u64::from(count.max(1)) == u64::from(number)
        });
        let in_share = self.name_share.is_none_or(|share| {
            let name = path.file_name().unwrap_or_default();
            (hash(name.as_bytes()) as f64) < share * u64::MAX as f64
        });
        in_shard && in_share
    }
}

/// Counts files and bytes that there will be to read; `None` where `stop` came before, or the paths
/// cannot be reached.
pub(crate) fn expected_of(
    options: &ScanOptions,
    monitor: &dyn Monitor,
    stop: &AtomicBool,
) -> Option<(u64, u64)> {
    let walk = Walk::new(&options.paths, options.walk.clone()).ok()?;
    let mut linked = HashSet::new();
    let (mut file_count, mut size) = (0, 0);
    for step in walk {
        if stop.load(Ordering::Relaxed) || monitor.cancelled() {
            return None;
        }
        let Step::Item { path, entry, .. } = step else { continue };
        let is_known = entry.is_hard_link() && !linked.insert((entry.device, entry.inode));
        if entry.kind == EntryKind::File && !is_known && options.includes(&path, &entry) {
            file_count += 1;
            size += entry.size;
        }
    }
    Some((file_count, size))
}

/// A monitor that also ends a scan when somebody else wants that.
pub(crate) struct Until<'a> {
    pub(crate) monitor: &'a dyn Monitor,
    pub(crate) broken: Arc<AtomicBool>,
}

impl Monitor for Until<'_> {
    fn progress(&self, progress: &Progress) {
        self.monitor.progress(progress);
    }

    fn expected(&self, file_count: u64, size: u64) {
        self.monitor.expected(file_count, size);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.monitor.problem(path, message);
    }

    fn reading(&self, path: &Path) {
        self.monitor.reading(path);
    }

    fn cancelled(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || self.monitor.cancelled()
    }
}

/// Where blocks go. False where nobody wants any more.
pub(super) type Send<'a> = dyn FnMut(Block) -> bool + 'a;

pub(super) struct Source<'a> {
    monitor: &'a dyn Monitor,
    options: &'a ScanOptions,
    send: &'a mut Send<'a>,
    block: Block,
    counts: ScanCounts,
    linked: HashSet<(u64, u64)>,
}

/// Nobody wants more of it.
struct Stopped;

impl<'a> Source<'a> {
    pub(super) fn new(
        options: &'a ScanOptions,
        monitor: &'a dyn Monitor,
        send: &'a mut Send<'a>,
    ) -> Source<'a> {
        let (block, counts) = (Block::default(), ScanCounts::default());
        Source { monitor, options, send, block, counts, linked: HashSet::new() }
    }

    /// Reads what the walk finds.
    pub(super) fn read(mut self, mut walk: Walk) -> ScanCounts {
        let mut open_count = 0;
        for step in walk.by_ref() {
            let done = match step {
                Step::Enter { mut entry, folder, .. } => {
                    self.counts.folder_count += 1;
                    open_count += 1;
                    entry.xattrs = xattrs::of_name(&folder, &entry.name).pairs;
                    self.event(Event::Enter(Arc::new(entry)))
                }
                Step::Leave => {
                    open_count -= 1;
                    self.event(Event::Leave)
                }
                Step::Item { path, entry, folder } => self.item(&path, entry, &folder),
                Step::Problem { path, error } => {
                    self.problem(&path, &error.to_string());
                    Ok(())
                }
            };
            if done.is_err() || self.monitor.cancelled() {
                self.counts.is_partial = true;
                break;
            }
        }
        self.counts.excluded_count = walk.excluded();
        // Where the walk was cut off, open folders end here.
        self.block.events.extend((0..open_count).map(|_| Event::Leave));
        self.flush().ok();
        self.counts
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.counts.problem_count += 1;
        self.monitor.problem(path, message);
    }

    fn event(&mut self, event: Event) -> Result<(), Stopped> {
        self.block.events.push(event);
        let is_full =
            self.block.bytes.len() >= BLOCK_SIZE || self.block.events.len() >= EVENT_COUNT_MAX;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        let ScanCounts { file_count, size, .. } = self.counts;
        self.monitor.progress(&Progress { file_count, size });
        let block = std::mem::take(&mut self.block);
        if (self.send)(block) { Ok(()) } else { Err(Stopped) }
    }

    fn item(&mut self, path: &Path, mut entry: Entry, folder: &Handle) -> Result<(), Stopped> {
        if entry.kind != EntryKind::File {
            return self.event(Event::Item(Arc::new(entry)));
        }
        if !self.options.includes(path, &entry) {
            return Ok(());
        }
        let key = (entry.device, entry.inode);
        if entry.is_hard_link() && !self.linked.insert(key) {
            return self.event(Event::Link(Arc::new(entry)));
        }
        self.monitor.reading(path);
        let file = match open_file(folder, &entry) {
            Ok(file) => file,
            Err(error) => {
                // The next name of the same file is read instead.
                self.linked.remove(&key);
                self.problem(path, &error.to_string());
                return Ok(());
            }
        };
        file.refresh(&mut entry);
        entry.xattrs = xattrs::of_file(&file).pairs;
        self.counts.file_count += 1;
        if entry.size == 0 {
            return self.event(Event::Item(Arc::new(entry)));
        }
        self.event(Event::Begin(path.into()))?;
        match self.read_file(&file)? {
            Ok(size) => {
                // It may have become shorter since it was opened.
                entry.size = size;
                self.event(Event::File(Arc::new(entry)))
            }
            Err(error) => {
                self.linked.remove(&key);
                self.problem(path, &error.to_string());
                self.event(Event::Dropped)
            }
        }
    }

    /// Reads a file to its end, and returns how many bytes that was, holes among them.
    fn read_file(&mut self, file: &SourceFile) -> Result<io::Result<u64>, Stopped> {
        let mut size = 0;
        for extent in file.extents(0) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(Extent::Hole { len, .. }) => {
                    size += len;
                    self.counts.size += len;
                    self.counts.hole_bytes += len;
                    self.event(Event::Hole(len))?;
                }
                Ok(Extent::Data { offset, len }) => {
                    let (mut at, end) = (offset, offset + len);
                    while at < end {
                        if self.monitor.cancelled() {
                            self.block.events.extend([Event::Cut, Event::Dropped]);
                            return Err(Stopped);
                        }
                        let count = match self.read_some(file, at, end) {
                            Ok(count) => count as u64,
                            Err(error) => {
                                self.event(Event::Cut)?;
                                return Ok(Err(error));
                            }
                        };
                        at += count;
                        size += count;
                        self.counts.size += count;
                        if self.block.bytes.len() >= BLOCK_SIZE {
                            self.flush()?;
                        }
                        // Fewer bytes than there were: the file was cut short meanwhile.
                        if count == 0 {
                            break;
                        }
                    }
                    self.event(Event::Cut)?;
                }
            }
        }
        Ok(Ok(size))
    }

    /// Reads what is left of the block's room.
    fn read_some(&mut self, file: &SourceFile, offset: u64, end: u64) -> io::Result<usize> {
        let bytes = &mut self.block.bytes;
        let start = bytes.len();
        let room = BLOCK_SIZE - start.min(BLOCK_SIZE - 1);
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(room);
        bytes.resize(start + wanted, 0);
        let read = file.read_at(&mut bytes[start..], offset);
        let count = *read.as_ref().unwrap_or(&0);
        bytes.truncate(start + count);
        match self.block.events.last_mut() {
            Some(Event::Data(len)) => *len += count,
            _ => self.block.events.push(Event::Data(count)),
        }
        read
    }
}
