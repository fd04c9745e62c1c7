//! The jobs of a copy, made ahead of the one that is being done, so that a plan can fetch the
//! chunks that they will need.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Class, Entry, Fingerprint, Index, Scope};
use cutpoint_storage::{Error, Result};

use super::copy_steps::{CopyStep, CopySteps};
use super::source_reader::{SourceChunk, SourcePlan, SourceReader, SourceSegments, SourceStep};

/// The maximum number of jobs made ahead, and begun.
const JOBS_MAX: usize = 256;
/// The maximum number of jobs whose chunks are looked up together, and of their segments.
const LOOKED_UP_MAX: usize = 4096;
/// The number of bytes to read, in total over all jobs whose chunks are looked up together. The
/// containers that have them are told by a request each.
const LOOKED_UP_BYTES: u64 = 128 << 20;
/// The maximum number of segments of a piece.
const PIECE_SEGMENTS_MAX: usize = 256;
/// The number of bytes at which a piece ends.
const PIECE_LEN: u64 = 8 << 20;

/// A job of a copy.
#[derive(Debug)]
pub(super) enum CopyJob {
    /// A step that needs no chunk.
    Step(CopyStep),
    /// A file, whose pieces follow.
    File(CopiedFile),
    /// A part of the file that began last.
    Piece(Piece),
    /// The rest of the file that began last cannot be read.
    Damaged(Error),
    /// The rest of the folder that began last, with this path, cannot be read.
    DamagedFolder(PathBuf, Error),
}

impl CopyJob {
    fn piece(&self) -> Option<&Piece> {
        match self {
            CopyJob::Piece(piece) => Some(piece),
            _ => None,
        }
    }
}

/// A file whose content is copied.
#[derive(Debug)]
pub(super) struct CopiedFile {
    pub(super) path: PathBuf,
    pub(super) entry: Box<Entry>,
    /// The previous version of the file at the target.
    pub(super) before: Option<Box<Entry>>,
    /// The number of bytes at its beginning that a checkpoint has in `before`.
    pub(super) covered_len: u64,
}

/// A part of a file.
#[derive(Debug)]
pub(super) struct Piece {
    segments: VecDeque<CopySegment>,
    /// Set once the piece has begun.
    step: Option<SourceStep>,
    is_handed_over: bool,
}

impl Piece {
    /// Returns the segments that the source has to give.
    fn needed(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|it| !it.is_known).map(|it| &it.segment)
    }
}

/// A segment of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopySegment {
    pub(super) segment: Segment,
    /// Set if the target has the chunk.
    pub(super) is_known: bool,
}

/// The jobs of a copy, in order.
pub(super) struct CopyAhead<'p, 'a> {
    pub(super) steps: CopySteps<'a>,
    reader: SourceReader<'a>,
    plan: &'p SourcePlan<'a>,
    /// The index of the target, if it can have the chunks of the source.
    known: Option<&'a Index>,
    /// Set if previous versions are from a checkpoint of this copy, which may have the beginning of
    /// a file.
    continues: bool,
    jobs: VecDeque<CopyJob>,
    /// The number of jobs, from the first on, whose chunks the plan knows. Those of the others were
    /// looked up.
    begun_count: usize,
    /// The file of which pieces are still to come, and the number of bytes to skip.
    file: Option<(SourceSegments<'a>, u64)>,
    /// The chunk that was read last.
    chunk: Option<(Fingerprint, SourceChunk)>,
    /// Set while an error is returned that concerns the current file only.
    is_of_file: bool,
}

impl<'p, 'a> CopyAhead<'p, 'a> {
    pub(super) fn new(
        steps: CopySteps<'a>,
        plan: &'p SourcePlan<'a>,
        reader: SourceReader<'a>,
        known: Option<&'a Index>,
        continues: bool,
    ) -> CopyAhead<'p, 'a> {
        CopyAhead {
            steps,
            reader,
            plan,
            known,
            continues,
            jobs: VecDeque::new(),
            begun_count: 0,
            file: None,
            chunk: None,
            is_of_file: false,
        }
    }

    /// Returns `true` if the target keeps the chunks of the source.
    pub(super) fn keeps_chunks(&self) -> bool {
        self.known.is_some()
    }

    /// Returns the next job. The pieces of a file are taken by [`CopyAhead::segment`] before.
    pub(super) fn next(&mut self) -> Result<Option<CopyJob>> {
        self.fill()?;
        Ok(self.pop())
    }

    fn pop(&mut self) -> Option<CopyJob> {
        self.begun_count = self.begun_count.saturating_sub(1);
        self.jobs.pop_front()
    }

    /// Returns the next segment of the current file; `None` at its end.
    pub(super) fn segment(&mut self) -> Result<Option<CopySegment>> {
        loop {
            self.fill()?;
            if let Some(CopyJob::Damaged(_)) = self.jobs.front()
                && let Some(CopyJob::Damaged(error)) = self.pop()
            {
                self.is_of_file = true;
                return Err(error);
            }
            let Some(CopyJob::Piece(piece)) = self.jobs.front_mut() else { return Ok(None) };
            if !piece.is_handed_over {
                if let Some(step) = &mut piece.step {
                    self.plan.hand_over(step);
                }
                piece.is_handed_over = true;
            }
            match piece.segments.front() {
                Some(segment) => return Ok(Some(*segment)),
                None => drop(self.pop()),
            }
        }
    }

    /// Removes the first `len` bytes of the segment that [`CopyAhead::segment`] returned last.
    pub(super) fn advance(&mut self, len: u64) {
        if let Some(CopyJob::Piece(piece)) = self.jobs.front_mut()
            && let Some(front) = piece.segments.front_mut()
        {
            match without_beginning(front.segment, len) {
                Some(rest) => front.segment = rest,
                None => drop(piece.segments.pop_front()),
            }
        }
    }

    /// Returns the bytes of a chunk.
    ///
    /// # Errors
    ///
    /// Returns any error of [`SourceReader::chunk`], and `Corrupt` if the chunk ends before the byte
    /// `end`.
    pub(super) fn chunk(&mut self, fingerprint: &Fingerprint, end: u64) -> Result<&SourceChunk> {
        let chunk = match self.chunk.take() {
            Some((kept, bytes)) if kept == *fingerprint => bytes,
            _ => self.reader.chunk(self.plan, fingerprint).inspect_err(|error| {
                self.is_of_file = error.is_loss();
            })?,
        };
        if (chunk.len() as u64) < end {
            self.is_of_file = true;
            let message = format!("has {} bytes (expected at least {end})", chunk.len());
            return Err(Error::corrupt(format!("chunk {fingerprint}"), message));
        }
        Ok(&self.chunk.insert((*fingerprint, chunk)).1)
    }

    /// Skips the rest of the current file, if the error that ended it concerns no other. Returns
    /// `false` otherwise.
    pub(super) fn skip_file(&mut self) -> bool {
        if !std::mem::take(&mut self.is_of_file) {
            return false;
        }
        while let Some(CopyJob::Piece(_) | CopyJob::Damaged(_)) = self.jobs.front() {
            self.pop();
        }
        if self.jobs.is_empty() {
            // No later file has begun.
            self.file = None;
        }
        true
    }

    /// Fills `buffer` with bytes of the current file. Returns their number, and `false` if a hole
    /// or the end of the file follows.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<(usize, bool)> {
        let mut filled = 0;
        while filled < buffer.len() {
            let Some(CopySegment { segment, .. }) = self.segment()? else {
                return Ok((filled, false));
            };
            let room = &mut buffer[filled..];
            let len = room.len().min(usize::try_from(segment.length()).unwrap_or(usize::MAX));
            match segment {
                Segment::Hole { .. } => return Ok((filled, false)),
                Segment::Zeros { .. } => room[..len].fill(0),
                Segment::Chunk { fingerprint, offset, length } => {
                    let chunk = self.chunk(&fingerprint, offset.saturating_add(length))?;
                    // The chunk is in memory up to the end of the segment.
                    let start = usize::try_from(offset).unwrap_or(usize::MAX);
                    room[..len].copy_from_slice(&chunk[start..][..len]);
                }
            }
            self.advance(len as u64);
            filled += len;
        }
        Ok((filled, true))
    }

    /// Begins jobs ahead, as far as the plan has room for their chunks.
    fn fill(&mut self) -> Result<()> {
        while self.begun_count == 0 || (self.begun_count < JOBS_MAX && self.plan.has_room()) {
            if self.begun_count == self.jobs.len() {
                self.gather()?;
            }
            match self.jobs.get_mut(self.begun_count) {
                None => return Ok(()),
                Some(CopyJob::Piece(piece)) => piece.step = Some(self.plan.begin(piece.needed())),
                Some(_) => {}
            }
            self.begun_count += 1;
        }
        Ok(())
    }

    /// Makes jobs, and looks up their chunks. Makes one if lookups are not worth more.
    fn gather(&mut self) -> Result<()> {
        let (mut weight, mut bytes) = (0, 0);
        let first = self.jobs.len();
        loop {
            let Some(job) = self.make_job()? else { break };
            if let CopyJob::Piece(piece) = &job {
                weight += piece.segments.len();
                bytes += piece.needed().map(Segment::length).sum::<u64>();
            }
            weight += 1;
            self.jobs.push_back(job);
            if !self.plan.looks_up() || weight >= LOOKED_UP_MAX || bytes >= LOOKED_UP_BYTES {
                break;
            }
        }
        if let Some(index) = self.known {
            self.mark_known(first, index)?;
        }
        let pieces = self.jobs.range(first..).filter_map(CopyJob::piece);
        self.plan.look_up(pieces.flat_map(Piece::needed));
        Ok(())
    }

    /// Marks the chunks of jobs, from the one with the number `first` on, that `index` has.
    fn mark_known(&mut self, first: usize, index: &Index) -> Result<()> {
        let pieces = self.jobs.range(first..).filter_map(CopyJob::piece);
        let chunks: Vec<_> = pieces.flat_map(Piece::needed).filter_map(chunk_of).collect();
        index.look_up(Class::Data, &chunks);
        for job in self.jobs.range_mut(first..) {
            let CopyJob::Piece(piece) = job else { continue };
            for segment in &mut piece.segments {
                if let Some(chunk) = chunk_of(&segment.segment) {
                    let found = index.find(Class::Data, &chunk, Scope::Write)?;
                    segment.is_known = found.is_some();
                }
            }
        }
        Ok(())
    }

    /// Makes the next job; `None` at the end.
    fn make_job(&mut self) -> Result<Option<CopyJob>> {
        if let Some((segments, skipped_len)) = &mut self.file {
            match piece(segments, skipped_len)? {
                PieceResult::Piece(piece) => return Ok(Some(CopyJob::Piece(piece))),
                PieceResult::Damaged(error) => {
                    self.file = None;
                    return Ok(Some(CopyJob::Damaged(error)));
                }
                PieceResult::End => self.file = None,
            }
        }
        Ok(match self.steps.next()? {
            None => None,
            Some(CopyStep::File(entry, before)) => Some(self.begin_file(entry, before)),
            Some(CopyStep::Damaged(error)) => {
                Some(CopyJob::DamagedFolder(self.steps.path.clone(), error))
            }
            Some(step) => Some(CopyJob::Step(step)),
        })
    }

    fn begin_file(&mut self, entry: Box<Entry>, before: Option<Box<Entry>>) -> CopyJob {
        let begun = before.as_ref().filter(|_| self.continues);
        let covered_len = begun.map_or(0, |before| before.size.min(entry.size));
        self.file = Some((self.reader.segments(&entry.content), covered_len));
        let path = self.steps.path.join(OsStr::from_bytes(&entry.name));
        CopyJob::File(CopiedFile { path, entry, before, covered_len })
    }
}

/// The result of [`piece`].
enum PieceResult {
    Piece(Piece),
    /// The rest of the file cannot be read.
    Damaged(Error),
    End,
}

/// Returns the next piece of a file, after `skipped_len` bytes.
fn piece(segments: &mut SourceSegments<'_>, skipped_len: &mut u64) -> Result<PieceResult> {
    let mut taken = VecDeque::new();
    let mut len = 0;
    let mut is_any = false;
    for segment in segments {
        is_any = true;
        let segment = match segment {
            Err(error) if error.is_loss() => return Ok(PieceResult::Damaged(error)),
            segment => segment?,
        };
        let skipped = segment.length().min(*skipped_len);
        *skipped_len -= skipped;
        let Some(segment) = without_beginning(segment, skipped) else { continue };
        if let Segment::Chunk { length, .. } = segment {
            len += length;
        }
        taken.push_back(CopySegment { segment, is_known: false });
        if taken.len() >= PIECE_SEGMENTS_MAX || len >= PIECE_LEN {
            break;
        }
    }
    Ok(match is_any {
        true => PieceResult::Piece(Piece { segments: taken, step: None, is_handed_over: false }),
        false => PieceResult::End,
    })
}

fn chunk_of(segment: &Segment) -> Option<Fingerprint> {
    match segment {
        Segment::Chunk { fingerprint, .. } => Some(*fingerprint),
        Segment::Hole { .. } | Segment::Zeros { .. } => None,
    }
}

/// Returns `segment` without its first `len` bytes; `None` if nothing is left.
fn without_beginning(segment: Segment, len: u64) -> Option<Segment> {
    let left = segment.length().checked_sub(len).filter(|left| *left > 0)?;
    Some(match segment {
        Segment::Hole { .. } => Segment::Hole { length: left },
        Segment::Zeros { .. } => Segment::Zeros { length: left },
        Segment::Chunk { fingerprint, offset, .. } => {
            Segment::Chunk { fingerprint, offset: offset + len, length: left }
        }
    })
}
