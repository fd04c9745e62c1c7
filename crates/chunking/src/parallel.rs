//! Cutting a buffer by several threads, with the cut-points of one.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::thread::{self, Builder};

use crate::ahead::{self, ReadAhead};
use crate::chunker::BATCH_COUNT;
use crate::{Chunker, Level};

/// How many bytes a thread cuts before what was found is joined; more, where chunks are large. A
/// thread takes some ten microseconds to start, and buffers that fit into caches are faster.
const SEGMENT_SIZE: usize = 4 * 1024 * 1024;
/// How many smallest chunks a segment has at least.
const SEGMENT_CHUNKS: usize = 64;
/// How many bytes behind a limit are looked at before it is known that they are needed.
const SLACK_SIZE: usize = 64 * 1024;
/// How many smallest chunks are looked at behind a limit, if that is more.
const SLACK_CHUNKS: usize = 4;
/// How many bytes are read at once where there is no other thread.
const ALONE_SIZE: usize = 256 * 1024;
/// How many rounds the other threads rest after one in which they were of no use.
const REST_ROUND_COUNT: usize = 16;
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
/// gained less than half a segment, what 16 rounds would cut is cut by one thread, and then the others
/// are tried again. This is remembered from call to call; it has no say in where cut-points are. A rule
/// whose smallest size is its largest is cut by one thread for good: it needs no byte.
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
    /// How many bytes are to be cut by one thread before the others are tried again.
    rest_size: AtomicUsize,
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
        Parallel { chunker, thread_count, segment_size, rest_size: AtomicUsize::new(0) }
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

    /// The number of segments of the next round, and their size; fewer and smaller ones where less
    /// than that is left. `None` where it is too little for more than one.
    fn segments(&self, size: usize) -> Option<(usize, usize)> {
        // A thread takes as long to start as some hundred KiB to cut.
        let least = (self.segment_size / 16).max(1);
        let count = self.thread_count.min(size / least);
        // As many as `cuts` gives. More than a batch, as a reader has it, is in memory anyway.
        let most = self.segment_size.saturating_mul(BATCH_COUNT);
        (count > 1).then(|| (count, most.min(size.div_ceil(count))))
    }

    /// Has `count` threads cut a segment each, the first of which begins at `start`, a true cut-point,
    /// and joins what they found. Returns the last end, and how many of the bytes before it others
    /// than this thread have cut; `None` where the next end cannot be told.
    fn round(
        &self,
        data: &[u8],
        start: usize,
        more: bool,
        (count, segment_size): (usize, usize),
        ends: &mut Vec<usize>,
    ) -> Option<(usize, usize)> {
        let chunker: &dyn Chunker = &self.chunker;
        // A thread cuts on past its segment, so that it mostly ends at a cut-point of the next one's
        // list: here all do this at once, where lists are joined one does it.
        let cut_size = segment_size + segment_size / 64;
        // A rule without a largest chunk must not look through all that follows.
        let needed_size = chunker.needed_size_max().unwrap_or(usize::MAX).min(segment_size / 4);
        let cut_segment = |start: usize, ends: &mut Vec<usize>| {
            let limit = start + cut_size;
            let seen = &data[..data.len().min(limit + needed_size)];
            let more = more || seen.len() < data.len();
            cut_until(chunker, seen, Reached::at(start), limit, more, ends)
        };
        thread::scope(|scope| {
            let segments: Vec<_> = (1..count)
                .map(|index| {
                    let start = start + index * segment_size;
                    let cut = move || {
                        let mut list = vec![start];
                        cut_segment(start, &mut list);
                        list
                    };
                    // Where there is no thread there is no list, and joining goes on to the next one.
                    Builder::new().spawn_scoped(scope, cut).ok()
                })
                .collect();
            let mut reached = cut_segment(start, ends);
            let mut gained_size = 0;
            for segment in segments.into_iter().flatten() {
                let list = segment.join().unwrap_or_else(|panic| resume_unwind(panic));
                let gained;
                (reached, gained) = join(chunker, data, reached, more, &list, ends)?;
                gained_size += gained;
            }
            Some((reached.end, gained_size))
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
        let mut reached = Reached::at(start);
        while let Some(segments) = self.segments(data.len() - reached.end) {
            let rest_size = self.rest_size.load(Relaxed);
            if rest_size > 0 {
                let start = reached.end;
                let limit = start.saturating_add(rest_size).min(data.len());
                reached = cut_until(&self.chunker, data, reached, limit, more, ends);
                self.rest_size.store(rest_size.saturating_sub(reached.end - start), Relaxed);
                if reached.end < limit {
                    return;
                }
            } else {
                let (count, segment_size) = segments;
                let joined = self.round(data, reached.end, more, segments, ends);
                // Without an end it is a chunk larger than all that was given, which will come again
                // and be more.
                if joined.is_none_or(|(_, gained_size)| gained_size < segment_size / 2) {
                    self.rest_size.store(count * segment_size * REST_ROUND_COUNT, Relaxed);
                }
                let Some((end, _)) = joined else { return };
                reached = Reached::at(end);
            }
        }
        self.chunker.next_cuts(data, reached.end, more, ends);
    }

    fn batch_size(&self) -> usize {
        if self.thread_count == 1 {
            return self.chunker.batch_size();
        }
        (self.segment_size * self.thread_count).max(self.chunker.batch_size())
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

/// How far a sequence of cut-points is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// The last cut-point.
    pub(crate) end: usize,
    /// The bytes before this place do not tell where the chunk ends that begins at `end`.
    looked: usize,
}

impl Reached {
    /// A cut-point, behind which nothing was looked at.
    pub(crate) fn at(end: usize) -> Reached {
        Reached { end, looked: end }
    }
}

/// Cuts on from what is reached, a true cut-point, until one is in `list`, and takes what is behind it
/// there. Returns the last end, and how many bytes were taken; `None` where the next end cannot be told.
///
/// A list without anything behind the last cut-point gives nothing.
pub(crate) fn join(
    chunker: &dyn Chunker,
    data: &[u8],
    mut reached: Reached,
    more: bool,
    list: &[usize],
    ends: &mut Vec<usize>,
) -> Option<(Reached, usize)> {
    loop {
        let end = reached.end;
        match &list[list.partition_point(|&each| each < end)..] {
            [] => return Some((reached, 0)),
            [first, rest @ ..] if *first == end => {
                ends.extend(rest);
                let last = rest.last().map_or(end, |&last| last);
                return Some((Reached::at(last), last - end));
            }
            _ => {}
        }
        reached = cut_until(chunker, data, reached, end + 1, more, ends);
        if reached.end == end {
            return None;
        }
    }
}

/// Cuts on from what is reached until a chunk ends at `limit` or behind it, or the next end cannot be
/// told; appends the ends.
pub(crate) fn cut_until(
    chunker: &dyn Chunker,
    data: &[u8],
    mut reached: Reached,
    limit: usize,
    more: bool,
    ends: &mut Vec<usize>,
) -> Reached {
    let slack_size = chunker.chunk_size_min().saturating_mul(SLACK_CHUNKS).max(SLACK_SIZE);
    while reached.end < limit.min(data.len()) && !(more && reached.looked == data.len()) {
        let Reached { end, looked } = reached;
        // Not much behind the limit, which is another thread's; but of a chunk that did not end in what
        // was looked at, twice as much, as all of it is looked at again.
        let near = limit.saturating_add(slack_size).max(looked.saturating_add(looked - end));
        let seen = &data[..data.len().min(near)];
        let more = more || seen.len() < data.len();
        let known = ends.len();
        ask(chunker, seen, end, more, ends);
        match ends[known..].last() {
            Some(&end) => reached = Reached::at(end),
            None if !more => break,
            None => reached.looked = seen.len(),
        }
    }
    reached
}

/// Appends the ends of the chunks in `data` from `start` on, or of the first; none if it cannot be told.
pub(crate) fn ask(
    chunker: &dyn Chunker,
    data: &[u8],
    start: usize,
    more: bool,
    ends: &mut Vec<usize>,
) {
    if chunker.batch_size() > 0 {
        chunker.next_cuts(data, start, more, ends);
    } else {
        let (before, rest) = data.split_at(start);
        ends.extend(chunker.next_cut_after(before, rest, more).map(|size| start + size));
    }
}

#[cfg(test)]
mod tests;
