//! Cutting one stream by ranges that are read apart.

use core::num::NonZero;
use core::ops::Range;
#[cfg(feature = "std")]
use {
    crate::segments::meet,
    crate::window::{Step, Window},
    alloc::vec,
    core::fmt,
    std::io::{self, ErrorKind},
};

use crate::Chunker;

/// The default size of the warm-up, in maximum chunk sizes. Measured (`research/results/ranges.md`):
/// no seam of FastCDC, TTTD and MinCDC in a tar breaks from 8 on, and those that break with other
/// rules mostly break with 16 as well.
const WARM_UP_CHUNKS: u64 = 8;
/// The default size of the warm-up in bytes if there is no maximum chunk size.
const WARM_UP_SIZE: u64 = 1024 * 1024;

/// Cuts one stream by ranges that are read apart, in other threads, processes or machines, with the
/// chunks of a single pass.
///
/// A range *owns* the chunks that start in it. Its task ([`Ranges::chunks`]) reads from somewhat
/// before the range (the *warm-up*), cuts as if a chunk began there, and returns the chunks that the
/// range owns. The last of them may end behind the range. The results are joined by [`Seams`]: the
/// first chunk of a range must start where the last chunk before it ends. If it does not,
/// [`Ranges::repair`] cuts again from that end until a cut-point is in the range's own list.
///
/// [`Parallel`](crate::Parallel) cuts one stream by several threads of one process, without a
/// warm-up, because the bytes at a seam are in memory when it is joined.
///
/// # Exactness
///
/// The argument is that of [`Parallel`](crate::Parallel#exactness): the end of a chunk is a function
/// of its start, so two sequences of cut-points that have an offset in common are equal from there
/// on. A task is given the stream's own bytes before the start of its warm-up, as many as the
/// chunker looks at ([`Chunker::context_size`]), so each list holds values of that function. If
/// every seam holds, or was repaired, the first cut-point of each list is a true one, and thus all
/// of them are.
///
/// The warm-up decides how often seams hold, but not the result. Seams may break with any warm-up:
/// lists do not meet in a stretch of equal bytes that is cut by the maximum size, and an algorithm
/// without a maximum may not cut at all in the warm-up. So the seams have to be checked. Chunks of
/// constant size need no warm-up, because their cut-points are known.
///
/// # Cost
///
/// A task reads the warm-up and what belongs to its last chunk, at most
/// [`Chunker::needed_size_max`] bytes behind the range, in addition to the range. [`Ranges::reach`]
/// returns all of it, for a source that is asked for it at once.
///
/// ```
/// use std::{io, num::NonZero};
/// use cutpoint_chunking::{Ranges, Seams, Spec, cuts};
///
/// let spec: Spec = "fastcdc:avg=4k".parse()?;
/// let data: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(i) >> 11) as u8).collect();
/// let read_at = |buffer: &mut [u8], offset: u64| {
///     io::Read::read(&mut data.get(offset as usize..).unwrap_or_default(), buffer)
/// };
/// let ranges = Ranges::new(spec.chunker());
/// let (mut ends, mut seams) = (Vec::new(), Seams::new());
/// let range_size = NonZero::new(300_000).expect("it is not 0");
/// for owned in ranges.plan(data.len() as u64, range_size) {
///     // The task of a range, which may run elsewhere.
///     let mut chunks = ranges.chunks(read_at, owned.clone());
///     let mut cut_points = Vec::new();
///     while let Some((offset, chunk)) = chunks.next()? {
///         if cut_points.is_empty() {
///             cut_points.push(offset);
///         }
///         cut_points.push(offset + chunk.len() as u64);
///     }
///     // The joining of the results, in their order.
///     let span = cut_points.first().zip(cut_points.last()).map(|(&first, &end)| first..end);
///     let mut first_true = 0;
///     if !seams.holds(&owned, span) {
///         let each = |offset: u64, chunk: &[u8]| ends.push(offset as usize + chunk.len());
///         first_true = ranges.repair(&mut seams, read_at, owned.end, &cut_points, each)?;
///     }
///     ends.extend(cut_points.iter().skip(first_true + 1).map(|&end| end as usize));
/// }
/// assert!(ends.into_iter().eq(cuts(&*spec.chunker(), &data)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ranges<C> {
    chunker: C,
    warm_up_size: u64,
}

impl<C: Chunker> Ranges<C> {
    /// Creates ranges with a warm-up of 8 maximum chunk sizes, or of 1 MiB if there is no maximum.
    pub fn new(chunker: C) -> Ranges<C> {
        let max = chunker.chunk_size_max();
        let warm_up_size = max.map_or(WARM_UP_SIZE, |max| WARM_UP_CHUNKS * max as u64);
        Ranges::with_warm_up_size(chunker, warm_up_size)
    }

    /// Creates ranges with a warm-up of `warm_up_size` bytes. With none, nearly every seam breaks.
    pub fn with_warm_up_size(chunker: C, warm_up_size: u64) -> Ranges<C> {
        Ranges { chunker, warm_up_size }
    }

    /// Returns the size of the warm-up in bytes.
    pub fn warm_up_size(&self) -> u64 {
        self.warm_up_size
    }

    /// Returns the chunker.
    pub fn chunker(&self) -> &C {
        &self.chunker
    }

    /// Returns ranges of `range_size` bytes that divide a stream of `stream_size` bytes, in order.
    /// Any other division will do.
    pub fn plan(
        &self,
        stream_size: u64,
        range_size: NonZero<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<C> {
        (0..stream_size.div_ceil(range_size.get())).map(move |index| {
            let start = index * range_size.get();
            start..stream_size.min(start.saturating_add(range_size.get()))
        })
    }

    /// Returns the offset at which the task of a range that begins at `start` starts to cut.
    pub fn warm_up_start(&self, start: u64) -> u64 {
        let min = self.chunker.chunk_size_min();
        if self.chunker.chunk_size_max() == Some(min) {
            // The cut-points are the multiples of the size.
            return start - start % (min as u64).max(1);
        }
        start.saturating_sub(self.warm_up_size)
    }

    /// Returns the range of all bytes that the task of the range `owned` reads. The end may be
    /// behind the stream's, and is [`u64::MAX`] if there is no maximum chunk size.
    pub fn reach(&self, owned: &Range<u64>) -> Range<u64> {
        let start = self.warm_up_start(owned.start);
        let needed_size = self.chunker.needed_size_max().map_or(u64::MAX, |size| size as u64);
        start.saturating_sub(self.chunker.context_size() as u64)
            ..owned.end.saturating_add(needed_size)
    }
}

/// The check of the seams between the ranges of a stream, in their order.
///
/// It needs three numbers of each range: the end of the range, and the start of the first and the
/// end of the last chunk that the range owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seams {
    end: u64,
}

impl Seams {
    /// Creates the check at the start of a stream.
    pub fn new() -> Seams {
        Seams::default()
    }

    /// Creates the check at a true cut-point: the end of the last chunk joined so far.
    pub fn at(end: u64) -> Seams {
        Seams { end }
    }

    /// Returns the end of the last chunk joined so far, a true cut-point.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next range, which must not reach beyond the end of the stream. `span` reaches from the start of the first to the end of the last chunk
    /// that the range `owned` owns; `None` if it owns none. Returns `true` if the chunks are those
    /// of a single pass.
    ///
    /// If it returns `false`, the chunks have to be repaired ([`Ranges::repair`]) before the next
    /// range is taken.
    #[must_use]
    pub fn holds(&mut self, owned: &Range<u64>, span: Option<Range<u64>>) -> bool {
        match span {
            Some(span) if span.start == self.end => self.end = span.end,
            // The last chunk before the range covers it.
            None if self.end >= owned.end => {}
            _ => return false,
        }
        true
    }
}

#[cfg(feature = "std")]
impl<C: Chunker> Ranges<C> {
    /// Returns the chunks that the range `owned` owns, provided that a cut-point of the warm-up is a
    /// true one.
    ///
    /// `read_at` gets a buffer and an offset in bytes from the start of the stream. It reads the
    /// bytes at that offset into the buffer and returns their number; 0 means the end of the stream.
    /// The stream should not change as long as any of its ranges is read.
    pub fn chunks<R>(&self, read_at: R, owned: Range<u64>) -> RangeChunks<&C, R>
    where
        R: FnMut(&mut [u8], u64) -> io::Result<usize>,
    {
        RangeChunks::new(&self.chunker, read_at, self.warm_up_start(owned.start), owned)
    }

    /// Repairs the seam in front of a range: cuts from the end of the last chunk in `seams`, and
    /// passes the offset and the bytes of each chunk to `each`, until a cut-point is in the range's
    /// own list, or a chunk ends at or behind `range_end` or the end of the stream. Returns the index
    /// of that cut-point, or the length of the list: the chunks of the list that start at this index
    /// or behind it are true, and the others are not.
    ///
    /// `cut_points` is the list: the start of the range's first chunk, and the ends of all its
    /// chunks; empty if the range owns none. [`Ranges::chunks`] describes `read_at`.
    ///
    /// # Errors
    ///
    /// Returns any error of `read_at` except [`ErrorKind::Interrupted`], after which the read is
    /// retried. `seams` is unchanged then.
    pub fn repair<R>(
        &self,
        seams: &mut Seams,
        read_at: R,
        range_end: u64,
        cut_points: &[u64],
        mut each: impl FnMut(u64, &[u8]),
    ) -> io::Result<usize>
    where
        R: FnMut(&mut [u8], u64) -> io::Result<usize>,
    {
        let mut end = seams.end;
        let mut chunks = RangeChunks::new(&self.chunker, read_at, end, end..range_end);
        let limit = [range_end];
        let list = if cut_points.is_empty() { &limit } else { cut_points };
        let met = meet(list, end, |_| match chunks.next() {
            Ok(Some((offset, chunk))) => {
                each(offset, chunk);
                end = offset + chunk.len() as u64;
                Ok(end)
            }
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        });
        let first_true = match met {
            Ok(Some(index)) => index.min(cut_points.len()),
            Ok(None) | Err(None) => cut_points.len(),
            Err(Some(error)) => return Err(error),
        };
        seams.end = cut_points.get(first_true..).and_then(<[u64]>::last).copied().unwrap_or(end);
        Ok(first_true)
    }
}

/// The chunks that a range owns, returned by [`Ranges::chunks`].
#[cfg(feature = "std")]
pub struct RangeChunks<C, R> {
    chunker: C,
    read_at: R,
    window: Window,
    /// The offset at which cutting starts.
    start: u64,
    owned: Range<u64>,
    /// The offset of the next byte to be read.
    position: u64,
    /// The number of bytes of context still to be read.
    context_size: usize,
}

#[cfg(feature = "std")]
impl<C: Chunker, R: FnMut(&mut [u8], u64) -> io::Result<usize>> RangeChunks<C, R> {
    fn new(chunker: C, read_at: R, start: u64, owned: Range<u64>) -> RangeChunks<C, R> {
        let window = Window::for_reading(&chunker);
        let context_size = (chunker.context_size() as u64).min(start);
        let position = start - context_size;
        // It is no more than the chunker's.
        let context_size = usize::try_from(context_size).unwrap_or(usize::MAX);
        RangeChunks { chunker, read_at, window, start, owned, position, context_size }
    }

    /// Returns the next chunk and its offset in the stream, in bytes; `None` if no further chunk
    /// starts in the range. The bytes stay valid until the next call.
    ///
    /// # Errors
    ///
    /// Returns any error of the source except [`ErrorKind::Interrupted`], after which the read is
    /// retried. A later call continues.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.read_context()?;
        loop {
            let offset = self.start + self.window.offset();
            if offset >= self.owned.end {
                return Ok(None);
            }
            match self.window.step(&self.chunker) {
                Step::Chunk(_) if offset < self.owned.start => {}
                Step::Chunk(chunk) => return Ok(Some((offset, self.window.bytes(chunk)))),
                Step::Ended => return Ok(None),
                Step::Need => self.read()?,
            }
        }
    }

    /// Reads the bytes before the first chunk on which its end depends.
    fn read_context(&mut self) -> io::Result<()> {
        if self.context_size == 0 {
            return Ok(());
        }
        let mut context = vec![0; self.context_size];
        let mut filled = 0;
        while filled < context.len() {
            match (self.read_at)(&mut context[filled..], self.position + filled as u64) {
                // The stream ends before the first chunk.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.window.take_context(&context[..filled]);
        (self.position, self.context_size) = (self.position + filled as u64, 0);
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let owned_end = self.owned.end;
        let wanted = match self.chunker.needed_size_max() {
            // Bytes that no chunk of the range needs are not read.
            Some(size) => owned_end.saturating_add(size as u64).saturating_sub(self.position),
            None => owned_end.saturating_sub(self.position).max(self.window.lacking() as u64),
        };
        if wanted == 0 {
            // Some chunkers want more bytes at once than they need.
            self.window.ask();
            return Ok(());
        }
        let room = self.window.room();
        let size = usize::try_from(wanted).unwrap_or(usize::MAX).min(room.len());
        match (self.read_at)(&mut room[..size], self.position) {
            Ok(0) => self.window.end(),
            Ok(count) => {
                self.window.filled(count);
                self.position += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(feature = "std")]
impl<C: fmt::Debug, R> fmt::Debug for RangeChunks<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeChunks")
            .field("chunker", &self.chunker)
            .field("owned", &self.owned)
            .field("offset", &(self.start + self.window.offset()))
            .finish_non_exhaustive()
    }
}
