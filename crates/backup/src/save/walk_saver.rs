//! Saves the entries that a walk finds.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use cutpoint_repository::format::tree::Defect;
use cutpoint_repository::{Entry, EntryKind, Time};
use cutpoint_storage::Error;

use super::as_path::AsPath;
use super::base_segments::BaseSegments;
use super::batch::{Event, SourceLinkKey};
use super::bundle::Bundling;
use super::changed_file::{BlockMap, ChangedFile, is_cut_by, unsuitable};
use super::comparison::Comparison;
use super::cutter::{CutEnd, Cutter};
use super::decision::{FileDecision, ReadReason};
use super::monitor::BackupMonitor;
use super::run_state::RunState;
use super::shutdown::Result;
use super::source_counts::SourceCounts;
use crate::source::xattrs::{self, Xattrs};
use crate::source::{Handle, SourceFile, Walk, WalkStep, open_file};

/// Turns the steps of a walk into events.
pub(super) struct WalkSaver<'r, 'a> {
    pub(super) comparison: Comparison<'a>,
    pub(super) cutter: &'r mut Cutter<'a>,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) state: &'a RunState,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    /// The start of the attempt, in nanoseconds since 1970.
    pub(super) started_ns: i64,
    /// Set if every file is read, except those that this run has read before.
    pub(super) force_read: bool,
    /// The map by which the only file is read, if there is one.
    pub(super) map: Option<BlockMap<'a>>,
    /// The other path of the source in the snapshot, if it gets one.
    pub(super) as_path: Option<AsPath>,
    /// Set if the source gets another path, and the walk is in the folders above it.
    pub(super) is_above: bool,
    /// The name of the source in the snapshot, from its step to its event.
    pub(super) recorded_name: Option<Vec<u8>>,
    /// The files of several names that were saved under one of these.
    pub(super) linked: HashSet<SourceLinkKey>,
    pub(super) counts: SourceCounts,
}

impl<'a> WalkSaver<'_, 'a> {
    /// Saves everything that `walk` finds.
    pub(super) fn save(mut self, mut walk: Walk) -> Result<SourceCounts> {
        self.comparison.open_root();
        while let Some(step) = walk.next() {
            self.comparison.add_file_systems(&walk);
            self.cutter.batches.check_stop()?;
            if self.state.is_old() {
                // Rule W8: the complete part becomes a checkpoint. Open folders end here.
                self.counts.partial = true;
                for _ in 0..self.comparison.depth() {
                    self.push(Event::Leave)?;
                }
                break;
            }
            match step {
                WalkStep::Enter { path, .. }
                    if self.is_above && walk.sources_at(&path).is_empty() => {}
                WalkStep::Leave if self.is_above => {}
                WalkStep::Enter { path, entry, folder } => {
                    if !self.begin_source(&walk)? {
                        continue;
                    }
                    let before = self.begin_entry(&walk, &entry, &path);
                    let before = self.comparison.moved(before, &entry, &folder);
                    self.enter(&path, entry, &folder, before)?;
                }
                WalkStep::Leave if self.comparison.depth() == 0 => self.end_source()?,
                WalkStep::Leave => {
                    self.comparison.leave_folder();
                    self.push(Event::Leave)?;
                    self.end_source()?;
                }
                WalkStep::Item { path, entry, folder } => {
                    if !self.begin_source(&walk)? {
                        self.report_unsaved(&path, "a file needs a name in --as-path")?;
                        continue;
                    }
                    let before = self.begin_entry(&walk, &entry, &path);
                    if entry.kind == EntryKind::File {
                        self.save_file(&path, entry, &folder, before)?;
                    } else {
                        self.save_special(&path, entry, &folder)?;
                    }
                    self.comparison.leave_entry();
                    self.end_source()?;
                }
                WalkStep::Excluded { path, rule } => {
                    self.monitor.decided(&path, &FileDecision::Excluded(rule));
                }
                WalkStep::Warning { path, message } => self.monitor.warning(&path, &message),
                WalkStep::Problem { path, error } => {
                    self.report_unsaved(&path, &error.to_string())?
                }
            }
        }
        self.counts.file_systems =
            (0..walk.device_count()).map(|at| walk.file_system(at).identity).collect();
        self.counts.excluded = walk.excluded();
        self.counts.missing_sources = walk.missing().iter().copied().collect();
        Ok(self.counts)
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

    /// Begins the entry of `walk` at `path`. Returns its previous version, if there is one.
    fn begin_entry(&mut self, walk: &Walk, entry: &Entry, path: &Path) -> Option<Entry> {
        let name = self.recorded_name.as_ref().unwrap_or(&entry.name);
        self.comparison.begin_entry(walk, name, path)
    }

    /// Begins the source if it gets another path, and the walk has reached it: enters the folders
    /// above it in the snapshot. Returns `false` if the source is the root folder of the snapshot,
    /// which is no entry.
    fn begin_source(&mut self, walk: &Walk) -> Result<bool> {
        let Some(as_path) = self.as_path.as_ref().filter(|_| self.is_above) else {
            return Ok(true);
        };
        let folders = as_path.folders();
        self.recorded_name.clone_from(&as_path.name);
        self.is_above = false;
        for entry in folders {
            let before = self.comparison.begin_entry(walk, &entry.name, Path::new("/"));
            self.comparison.enter_folder(before);
            self.cutter.batches.push(Event::Enter(Box::new(entry)))?;
        }
        Ok(self.recorded_name.is_some())
    }

    /// Ends the source if it has another path, and its own folder or file has just ended: leaves the
    /// folders above it.
    fn end_source(&mut self) -> Result<()> {
        let depth = match &self.as_path {
            Some(as_path) if self.comparison.depth() == as_path.depth() => as_path.depth(),
            _ => return Ok(()),
        };
        if self.as_path.as_ref().is_some_and(|as_path| as_path.name.is_none()) {
            // The entries of the root folder end with the walk.
            return Ok(());
        }
        for _ in 0..depth {
            self.comparison.leave_folder();
            self.push(Event::Leave)?;
        }
        self.is_above = true;
        self.recorded_name = None;
        Ok(())
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

    /// Begins a folder.
    fn enter(
        &mut self,
        path: &Path,
        mut entry: Entry,
        folder: &Handle,
        before: Option<Entry>,
    ) -> Result<()> {
        // A folder above the sources has no times to compare.
        let is_unchanged = entry.ctime != Time::default()
            && before.as_ref().is_some_and(|before| before.ctime == entry.ctime);
        match &before {
            Some(before) if is_unchanged && self.comparison.is_settled(before, &entry) => {
                entry.xattrs.clone_from(&before.xattrs);
            }
            _ => {
                self.read_xattrs(path, &mut entry, folder);
            }
        }
        self.comparison.enter_folder(before);
        self.push(Event::Enter(Box::new(entry)))
    }

    /// Reads the extended attributes of an entry of `folder` by its name.
    fn read_xattrs(&self, path: &Path, entry: &mut Entry, folder: &Handle) {
        let found = xattrs::of_name(folder, &entry.name);
        self.set_xattrs(path, entry, found);
    }

    fn set_xattrs(&self, path: &Path, entry: &mut Entry, found: Xattrs) {
        if let Some(error) = found.problem {
            self.monitor.warning(path, &format!("extended attributes cannot be read: {error}"));
        }
        entry.xattrs = found.pairs;
    }

    /// Saves an entry that is neither a file nor a folder.
    fn save_special(&mut self, path: &Path, mut entry: Entry, folder: &Handle) -> Result<()> {
        if entry.kind != EntryKind::Symlink {
            self.monitor.decided(path, &FileDecision::Special(entry.kind));
        }
        self.read_xattrs(path, &mut entry, folder);
        self.push(Event::Entry(Box::new(entry)))
    }

    /// Saves a file: as a link to an earlier name, from its previous version, or by reading it.
    fn save_file(
        &mut self,
        path: &Path,
        entry: Entry,
        folder: &Handle,
        before: Option<Entry>,
    ) -> Result<()> {
        let key = SourceLinkKey::of(&entry);
        if entry.is_hard_link() && !self.linked.insert(key) {
            self.monitor.decided(path, &FileDecision::Link);
            return self.push(Event::Link(Box::new(entry)));
        }
        let reason = match &before {
            Some(before) => self.comparison.read_reason(before, &entry),
            None if self.force_read => Some(ReadReason::Forced),
            None => Some(ReadReason::New),
        };
        let (reason, before) = match (reason, before) {
            (None, Some(before)) if self.map.is_none() => {
                return self.take_over(path, entry, folder, before);
            }
            (reason, before) => (reason.unwrap_or(ReadReason::Forced), before),
        };
        let decision = FileDecision::Read { reason, before: before.as_ref(), now: &entry };
        self.monitor.decided(path, &decision);
        self.monitor.reading(path);
        // The next name of the same file is read instead if this one cannot be opened. The file
        // can also have changed after the walk examined it, or can be a different one.
        let opened = open_file(folder, &entry);
        self.linked.remove(&key);
        match opened {
            Ok(file) => self.read_file(path, entry, &file, before),
            Err(error) => self.report_unsaved(path, &error.to_string()),
        }
    }

    /// Saves a file that has not changed since `before`.
    fn take_over(
        &mut self,
        path: &Path,
        mut entry: Entry,
        folder: &Handle,
        before: Entry,
    ) -> Result<()> {
        self.monitor.decided(path, &FileDecision::Unchanged);
        entry.content = before.content;
        if self.comparison.ignores_ctime() {
            // Without ctime, nothing shows a change of the attributes.
            self.read_xattrs(path, &mut entry, folder);
        } else {
            entry.xattrs = before.xattrs;
        }
        self.counts.unchanged_files += 1;
        self.push(Event::Entry(Box::new(entry)))
    }

    /// Saves an open file by reading it.
    fn read_file(
        &mut self,
        path: &Path,
        mut entry: Entry,
        file: &SourceFile,
        before: Option<Entry>,
    ) -> Result<()> {
        file.refresh(&mut entry);
        let key = SourceLinkKey::of(&entry);
        if entry.is_hard_link() {
            self.linked.insert(key);
        }
        self.set_xattrs(path, &mut entry, xattrs::of_file(file));
        self.state.add_read_file();
        if entry.size == 0 {
            return self.push(Event::Entry(Box::new(entry)));
        }
        self.cutter.begin_file(before.as_ref())?;
        if let Some(before) = &before {
            self.cutter.rebuild(self.comparison.damaged_parts(before));
        }
        if let (Some(before), Some(reader)) = (&before, self.comparison.reader())
            && self.comparison.has_beginning(before, &entry)
        {
            self.cutter.copy_segments(reader, &before.content, before.size)?;
        }
        let cut = match self.map {
            Some(map) => self.cut_changed(map, path, &entry, file, before.as_ref())?,
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
    /// `before`.
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
        before: Option<&Entry>,
    ) -> Result<io::Result<CutEnd>> {
        let unusable = |reason: &str| {
            let message = format!(
                "--changed-blocks cannot be used: {reason}\n  run the backup once without the option"
            );
            Error::invalid(path.display(), message)
        };
        let Some(before) = before else {
            return Err(unusable("no previous snapshot has this path").into());
        };
        if let Some(reason) = unsuitable(before, entry, map.changed) {
            return Err(unusable(&reason).into());
        }
        let version = self.comparison.whole_version(before);
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
