//! Cutting segments of data as if a chunk began at the start of each, and joining the results.
//!
//! [`Parallel`](crate::Parallel), whose threads cut one segment each, explains why the result is
//! exact. SeqCDC cuts several segments in one thread. [`Ranges`](crate::Ranges) join ranges that are
//! read apart by the same rule ([`meet`]).

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::Chunker;
use crate::chunker::Batch;

/// The number of bytes behind a limit that are looked at before it is known that they are needed.
const SLACK_SIZE: usize = 64 * 1024;
/// The number of minimum chunk sizes behind a limit that are looked at, if that is more.
const SLACK_CHUNKS: usize = 4;
/// The number of rounds, of segments of the tried size, that are cut without segments after a round
/// in which segments did not pay.
const REST_ROUND_COUNT: usize = 64;
/// The ratio of the largest segments to those that are tried after a rest. Smaller trials cost
/// less, because bytes that were cut in vain are cut twice.
const TRIED_PART: usize = 4;

/// The division of data into segments, with a record of whether segments have paid recently.
#[derive(Debug)]
pub(crate) struct Segments {
    count_max: usize,
    size_min: usize,
    size_max: usize,
    /// The number of bytes to cut without segments before segments are tried again. It does not
    /// change the cut-points.
    rest_size: AtomicUsize,
    /// Set if segments did not pay in the last round.
    was_in_vain: AtomicBool,
}

impl Clone for Segments {
    fn clone(&self) -> Segments {
        Segments::new(self.count_max, self.size_min, self.size_max)
    }
}

/// Consecutive segments that are cut at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) data: &'a [u8],
    /// Set if bytes may follow the data.
    pub(crate) more: bool,
    /// The start of the first segment, a true cut-point.
    pub(crate) start: usize,
    /// The number of segments, at least 2.
    pub(crate) count: usize,
    /// The size of each segment in bytes.
    pub(crate) size: usize,
}

impl Round<'_> {
    /// Returns the start of each segment.
    pub(crate) fn starts(self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.count).map(move |index| self.start + index * self.size)
    }

    /// Returns the end of the last segment.
    pub(crate) fn end(self) -> usize {
        self.start + self.count * self.size
    }
}

impl Segments {
    /// Creates a division into at most `count_max` segments at once, of `size_min` to `size_max`
    /// bytes each.
    pub(crate) fn new(count_max: usize, size_min: usize, size_max: usize) -> Segments {
        let size_min = size_min.max(1);
        let size_max = size_max.max(size_min);
        let (rest_size, was_in_vain) = (AtomicUsize::new(0), AtomicBool::new(false));
        Segments { count_max, size_min, size_max, rest_size, was_in_vain }
    }

    /// Returns the maximum number of bytes that a round makes use of.
    pub(crate) fn round_size_max(&self) -> usize {
        self.count_max.saturating_mul(self.size_max)
    }

    /// Returns the size of the segments that are tried after a rest.
    fn tried_size(&self) -> usize {
        (self.size_max / TRIED_PART).max(self.size_min)
    }

    /// Returns the number and the size of the segments of the next round; `None` if the data does
    /// not suffice for two. Segments are smaller after a round that did not pay, and fewer and
    /// smaller if less data is left.
    pub(crate) fn next(&self, size: usize) -> Option<(usize, usize)> {
        let count = self.count_max.min(size / self.size_min);
        let most = if self.was_in_vain.load(Relaxed) { self.tried_size() } else { self.size_max };
        (count > 1).then(|| (count, most.min(size / count)))
    }

    /// Implements [`Chunker::next_cuts`] of `chunker`, by segments as long as they pay. `cut`
    /// returns a list for each segment of a round, in their order; lists may be left out.
    pub(crate) fn next_cuts(
        &self,
        chunker: &dyn Chunker,
        batch: Batch<'_>,
        cut: impl Fn(Round<'_>) -> Vec<List>,
    ) {
        let Batch { data, start, more, ends } = batch;
        let mut reached = Frontier::at(start);
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
                // If there is no end, the chunk is larger than all the data given. The same chunk
                // comes again with more data.
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

/// The position up to which a sequence of cut-points is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    /// The last cut-point.
    pub(crate) end: usize,
    /// The bytes of the chunk that begins at `end` up to this position do not suffice to find its
    /// end.
    looked: usize,
}

impl Frontier {
    /// Returns the state at a cut-point, with no bytes behind it looked at.
    pub(crate) fn at(end: usize) -> Frontier {
        Frontier { end, looked: end }
    }
}

/// The cut-points of a segment under the assumption that a chunk begins at its start.
#[derive(Debug)]
pub(crate) struct List {
    ends: Vec<usize>,
    /// The position up to which the ends are known; its `end` is the last of `ends`.
    reached: Frontier,
}

impl List {
    /// Creates the list of a segment that begins at `start`, with no bytes looked at.
    pub(crate) fn at(start: usize) -> List {
        List { ends: vec![start], reached: Frontier::at(start) }
    }

    /// Appends the end of a chunk.
    pub(crate) fn push(&mut self, end: usize) {
        self.ends.push(end);
        self.reached = Frontier::at(end);
    }

    /// Continues to cut, as [`cut_until`] does.
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

    /// Returns the start of the segment, followed by the ends of its chunks.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }
}

/// Joins the lists of a round. Returns the position reached and the number of bytes before it that
/// were taken from lists other than the first; `None` if the next end cannot be found.
pub(crate) fn joined(
    chunker: &dyn Chunker,
    round: Round<'_>,
    lists: &[List],
    ends: &mut Vec<usize>,
) -> Option<(Frontier, usize)> {
    let (mut reached, mut gained_size) = (Frontier::at(round.start), 0);
    for list in lists {
        let is_first = list.ends.first() == Some(&round.start);
        let taken_size;
        (reached, taken_size) = join(chunker, round.data, reached, round.more, list, ends)?;
        gained_size += if is_first { 0 } else { taken_size };
    }
    Some((reached, gained_size))
}

/// Continues to cut from `reached`, a true cut-point, until a cut-point is in `list`, and takes the
/// rest of the list. Returns the position reached and the number of bytes taken; `None` if the next
/// end cannot be found.
///
/// A list that has nothing behind the last cut-point contributes nothing.
pub(crate) fn join(
    chunker: &dyn Chunker,
    data: &[u8],
    mut reached: Frontier,
    more: bool,
    list: &List,
    ends: &mut Vec<usize>,
) -> Option<(Frontier, usize)> {
    let met = meet(&list.ends, reached.end, |end| {
        reached = cut_until(chunker, data, reached, end + 1, more, ends);
        if reached.end == end { Err(()) } else { Ok(reached.end) }
    });
    Some(match met.ok()? {
        None => (reached, 0),
        Some(index) => {
            ends.extend(&list.ends[index + 1..]);
            (list.reached, list.reached.end - reached.end)
        }
    })
}

/// Continues a sequence of true cut-points from `end` until one of them is in `list`, whose
/// cut-points ascend. `advance` returns a later cut-point for a given one. Returns the index in the
/// list; `None` if the sequence passes the last cut-point of the list.
///
/// # Errors
///
/// Returns any error of `advance`.
pub(crate) fn meet<T: Copy + Ord, E>(
    list: &[T],
    mut end: T,
    mut advance: impl FnMut(T) -> Result<T, E>,
) -> Result<Option<usize>, E> {
    loop {
        let index = list.partition_point(|&each| each < end);
        match list.get(index) {
            None => return Ok(None),
            Some(&each) if each == end => return Ok(Some(index)),
            Some(_) => end = advance(end)?,
        }
    }
}

/// Continues to cut from `reached` until a chunk ends at or behind `limit`, or the next end cannot
/// be found. Appends the ends.
pub(crate) fn cut_until(
    chunker: &dyn Chunker,
    data: &[u8],
    mut reached: Frontier,
    limit: usize,
    more: bool,
    ends: &mut Vec<usize>,
) -> Frontier {
    let slack_size = chunker.chunk_size_min().saturating_mul(SLACK_CHUNKS).max(SLACK_SIZE);
    while reached.end < limit.min(data.len()) && !(more && reached.looked == data.len()) {
        let Frontier { end, looked } = reached;
        // Little behind the limit is looked at, because it belongs to another segment. For a chunk
        // that did not end in the bytes looked at, twice their number is, because all of them are
        // looked at again.
        let near = limit.saturating_add(slack_size).max(looked.saturating_add(looked - end));
        let seen = &data[..data.len().min(near)];
        let more = more || seen.len() < data.len();
        let known = ends.len();
        ask(chunker, seen, end, more, ends);
        match ends[known..].last() {
            Some(&end) => reached = Frontier::at(end),
            None if !more => break,
            None => reached.looked = seen.len(),
        }
    }
    reached
}

/// Appends the ends of the chunks in `data` from `start` on, or only the first; none if it cannot
/// be found.
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
