//! Cutting a buffer by several threads, with the cut-points of a single one.

use alloc::vec::Vec;
use core::iter::once;
use core::num::NonZero;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::thread::{self, Builder};

use crate::ahead::{self, ReadAhead};
use crate::chunker::{BATCH_COUNT, Batch, cut_next_again};
use crate::segments::{List, Round, Segments};
use crate::{Chunker, Level};

/// The number of bytes that a thread cuts before the results are joined, unless chunks are large.
/// Starting a thread takes about ten microseconds, and buffers that fit into caches are faster.
const SEGMENT_SIZE: usize = 4 * 1024 * 1024;
/// The minimum size of a segment, in minimum chunk sizes.
const SEGMENT_CHUNKS: usize = 64;
/// The number of bytes that are read at once if there is no other thread.
const ALONE_SIZE: usize = 256 * 1024;
/// The maximum number of bytes that are wanted at once, whatever the number of threads.
const BATCH_SIZE_MAX: usize = 256 * 1024 * 1024;
/// The maximum number of threads. With more, segments would be too small to be worth a thread.
const THREAD_COUNT_MAX: usize = 1024;

/// A chunker that cuts many chunks at once by several threads. Its cut-points are those of the
/// inner chunker, for every number of threads.
///
/// [`cuts`](crate::cuts) and [`Chunks`](crate::Chunks) pass it many bytes at once, as requested by
/// [`batch_size`](Chunker::batch_size): for each thread 4 MiB, or 64 times the minimum chunk size
/// if that is more, but at most 256 MiB in all. `cuts`, whose bytes are in memory, passes four
/// times that. The buffer of `Chunks` therefore holds a batch and a largest chunk, and is filled
/// before the first chunk is returned; the ends found in it take some 30 bytes a chunk. A call
/// about a single chunk goes to the inner chunker unchanged, as does every call if there is only
/// one thread.
///
/// Slow rules gain most. A rule that alone is nearly as fast as memory gains little.
/// [`read`](Parallel::read) and [`read_at`](Parallel::read_at) read a source ahead; `Chunks` reads
/// and cuts in turns, and gains nothing if so large a buffer has to be filled first.
///
/// # Algorithm
///
/// Each thread cuts a segment of the bytes as if a chunk began at the start of the segment. The
/// joining thread continues from the last true cut-point, chunk by chunk, until a cut-point is in
/// the next thread's list; the rest of that list is true.
///
/// # Exactness
///
/// Let `f(p)` be the end of the chunk that begins at offset `p` of a stream. By the contract of
/// [`Chunker`], `f` is a function of `p`: `f(p)` depends on the bytes from `p` on and, if the rule
/// keeps state over a cut-point, on the [`context_size`](Chunker::context_size) bytes before `p`,
/// but not on the number of bytes shown behind the answer, or on the starts of earlier chunks. The
/// true cut-points are `f(0)`, `f(f(0))` and so on; a list is `s`, `f(s)`, `f(f(s))` and so on, for
/// the `s` at which its segment begins. Two such sequences that have an offset in common are equal
/// from there on.
///
/// A thread therefore has to compute `f` at `s` as well, although no chunk may truly begin there,
/// and is given the stream's own bytes before `s` as the bytes before the chunk. Only offset 0 of
/// the stream has none before it, so that a rule that recognizes a stream's first chunk does so
/// here, too.
///
/// # Cost if lists do not meet
///
/// The lists of a rule need not meet, and do not in a constant stretch that is cut by the maximum
/// size. The work of the other threads is then lost, and one thread cuts the bytes in the time it
/// would take alone: it has cut its own segment meanwhile. After a round of segments that gained
/// less than half a segment, one thread cuts as many bytes as 64 rounds of a quarter of the largest
/// segments hold, and then the other threads are tried again with such a round. This state is kept
/// from call to call, and does not change the cut-points. A rule whose minimum size is its maximum
/// is always cut by one thread, because it looks at no bytes.
///
/// If a chunk does not end in the bytes looked at, twice their number is looked at again, from the
/// chunk's start, because a rule does not report its progress. Without a maximum size this reaches
/// up to twice the chunk. A single thread does the same, but gets four times the number each time;
/// which of the two is faster depends on the position of the chunk's end (0.8 to 1.2 times).
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
    /// Creates a chunker that uses `thread_count` threads, including the caller's; at most 1024.
    ///
    /// If the system has no more threads to give, the existing ones do the work.
    pub fn new(chunker: C, thread_count: NonZero<usize>) -> Parallel<C> {
        let min = chunker.chunk_size_min();
        let least = min.saturating_mul(SEGMENT_CHUNKS);
        // Constant sizes need no look at the bytes, and lists of theirs that do not meet at once
        // never meet.
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
        // Starting a thread takes as long as cutting some hundred KiB. Data larger than a batch,
        // the most that a reader buffers, is in memory anyway.
        let (least, most) = (segment_size / 16, segment_size.saturating_mul(BATCH_COUNT));
        let segments = Segments::new(thread_count, least, most);
        Parallel { chunker, thread_count, segment_size, segments }
    }

    /// Reads and cuts the stream of `reader` at the same time. `work` takes the chunks, and its
    /// result is returned.
    ///
    /// Beside the caller's thread there are as many threads as were requested. They take turns in
    /// reading a block, and cut the blocks they have read; the caller's thread joins the results
    /// and returns the chunks. A block has 4 MiB, or 64 times the minimum chunk size if that is
    /// more, but no more than 256 MiB divided by the number of threads. There is one more block
    /// than threads, beside a buffer for a chunk that begins in one block and ends in another.
    /// Bytes of a slow source wait until a block is full. With one thread, or for a rule of
    /// constant sizes, only the caller's thread runs.
    ///
    /// A rule that is nearly as fast as memory loses by this, because the bytes that are read into
    /// one processor's cache are needed in another's. Use [`read_at`](Parallel::read_at) if the
    /// source is a file.
    ///
    /// `reader` is ahead of the chunks that were taken, and may be read from once more while `work`
    /// returns. To keep the reader, pass it as `&mut`. The call returns only after a read in
    /// progress has returned.
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

    /// Reads and cuts a source that can be read at any offset, such as a file: the threads read at
    /// the same time.
    ///
    /// `read_at` gets a buffer and an offset in bytes from the start of the source. It reads the
    /// bytes at that offset into the buffer and returns their number; 0 means the end. The source
    /// should not change meanwhile: of bytes that do change, some may be seen as before and others
    /// as after the change.
    ///
    /// It is asked for blocks, of the size that [`read`](Parallel::read) gives, so for an object of a
    /// remote storage a block can be a request. No byte is asked for twice, except the
    /// [`context_size`](Chunker::context_size) bytes before a block. [`Ranges`](crate::Ranges) cut a
    /// source in processes that do not share memory.
    pub fn read_at<T>(
        &self,
        read_at: impl Fn(&mut [u8], u64) -> io::Result<usize> + Sync,
        work: impl FnOnce(&mut ReadAhead<'_>) -> T,
    ) -> T {
        let (thread_count, block_size) = self.reading();
        ahead::read_at(&self.chunker, thread_count, block_size, read_at, work)
    }

    /// Returns the number of threads that read, and the size of a block.
    fn reading(&self) -> (usize, usize) {
        if self.thread_count > 1 {
            return (self.thread_count, self.segment_size);
        }
        // The size stays within the processor's cache.
        let least = self.chunker.chunk_size_min().saturating_mul(4);
        (0, least.max(ALONE_SIZE).min(self.segment_size))
    }

    /// Returns the number of threads in use: the requested number, at most 1024; one if all chunks
    /// have the same size.
    pub fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// Returns the inner chunker.
    pub fn into_chunker(self) -> C {
        self.chunker
    }

    /// Cuts each segment of a round in a thread of its own; the calling thread cuts the first.
    fn cut(&self, round: Round<'_>) -> Vec<List> {
        let chunker: &dyn Chunker = &self.chunker;
        let Round { data, more, size, .. } = round;
        // A thread cuts past the end of its segment, so that it mostly ends at a cut-point of the
        // next one's list. Here all threads do this at once; at the joining of lists, a single one
        // would.
        let cut_size = size + size / 64;
        // A rule without a maximum chunk size must not look through all the data that follows.
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
                // Without a thread there is no list, and joining continues with the next one.
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

    fn next_cut_again(
        &self,
        before: &[u8],
        data: &[u8],
        more: bool,
        known: usize,
    ) -> Option<usize> {
        self.chunker.next_cut_again(before, data, more, known)
    }

    fn resumes(&self) -> bool {
        self.chunker.resumes()
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

    fn next_cuts_again(
        &self,
        data: &[u8],
        start: usize,
        more: bool,
        known: usize,
        ends: &mut Vec<usize>,
    ) -> usize {
        if self.segments.next(data.len() - start).is_none() {
            return self.chunker.next_cuts_again(data, start, more, known, ends);
        }
        cut_next_again(self, Batch { data, start, more, ends }, known)
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
