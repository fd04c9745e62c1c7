//! Cutting a buffer by several threads, with the cut-points of one.

use alloc::vec::Vec;
use core::iter::once;
use core::num::NonZero;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::thread::{self, Builder};

use crate::ahead::{self, ReadAhead};
use crate::chunker::{BATCH_COUNT, Batch};
use crate::segments::{List, Round, Segments};
use crate::{Chunker, Level};

/// How many bytes a thread cuts before what was found is joined; more, where chunks are large. A
/// thread takes some ten microseconds to start, and buffers that fit into caches are faster.
const SEGMENT_SIZE: usize = 4 * 1024 * 1024;
/// How many smallest chunks a segment has at least.
const SEGMENT_CHUNKS: usize = 64;
/// How many bytes are read at once where there is no other thread.
const ALONE_SIZE: usize = 256 * 1024;
/// How many bytes are wanted at once at most, however many threads there are.
const BATCH_SIZE_MAX: usize = 256 * 1024 * 1024;
/// With more threads, segments would be too small to be worth a thread.
const THREAD_COUNT_MAX: usize = 1024;

/// A chunker that cuts many chunks at once by several threads. The cut-points are those of the
/// chunker alone, for every number of threads.
///
/// [`cuts`](crate::cuts) and [`Chunks`](crate::Chunks) give it many bytes at once, as it asks for by
/// [`batch_size`](Chunker::batch_size): 4 MiB a thread, or 64 smallest chunks if that is more; at
/// most 256 MiB in all; `cuts`, whose bytes are in memory, four times that. So `Chunks` holds this much
/// and a largest chunk in its buffer, and reads it before the first chunk is handed out; beside it are the
/// ends found in it, some 30 bytes a chunk.
/// Questions about one chunk, and one thread, go to the chunker as they are.
///
/// Slow rules gain most. One that alone is nearly as fast as memory gains little. A reader's bytes are
/// read ahead by [`read`](Parallel::read) and [`read_at`](Parallel::read_at); `Chunks` reads and cuts in turns, and
/// gains nothing where so large a buffer has to be filled first.
///
/// # How
///
/// Each thread cuts a segment of the bytes as if a chunk began where the segment begins. Whoever
/// joins the lists goes on from the last true cut-point, chunk by chunk, until one is in the next
/// thread's list; the rest of that list is true.
///
/// # Why that is exact
///
/// Let `f(p)` be the end of the chunk that begins at offset `p` of a stream. By the contract of
/// [`Chunker`] it is a function of `p`: it depends on the bytes from `p` on and, where the rule keeps
/// state over a cut-point, on the [`context_size`](Chunker::context_size) bytes before `p`; not on
/// how many bytes behind the answer were shown, nor on where the chunks before began. The true
/// cut-points are `f(0)`, `f(f(0))` and so on; a list is `s`, `f(s)`, `f(f(s))` and so on, for the
/// `s` at which its segment begins. Two such sequences that have an offset in common are equal from
/// there on.
///
/// For this a thread has to compute `f`, at `s` too, where no chunk may begin in truth: it is given
/// the stream's own bytes before `s` as what is before the chunk. Only offset 0 of the stream has
/// none before it, so that also rules that know a stream's first chunk know it here.
///
/// # What it costs where lists do not meet
///
/// Rules need not find back to each other's cut-points, and do not in a constant stretch that the largest
/// size cuts. Then the other threads have worked for nothing, and the bytes are cut by one thread as
/// ever, in the time that it takes: it has cut its own segment meanwhile. When a round of segments has
/// gained less than half a segment, what 64 rounds of a quarter of the largest segments would cut is cut by
/// one thread, and then the others are tried again with such a round. This is remembered from call to
/// call; it has no say in where cut-points are. A rule whose smallest size is its largest is cut by one
/// thread for good: it needs no byte.
///
/// Of a chunk that does not end in what was looked at, twice as much is looked at again, from its start:
/// a rule says nothing of how far it came. Without a largest size that is up to twice the chunk, as it is
/// by one thread, which is given four times as much each time: which of them is faster depends on where
/// the chunk ends (0.8 to 1.2 times).
///
/// ```
/// use std::num::NonZero;
/// use cutpoint_chunking::{Parallel, Spec, cuts};
///
/// let spec: Spec = "seqcdc:avg=16k".parse()?;
/// let threads = NonZero::new(4).expect("it is not 0");
/// let data = vec![7; 1_000_000];
/// let parallel = Parallel::new(spec.chunker(), threads);
/// assert!(cuts(&parallel, &data).eq(cuts(&*spec.chunker(), &data)));
/// # Ok::<(), cutpoint_chunking::SpecError>(())
/// ```
#[derive(Debug)]
pub struct Parallel<C> {
    chunker: C,
    thread_count: usize,
    segment_size: usize,
    segments: Segments,
}

impl<C: Chunker> Parallel<C> {
    /// Makes a chunker that uses `thread_count` threads, the caller's among them; at most 1024.
    ///
    /// Where the system has no more threads to give, it does with those that it has.
    pub fn new(chunker: C, thread_count: NonZero<usize>) -> Parallel<C> {
        let min = chunker.chunk_size_min();
        let least = min.saturating_mul(SEGMENT_CHUNKS);
        // Sizes that never vary need no look at a byte, and lists that do not meet at once never do.
        let is_fixed = chunker.chunk_size_max() == Some(min);
        let thread_count = if is_fixed { NonZero::<usize>::MIN } else { thread_count };
        Parallel::with_segment_size(chunker, thread_count, least.max(SEGMENT_SIZE))
    }

    fn with_segment_size(
        chunker: C,
        thread_count: NonZero<usize>,
        segment_size: usize,
    ) -> Parallel<C> {
        let thread_count = thread_count.get().min(THREAD_COUNT_MAX);
        let segment_size = segment_size.min(BATCH_SIZE_MAX / thread_count).max(1);
        // A thread takes as long to start as some hundred KiB to cut. More than a batch, as a reader has
        // it, is in memory anyway.
        let (least, most) = (segment_size / 16, segment_size.saturating_mul(BATCH_COUNT));
        let segments = Segments::new(thread_count, least, most);
        Parallel { chunker, thread_count, segment_size, segments }
    }

    /// Cuts what `reader` gives, while it is read: `work` takes the chunks, and what it returns is
    /// returned.
    ///
    /// So many threads as were asked for, beside the caller's, take turns in reading a block and cut what
    /// they have read; the caller's joins that and hands it out. A block has 4 MiB, or 64 smallest chunks
    /// if that is more, and no more than 256 MiB through the number of threads; there is one more than threads,
    /// and beside them a chunk that began in one and ends in another is held. A slow source's bytes wait
    /// until a block is full. For one thread, and for a rule of constant sizes, nothing runs beside the
    /// caller's.
    ///
    /// A rule that is nearly as fast as memory loses by this: what is read into one processor's cache
    /// is wanted in another's. Use [`read_at`](Parallel::read_at) where the source is a file.
    ///
    /// `reader` is ahead of the chunks that were taken, and may be read from once more while `work` returns;
    /// give it as `&mut` to have it back. The call returns when a read that has begun does.
    ///
    /// ```
    /// use std::num::NonZero;
    /// use cutpoint_chunking::{Parallel, Spec};
    ///
    /// let spec: Spec = "fastcdc:avg=16k".parse()?;
    /// let parallel = Parallel::new(spec.chunker(), NonZero::new(2).expect("it is not 0"));
    /// let size = parallel.read(&[7; 1_000_000][..], |chunks| {
    ///     while chunks.next()?.is_some() {}
    ///     std::io::Result::Ok(chunks.offset())
    /// })?;
    /// assert_eq!(size, 1_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<R: Read + Send, T>(
        &self,
        reader: R,
        work: impl FnOnce(&mut ReadAhead<'_>) -> T,
    ) -> T {
        let (thread_count, block_size) = self.reading();
        ahead::read(&self.chunker, thread_count, block_size, reader, work)
    }

    /// The same for what can be read at any place, such as a file: threads read at the same time.
    ///
    /// `read_at` reads into the buffer what is at so many bytes from the start, at most as much as the
    /// buffer takes, and returns how much; 0 is the end. The bytes should not change meanwhile: of ones
    /// that do, some may be seen before and others after.
    pub fn read_at<T>(
        &self,
        read_at: impl Fn(&mut [u8], u64) -> io::Result<usize> + Sync,
        work: impl FnOnce(&mut ReadAhead<'_>) -> T,
    ) -> T {
        let (thread_count, block_size) = self.reading();
        ahead::read_at(&self.chunker, thread_count, block_size, read_at, work)
    }

    /// How many threads read, and how much at once.
    fn reading(&self) -> (usize, usize) {
        if self.thread_count > 1 {
            return (self.thread_count, self.segment_size);
        }
        // What stays in the processor's cache.
        let least = self.chunker.chunk_size_min().saturating_mul(4);
        (0, least.max(ALONE_SIZE).min(self.segment_size))
    }

    /// Returns how many threads are used: as many as were asked for, at most 1024; one where chunks have
    /// one size.
    pub fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// Returns the chunker.
    pub fn into_chunker(self) -> C {
        self.chunker
    }

    /// Has a thread cut each segment of a round, of which this thread has the first.
    fn cut(&self, round: Round<'_>) -> Vec<List> {
        let chunker: &dyn Chunker = &self.chunker;
        let Round { data, more, size, .. } = round;
        // A thread cuts on past its segment, so that it mostly ends at a cut-point of the next one's
        // list: here all do this at once, where lists are joined one does it.
        let cut_size = size + size / 64;
        // A rule without a largest chunk must not look through all that follows.
        let needed_size = chunker.needed_size_max().unwrap_or(usize::MAX).min(size / 4);
        let cut_segment = |start: usize| {
            let limit = start + cut_size;
            let seen = &data[..data.len().min(limit + needed_size)];
            let mut list = List::at(start);
            list.cut_until(chunker, seen, limit, more || seen.len() < data.len());
            list
        };
        thread::scope(|scope| {
            let threads: Vec<_> = round
                .starts()
                .skip(1)
                // Where there is no thread there is no list, and joining goes on to the next one.
                .filter_map(|start| {
                    Builder::new().spawn_scoped(scope, move || cut_segment(start)).ok()
                })
                .collect();
            let first = cut_segment(round.start);
            let others = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            once(first).chain(others).collect()
        })
    }
}

impl<C: Chunker> Chunker for Parallel<C> {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.chunker.next_cut(data, more)
    }

    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        self.chunker.next_cut_after(before, data, more)
    }

    fn context_size(&self) -> usize {
        self.chunker.context_size()
    }

    fn needed_size_max(&self) -> Option<usize> {
        self.chunker.needed_size_max()
    }

    fn next_cuts(&self, data: &[u8], start: usize, more: bool, ends: &mut Vec<usize>) {
        let batch = Batch { data, start, more, ends };
        self.segments.next_cuts(&self.chunker, batch, |round| self.cut(round));
    }

    fn batch_size(&self) -> usize {
        if self.thread_count == 1 {
            return self.chunker.batch_size();
        }
        (self.segment_size * self.thread_count).max(self.chunker.batch_size())
    }

    fn batch_size_max(&self) -> usize {
        if self.thread_count == 1 {
            return self.chunker.batch_size_max();
        }
        self.batch_size().saturating_mul(BATCH_COUNT).max(self.chunker.batch_size_max())
    }

    fn level(&self) -> Level {
        self.chunker.level()
    }

    fn chunk_size_min(&self) -> usize {
        self.chunker.chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunker.chunk_size_max()
    }
}

#[cfg(test)]
mod tests;
