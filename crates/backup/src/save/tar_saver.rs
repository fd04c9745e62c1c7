//! Saves the members of a tar archive that is read from a stream.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use cutpoint_storage::{Error, Kind};

use super::as_path::AsPath;
use super::batch::Event;
use super::batch_filler::interrupted;
use super::bundle::Bundling;
use super::comparison::warn_not_compared;
use super::cutter::Cutter;
use super::decision::{FileDecision, ReadReason};
use super::monitor::BackupMonitor;
use super::previous_version::PreviousVersion;
use super::run_state::RunState;
use super::shutdown::Result;
use super::source_counts::SourceCounts;
use super::stream_saver::is_patient;
use crate::tar_input::{DataExtent, Member, MemberKind, Members};
use crate::trees::Trees;

/// The size of the buffer for headers.
const HEADER_BUFFER_LEN: usize = 64 * 1024;

/// Turns the members of an archive into events. The dedup stage sorts them.
pub(super) struct TarSaver<'r, 'a> {
    pub(super) cutter: &'r mut Cutter<'a>,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) state: &'a RunState,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    previous: Option<PreviousTree<'a>>,
    /// The path of the root of the archive in the snapshot, without `/` at its beginning.
    prefix: Vec<u8>,
    counts: SourceCounts,
}

impl<'r, 'a> TarSaver<'r, 'a> {
    pub(super) fn new(
        cutter: &'r mut Cutter<'a>,
        monitor: &'a dyn BackupMonitor,
        state: &'a RunState,
        previous: Option<&PreviousVersion<'a>>,
    ) -> TarSaver<'r, 'a> {
        let previous = previous.map(|it| PreviousTree::new(it.reader, &it.root, monitor));
        TarSaver {
            cutter,
            monitor,
            state,
            bundling: None,
            previous,
            prefix: Vec::new(),
            counts: SourceCounts::default(),
        }
    }

    /// Saves the members of the archive `reader` below `as_path`, if there is one.
    pub(super) fn save(
        mut self,
        reader: &mut dyn Read,
        as_path: Option<&AsPath>,
    ) -> Result<SourceCounts> {
        let path = as_path.map(AsPath::bytes).unwrap_or_default();
        self.prefix = path.strip_prefix(b"/").unwrap_or_default().to_vec();
        let (monitor, state) = (self.monitor, self.state);
        let waiting = WaitingReader { reader, monitor, state };
        let mut members = Members::new(BufReader::with_capacity(HEADER_BUFFER_LEN, waiting));
        while let Some(member) = members.next_member().map_err(|error| self.failed(&error))? {
            self.cutter.batches.check_stop()?;
            self.save_member(member, &mut members)?;
        }
        if !members.drain().map_err(|error| self.failed(&error))? {
            let message = "data behind the end of the archive: not saved";
            self.problem(Path::new("standard input"), message);
        }
        Ok(self.counts)
    }

    /// Returns the failure of the run for an error of the archive or the stream. An archive that
    /// breaks off must not become a snapshot that looks complete.
    fn failed(&self, error: &io::Error) -> Error {
        match is_patient(error) || self.monitor.cancelled() {
            true => interrupted(),
            false => Error::new(Kind::Invalid, "standard input", error.to_string()),
        }
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.counts.problems += 1;
        self.monitor.problem(path, message);
    }

    /// Returns the path in the snapshot of a path in the archive, without `/` at its beginning.
    fn placed(&self, path: &[u8]) -> Vec<u8> {
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_vec(),
            (false, true) => self.prefix.clone(),
            (false, false) => [&self.prefix, path].join(&b'/'),
        }
    }

    fn save_member<R: Read>(&mut self, member: Member, members: &mut Members<R>) -> Result<()> {
        let Member { name, path, mut entry, kind, warnings } = member;
        let shown = PathBuf::from(OsStr::from_bytes(&name));
        for warning in warnings {
            self.monitor.warning(&shown, &warning);
        }
        let placed = self.placed(&path);
        if path.is_empty() {
            entry.name = placed.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        }
        match kind {
            MemberKind::Refused(reason) => {
                self.problem(&shown, &format!("not saved: {reason}"));
                Ok(())
            }
            // The root folder of a snapshot has no entry.
            _ if placed.is_empty() => Ok(()),
            MemberKind::HardLink(target) => {
                let target = self.placed(&target);
                self.monitor.decided(&shown, &FileDecision::Link);
                self.cutter.batches.push(Event::MemberLink { path: placed, target })
            }
            MemberKind::Other => {
                self.cutter.batches.push(Event::Member(placed))?;
                self.cutter.batches.push(Event::Entry(Box::new(entry)))
            }
            MemberKind::File(extents) => self.save_file(&shown, placed, entry, &extents, members),
        }
    }

    fn save_file<R: Read>(
        &mut self,
        shown: &Path,
        placed: Vec<u8>,
        entry: Entry,
        extents: &[DataExtent],
        members: &mut Members<R>,
    ) -> Result<()> {
        let before = self.previous.as_mut().and_then(|previous| previous.find(&placed));
        let reason = read_reason(before.as_ref(), &entry);
        let decision = FileDecision::Read { reason, before: before.as_ref(), now: &entry };
        self.monitor.decided(shown, &decision);
        self.monitor.reading(shown);
        self.state.add_read_file();
        self.cutter.batches.push(Event::Member(placed))?;
        if entry.size == 0 {
            return self.cutter.batches.push(Event::Entry(Box::new(entry)));
        }
        self.cutter.begin_file(before.as_ref())?;
        for extent in extents.iter().filter(|extent| extent.len > 0) {
            self.push_hole(extent.offset)?;
            let mut left = extent.len;
            let read = |buffer: &mut [u8]| {
                let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let count = members.read(&mut buffer[..want])?;
                left -= count as u64;
                Ok((count, left > 0))
            };
            let end = self.cutter.cut(&[], read, |_| false)?;
            end.map_err(|error| self.failed(&error))?;
        }
        self.push_hole(entry.size)?;
        let ends_bundle = self.cutter.batches.is_nearly_full()
            && self.bundling.is_some_and(|bundling| bundling.may_end(&entry.name));
        self.cutter.batches.push(Event::File(Box::new(entry)))?;
        if ends_bundle { self.cutter.batches.send() } else { Ok(()) }
    }

    /// Adds a hole up to the offset `end` to the current file, if it does not reach there.
    fn push_hole(&mut self, end: u64) -> Result<()> {
        match end.saturating_sub(self.cutter.covered_len()) {
            0 => Ok(()),
            length => self.cutter.push_segment(Segment::Hole { length }),
        }
    }
}

/// Returns the difference to the previous version, for messages. Every file of an archive is read.
fn read_reason(before: Option<&Entry>, entry: &Entry) -> ReadReason {
    match before {
        None => ReadReason::New,
        Some(before) if before.kind != EntryKind::File => ReadReason::Type,
        Some(before) if before.size != entry.size => ReadReason::Size,
        Some(before) if before.mtime != entry.mtime => ReadReason::Mtime,
        Some(_) => ReadReason::WeakTimes,
    }
}

/// The tree of the previous snapshot, in which files are searched in any order.
struct PreviousTree<'a> {
    trees: Trees<&'a Reader>,
    root: Content,
    /// The folder of the last search, and its tree; `None` if there is no such folder.
    folder: Vec<u8>,
    tree: Option<Content>,
    monitor: &'a dyn BackupMonitor,
    has_warned: bool,
}

impl<'a> PreviousTree<'a> {
    fn new(reader: &'a Reader, root: &Content, monitor: &'a dyn BackupMonitor) -> PreviousTree<'a> {
        let (trees, root, tree) = (Trees::new(reader), root.clone(), Some(root.clone()));
        PreviousTree { trees, root, folder: Vec::new(), tree, monitor, has_warned: false }
    }

    /// Returns the previous version of the file at `path`.
    fn find(&mut self, path: &[u8]) -> Option<Entry> {
        let found = self.search(path);
        found.unwrap_or_else(|error| {
            // The previous version would only have made the new one smaller.
            if !std::mem::replace(&mut self.has_warned, true) {
                warn_not_compared(self.monitor, Path::new(OsStr::from_bytes(path)), &error);
            }
            None
        })
    }

    fn search(&mut self, path: &[u8]) -> std::result::Result<Option<Entry>, Error> {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let folder = &path[..slash.unwrap_or(0)];
        let name = &path[slash.map_or(0, |at| at + 1)..];
        if folder != self.folder {
            let mut tree = Some(self.root.clone());
            for part in folder.split(|&byte| byte == b'/') {
                let Some(content) = tree.take() else { break };
                let entry = self.trees.find(&content, part)?;
                let entry = entry.filter(|entry| entry.kind == EntryKind::Folder);
                tree = entry.map(|entry| entry.content.clone());
            }
            (self.folder, self.tree) = (folder.to_vec(), tree);
        }
        let Some(tree) = &self.tree else { return Ok(None) };
        Ok(self.trees.find(tree, name)?.as_deref().cloned())
    }
}

/// A stream that may have no bytes for a while.
struct WaitingReader<'r, 'a> {
    reader: &'r mut dyn Read,
    monitor: &'a dyn BackupMonitor,
    state: &'a RunState,
}

impl Read for WaitingReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.state.is_old() {
                // Rule W8. A checkpoint would need the entries of all members so far.
                let message = "the archive has not ended after 20 hours, the maximum for one run; \
                               a run of the same command reuses the data stored so far";
                return Err(io::Error::other(message));
            }
            match self.reader.read(buffer) {
                Err(error)
                    if is_patient(&error)
                        && !self.monitor.cancelled()
                        && !self.state.shutdown.is_over() => {}
                result => return result,
            }
        }
    }
}
