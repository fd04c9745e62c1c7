//! The source, which walks and reads files in the same way as a backup.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_repository::{Entry, EntryKind};

use super::block::{BLOCK_SIZE, Block, EVENT_COUNT_MAX, Event};
use super::shard::{Part, Shard};
#[cfg(unix)]
use crate::files::xattrs;
use crate::files::{
    FileExtent, Handle, SourceFile, Walk, WalkOptions, WalkStep, complete, open_file,
};

/// The files to read, and the number of threads.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// The files and folders to read.
    pub paths: Vec<PathBuf>,
    /// The exclusions from these files and folders.
    pub walk: WalkOptions,
    /// The shard to read. All lanes must then cut by the specification of the shard.
    pub shard: Option<Shard>,
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
    /// Returns the number of bytes to be read of the file of this path, with holes; `None` if the
    /// file is left out.
    fn share(&self, path: &Path, entry: &Entry) -> Option<u64> {
        let in_share = self.name_share.is_none_or(|share| {
            let name = path.file_name().unwrap_or_default();
            (hash(name.as_encoded_bytes()) as f64) < share * u64::MAX as f64
        });
        if !in_share {
            return None;
        }
        match &self.shard {
            Some(shard) => shard.share(identity(path, entry), entry.size),
            None => Some(entry.size),
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Returns the hash of a file that decides its shard, the same for all names of the file.
fn identity(path: &Path, entry: &Entry) -> u64 {
    let inode = entry.inode.to_le_bytes();
    hash(if entry.is_hard_link() { &inode } else { path.as_os_str().as_encoded_bytes() })
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
        if entry.kind == EntryKind::File
            && !is_known
            && let Some(share) = options.share(&path, &entry)
        {
            file_count += 1;
            size += share;
        }
    }
    Some((file_count, size))
}

/// Opens the files of a scan whose paths `select` accepts, in the order of the scan, and passes them
/// to `each`. A shard is not considered, and names that the scan does not read are passed as well.
///
/// # Errors
///
/// Returns the error of the system, with the path, if a path cannot be reached or a file cannot be
/// opened, and any error of `each`.
pub fn open_files(
    options: &ScanOptions,
    select: &dyn Fn(&Path) -> bool,
    each: &mut dyn FnMut(&Path, &SourceFile) -> io::Result<()>,
) -> io::Result<()> {
    for step in Walk::new(&options.paths, options.walk.clone())? {
        let WalkStep::Item { path, entry, folder } = step else { continue };
        if entry.kind == EntryKind::File && select(&path) {
            let file = open_file(&folder, &entry).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            each(&path, &file)?;
        }
    }
    Ok(())
}

/// The receiver of blocks. Returns `false` if it takes no more.
pub(super) type Send<'a> = dyn FnMut(Block) -> bool + 'a;

pub(super) struct Source<'a> {
    monitor: &'a dyn Monitor,
    options: &'a ScanOptions,
    send: &'a mut Send<'a>,
    block: Block,
    counts: ScanCounts,
    /// The number of folders entered and not left.
    open_count: usize,
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
        Source { monitor, options, send, block, counts, open_count: 0, linked: HashSet::new() }
    }

    /// Reads what the walk finds.
    pub(super) fn read(mut self, mut walk: Walk) -> ScanCounts {
        for step in walk.by_ref() {
            let done = match step {
                #[cfg(unix)]
                WalkStep::Enter { mut entry, folder, .. } => {
                    entry.xattrs = xattrs::of_name(&folder, &entry.name).pairs;
                    self.enter(entry)
                }
                #[cfg(windows)]
                WalkStep::Enter { entry } => self.enter(entry),
                WalkStep::Leave => {
                    self.open_count -= 1;
                    self.event(Event::Leave)
                }
                WalkStep::Item { path, entry, folder } => self.item(&path, entry, &folder),
                // Without a line of patterns, more is read, which the counts show.
                #[cfg(unix)]
                WalkStep::Excluded { .. } | WalkStep::Warning { .. } => Ok(()),
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
        #[cfg(unix)]
        {
            self.counts.excluded_count = walk.excluded();
        }
        // Folders that are still open when the walk is cut off end here.
        self.block.events.extend((0..self.open_count).map(|_| Event::Leave));
        self.flush().ok();
        self.counts
    }

    fn enter(&mut self, entry: Entry) -> Result<(), ScanStop> {
        self.counts.folder_count += 1;
        self.open_count += 1;
        self.event(Event::Enter(Arc::new(entry)))
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
        if self.options.share(path, &entry).is_none() {
            return Ok(());
        }
        // As all shards see it, whatever happens to the file meanwhile.
        let identity = identity(path, &entry);
        let key = (entry.device, entry.inode);
        if entry.is_hard_link() && !self.linked.insert(key) {
            return self.event(Event::Link(Arc::new(entry)));
        }
        self.monitor.reading(path);
        let mut file = match open_file(folder, &entry) {
            Ok(file) => file,
            Err(error) => {
                // The next name of the same file is read instead.
                self.linked.remove(&key);
                self.problem(path, &error.to_string());
                return Ok(());
            }
        };
        complete(&mut entry, &mut file);
        self.counts.file_count += 1;
        if entry.size == 0 {
            return self.event(Event::Item(Arc::new(entry)));
        }
        self.event(Event::Begin(path.into()))?;
        match self.read_file(&file, identity)? {
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

    /// Reads a file to its end, or what the shard reads of it. Returns the number of bytes,
    /// including holes.
    fn read_file(&mut self, file: &SourceFile, identity: u64) -> Result<io::Result<u64>, ScanStop> {
        let shard = self.options.shard.as_ref();
        let mut size = 0;
        for extent in file.extents(0) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(FileExtent::Hole { offset, len }) => {
                    let owned = |shard: &Shard| {
                        let ranges = shard.owned(identity, offset..offset + len);
                        ranges.map(|range| range.end - range.start).sum()
                    };
                    let len = shard.map_or(len, owned);
                    size += len;
                    self.counts.size += len;
                    self.counts.hole_bytes += len;
                    self.event(Event::Hole(len))?;
                }
                Ok(FileExtent::Data { offset, len }) => {
                    let stream = offset..offset + len;
                    let Some(shard) = shard else {
                        let part = Part { read: stream.clone(), owned: stream.clone() };
                        match self.read_part(file, &part, &stream)? {
                            Ok(count) => size += count,
                            Err(error) => return Ok(Err(error)),
                        }
                        continue;
                    };
                    for part in shard.parts(identity, stream.clone()) {
                        let (offset, owned) = (part.read.start, part.owned.clone());
                        let is_first = offset == stream.start;
                        self.event(Event::Part { offset, owned, is_first })?;
                        match self.read_part(file, &part, &stream)? {
                            Ok(count) => size += count,
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                }
            }
        }
        Ok(Ok(size))
    }

    /// Reads a part of a stream, and returns the number of bytes read that the part owns.
    fn read_part(
        &mut self,
        file: &SourceFile,
        part: &Part,
        stream: &Range<u64>,
    ) -> Result<io::Result<u64>, ScanStop> {
        let Range { start: mut at, end } = part.read;
        let mut size = 0;
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
            let (from, to) = (at.max(part.owned.start), (at + count).min(part.owned.end));
            at += count;
            size += to.saturating_sub(from);
            self.counts.size += to.saturating_sub(from);
            if self.block.bytes.len() >= BLOCK_SIZE {
                self.flush()?;
            }
            // There are fewer bytes than expected, because the file was truncated.
            if count == 0 {
                break;
            }
        }
        let is_ended = at < end || end == stream.end;
        self.event(if is_ended { Event::Cut } else { Event::Stop })?;
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
