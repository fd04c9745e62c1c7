//! Cutting a buffer by several threads, with the cut-points of one.

use alloc::vec;
use alloc::vec::Vec;
use core::iter::once;
use core::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{self, Builder};

use crate::chunker::{BATCH_COUNT, Batch};
use crate::segments::{Round, Segments, cut_until};
use crate::{Chunker, Level};

/// How many bytes a thread cuts before what was found is joined; more, where chunks are large. A
/// thread takes some ten microseconds to start, and buffers that fit into caches are faster.
const SEGMENT_SIZE: usize = 4 * 1024 * 1024;
/// How many smallest chunks a segment has at least.
const SEGMENT_CHUNKS: usize = 64;
/// How many bytes are wanted at once at most, however many threads there are.
const BATCH_SIZE_MAX: usize = 256 * 1024 * 1024;
/// With more threads, segments would be too small to be worth a thread.
const THREAD_COUNT_MAX: usize = 1024;

/// A chunker that cuts many chunks at once by several threads. The cut-points are those of the
/// chunker alone, for every number of threads.
///
/// [`cuts`](crate::cuts) and [`Chunks`](crate::Chunks) give it many bytes at once, as it asks for by
/// [`batch_size`](Chunker::batch_size): 4 MiB a thread, or 64 smallest chunks if that is more; at
/// most 256 MiB in all; `cuts`, whose bytes are in memory, four times that. So `Chunks` holds this much and a largest chunk in its buffer, and reads it
/// before the first chunk is handed out; beside it are the ends found in it, some 30 bytes a chunk.
/// Questions about one chunk, and one thread, go to the chunker as they are.
///
/// Slow rules gain most. One that alone is nearly as fast as memory gains little, and nothing where a
/// reader's bytes have to be copied into so large a buffer.
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
/// Rules need not find back to each other's cut-points: `fixed` never does, others do not in a
/// constant stretch that the largest size cuts. Then the other threads have worked for nothing, and
/// the bytes are cut by one thread as ever, in the time that it takes: it has cut its own segment
/// meanwhile. When a round of segments has gained less than half a segment, what 16 rounds would cut is
/// cut by one thread, and then the others are tried again. This is remembered from call to call; it
/// has no say in where cut-points are. A rule without a largest chunk looks at up to a batch once more
/// where a chunk does not end in it.
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
        let least = chunker.chunk_size_min().saturating_mul(SEGMENT_CHUNKS);
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

    /// Returns the chunker.
    pub fn into_chunker(self) -> C {
        self.chunker
    }

    /// Has a thread cut each segment of a round, of which this thread has the first.
    fn cut(&self, round: Round<'_>) -> Vec<Vec<usize>> {
        let chunker: &dyn Chunker = &self.chunker;
        let Round { data, more, start, size, .. } = round;
        // A thread cuts on past its segment, so that it mostly ends at a cut-point of the next one's
        // list: here all do this at once, where lists are joined one does it.
        let cut_size = size + size / 64;
        // A rule without a largest chunk must not look through all that follows.
        let needed_size = chunker.needed_size_max().unwrap_or(usize::MAX).min(size / 4);
        let cut_segment = |start: usize| {
            let limit = start + cut_size;
            let seen = &data[..data.len().min(limit + needed_size)];
            let mut list = vec![start];
            cut_until(chunker, seen, start..limit, more || seen.len() < data.len(), &mut list);
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
            let first = cut_segment(start);
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
