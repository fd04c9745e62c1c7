//! The source stage: walks, compares with the parent, reads, cuts and fills batches.

use std::collections::HashSet;
use std::io::Read;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use cutpoint_chunking::Chunker;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::read::Entries;
use cutpoint_repository::{
    Class, Content, Entry, EntryKind, Fingerprint, Index, Reader, Scope, Time,
};
use cutpoint_storage::{Error, Kind};

use super::BackupMonitor;
use super::batch::{BATCH_EVENTS_MAX, Batch, Cut, Event, LinkKey};
use super::bundle::Bundling;
use super::run_state::{Job, RunState};
use super::shutdown::Result;
use crate::source::folder::Handle;
use crate::source::mounts::FileSystem;
use crate::source::read::{Extent, SourceFile, open_file};
use crate::source::walk::{Step, Walk};
use crate::source::xattrs;

/// The interval at which a wait for a batch checks for a request to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Rule W8: the interval before the start of the attempt, in nanoseconds. A file modified within
/// this interval, or later, will probably change again.
const QUIET_NS: i64 = 2_000_000_000;

/// Rule W8: a file that lacks at most this number of bytes is read to its end.
const NEARLY_LEN: u64 = 16 << 20;

/// A previous snapshot to compare with.
pub(super) struct Previous<'a> {
    pub(super) reader: &'a Reader,
    /// The index of the writer: the chunks that are known and may be referenced.
    pub(super) index: &'a Index,
    pub(super) root: Content,
    /// The time, in nanoseconds since 1970, before which no file of the snapshot was read.
    pub(super) read_since_ns: i64,
    /// Set if the snapshot is a checkpoint of this run, which has itself read the files in it.
    pub(super) is_own: bool,
    /// The identities of its file systems, indexed by the `device` of its entries.
    pub(super) file_systems: Vec<String>,
    /// The chunks that a check has found damaged after the snapshot was made. Files that need one
    /// are read again.
    pub(super) damaged: HashSet<Fingerprint>,
    /// Set if the index is complete. Otherwise, chunks are looked up before a file is taken over.
    pub(super) index_is_whole: bool,
    /// Set if the run of the snapshot was cut off, so that its last file may be incomplete.
    pub(super) partial: bool,
    /// The sources that are compared with this snapshot because the parent lacks them, as positions
    /// in the list of all sources. Empty for the parent itself.
    pub(super) sources: Vec<usize>,
}

/// The part of a stream that earlier attempts of a run have read, because a stream cannot be read
/// twice.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// The number of bytes in the checkpoint.
    size: u64,
    /// The bytes read after these, which are in no chunk yet.
    tail: Vec<u8>,
}

/// The extent to which a file or a stream was cut.
enum Reach {
    /// To its end.
    Whole,
    /// To the last byte that could be read, before the expected end.
    Short,
    /// Until the ticket was old. Holds the bytes that were read, but are in no chunk.
    Begun(Vec<u8>),
}

/// The counts of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceCounts {
    pub(super) unchanged_files: u64,
    pub(super) read_files: u64,
    pub(super) problems: u64,
    pub(super) excluded: u64,
    /// Set if the walk was cut off.
    pub(super) partial: bool,
    /// The sources that the walk could not go through, as positions in the list of all sources.
    pub(super) lost_sources: Vec<usize>,
    /// The identities of the file systems, indexed by the `device` of entries.
    pub(super) file_systems: Vec<String>,
}

type ParentFolder<'a> = Peekable<Entries<'a>>;

pub(super) struct SourceStage<'a> {
    pub(super) chunker: &'a dyn Chunker,
    /// The parent, followed by the snapshots that have sources that the parent lacks.
    pub(super) previous_versions: Vec<Previous<'a>>,
    /// The index in `previous_versions` of the snapshot that the current place is compared with.
    current: usize,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) shared: &'a RunState,
    pub(super) free: Receiver<Batch>,
    pub(super) jobs: Sender<Job>,
    /// The start of the attempt, in nanoseconds since 1970.
    started_ns: i64,
    batch: Option<Batch>,
    /// The number of bytes of the batch that are filled.
    fill: usize,
    next_number: u64,
    counts: SourceCounts,
    linked: HashSet<LinkKey>,
    /// The file systems, indexed by the `device` of entries.
    file_systems: Vec<FileSystem>,
    /// The number of bytes of the current file that its events cover.
    cut_size: u64,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    /// The cut-points appended by the chunker. Empty between its calls.
    ends: Vec<usize>,
}

fn misordered() -> Error {
    Error::invalid("backup", "bytes come without a batch")
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "backup", "interrupted")
}

impl<'a> SourceStage<'a> {
    pub(super) fn new(
        chunker: &'a dyn Chunker,
        previous_versions: Vec<Previous<'a>>,
        monitor: &'a dyn BackupMonitor,
        shared: &'a RunState,
        free: Receiver<Batch>,
        jobs: Sender<Job>,
        started_ns: i64,
    ) -> SourceStage<'a> {
        SourceStage {
            chunker,
            previous_versions,
            current: 0,
            monitor,
            shared,
            free,
            jobs,
            started_ns,
            batch: None,
            fill: 0,
            next_number: 0,
            counts: SourceCounts::default(),
            linked: HashSet::new(),
            file_systems: Vec::new(),
            cut_size: 0,
            bundling: None,
            ends: Vec::new(),
        }
    }

    /// Returns the snapshot that the current place is compared with.
    fn previous(&self) -> Option<&Previous<'a>> {
        self.previous_versions.get(self.current)
    }

    fn stop_if_asked(&self) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(interrupted().into());
        }
        Ok(self.shared.shutdown.check()?)
    }

    fn batch(&mut self) -> Result<&mut Batch> {
        if self.batch.is_none() {
            let mut batch = loop {
                match self.shared.shutdown.expect_within(&self.free, LOOK_EVERY)? {
                    Some(batch) => break batch,
                    None => self.stop_if_asked()?,
                }
            };
            batch.number = self.next_number;
            batch.events.clear();
            self.next_number += 1;
            self.fill = 0;
            self.batch = Some(batch);
        }
        self.batch.as_mut().ok_or_else(|| misordered().into())
    }

    fn send(&mut self) -> Result<()> {
        match self.batch.take() {
            Some(batch) => Ok(self.shared.shutdown.send(&self.jobs, Job::Fingerprint(batch))?),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> Result<()> {
        let batch = self.batch()?;
        batch.events.push(event);
        // A batch is sent between the pieces of files only. `cut` sends full batches itself.
        let is_full = batch.events.len() >= BATCH_EVENTS_MAX || self.fill >= self.batch_len();
        if is_full { self.send() } else { Ok(()) }
    }

    fn batch_len(&self) -> usize {
        self.batch.as_ref().map_or(usize::MAX, |batch| batch.bytes.len())
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.counts.problems += 1;
        self.monitor.problem(path, message);
    }

    /// Reports that `path`, an entry of the innermost open folder, is not saved.
    fn lost(&mut self, path: &Path, message: &str) -> Result<()> {
        self.problem(path, message);
        self.event(Event::Lacking)
    }

    /// Sends the last batch. Returns the number of batches and the counts.
    pub(super) fn finish(mut self) -> Result<(u64, SourceCounts)> {
        self.send()?;
        Ok((self.next_number, self.counts))
    }

    /// Saves everything that a walk finds.
    pub(super) fn walk(&mut self, mut walk: Walk) -> Result<()> {
        let mut parents: Vec<Option<ParentFolder<'a>>> = Vec::new();
        let root = self.previous().map(|previous| previous.reader.tree(&previous.root).peekable());
        parents.push(root);
        // The values of `current` for the folders around the current one.
        let mut around = Vec::new();
        while let Some(step) = walk.next() {
            let known = self.file_systems.len();
            self.file_systems.extend((known..walk.device_count()).map(|at| walk.file_system(at)));
            self.stop_if_asked()?;
            if self.shared.is_old() {
                // Rule W8: the complete part becomes a checkpoint. Open folders end here.
                self.counts.partial = true;
                for _ in 1..parents.len() {
                    self.event(Event::Leave)?;
                }
                break;
            }
            match step {
                Step::Enter { path, mut entry, folder } => {
                    around.push(self.current);
                    let before = self.parent_entry(&mut parents, &entry.name, &path);
                    let before = before.or_else(|| self.entry_elsewhere(&walk, &path));
                    // A folder above the sources has no times to compare.
                    let unchanged = entry.ctime != Time::default()
                        && before.as_ref().is_some_and(|before| before.ctime == entry.ctime);
                    match &before {
                        Some(before) if unchanged && self.is_settled(before, &entry) => {
                            entry.xattrs.clone_from(&before.xattrs);
                        }
                        _ => self.read_xattrs(&path, &mut entry, &folder),
                    }
                    let tree = before.filter(|before| before.kind == EntryKind::Folder);
                    parents.push(tree.and_then(|tree| {
                        Some(self.previous()?.reader.tree(&tree.content).peekable())
                    }));
                    self.event(Event::Enter(Box::new(entry)))?;
                }
                Step::Leave => {
                    parents.pop();
                    self.current = around.pop().unwrap_or_default();
                    self.event(Event::Leave)?;
                }
                Step::Item { path, entry, folder } => {
                    let outer = self.current;
                    let before = self.parent_entry(&mut parents, &entry.name, &path);
                    let before = before.or_else(|| self.entry_elsewhere(&walk, &path));
                    self.item(&path, entry, &folder, before)?;
                    self.current = outer;
                }
                Step::Problem { path, error } => self.lost(&path, &error.to_string())?,
            }
        }
        self.counts.file_systems =
            (0..walk.device_count()).map(|at| walk.file_system(at).identity).collect();
        self.counts.excluded = walk.excluded();
        self.counts.lost_sources = walk.lost().iter().copied().collect();
        Ok(())
    }

    /// Looks up the entry of `path`, a source that the parent lacks, in the other snapshot that has
    /// it. Everything below `path` is then compared with that snapshot.
    fn entry_elsewhere(&mut self, walk: &Walk, path: &Path) -> Option<Entry> {
        if self.previous_versions.len() < 2 {
            return None;
        }
        let numbers = walk.sources_at(path);
        let is_of =
            |previous: &Previous<'_>| previous.sources.iter().any(|each| numbers.contains(each));
        let found = self.previous_versions.iter().position(is_of)?;
        let previous = &self.previous_versions[found];
        let mut content = previous.root.clone();
        let mut names = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
        let mut entry = None;
        for name in names.by_ref().filter(|name| !name.is_empty()) {
            let entries = previous.reader.tree(&content);
            let mut entries = entries
                .take_while(|each| each.as_ref().is_ok_and(|each| each.name.as_slice() <= name));
            let next = entries.find_map(|each| each.ok().filter(|each| each.name == name))?;
            content = next.content.clone();
            entry = Some(next);
        }
        self.current = found;
        entry
    }

    /// Returns the entry of the name `name` in the folder of the parent, if there is one.
    fn parent_entry(
        &mut self,
        parents: &mut [Option<ParentFolder<'a>>],
        name: &[u8],
        path: &Path,
    ) -> Option<Entry> {
        let folder = parents.last_mut()?;
        loop {
            match folder.as_mut()?.peek() {
                None => return None,
                Some(Err(error)) => {
                    self.not_compared(path, error);
                    *folder = None;
                    return None;
                }
                Some(Ok(entry)) if entry.name.as_slice() > name => return None,
                Some(Ok(_)) => {
                    let entry = folder.as_mut()?.next()?.ok()?;
                    if entry.name == name {
                        return Some(entry);
                    }
                }
            }
        }
    }

    fn not_compared(&self, path: &Path, error: &Error) {
        let message = format!("the previous snapshot cannot be compared: {error}");
        self.monitor.warning(path, &message);
    }

    fn read_xattrs(&mut self, path: &Path, entry: &mut Entry, folder: &Handle) {
        let found = xattrs::of_name(folder, &entry.name);
        self.take_xattrs(path, entry, found);
    }

    fn take_xattrs(&mut self, path: &Path, entry: &mut Entry, found: xattrs::Xattrs) {
        if let Some(error) = found.problem {
            self.monitor.warning(path, &format!("extended attributes cannot be read: {error}"));
        }
        entry.xattrs = found.pairs;
    }

    /// Returns `true` if any change after the parent was made, to the file of `entry` and `before`,
    /// would show in ctime, or in mtime for a file.
    fn is_settled(&self, before: &Entry, entry: &Entry) -> bool {
        let Some(previous) = self.previous() else { return false };
        let Some(now) = at(&self.file_systems, entry.device) else { return false };
        let is_same = at(&previous.file_systems, before.device) == Some(&now.identity);
        // A file that this run has read need not be read again. Without the checkpoint, a change
        // after that would not be in the snapshot either.
        if previous.is_own || !is_same {
            return is_same;
        }
        let Some(settling_ns) = now.settling_ns else { return false };
        let settled_ns = previous.read_since_ns.saturating_sub(settling_ns);
        let is_file = entry.kind == EntryKind::File;
        !now.identity.is_empty()
            && is_before(entry.ctime, settled_ns)
            && (is_before(entry.mtime, settled_ns) || !is_file)
            && (!now.copies_mtime || entry.ctime > entry.mtime)
    }

    /// Returns `true` if the file may be taken over by rule W3.
    fn is_unchanged(&self, before: &Entry, entry: &Entry) -> bool {
        before.size == entry.size && self.is_same(before, entry)
    }

    /// Returns `true` if rule W3 holds for a file whose beginning is in a checkpoint.
    fn is_begun(&self, before: &Entry, entry: &Entry) -> bool {
        self.previous().is_some_and(|previous| previous.partial)
            && before.size < entry.size
            && self.is_same(before, entry)
    }

    /// Returns `true` if the file `entry` is unchanged since it was read as `before`, as far as it
    /// was read.
    fn is_same(&self, before: &Entry, entry: &Entry) -> bool {
        before.kind == EntryKind::File
            && before.defect.is_none()
            && before.mtime == entry.mtime
            && before.ctime == entry.ctime
            && before.inode == entry.inode
            && self.is_settled(before, entry)
            && !self.needs_damaged(before)
    }

    /// Returns `true` if a chunk that the file needs was found damaged after the parent was made,
    /// or cannot be found.
    fn needs_damaged(&self, before: &Entry) -> bool {
        let Some(previous) = self.previous() else { return true };
        if previous.damaged.is_empty() && previous.index_is_whole {
            return false;
        }
        if let Content::Recipe(fingerprint) = &before.content
            && previous.damaged.contains(fingerprint)
        {
            return true;
        }
        previous.reader.segments(&before.content).any(|segment| match segment {
            Ok(Segment::Chunk { fingerprint, .. }) => {
                let is_known = || {
                    let found = previous.index.find(Class::Data, &fingerprint, Scope::Write);
                    found.is_ok_and(|location| location.is_some())
                };
                previous.damaged.contains(&fingerprint) || !(previous.index_is_whole || is_known())
            }
            Ok(_) => false,
            Err(_) => true,
        })
    }

    fn item(
        &mut self,
        path: &Path,
        mut entry: Entry,
        folder: &Handle,
        before: Option<Entry>,
    ) -> Result<()> {
        if entry.kind != EntryKind::File {
            let what = match entry.kind {
                EntryKind::Socket => Some("socket: only its metadata is saved"),
                EntryKind::CharDevice | EntryKind::BlockDevice => {
                    Some("device: its number is saved, but not its content")
                }
                EntryKind::Fifo => Some("named pipe: only its metadata is saved"),
                _ => None,
            };
            if let Some(what) = what {
                self.monitor.warning(path, what);
            }
            self.read_xattrs(path, &mut entry, folder);
            return self.event(Event::Item(Box::new(entry)));
        }
        let mut key = LinkKey::of(&entry);
        if entry.is_hard_link() && !self.linked.insert(key) {
            return self.event(Event::Link(Box::new(entry)));
        }
        let before = match before {
            Some(before) if self.is_unchanged(&before, &entry) => {
                entry.content = before.content;
                entry.xattrs = before.xattrs;
                self.counts.unchanged_files += 1;
                return self.event(Event::Item(Box::new(entry)));
            }
            before => before,
        };
        self.monitor.reading(path);
        let file = match open_file(folder, &entry) {
            Ok(file) => file,
            Err(error) => {
                // The next name of the same file is read instead.
                self.linked.remove(&key);
                return self.lost(path, &error.to_string());
            }
        };
        file.refresh(&mut entry);
        // The file can have changed after the walk examined it, or can be a different one.
        self.linked.remove(&key);
        key = LinkKey::of(&entry);
        if entry.is_hard_link() {
            self.linked.insert(key);
        }
        let found = xattrs::of_file(&file);
        self.take_xattrs(path, &mut entry, found);
        self.counts.read_files += 1;
        if entry.size == 0 {
            return self.event(Event::Item(Box::new(entry)));
        }
        self.begin_file(before.as_ref())?;
        let begun = before.filter(|before| self.is_begun(before, &entry));
        let is_short = match self.read_file(&file, &entry, begun)? {
            Ok(Reach::Whole) => false,
            Ok(Reach::Short) => true,
            Ok(Reach::Begun(_)) => return self.begun(entry),
            Err(error) => {
                self.linked.remove(&key);
                self.event(Event::Dropped)?;
                return self.lost(path, &error.to_string());
            }
        };
        match file.changed(&entry) {
            Ok(None) if is_short => {
                let message = format!(
                    "ended early (expected {}, read {}); saved as far as it was read",
                    entry.size, self.cut_size
                );
                self.problem(path, &message);
                entry.defect = Some(Defect::Short);
            }
            Ok(None) => {}
            Ok(Some(change)) => {
                self.problem(path, &format!("changed while it was read ({change}); saved as read"));
                entry.defect = Some(Defect::Changed);
            }
            Err(error) => {
                self.problem(path, &error.to_string());
                entry.defect = Some(Defect::Changed);
            }
        }
        // A bundle that ends at a name that may end it will be the same next time. A bundle that
        // ends with its batch will not.
        let is_nearly_full = self.fill >= self.batch_len() / 4 * 3;
        let ends_bundle = is_nearly_full
            && self.bundling.as_ref().is_some_and(|bundling| bundling.may_end(&entry.name));
        self.event(Event::File(Box::new(entry)))?;
        if ends_bundle { self.send() } else { Ok(()) }
    }

    /// Begins a file, a new version of `before` if there is one.
    fn begin_file(&mut self, before: Option<&Entry>) -> Result<()> {
        let previous = match before.filter(|before| before.kind == EntryKind::File) {
            Some(Entry { content: Content::Empty | Content::Raw(_), .. }) | None => None,
            Some(before) => Some(Box::new(before.content.clone())),
        };
        self.event(Event::Begin(previous))
    }

    /// Rule W8: ends a file whose beginning is in the checkpoint. The next attempt continues there.
    fn begun(&mut self, entry: Entry) -> Result<()> {
        self.counts.partial = true;
        // If nothing of the file was cut, the checkpoint has nothing of it.
        if self.cut_size == 0 { Ok(()) } else { self.event(Event::File(Box::new(entry))) }
    }

    /// Takes over the `size` bytes that the parent has of a file. Returns the number of bytes taken
    /// over, which is 0 if they cannot be read.
    fn take_begun(&mut self, content: &Content, size: u64) -> Result<u64> {
        let Some(reader) = self.previous().map(|previous| previous.reader) else { return Ok(0) };
        let mut taken = 0;
        for segment in reader.segments(content).map_while(Result::ok) {
            taken += segment.length();
            self.event(Event::Piece(segment))?;
        }
        if taken == size {
            return Ok(taken);
        }
        self.event(Event::Dropped)?;
        Ok(0)
    }

    /// Reads and cuts a file, from the end of the part that the parent has of it. The outer error
    /// ends the run, the inner error ends the file.
    fn read_file(
        &mut self,
        file: &SourceFile,
        entry: &Entry,
        begun: Option<Entry>,
    ) -> Result<std::io::Result<Reach>> {
        let begun_size = match begun {
            Some(begun) => self.take_begun(&begun.content, begun.size)?,
            None => 0,
        };
        self.cut_size = begun_size;
        // A file that the next attempt could not continue is read to its end now. Otherwise, a file
        // that changes all the time would be begun again and again.
        let quiet_ns = self.started_ns.saturating_sub(QUIET_NS);
        let is_settled = is_before(entry.mtime, quiet_ns) && is_before(entry.ctime, quiet_ns);
        let may_stop = |cut_size| {
            is_settled
                && cut_size + NEARLY_LEN < entry.size
                && matches!(file.changed(entry), Ok(None))
        };
        for extent in file.extents(begun_size) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(Extent::Hole { len, .. }) => {
                    self.cut_size += len;
                    self.event(Event::Piece(Segment::Hole { length: len }))?;
                }
                Ok(Extent::Data { offset, len }) => {
                    let mut at = offset;
                    let end = offset + len;
                    let read = |buffer: &mut [u8]| {
                        let want = usize::try_from(end - at).unwrap_or(usize::MAX);
                        let want = want.min(buffer.len());
                        let count = file.read_at(&mut buffer[..want], at)?;
                        at += count as u64;
                        // If there are fewer bytes than requested, there are no more, whatever the
                        // extent says.
                        Ok((count, at < end && count == want))
                    };
                    match self.cut(&[], read, may_stop)? {
                        // The bytes that follow would get a wrong offset.
                        Ok(Reach::Whole) if at < end => return Ok(Ok(Reach::Short)),
                        Ok(Reach::Whole) => {}
                        other => return Ok(other),
                    }
                }
            }
        }
        Ok(Ok(Reach::Whole))
    }

    /// Cuts `tail` and the bytes from `read`, which fills the buffer and returns the number of
    /// bytes and `true` if more may come. If the ticket is old (rule W8), `may_stop` decides, given
    /// the number of bytes of the file that are cut, whether to stop before the end.
    fn cut(
        &mut self,
        tail: &[u8],
        mut read: impl FnMut(&mut [u8]) -> std::io::Result<(usize, bool)>,
        may_stop: impl Fn(u64) -> bool,
    ) -> Result<std::io::Result<Reach>> {
        self.batch()?;
        let mut start = self.fill;
        if let Some(batch) = &mut self.batch {
            // Only a stream has a tail, in an empty batch: the bytes read before the ticket was too
            // old.
            batch.bytes[start..start + tail.len()].copy_from_slice(tail);
            self.fill += tail.len();
        }
        let mut more = true;
        loop {
            self.stop_if_asked()?;
            let Some(batch) = self.batch.as_mut() else { return Err(misordered().into()) };
            if more {
                let (count, again) = match read(&mut batch.bytes[self.fill..]) {
                    Ok(read) => read,
                    Err(error) => return Ok(Err(error)),
                };
                self.fill += count;
                more = again;
                self.shared.add_read(count as u64);
                if more && self.shared.is_old() && may_stop(self.cut_size) {
                    let tail = batch.bytes[start..self.fill].to_vec();
                    self.fill = start;
                    return Ok(Ok(Reach::Begun(tail)));
                }
            }
            let batch_is_full = self.fill == batch.bytes.len();
            // The bytes before a file in the batch belong to another file, so no chunk may depend
            // on them.
            debug_assert_eq!(self.chunker.context_size(), 0, "a spec is bounded");
            loop {
                self.chunker.next_cuts(&batch.bytes[..self.fill], start, more, &mut self.ends);
                if self.ends.is_empty() {
                    break;
                }
                for end in self.ends.drain(..) {
                    let len = end - start;
                    batch.events.push(Event::Chunk(Cut::new(start..end)));
                    start = end;
                    self.cut_size += len as u64;
                }
            }
            if !more {
                // All bytes are in chunks now.
                if batch_is_full || batch.events.len() >= BATCH_EVENTS_MAX {
                    self.send()?;
                }
                return Ok(Ok(Reach::Whole));
            }
            if batch_is_full {
                // The rest of the batch, which is shorter than the largest chunk, moves to the next
                // batch.
                let Some(full) = self.batch.take() else { return Err(misordered().into()) };
                let end = self.fill;
                let carry = end - start;
                let next = self.batch()?;
                next.bytes[..carry].copy_from_slice(&full.bytes[start..end]);
                self.fill = carry;
                start = 0;
                self.shared.shutdown.send(&self.jobs, Job::Fingerprint(full))?;
            }
        }
    }

    /// Saves a stream as one file of the root folder. Continues from the state in `begun`, and
    /// records the new state there if the ticket becomes old.
    pub(super) fn stream(
        &mut self,
        entry: Entry,
        reader: &mut dyn Read,
        begun: &mut Begun,
    ) -> Result<()> {
        let path = PathBuf::from(String::from_utf8_lossy(&entry.name).into_owned());
        self.monitor.reading(&path);
        self.counts.read_files += 1;
        let before = match self.previous_entry(&entry.name) {
            // The previous version would only have made the new one smaller.
            Err(error) if begun.size == 0 => {
                self.not_compared(&path, &error);
                None
            }
            before => before?,
        };
        self.begin_file(before.as_ref())?;
        self.resume(before, begun.size)?;
        let (monitor, shared) = (self.monitor, self.shared);
        let read = |buffer: &mut [u8]| {
            let mut filled = 0;
            // Buffers are filled completely, because cut-points must not depend on the portions of
            // a pipe.
            while filled < buffer.len() && !shared.is_old() && !shared.shutdown.is_over() {
                match reader.read(&mut buffer[filled..]) {
                    Ok(0) => return Ok((filled, false)),
                    Ok(count) => filled += count,
                    Err(error) if is_patient(&error) && !monitor.cancelled() => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((filled, true))
        };
        // A stream that breaks off must not become a snapshot that looks complete.
        let tail = std::mem::take(&mut begun.tail);
        let cut = self.cut(&tail, read, |_| true)?.map_err(|error| {
            if is_patient(&error) {
                return interrupted();
            }
            Error::new(Kind::Invalid, "standard input", error.to_string())
        })?;
        match cut {
            Reach::Whole | Reach::Short => self.event(Event::File(Box::new(entry))),
            Reach::Begun(tail) => {
                *begun = Begun { size: self.cut_size, tail };
                self.begun(entry)
            }
        }
    }

    /// Returns the file `name` in the root folder of the parent.
    fn previous_entry(&self, name: &[u8]) -> Result<Option<Entry>, Error> {
        let Some(previous) = self.previous() else { return Ok(None) };
        let mut found = None;
        for each in previous.reader.tree(&previous.root) {
            found = found.or(Some(each?).filter(|each| each.name == name));
        }
        Ok(found)
    }

    /// Takes over the `size` bytes of a stream that the checkpoint has in `entry`.
    fn resume(&mut self, entry: Option<Entry>, size: u64) -> Result<()> {
        self.cut_size = size;
        if size == 0 {
            return Ok(());
        }
        let taken = match entry {
            Some(entry) => self.take_begun(&entry.content, size)?,
            None => 0,
        };
        if taken == size {
            return Ok(());
        }
        let message = "the checkpoint lacks data that was read before";
        Err(Error::corrupt("standard input", message).into())
    }
}

/// Returns `true` if `time` is before `ns`, in nanoseconds since 1970.
fn is_before(time: Time, ns: i64) -> bool {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds) < i128::from(ns)
}

/// Returns the item of a list for the file system `device`.
fn at<T>(list: &[T], device: u64) -> Option<&T> {
    usize::try_from(device).ok().and_then(|device| list.get(device))
}

/// Returns `true` if the stream has no bytes at the moment.
fn is_patient(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut};
    matches!(error.kind(), Interrupted | TimedOut)
}
