//! Saves the tree of a snapshot, of another repository or of the same one.

use std::io;
use std::path::Path;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{EntryKind, Fingerprint, Index, MemoryLimit, Reader};
use cutpoint_storage::Error;

use super::batch::Event;
use super::bundle::Bundling;
use super::copy_ahead::{CopiedFile, CopyAhead, CopyJob, CopySegment};
use super::copy_steps::{CopyComparison, CopyStep, CopySteps};
use super::cutter::{CutEnd, Cutter};
use super::monitor::BackupMonitor;
use super::run_state::RunState;
use super::shutdown::{Halt, Result};
use super::snapshot_source::SnapshotSource;
use super::source_counts::SourceCounts;
use super::source_reader::SourcePlan;

/// The maximum number of decoded bytes that a copy holds ahead.
const PLAN_BYTES_MAX: usize = 64 << 20;
/// Rule W8: a file that lacks at most this number of bytes is copied to its end.
const NEARLY_LEN: u64 = 16 << 20;

/// The input of a copy.
pub(super) struct CopyInput<'a> {
    pub(super) source: &'a SnapshotSource,
    pub(super) comparison: Option<CopyComparison<'a>>,
    /// The index of the target, if chunks are stored as the source has them.
    pub(super) known: Option<&'a Index>,
    /// The memory limit of the target.
    pub(super) memory: MemoryLimit,
}

/// Turns the tree of a snapshot into events.
pub(super) struct SnapshotSaver<'r, 'a> {
    pub(super) cutter: &'r mut Cutter<'a>,
    pub(super) monitor: &'a dyn BackupMonitor,
    pub(super) state: &'a RunState,
    /// The rules of bundling, if small files share chunks.
    pub(super) bundling: Option<&'a Bundling>,
    counts: SourceCounts,
    /// The number of folders entered and not left.
    open_count: usize,
    /// The chunk of which the dedup stage takes parts at present.
    bundle: Option<Fingerprint>,
}

/// Ends a plan when dropped, and so the threads that fetch.
struct PlanEnd<'p, 'a>(&'p SourcePlan<'a>);

impl Drop for PlanEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'r, 'a> SnapshotSaver<'r, 'a> {
    pub(super) fn new(
        cutter: &'r mut Cutter<'a>,
        monitor: &'a dyn BackupMonitor,
        state: &'a RunState,
        bundling: Option<&'a Bundling>,
    ) -> SnapshotSaver<'r, 'a> {
        let counts = SourceCounts::default();
        SnapshotSaver { cutter, monitor, state, bundling, counts, open_count: 0, bundle: None }
    }

    /// Saves everything in the snapshot.
    pub(super) fn save(mut self, input: CopyInput<'_>) -> Result<SourceCounts> {
        let CopyInput { source, comparison, known, memory } = input;
        let reader = source.repository.reader();
        let begun = comparison.as_ref().filter(|it| it.continues).and_then(|it| it.target.as_ref());
        let begun = begun.map(|target| target.reader);
        let steps = CopySteps::new(reader, &source.snapshot.root, comparison, source.exclude())?;
        let plan = reader.plan(memory.ahead_bytes(PLAN_BYTES_MAX));
        std::thread::scope(|fetchers| {
            for _ in 0..plan.fetcher_count() {
                fetchers.spawn(|| plan.fetch());
            }
            let _end = PlanEnd(&plan);
            let mut ahead = CopyAhead::new(steps, &plan, reader, known, begun.is_some());
            while let Some(job) = ahead.next()? {
                self.cutter.batches.check_stop()?;
                self.counts.partial |= self.state.is_old();
                if !self.counts.partial {
                    self.run(source, job, &mut ahead, begun)?;
                }
                if self.counts.partial {
                    source.require_checkpoints()?;
                    // Rule W8: the complete part becomes a checkpoint. Open folders end here.
                    break;
                }
            }
            self.counts.excluded = ahead.steps.excluded_count;
            for _ in 0..self.open_count {
                self.cutter.batches.push(Event::Leave)?;
            }
            Ok(self.counts)
        })
    }

    /// Does a job. `begun` reads the checkpoint of this copy, if there is one.
    fn run(
        &mut self,
        source: &SnapshotSource,
        job: CopyJob,
        ahead: &mut CopyAhead<'_, '_>,
        begun: Option<&Reader>,
    ) -> Result<()> {
        let event = match job {
            CopyJob::Step(CopyStep::Enter(entry)) => {
                self.open_count += 1;
                Event::Enter(entry)
            }
            CopyJob::Step(CopyStep::Leave) => {
                self.open_count -= 1;
                Event::Leave
            }
            CopyJob::Step(CopyStep::Entry(entry)) => {
                self.counts.unchanged_files += u64::from(entry.kind == EntryKind::File);
                Event::Entry(entry)
            }
            CopyJob::Step(CopyStep::Folder(entry)) => Event::Entry(entry),
            CopyJob::Step(CopyStep::Link(entry)) => Event::Link(entry),
            CopyJob::Step(CopyStep::Warning(path, message)) => {
                self.monitor.warning(&source.named(&path), &message);
                return Ok(());
            }
            CopyJob::File(file) => return self.copy_file(source, file, ahead, begun),
            CopyJob::DamagedFolder(path, error) => {
                source.check_exists()?;
                return self.report_unsaved(source, &path, &error);
            }
            // The pieces of a file are taken with it, and neither it nor damage is a step.
            CopyJob::Piece(_)
            | CopyJob::Damaged(_)
            | CopyJob::Step(CopyStep::File(..) | CopyStep::Damaged(_)) => return Ok(()),
        };
        self.cutter.batches.push(event)
    }

    /// Reports that `path`, in the innermost open folder or that folder, is not or not completely
    /// copied.
    fn report_unsaved(
        &mut self,
        source: &SnapshotSource,
        path: &Path,
        error: &Error,
    ) -> Result<()> {
        self.counts.problems += 1;
        let verb = if source.repository.own().is_some() { "copied" } else { "imported" };
        self.monitor.problem(&source.named(path), &format!("not {verb}: {error}"));
        self.cutter.batches.push(Event::Lacking)
    }

    fn copy_file(
        &mut self,
        source: &SnapshotSource,
        file: CopiedFile,
        ahead: &mut CopyAhead<'_, '_>,
        begun: Option<&Reader>,
    ) -> Result<()> {
        let CopiedFile { path, entry, before, covered_len } = file;
        self.monitor.reading(&path);
        self.state.add_read_file();
        self.cutter.begin_file(before.as_deref())?;
        if let (Some(before), Some(reader)) = (&before, begun)
            && covered_len > 0
            && !self.cutter.copy_segments(reader, &before.content, covered_len)?
        {
            let object = String::from_utf8_lossy(&entry.name).into_owned();
            return Err(Error::corrupt(object, "the checkpoint lacks data that was copied").into());
        }
        let copied = match ahead.keeps_chunks() {
            true => self.copy_chunks(entry.size, ahead),
            false => self.cut(entry.size, ahead),
        };
        let is_complete = match copied {
            Err(Halt::Failed(error)) if source.exclude().is_empty() && ahead.skip_file() => {
                source.check_exists()?;
                self.cutter.batches.push(Event::Dropped)?;
                return self.report_unsaved(source, &path, &error);
            }
            copied => copied?,
        };
        if !is_complete {
            self.counts.partial = true;
            return self.cutter.end_part(*entry);
        }
        let ends_bundle = self.cutter.batches.is_nearly_full()
            && self.bundling.is_some_and(|bundling| bundling.may_end(&entry.name));
        self.cutter.batches.push(Event::File(entry))?;
        if ends_bundle { self.cutter.batches.send() } else { Ok(()) }
    }

    /// Returns `true` if a file of `size` bytes ends here, because the ticket is old.
    fn may_stop(&self, size: u64) -> bool {
        self.state.is_old() && self.cutter.covered_len() + NEARLY_LEN < size
    }

    /// Cuts the bytes of the current file anew. Returns `false` if that ended before the end of the
    /// file, because the ticket is old.
    fn cut(&mut self, size: u64, ahead: &mut CopyAhead<'_, '_>) -> Result<bool> {
        while let Some(CopySegment { segment, .. }) = ahead.segment()? {
            if let Segment::Hole { length } = segment {
                self.state.add_read(length);
                self.cutter.push_segment(segment)?;
                ahead.advance(length);
                continue;
            }
            let mut failure = None;
            let read = |buffer: &mut [u8]| {
                ahead.read(buffer).map_err(|error| {
                    failure = Some(error);
                    io::Error::other("unreadable")
                })
            };
            let end = self.cutter.cut(&[], read, |covered_len| covered_len + NEARLY_LEN < size)?;
            match (end, failure) {
                (Ok(CutEnd::TicketOld(_)), _) => return Ok(false),
                (Ok(CutEnd::End | CutEnd::Short | CutEnd::Stopped), _) => {}
                (Err(_), Some(error)) => return Err(error.into()),
                (Err(error), None) => return Err(Error::invalid("copy", error).into()),
            }
        }
        Ok(true)
    }

    /// Stores the chunks of the current file as they are. Returns `false` if that ended before the
    /// end of the file, because the ticket is old.
    fn copy_chunks(&mut self, size: u64, ahead: &mut CopyAhead<'_, '_>) -> Result<bool> {
        while let Some(CopySegment { segment, is_known }) = ahead.segment()? {
            self.cutter.batches.check_stop()?;
            if self.may_stop(size) {
                return Ok(false);
            }
            self.state.add_read(segment.length());
            match segment {
                Segment::Chunk { fingerprint, offset, length } if !is_known => {
                    if self.bundle != Some(fingerprint) {
                        let chunk = ahead.chunk(&fingerprint, offset.saturating_add(length))?;
                        let is_whole = offset == 0 && length == chunk.len() as u64;
                        self.cutter.push_chunk(chunk, is_whole)?;
                        self.bundle = (!is_whole).then_some(fingerprint);
                    }
                    if self.bundle.is_some() {
                        self.cutter.push_part(offset, length)?;
                    }
                }
                Segment::Chunk { .. } => self.cutter.push_known(segment)?,
                Segment::Hole { .. } | Segment::Zeros { .. } => {
                    self.cutter.push_segment(segment)?
                }
            }
            ahead.advance(segment.length());
        }
        Ok(true)
    }
}
