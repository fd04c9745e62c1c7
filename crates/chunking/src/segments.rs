//! Cutting segments of data as if a chunk began where each of them begins, and joining what was found.
//!
//! Why that is exact is written at [`Parallel`](crate::Parallel), whose threads cut a segment each; the
//! streams of SeqCDC do the same in one thread.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Chunker;
use crate::chunker::{Batch, next_ends};

/// How many bytes behind a limit are looked at before it is known that they are needed.
const SLACK_SIZE: usize = 64 * 1024;
/// How many rounds are cut without segments after one in which they were of no use.
const REST_ROUND_COUNT: usize = 16;

/// How data is cut into segments, and whether that was of use of late.
#[derive(Debug)]
pub(crate) struct Segments {
    count_max: usize,
    size_min: usize,
    size_max: usize,
    /// How many bytes are to be cut without segments before they are tried again. It has no say in
    /// where cut-points are.
    rest_size: AtomicUsize,
}

impl Clone for Segments {
    fn clone(&self) -> Segments {
        Segments::new(self.count_max, self.size_min, self.size_max)
    }
}

/// What is cut by one after the other or all at once: segments beside each other.
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
        Segments { count_max, size_min, size_max, rest_size: AtomicUsize::new(0) }
    }

    /// How many bytes a round makes use of at most.
    pub(crate) fn round_size_max(&self) -> usize {
        self.count_max.saturating_mul(self.size_max)
    }

    /// The number of segments of the next round, and their size; fewer and smaller ones where less
    /// than that is left. `None` where it is too little for more than one.
    fn next(&self, size: usize) -> Option<(usize, usize)> {
        let count = self.count_max.min(size / self.size_min);
        (count > 1).then(|| (count, self.size_max.min(size / count)))
    }

    /// Is [`Chunker::next_cuts`] of `chunker`, by segments where they are of use. `cut` returns a list for
    /// each segment of a round, in their order: where it begins, and the ends of the chunks from there
    /// on. A list may be left out.
    pub(crate) fn next_cuts(
        &self,
        chunker: &dyn Chunker,
        batch: Batch<'_>,
        cut: impl Fn(Round<'_>) -> Vec<Vec<usize>>,
    ) {
        let Batch { data, mut start, more, ends } = batch;
        while let Some((count, size)) = self.next(data.len() - start) {
            let rest_size = self.rest_size.load(Relaxed);
            if rest_size > 0 {
                let limit = start.saturating_add(rest_size).min(data.len());
                let reached = cut_until(chunker, data, start..limit, more, ends);
                self.rest_size.store(rest_size.saturating_sub(reached - start), Relaxed);
                start = reached;
                if start < limit {
                    return;
                }
            } else {
                let round = Round { data, more, start, count, size };
                let joined = joined(chunker, round, cut(round), ends);
                // Without an end it is a chunk larger than all that was given, which will come again and
                // be more.
                if joined.is_none_or(|(_, gained_size)| gained_size < size / 2) {
                    let rest_size = count.saturating_mul(size).saturating_mul(REST_ROUND_COUNT);
                    self.rest_size.store(rest_size, Relaxed);
                }
                let Some((end, _)) = joined else { return };
                start = end;
            }
        }
        chunker.next_cuts(data, start, more, ends);
    }
}

/// Joins the lists of a round. Returns the last end, and how many bytes before it were taken from lists
/// other than the first; `None` where the next end cannot be told.
pub(crate) fn joined(
    chunker: &dyn Chunker,
    round: Round<'_>,
    lists: Vec<Vec<usize>>,
    ends: &mut Vec<usize>,
) -> Option<(usize, usize)> {
    let (mut end, mut gained_size) = (round.start, 0);
    for list in lists {
        let is_first = list.first() == Some(&round.start);
        let taken_size;
        (end, taken_size) = join(chunker, round.data, end, round.more, &list, ends)?;
        gained_size += if is_first { 0 } else { taken_size };
    }
    Some((end, gained_size))
}

/// Cuts on from `end`, a true cut-point, until one is in `list`, and takes what is behind it there.
/// Returns the last end, and how many bytes were taken; `None` where the next end cannot be told.
///
/// A list without anything behind the last cut-point gives nothing.
fn join(
    chunker: &dyn Chunker,
    data: &[u8],
    mut end: usize,
    more: bool,
    list: &[usize],
    ends: &mut Vec<usize>,
) -> Option<(usize, usize)> {
    loop {
        match &list[list.partition_point(|&each| each < end)..] {
            [] => return Some((end, 0)),
            [first, rest @ ..] if *first == end => {
                ends.extend(rest);
                let last = rest.last().map_or(end, |&last| last);
                return Some((last, last - end));
            }
            _ => {}
        }
        let next = cut_until(chunker, data, end..end + 1, more, ends);
        if next == end {
            return None;
        }
        end = next;
    }
}

/// Cuts on from where `range` begins, a true cut-point, until a chunk ends at its end or behind it, or
/// the next end cannot be told; appends the ends, and returns the last, or where `range` begins.
pub(crate) fn cut_until(
    chunker: &dyn Chunker,
    data: &[u8],
    range: Range<usize>,
    more: bool,
    ends: &mut Vec<usize>,
) -> usize {
    let Range { mut start, end: limit } = range;
    // A batch must not look at much behind the limit, which is another segment's.
    let near = data.len().min(limit.saturating_add(SLACK_SIZE));
    let wanted_size = chunker.batch_size_max();
    while start < limit.min(data.len()) {
        let known = ends.len();
        next_ends(chunker, &data[..near], start, more || near < data.len(), wanted_size, ends);
        if ends.len() == known && near < data.len() {
            next_ends(chunker, data, start, more, wanted_size, ends);
        }
        match ends[known..].last() {
            Some(&end) => start = end,
            None => break,
        }
    }
    start
}
