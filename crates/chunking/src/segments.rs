//! Cutting segments of data as if a chunk began where each of them begins, and joining what was found.
//!
//! Why that is exact is written at [`Parallel`](crate::Parallel), whose threads cut a segment each;
//! SeqCDC cuts several in one thread.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::Chunker;
use crate::chunker::Batch;

/// How many bytes behind a limit are looked at before it is known that they are needed.
const SLACK_SIZE: usize = 64 * 1024;
/// How many smallest chunks are looked at behind a limit, if that is more.
const SLACK_CHUNKS: usize = 4;
/// How many rounds, of segments as large as those that are tried, are cut without segments after one in
/// which they were of no use.
const REST_ROUND_COUNT: usize = 64;
/// So many times smaller than the largest segments are those that are tried after a rest: what was cut in
/// vain is cut twice.
const TRIED_PART: usize = 4;

/// How data is cut into segments, and whether that was of use of late.
#[derive(Debug)]
pub(crate) struct Segments {
    count_max: usize,
    size_min: usize,
    size_max: usize,
    /// How many bytes are to be cut without segments before they are tried again. It has no say in
    /// where cut-points are.
    rest_size: AtomicUsize,
    /// Whether the last round was of no use.
    was_in_vain: AtomicBool,
}

impl Clone for Segments {
    fn clone(&self) -> Segments {
        Segments::new(self.count_max, self.size_min, self.size_max)
    }
}

/// Segments that follow each other, and are cut at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) data: &'a [u8],
    /// Whether bytes may follow the data.
    pub(crate) more: bool,
    /// Where the first segment begins: at a true cut-point.
    pub(crate) start: usize,
    /// How many segments there are; at least 2.
    pub(crate) count: usize,
    /// The size of each.
    pub(crate) size: usize,
}

impl Round<'_> {
    /// Where each segment begins.
    pub(crate) fn starts(self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.count).map(move |index| self.start + index * self.size)
    }

    /// Where the last one ends.
    pub(crate) fn end(self) -> usize {
        self.start + self.count * self.size
    }
}

impl Segments {
    /// At most `count_max` segments at once, of `size_min` to `size_max` bytes each.
    pub(crate) fn new(count_max: usize, size_min: usize, size_max: usize) -> Segments {
        let size_min = size_min.max(1);
        let size_max = size_max.max(size_min);
        let (rest_size, was_in_vain) = (AtomicUsize::new(0), AtomicBool::new(false));
        Segments { count_max, size_min, size_max, rest_size, was_in_vain }
    }

    /// How many bytes a round makes use of at most.
    pub(crate) fn round_size_max(&self) -> usize {
        self.count_max.saturating_mul(self.size_max)
    }

    /// How large segments are that are tried after a rest.
    fn tried_size(&self) -> usize {
        (self.size_max / TRIED_PART).max(self.size_min)
    }

    /// The number of segments of the next round, and their size: smaller ones after a round in vain, and
    /// fewer and smaller ones where less is left. `None` where it is too little for more than one.
    fn next(&self, size: usize) -> Option<(usize, usize)> {
        let count = self.count_max.min(size / self.size_min);
        let most = if self.was_in_vain.load(Relaxed) { self.tried_size() } else { self.size_max };
        (count > 1).then(|| (count, most.min(size / count)))
    }

    /// Is [`Chunker::next_cuts`] of `chunker`, by segments where they are of use. `cut` returns a list for
    /// each segment of a round, in their order; one may be left out.
    pub(crate) fn next_cuts(
        &self,
        chunker: &dyn Chunker,
        batch: Batch<'_>,
        cut: impl Fn(Round<'_>) -> Vec<List>,
    ) {
        let Batch { data, start, more, ends } = batch;
        let mut reached = Reached::at(start);
        while let Some((count, size)) = self.next(data.len() - reached.end) {
            let start = reached.end;
            let rest_size = self.rest_size.load(Relaxed);
            if rest_size > 0 {
                let limit = start.saturating_add(rest_size).min(data.len());
                reached = cut_until(chunker, data, reached, limit, more, ends);
                self.rest_size.store(rest_size.saturating_sub(reached.end - start), Relaxed);
                if reached.end < limit {
                    return;
                }
            } else {
                let round = Round { data, more, start, count, size };
                let joined = joined(chunker, round, &cut(round), ends);
                // Without an end it is a chunk larger than all that was given, which will come again and
                // be more.
                let is_in_vain = joined.is_none_or(|(_, gained_size)| gained_size < size / 2);
                self.was_in_vain.store(is_in_vain, Relaxed);
                if is_in_vain {
                    let tried_size = count.saturating_mul(size.min(self.tried_size()));
                    self.rest_size.store(tried_size.saturating_mul(REST_ROUND_COUNT), Relaxed);
                }
                let Some((joined, _)) = joined else { return };
                reached = joined;
            }
        }
        chunker.next_cuts(data, reached.end, more, ends);
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

/// The cut-points of a segment if a chunk begins where it begins.
#[derive(Debug)]
pub(crate) struct List {
    ends: Vec<usize>,
    /// How far they are known; its end is the last of `ends`.
    reached: Reached,
}

impl List {
    /// A segment that begins here, of which nothing was looked at.
    pub(crate) fn at(start: usize) -> List {
        List { ends: vec![start], reached: Reached::at(start) }
    }

    /// Appends the end of a chunk.
    pub(crate) fn push(&mut self, end: usize) {
        self.ends.push(end);
        self.reached = Reached::at(end);
    }

    /// Cuts on as [`cut_until`] does.
    #[cfg(feature = "std")]
    pub(crate) fn cut_until(
        &mut self,
        chunker: &dyn Chunker,
        data: &[u8],
        limit: usize,
        more: bool,
    ) {
        self.reached = cut_until(chunker, data, self.reached, limit, more, &mut self.ends);
    }

    /// Where the segment begins, and the ends of chunks from there on.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }
}

/// Joins the lists of a round. Returns how far that reaches, and how many bytes before it were taken from
/// lists other than the first; `None` where the next end cannot be told.
pub(crate) fn joined(
    chunker: &dyn Chunker,
    round: Round<'_>,
    lists: &[List],
    ends: &mut Vec<usize>,
) -> Option<(Reached, usize)> {
    let (mut reached, mut gained_size) = (Reached::at(round.start), 0);
    for list in lists {
        let is_first = list.ends.first() == Some(&round.start);
        let taken_size;
        (reached, taken_size) = join(chunker, round.data, reached, round.more, list, ends)?;
        gained_size += if is_first { 0 } else { taken_size };
    }
    Some((reached, gained_size))
}

/// Cuts on from what is reached, a true cut-point, until one is in `list`, and takes what is behind it
/// there. Returns how far that reaches, and how many bytes were taken; `None` where the next end cannot be
/// told.
///
/// A list without anything behind the last cut-point gives nothing.
pub(crate) fn join(
    chunker: &dyn Chunker,
    data: &[u8],
    mut reached: Reached,
    more: bool,
    list: &List,
    ends: &mut Vec<usize>,
) -> Option<(Reached, usize)> {
    loop {
        let end = reached.end;
        match &list.ends[list.ends.partition_point(|&each| each < end)..] {
            [] => return Some((reached, 0)),
            [first, rest @ ..] if *first == end => {
                ends.extend(rest);
                return Some((list.reached, list.reached.end - end));
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
        // Not much behind the limit, which is another segment's; but of a chunk that did not end in what
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
    if chunker.batch_size_max() > 0 {
        chunker.next_cuts(data, start, more, ends);
    } else {
        let (before, rest) = data.split_at(start);
        ends.extend(chunker.next_cut_after(before, rest, more).map(|size| start + size));
    }
}
