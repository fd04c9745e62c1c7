//! Saves the entries that a walk finds.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Instant;

use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::{Entry, EntryKind};
use cutpoint_storage::Error;

use super::base_segments::BaseSegments;
use super::batch::{Event, SourceLinkKey};
use super::bundle::Bundling;
use super::changed_file::{BlockMap, ChangedFile, is_cut_by, unsuitable};
use super::cutter::{CutEnd, Cutter};
use super::decision::{FileDecision, ReadReason};
use super::files_ahead::FileAhead;
use super::finder::{Finder, Found, FoundFile, FoundItem};
use super::monitor::BackupMonitor;
use super::run_state::RunState;
use super::shutdown::Result;
use super::source_counts::SourceCounts;
use crate::source::xattrs::{self, Xattrs};
use crate::source::{Handle, SourceFile, open_file};

/// Turns the steps of a walk into events.
pub(super) struct WalkSaver<'r, 'a> {
    /// The walk, some steps ahead.
    pub(super) finder: Finder<'a>,
    pub(super) cutter: &'r mut Cutter<'a>,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) state: &'a RunState,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// The map by which the only file is read, if there is one.
    pub(super) map: Option<BlockMap<'a>>,
    /// The number of folders that have begun and not ended.
    pub(super) depth: usize,
    /// The name of the current entry in the snapshot, if it is another one, until its event.
    pub(super) recorded_name: Option<Vec<u8>>,
    /// The files of several names that were saved under one of these.
    pub(super) linked: HashSet<SourceLinkKey>,
    pub(super) counts: SourceCounts,
}

impl<'a> WalkSaver<'_, 'a> {
    /// Saves everything that the walk finds.
    pub(super) fn save(mut self) -> Result<SourceCounts> {
        loop {
            let found = self.finder.next(|| self.cutter.batches.check_stop())?;
            let Some(found) = found else { break };
            self.cutter.batches.check_stop()?;
            if self.state.is_old() {
                // Rule W8: the complete part becomes a checkpoint. Open folders end here.
                self.counts.partial = true;
                for _ in 0..self.depth {
                    self.push(Event::Leave)?;
                }
                break;
            }
            self.save_found(found)?;
        }
        let walk = &self.finder.walk;
        self.counts.file_systems =
            (0..walk.device_count()).map(|at| walk.file_system(at).identity).collect();
        self.counts.excluded = walk.excluded();
        self.counts.missing_sources = walk.missing().iter().copied().collect();
        Ok(self.counts)
    }

    fn save_found(&mut self, found: Found) -> Result<()> {
        self.recorded_name = None;
        match found {
            Found::Above(entry) => {
                self.depth += 1;
                self.push(Event::Enter(entry))
            }
            Found::Item(item) => self.save_item(*item),
            Found::File(file) => self.save_file(*file),
            Found::Leave => {
                self.depth -= 1;
                self.push(Event::Leave)
            }
            Found::Excluded(path, rule) => {
                self.monitor.decided(&path, &FileDecision::Excluded(rule));
                Ok(())
            }
            Found::Warning(path, message) => {
                self.monitor.warning(&path, &message);
                Ok(())
            }
            Found::Problem(path, message) => self.report_unsaved(&path, &message),
        }
    }

    fn push(&mut self, mut event: Event) -> Result<()> {
        if let Event::Enter(entry) | Event::Entry(entry) | Event::Link(entry) | Event::File(entry) =
            &mut event
            && let Some(name) = self.recorded_name.take()
        {
            entry.name = name;
        }
        self.cutter.batches.push(event)
    }

    fn problem(&mut self, path: &Path, message: &str) {
        self.counts.problems += 1;
        self.monitor.problem(path, message);
    }

    /// Reports that `path`, an entry of the innermost open folder, is not saved.
    fn report_unsaved(&mut self, path: &Path, message: &str) -> Result<()> {
        self.problem(path, message);
        self.push(Event::Lacking)
    }

    /// Sets the extended attributes of an entry of `folder`, which were requested ahead if `is_ahead`
    /// is set.
    fn read_xattrs(&mut self, path: &Path, entry: &mut Entry, folder: &Handle, is_ahead: bool) {
        let found = match is_ahead.then(|| self.finder.files.take()).flatten() {
            Some(FileAhead::Xattrs(found)) => found,
            Some(FileAhead::File(_)) | None => {
                let began_at = Instant::now();
                let found = xattrs::of_name(folder, &entry.name);
                self.finder.files.note(began_at.elapsed(), 0);
                found
            }
        };
        self.set_xattrs(path, entry, found);
    }

    fn set_xattrs(&self, path: &Path, entry: &mut Entry, found: Xattrs) {
        if let Some(error) = found.problem {
            self.monitor.warning(path, &format!("extended attributes cannot be read: {error}"));
        }
        entry.xattrs = found.pairs;
    }

    /// Begins a folder, or saves an entry that is neither a file nor a folder.
    fn save_item(&mut self, item: FoundItem) -> Result<()> {
        let FoundItem { path, mut entry, name, folder, is_ahead } = item;
        let kind = entry.kind;
        if !matches!(kind, EntryKind::Symlink | EntryKind::Folder) {
            self.monitor.decided(&path, &FileDecision::Special(kind));
        }
        if let Some(folder) = folder {
            self.read_xattrs(&path, &mut entry, &folder, is_ahead);
        }
        self.recorded_name = name;
        if kind == EntryKind::Folder {
            self.depth += 1;
            return self.push(Event::Enter(Box::new(entry)));
        }
        self.push(Event::Entry(Box::new(entry)))
    }

    /// Saves a file: as a link to an earlier name, from its previous version, or by reading it.
    fn save_file(&mut self, file: FoundFile) -> Result<()> {
        let FoundFile { path, entry, folder, before, position, reason, .. } = file;
        self.recorded_name = file.name;
        let key = SourceLinkKey::of(&entry);
        let is_link = entry.is_hard_link() && !self.linked.insert(key);
        let (reason, before) = match (reason, before) {
            (None, Some(before)) if !is_link => {
                let folder = file.reads_xattrs.then_some(&folder);
                return self.take_over(&path, entry, before, folder, file.is_ahead);
            }
            (reason, before) => (reason.unwrap_or(ReadReason::Forced), before),
        };
        // What was requested is taken, whatever becomes of it.
        let ahead = file.is_ahead.then(|| self.finder.files.take()).flatten();
        if is_link {
            self.monitor.decided(&path, &FileDecision::Link);
            return self.push(Event::Link(Box::new(entry)));
        }
        let decision = FileDecision::Read { reason, before: before.as_ref(), now: &entry };
        self.monitor.decided(&path, &decision);
        self.monitor.reading(&path);
        // The next name of the same file is read instead if this one cannot be opened. The file
        // can also have changed after the walk examined it, or can be a different one.
        let began_at = ahead.is_none().then(Instant::now);
        let opened = match ahead {
            // It may have waited for long.
            Some(FileAhead::File(opened)) => opened.and_then(|mut file| {
                file.examine_again()?;
                Ok(file)
            }),
            Some(FileAhead::Xattrs(_)) | None => open_file(&folder, &entry),
        };
        let opening = began_at.map(|began_at| began_at.elapsed());
        self.linked.remove(&key);
        match opened {
            Ok(file) => {
                let (size, reading) = (entry.size, self.cutter.read_elapsed());
                self.read_file(&path, entry, file, before.as_ref(), position)?;
                if let Some(opening) = opening {
                    let reading = self.cutter.read_elapsed() - reading;
                    self.finder.files.note(opening + reading, size);
                }
                Ok(())
            }
            Err(error) => self.report_unsaved(&path, &error.to_string()),
        }
    }

    /// Saves a file that has not changed since `before`. If there is a `folder`, the extended
    /// attributes are read, which were requested ahead if `is_ahead` is set.
    fn take_over(
        &mut self,
        path: &Path,
        mut entry: Entry,
        before: Entry,
        folder: Option<&Handle>,
        is_ahead: bool,
    ) -> Result<()> {
        self.monitor.decided(path, &FileDecision::Unchanged);
        entry.content = before.content;
        match folder {
            // Without ctime, nothing shows a change of the attributes.
            Some(folder) => self.read_xattrs(path, &mut entry, folder, is_ahead),
            None => entry.xattrs = before.xattrs,
        }
        self.counts.unchanged_files += 1;
        self.push(Event::Entry(Box::new(entry)))
    }

    /// Saves an open file by reading it.
    fn read_file(
        &mut self,
        path: &Path,
        mut entry: Entry,
        mut file: SourceFile,
        before: Option<&Entry>,
        position: usize,
    ) -> Result<()> {
        file.refresh(&mut entry);
        let key = SourceLinkKey::of(&entry);
        if entry.is_hard_link() {
            self.linked.insert(key);
        }
        self.set_xattrs(path, &mut entry, file.xattrs());
        self.state.add_read_file();
        if entry.size == 0 {
            return self.push(Event::Entry(Box::new(entry)));
        }
        self.cutter.begin_file(before)?;
        let comparison = &self.finder.comparison;
        if let Some(before) = before {
            self.cutter.rebuild(comparison.damaged_parts(position, before));
        }
        if let (Some(before), Some(reader)) = (before, comparison.reader_at(position))
            && comparison.has_beginning(position, before, &entry)
        {
            self.cutter.copy_segments(reader, &before.content, before.size)?;
        }
        let file = &file;
        let cut = match self.map {
            Some(map) => {
                self.cut_changed(map, path, &entry, file, before.map(|it| (position, it)))?
            }
            None => self.cutter.cut_file(file, &entry, self.started_ns)?,
        };
        match cut {
            Ok(CutEnd::TicketOld(_)) => {
                self.counts.partial = true;
                let name = self.recorded_name.take().unwrap_or(std::mem::take(&mut entry.name));
                entry.name = name;
                return self.cutter.end_part(entry);
            }
            Ok(end) => entry.defect = self.defect(path, &entry, file, &end),
            Err(error) => {
                self.linked.remove(&key);
                self.push(Event::Dropped)?;
                return self.report_unsaved(path, &error.to_string());
            }
        }
        // A bundle that ends at a name that may end it will be the same next time. A bundle that
        // ends with its batch will not.
        let ends_bundle = self.cutter.batches.is_nearly_full()
            && self.bundling.is_some_and(|bundling| bundling.may_end(&entry.name));
        self.push(Event::File(Box::new(entry)))?;
        if ends_bundle { self.cutter.batches.send() } else { Ok(()) }
    }

    /// Reads and cuts the blocks of a file that `map` lists, and takes the others over from
    /// `before`, which comes with its position among the previous versions.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if there is no suitable previous version.
    fn cut_changed(
        &mut self,
        map: BlockMap<'a>,
        path: &Path,
        entry: &Entry,
        file: &SourceFile,
        before: Option<(usize, &Entry)>,
    ) -> Result<io::Result<CutEnd>> {
        let unusable = |reason: &str| {
            let message = format!(
                "--changed-blocks cannot be used: {reason}\n  run the backup once without the option"
            );
            Error::invalid(path.display(), message)
        };
        let Some((position, before)) = before else {
            return Err(unusable("no previous snapshot has this path").into());
        };
        if let Some(reason) = unsuitable(before, entry, map.changed) {
            return Err(unusable(&reason).into());
        }
        let version = self.finder.comparison.whole_version(position, before);
        let mut base = None;
        if let Some(version) = version
            && is_cut_by(version.reader, before, map.cut, &version.cut)?
        {
            let (reader, chunker) = (version.reader, self.cutter.chunker());
            base = BaseSegments::new(reader, &before.content, chunker, map.changed);
        }
        let Some(base) = base else {
            if version.is_none() {
                let message =
                    "data of the previous snapshot is damaged or missing: read completely";
                self.monitor.warning(path, message);
            }
            return self.cutter.cut_file(file, entry, self.started_ns);
        };
        let path = path.display().to_string();
        let salt = self.started_ns.cast_unsigned();
        ChangedFile { file, path, base, keys: map.keys, salt }.save(self.cutter)
    }

    /// Compares a file that was read up to `end` with its state before. Reports a difference, and
    /// returns the defect to record.
    fn defect(
        &mut self,
        path: &Path,
        entry: &Entry,
        file: &SourceFile,
        end: &CutEnd,
    ) -> Option<Defect> {
        match file.changed(entry) {
            Ok(None) if matches!(end, CutEnd::Short) => {
                let message = format!(
                    "ended early (expected {}, read {}); saved as far as it was read",
                    entry.size,
                    self.cutter.covered_len()
                );
                self.problem(path, &message);
                Some(Defect::Short)
            }
            Ok(None) => None,
            Ok(Some(change)) => {
                self.problem(path, &format!("changed while it was read ({change}); saved as read"));
                Some(Defect::Changed)
            }
            Err(error) => {
                self.problem(path, &error.to_string());
                Some(Defect::Changed)
            }
        }
    }
}
