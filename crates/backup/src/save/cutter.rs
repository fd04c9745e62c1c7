//! Reading and cutting: the bytes of a file or stream become chunks in batches.

use std::io;
use std::time::{Duration, Instant};

use cutpoint_chunking::Chunker;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use cutpoint_storage::Error;

use super::batch::{Cut, Event};
use super::batch_filler::BatchFiller;
use super::chunk_rebuilder::DamagedParts;
use super::previous_version::is_before;
use super::run_state::RunState;
use super::shutdown::Result;
use crate::source::{FileExtent, SourceFile};

/// Rule W8: the interval before the start of the attempt, in nanoseconds. A file modified within
/// this interval, or later, will probably change again.
const QUIET_NS: i64 = 2_000_000_000;

/// Rule W8: a file that lacks at most this number of bytes is read to its end.
const NEARLY_LEN: u64 = 16 << 20;

/// The length in bytes of data from which on the system is asked to read ahead.
const ADVISED_LEN_MIN: u64 = 1 << 20;

/// The place at which the cutting of a file or a stream ended.
pub(super) enum CutEnd {
    /// The end of the file.
    End,
    /// The last byte that could be read, before the expected end.
    Short,
    /// A cut-point at which the caller asked for the end.
    Stopped,
    /// A place before the end, because the ticket is old. Holds the bytes that were read, but are
    /// in no chunk.
    TicketOld(Vec<u8>),
}

/// Writes the content of one file after the other into batches.
pub(super) struct Cutter<'a> {
    chunker: &'a dyn Chunker,
    state: &'a RunState,
    pub(super) batches: BatchFiller<'a>,
    /// The number of bytes of the current file that its events cover.
    covered_len: u64,
    /// The damaged parts of the previous version of the current file.
    damaged: DamagedParts,
    /// The cut-points appended by the chunker. Empty between its calls.
    cut_points: Vec<usize>,
    read_elapsed: Duration,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(
        chunker: &'a dyn Chunker,
        state: &'a RunState,
        batches: BatchFiller<'a>,
    ) -> Cutter<'a> {
        let (damaged, cut_points) = (DamagedParts::default(), Vec::new());
        let read_elapsed = Duration::ZERO;
        Cutter { chunker, state, batches, covered_len: 0, damaged, cut_points, read_elapsed }
    }

    /// The chunker.
    pub(super) fn chunker(&self) -> &'a dyn Chunker {
        self.chunker
    }

    /// The number of bytes of the current file that its events cover.
    pub(super) fn covered_len(&self) -> u64 {
        self.covered_len
    }

    /// Returns the time that reading files has taken, without cutting and waits for other stages.
    pub(super) fn read_elapsed(&self) -> Duration {
        self.read_elapsed
    }

    /// Begins a file, a new version of `before` if there is one.
    pub(super) fn begin_file(&mut self, before: Option<&Entry>) -> Result<()> {
        let previous = match before.filter(|before| before.kind == EntryKind::File) {
            Some(Entry { content: Content::Empty | Content::Raw(_), .. }) | None => None,
            Some(before) => Some(Box::new(before.content.clone())),
        };
        self.covered_len = 0;
        self.damaged = DamagedParts::default();
        self.batches.push(Event::Begin(previous))
    }

    /// Lets the chunks of these parts be rebuilt from the bytes of the current file, as far as it is
    /// cut.
    pub(super) fn rebuild(&mut self, damaged: DamagedParts) {
        self.damaged = damaged;
    }

    /// Begins the current file with the first `size` bytes of its previous version, which has the
    /// content `content`. Returns `false` if they cannot be read; the file begins at 0 then.
    pub(super) fn copy_segments(
        &mut self,
        reader: &Reader,
        content: &Content,
        size: u64,
    ) -> Result<bool> {
        let mut copied_len = 0;
        for segment in reader.segments(content).map_while(std::result::Result::ok) {
            copied_len += segment.length();
            self.batches.push(Event::Segment(segment))?;
        }
        if copied_len == size {
            self.covered_len = size;
            return Ok(true);
        }
        self.batches.push(Event::Dropped)?;
        Ok(false)
    }

    /// Adds a hole or zeros to the current file.
    pub(super) fn push_segment(&mut self, segment: Segment) -> Result<()> {
        self.covered_len += segment.length();
        self.batches.push(Event::Segment(segment))
    }

    /// Adds a part of a chunk that the target probably has to the current file.
    pub(super) fn push_known(&mut self, segment: Segment) -> Result<()> {
        self.covered_len += segment.length();
        self.batches.push(Event::Known(segment))
    }

    /// Stores a chunk. If `is_whole` is set, adds it to the current file; otherwise
    /// [`Cutter::push_part`] adds its parts to files.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the chunk is longer than a batch.
    pub(super) fn push_chunk(&mut self, chunk: &[u8], is_whole: bool) -> Result<()> {
        let open = self.batches.batch()?;
        if open.batch.bytes.len() - open.fill < chunk.len() {
            self.batches.send()?;
        }
        let open = self.batches.batch()?;
        let (start, end) = (open.fill, open.fill + chunk.len());
        let room = open.batch.bytes.get_mut(start..end).ok_or_else(|| {
            let message = format!("longer than the cut specification allows ({} B)", chunk.len());
            Error::invalid("chunk", message)
        })?;
        room.copy_from_slice(chunk);
        open.fill = end;
        let cut = Cut::new(start..end);
        match is_whole {
            true => {
                self.covered_len += chunk.len() as u64;
                self.batches.push(Event::Chunk(cut))
            }
            false => self.batches.push(Event::Bundle(cut, None)),
        }
    }

    /// Adds a part of the chunk that was stored last to the current file.
    pub(super) fn push_part(&mut self, offset: u64, length: u64) -> Result<()> {
        self.covered_len += length;
        self.batches.push(Event::Part { offset, length })
    }

    /// Rule W8: ends a file whose beginning is in the checkpoint. The next attempt continues there.
    pub(super) fn end_part(&mut self, entry: Entry) -> Result<()> {
        // If nothing of the file is covered, the checkpoint has nothing of it.
        match self.covered_len {
            0 => Ok(()),
            _ => self.batches.push(Event::File(Box::new(entry))),
        }
    }

    /// Reads and cuts the rest of a file, from the end of the part that its events cover.
    /// `started_ns` is the start of the attempt. The outer error ends the run, the inner error ends
    /// the file.
    pub(super) fn cut_file(
        &mut self,
        file: &SourceFile,
        entry: &Entry,
        started_ns: i64,
    ) -> Result<io::Result<CutEnd>> {
        // A file that the next attempt could not continue is read to its end now. Otherwise, each
        // attempt would begin a file that changes all the time.
        let quiet_ns = started_ns.saturating_sub(QUIET_NS);
        let is_settled = is_before(entry.mtime, quiet_ns) && is_before(entry.ctime, quiet_ns);
        let may_stop = |covered_len| {
            is_settled
                && covered_len + NEARLY_LEN < entry.size
                && matches!(file.changed(entry), Ok(None))
        };
        for extent in file.extents(self.covered_len) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(FileExtent::Hole { len, .. }) => {
                    self.covered_len += len;
                    self.batches.push(Event::Segment(Segment::Hole { length: len }))?;
                }
                Ok(FileExtent::Data { offset, len }) => {
                    let mut at = offset;
                    let end = offset + len;
                    let mut read_elapsed = Duration::ZERO;
                    let mut advised_end = if len > ADVISED_LEN_MIN { offset } else { end };
                    let read = |buffer: &mut [u8]| {
                        file.advise_behind(at, end, &mut advised_end);
                        let want = usize::try_from(end - at).unwrap_or(usize::MAX);
                        let want = want.min(buffer.len());
                        let began_at = Instant::now();
                        let count = file.read_at(&mut buffer[..want], at)?;
                        read_elapsed += began_at.elapsed();
                        at += count as u64;
                        // If there are fewer bytes than requested, there are no more, whatever the
                        // extent says.
                        Ok((count, at < end && count == want))
                    };
                    let end_of_cut = self.cut(&[], read, may_stop);
                    self.read_elapsed += read_elapsed;
                    match end_of_cut? {
                        // The bytes that follow would get a wrong offset.
                        Ok(CutEnd::End) if at < end => return Ok(Ok(CutEnd::Short)),
                        Ok(CutEnd::End) => {}
                        other => return Ok(other),
                    }
                }
            }
        }
        Ok(Ok(CutEnd::End))
    }

    /// Cuts `tail` and the bytes from `read`, which fills the buffer and returns the number of
    /// bytes and `true` if more may come. If the ticket is old (rule W8), `may_stop` decides, given
    /// the number of bytes of the file that are covered, whether to stop before the end.
    pub(super) fn cut(
        &mut self,
        tail: &[u8],
        read: impl FnMut(&mut [u8]) -> io::Result<(usize, bool)>,
        may_stop: impl Fn(u64) -> bool,
    ) -> Result<io::Result<CutEnd>> {
        self.cut_until(tail, read, may_stop, &mut |_| Ok(false))
    }

    /// Cuts as [`Cutter::cut`] does, but ends at the first cut-point, as an offset in the file, for
    /// which `is_end` returns `true`. Bytes that were read behind it are dropped.
    pub(super) fn cut_until(
        &mut self,
        tail: &[u8],
        mut read: impl FnMut(&mut [u8]) -> io::Result<(usize, bool)>,
        may_stop: impl Fn(u64) -> bool,
        is_end: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<io::Result<CutEnd>> {
        let open = self.batches.batch()?;
        let mut start = open.fill;
        // Only a stream has a tail, in an empty batch: the bytes read before the ticket was too
        // old.
        open.batch.bytes[start..start + tail.len()].copy_from_slice(tail);
        open.fill += tail.len();
        let mut has_more = true;
        loop {
            self.batches.check_stop()?;
            let open = self.batches.batch()?;
            if has_more {
                let count = match read(&mut open.batch.bytes[open.fill..]) {
                    Ok((count, more)) => {
                        has_more = more;
                        count
                    }
                    Err(error) => return Ok(Err(error)),
                };
                open.fill += count;
                self.state.add_read(count as u64);
                if has_more && self.state.is_old() && may_stop(self.covered_len) {
                    let tail = open.batch.bytes[start..open.fill].to_vec();
                    open.fill = start;
                    return Ok(Ok(CutEnd::TicketOld(tail)));
                }
            }
            let is_stopped = self.cut_batch(&mut start, has_more, is_end)?;
            let open = self.batches.batch()?;
            if is_stopped {
                open.fill = start;
                if open.is_full() {
                    self.batches.send()?;
                }
                return Ok(Ok(CutEnd::Stopped));
            }
            if !has_more {
                // All bytes are in chunks now.
                if open.is_full() {
                    self.batches.send()?;
                }
                return Ok(Ok(CutEnd::End));
            }
            if open.has_all_bytes() {
                // The rest of the batch, which is shorter than the largest chunk, moves to the next
                // batch.
                self.batches.send_and_carry(start)?;
                start = 0;
            }
        }
    }

    /// Cuts the bytes of the current batch from `start` on, and moves `start` to the end of the last
    /// chunk. Returns `true` if `is_end` has returned `true` for that place.
    fn cut_batch(
        &mut self,
        start: &mut usize,
        has_more: bool,
        is_end: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<bool> {
        let open = self.batches.batch()?;
        // The bytes before a file in the batch belong to another file, so no chunk may depend on
        // them.
        assert_eq!(self.chunker.context_size(), 0, "a spec is bounded");
        loop {
            let filled = &open.batch.bytes[..open.fill];
            self.chunker.next_cuts(filled, *start, has_more, &mut self.cut_points);
            if self.cut_points.is_empty() {
                return Ok(false);
            }
            for end in self.cut_points.drain(..) {
                open.batch.events.push(Event::Chunk(Cut::new(*start..end)));
                let len = (end - *start) as u64;
                while let Some(part) = self.damaged.next_within(self.covered_len, len) {
                    // Within the chunk, which is in memory.
                    let skipped = usize::try_from(part.file_offset - self.covered_len);
                    let start = *start + skipped.unwrap_or(usize::MAX);
                    open.batch.events.push(Event::Damaged { part, start });
                }
                self.covered_len += len;
                *start = end;
                if is_end(self.covered_len)? {
                    return Ok(true);
                }
            }
        }
    }
}
