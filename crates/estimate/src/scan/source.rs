//! The source, which walks and reads files in the same way as a backup.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_backup::source::{
    FileExtent, Handle, SourceFile, Walk, WalkOptions, WalkStep, open_file, xattrs,
};
use cutpoint_repository::{Entry, EntryKind};

use super::block::{BLOCK_SIZE, Block, EVENT_COUNT_MAX, Event};

/// The files to read, and the number of threads.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// The files and folders to read.
    pub paths: Vec<PathBuf>,
    /// The exclusions from these files and folders.
    pub walk: WalkOptions,
    /// The shard to read: its number, from 0, and the number of shards. All shards together, on one
    /// machine or several, read each file exactly once. The path of a file decides its shard, or
    /// its inode if the file has several paths.
    pub shard: Option<(u32, u32)>,
    /// The share of files to read, chosen by a hash of the name. Of all files of one name, either
    /// all or none are read.
    pub name_share: Option<f64>,
    /// The number of threads that cut and compress; 0 for the number of processors.
    pub threads: usize,
}

/// The progress of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of files read.
    pub file_count: u64,
    /// The size of these files in bytes, including holes.
    pub size: u64,
}

/// The observer of a scan, which can also stop it.
pub trait Monitor: Sync {
    /// Reports the progress of the scan.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// Reports the total number of files and bytes. Called at most once, some time after the
    /// beginning.
    fn expected(&self, file_count: u64, size: u64) {
        let _ = (file_count, size);
    }

    /// Reports that `path` could not be read. The scan counts such paths.
    fn problem(&self, path: &Path, message: &str) {
        let _ = (path, message);
    }

    /// Reports that `path` is about to be read.
    fn reading(&self, path: &Path) {
        let _ = path;
    }

    /// Returns `true` to stop the scan. Called often; the bytes read before the stop count.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The monitor that observes nothing.
impl Monitor for () {}

/// The counts of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// The number of files read, without further links to the same file.
    pub file_count: u64,
    /// The number of folders entered, including those above the sources.
    pub folder_count: u64,
    /// The number of names excluded by patterns and other rules.
    pub excluded_count: u64,
    /// The number of paths that could not be read.
    pub problem_count: u64,
    /// The size of the files in bytes, including holes.
    pub size: u64,
    /// The size of the holes in bytes, which are not read.
    pub hole_bytes: u64,
    /// Set if the scan was stopped before its end.
    pub is_partial: bool,
}

impl ScanOptions {
    /// Returns `true` if the file of this path is to be read.
    fn includes(&self, path: &Path, entry: &Entry) -> bool {
        let hash = |bytes: &[u8]| {
            let mut first = [0; 8];
            first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
            u64::from_le_bytes(first)
        };
        let in_shard = self.shard.is_none_or(|(number, count)| {
            let inode = entry.inode.to_le_bytes();
            // All names of a file are in one shard.
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

/// Counts the files and bytes to read. Returns `None` if the count is stopped by `stop` or by the
/// monitor, or if the paths cannot be reached.
pub fn expected_of(
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
        let WalkStep::Item { path, entry, .. } = step else { continue };
        let is_known = entry.is_hard_link() && !linked.insert((entry.device, entry.inode));
        if entry.kind == EntryKind::File && !is_known && options.includes(&path, &entry) {
            file_count += 1;
            size += entry.size;
        }
    }
    Some((file_count, size))
}

/// The receiver of blocks. Returns `false` if it takes no more.
pub(super) type Send<'a> = dyn FnMut(Block) -> bool + 'a;

pub(super) struct Source<'a> {
    monitor: &'a dyn Monitor,
    options: &'a ScanOptions,
    send: &'a mut Send<'a>,
    block: Block,
    counts: ScanCounts,
    linked: HashSet<(u64, u64)>,
}

/// The error that ends a scan early.
struct ScanStop;

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
                WalkStep::Enter { mut entry, folder, .. } => {
                    self.counts.folder_count += 1;
                    open_count += 1;
                    entry.xattrs = xattrs::of_name(&folder, &entry.name).pairs;
                    self.event(Event::Enter(Arc::new(entry)))
                }
                WalkStep::Leave => {
                    open_count -= 1;
                    self.event(Event::Leave)
                }
                WalkStep::Item { path, entry, folder } => self.item(&path, entry, &folder),
                WalkStep::Problem { path, error } => {
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
        // Folders that are still open when the walk is cut off end here.
        self.block.events.extend((0..open_count).map(|_| Event::Leave));
        self.flush().ok();
        self.counts
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.counts.problem_count += 1;
        self.monitor.problem(path, message);
    }

    fn event(&mut self, event: Event) -> Result<(), ScanStop> {
        self.block.events.push(event);
        let is_full =
            self.block.bytes.len() >= BLOCK_SIZE || self.block.events.len() >= EVENT_COUNT_MAX;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ScanStop> {
        let ScanCounts { file_count, size, .. } = self.counts;
        self.monitor.progress(&Progress { file_count, size });
        let block = std::mem::take(&mut self.block);
        if (self.send)(block) { Ok(()) } else { Err(ScanStop) }
    }

    fn item(&mut self, path: &Path, mut entry: Entry, folder: &Handle) -> Result<(), ScanStop> {
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
                // The file may have become shorter after it was opened.
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

    /// Reads a file to its end, and returns its size in bytes, including holes.
    fn read_file(&mut self, file: &SourceFile) -> Result<io::Result<u64>, ScanStop> {
        let mut size = 0;
        for extent in file.extents(0) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(FileExtent::Hole { len, .. }) => {
                    size += len;
                    self.counts.size += len;
                    self.counts.hole_bytes += len;
                    self.event(Event::Hole(len))?;
                }
                Ok(FileExtent::Data { offset, len }) => {
                    let (mut at, end) = (offset, offset + len);
                    while at < end {
                        if self.monitor.cancelled() {
                            self.block.events.extend([Event::Cut, Event::Dropped]);
                            return Err(ScanStop);
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
                        // There are fewer bytes than expected, because the file was truncated.
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

    /// Reads bytes of a file, up to `end`, into the free space of the block.
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
