//! The search for cut-points, 64 pairs at a time, in one chunk or in several segments.

use alloc::vec::Vec;

use super::params::{Equal, Mode, Opposing, Params, Rule, Steps};
use crate::algorithm::blocks::{LINE_SIZE, Values, runs};
use crate::kernel::{BLOCK_SIZE, Kernel};
use crate::segments::{List, Round};

/// The prefetch distance in periods if several segments are cut at once.
pub(super) const DEPTH: usize = 3;
/// The prefetch distance in periods if one chunk is cut after the other, which has to hide the
/// latency of memory alone.
pub(super) const DEPTH_ALONE: usize = 6;
/// The prefetch distance in bytes within a period that is longer than most.
const AHEAD: usize = 2048;

/// The state shared by all searches. `EQUAL_BREAKS` stands for [`Equal::Break`]; `DEPTH` is the
/// prefetch distance in periods.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a, K, V, const EQUAL_BREAKS: bool, const DEPTH: usize> {
    pub(super) params: &'a Params,
    pub(super) kernel: K,
    pub(super) data: &'a [u8],
    /// Set if bytes may follow the data.
    pub(super) more: bool,
    pub(super) values: V,
}

/// The state of the search for a chunk's end.
#[derive(Clone, Copy)]
struct Search {
    /// The chunk's first byte.
    start: usize,
    /// The end of the chunk if nothing is found: the maximum size, or the end of the data.
    end: usize,
    /// The second byte of the next pair to look at.
    i: usize,
    run: u32,
    opposing: u32,
}

enum Found {
    /// There is no end in this period.
    Nothing,
    /// The end of the chunk.
    End(usize),
    /// The end cannot be found with the bytes given.
    TooFew,
}

impl<K: Kernel, V: Values, const EQUAL_BREAKS: bool, const DEPTH: usize>
    Scan<'_, K, V, EQUAL_BREAKS, DEPTH>
{
    /// Cuts the chunk at the start of the data.
    #[inline(always)]
    pub(super) fn cut_one(self) -> Option<usize> {
        if self.data.is_empty() {
            return None;
        }
        let mut search = self.search(0);
        loop {
            match self.period(&mut search) {
                Found::Nothing => {}
                Found::End(end) => return Some(end),
                Found::TooFew => return None,
            }
        }
    }

    /// Cuts the segments of a round, one period of each in turn. Each segment is cut until an end
    /// is in the next segment's list, or until it is exceeded by a quarter of its size.
    #[inline(always)]
    pub(super) fn cut_all(self, round: Round<'_>) -> Vec<List> {
        let mut lists: Vec<List> = round.starts().map(List::at).collect();
        let mut searches: Vec<Option<Search>> =
            round.starts().map(|start| Some(self.search(start))).collect();
        let mut going_count = searches.len();
        while going_count > 0 {
            for (index, going) in searches.iter_mut().enumerate() {
                let Some(search) = going else { continue };
                let is_done = match self.period(search) {
                    Found::Nothing => continue,
                    Found::End(end) => {
                        lists[index].push(end);
                        *search = self.search(end);
                        end == self.data.len() || is_enough(round, &lists, index, end)
                    }
                    Found::TooFew => true,
                };
                if is_done {
                    *going = None;
                    going_count -= 1;
                }
            }
        }
        lists
    }

    /// Starts the search for the end of the chunk that begins at `start`.
    #[inline(always)]
    fn search(self, start: usize) -> Search {
        let Scan { params, data, .. } = self;
        let i = start + params.steps().first;
        // The next bytes are far from the previous ones, so the hardware does not predict them.
        // With prefetching, the kernel is several times faster from memory.
        for period in 0..DEPTH {
            self.prefetch(i, period, 3);
            self.prefetch(i + params.chunk_size_min, period, 4);
        }
        let end = data.len().min(start.saturating_add(params.chunk_size_max));
        Search { start, end, i, run: 0, opposing: 0 }
    }

    /// Prefetches the first lines of the period that begins about `period` periods behind byte
    /// `offset`.
    #[inline(always)]
    fn prefetch(self, offset: usize, period: usize, line_count: usize) {
        let offset = offset.wrapping_add(self.params.period_size().wrapping_mul(period));
        for line in 0..line_count {
            self.kernel.prefetch(self.data, offset.wrapping_add(line * LINE_SIZE));
        }
    }

    /// Searches until a skip or the end of the chunk.
    #[inline(always)]
    fn period(self, search: &mut Search) -> Found {
        match self.params.opposing {
            Opposing::Total => self.period_of_total(search),
            Opposing::Run => self.period_of_runs(search),
        }
    }

    /// Returns the masks of the pairs in order, of the opposing ones, and of those that count.
    #[inline(always)]
    fn pairs(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64, u64) {
        let (rising, falling) = self.values.compare(self.kernel, bytes);
        let (ordered, opposed) = match self.params.mode {
            Mode::Increasing => (rising, falling),
            Mode::Decreasing => (falling, rising),
        };
        (ordered, opposed, if EQUAL_BREAKS { u64::MAX } else { ordered | opposed })
    }

    /// Searches until a skip by the number of opposing pairs, or the end of the chunk.
    ///
    /// The comparisons of 64 pairs become two masks. After equal pairs are squeezed out of them,
    /// two questions remain that are cheap and nearly always have the same answer: does a run end
    /// here, and is the trigger reached? One branch for each pair, which random data mispredicts
    /// every other time, would cost far more.
    #[inline(always)]
    fn period_of_total(self, search: &mut Search) -> Found {
        let Scan { params, kernel, data, .. } = self;
        let Steps { length, trigger, skip_size, .. } = params.steps();
        // By the papers' text, the byte that completes the run is the chunk's last.
        let behind = usize::from(params.rule == Rule::Literal);
        let Search { start, end, mut i, mut run, mut opposing } = *search;
        while let Some(bytes) = data[..end].get(i - 1..).and_then(|rest| rest.first_chunk()) {
            let (ordered, opposed, counted) = self.pairs(bytes);
            // The pairs that count, at the low end: those in order are the ones of `squeezed`.
            let squeezed = if EQUAL_BREAKS { ordered } else { kernel.squeeze(ordered, counted) };
            let opposed_count = opposed.count_ones();
            let is_triggered = opposing + opposed_count >= trigger;
            let ends = runs(squeezed, length);
            let leading = squeezed.trailing_ones();
            if ends != 0 || run + leading >= length {
                // The first run may have begun in the block before.
                let last =
                    if run + leading >= length { length - run - 1 } else { ends.trailing_zeros() };
                let at = kernel.nth_one(counted, last);
                let trigger_at =
                    if is_triggered { kernel.nth_one(opposed, trigger - opposing - 1) } else { 64 };
                if at < trigger_at {
                    return Found::End(i + at as usize + behind);
                }
            }
            if is_triggered {
                i += kernel.nth_one(opposed, trigger - opposing - 1) as usize + 1 + skip_size;
                // These bytes are looked at a little later, by this chunk or, if it ends soon, by
                // the next one: wherever in this period it ends, the next chunk's periods are about
                // here.
                self.prefetch(i, DEPTH, 3);
                self.prefetch(i + params.chunk_size_min, DEPTH, 4);
                *search = Search { start, end, i, run: 0, opposing: 0 };
                return Found::Nothing;
            }
            run = run_behind(squeezed, run, counted.count_ones());
            opposing += opposed_count;
            i += BLOCK_SIZE;
            // If there are hardly any opposing pairs, no skip comes soon.
            if i - search.i >= 2 * BLOCK_SIZE {
                kernel.prefetch(data, i + AHEAD);
            }
        }
        let last = Search { start, end, i, run, opposing };
        self.last_pairs(last)
    }

    /// Searches until a skip by a run of opposing pairs, or the end of the chunk.
    ///
    /// Both runs are searched in the same squeezed pairs, and the one that ends first counts.
    #[inline(always)]
    fn period_of_runs(self, search: &mut Search) -> Found {
        let Scan { params, kernel, data, .. } = self;
        let Steps { length, trigger, skip_size, .. } = params.steps();
        let behind = usize::from(params.rule == Rule::Literal);
        let Search { start, end, mut i, mut run, mut opposing } = *search;
        while let Some(bytes) = data[..end].get(i - 1..).and_then(|rest| rest.first_chunk()) {
            let (ordered, opposed, counted) = self.pairs(bytes);
            let count = counted.count_ones();
            let (ordered, opposed) = if EQUAL_BREAKS {
                (ordered, opposed)
            } else {
                // Of the pairs that count, those out of order are the opposing ones.
                let squeezed = kernel.squeeze(ordered, counted);
                (squeezed, !squeezed & u64::MAX.unbounded_shr(64 - count))
            };
            let cut = first_end(ordered, run, length);
            let skip = first_end(opposed, opposing, trigger);
            if cut < skip {
                return Found::End(i + kernel.nth_one(counted, cut) as usize + behind);
            }
            if skip < 64 {
                i += kernel.nth_one(counted, skip) as usize + 1 + skip_size;
                self.prefetch(i, DEPTH, 2);
                self.prefetch(i + params.chunk_size_min, DEPTH, 3);
                *search = Search { start, end, i, run: 0, opposing: 0 };
                return Found::Nothing;
            }
            run = run_behind(ordered, run, count);
            opposing = run_behind(opposed, opposing, count);
            i += BLOCK_SIZE;
            if i - search.i >= 2 * BLOCK_SIZE {
                kernel.prefetch(data, i + AHEAD);
            }
        }
        self.last_pairs(Search { start, end, i, run, opposing })
    }

    /// Searches the last pairs of the data or of the chunk, which are less than a block.
    #[inline(always)]
    fn last_pairs(self, search: Search) -> Found {
        let Scan { params, data, more, values, .. } = self;
        let Search { start, end, i, run, opposing } = search;
        let behind = usize::from(params.rule == Rule::Literal);
        match params.scan_pairs(&data[..end], |byte| values.value(byte), run, opposing, i) {
            Some(at) => Found::End(at + behind),
            None if !more || end - start == params.chunk_size_max => Found::End(end),
            None => Found::TooFew,
        }
    }
}

/// Returns the index of the pair of `mask` that completes the first run of `length` ones, of which
/// `before` are in front of the mask; 64 if there is none.
#[inline(always)]
fn first_end(mask: u64, before: u32, length: u32) -> u32 {
    if before + mask.trailing_ones() >= length {
        length - before - 1
    } else {
        runs(mask, length).trailing_zeros()
    }
}

/// Returns the length of the run at the end of the `count` low pairs of `mask`, of which `before`
/// are in front of the mask.
#[inline(always)]
fn run_behind(mask: u64, before: u32, count: u32) -> u32 {
    if mask.trailing_ones() >= count {
        before + count
    } else {
        (mask << (63 - (count.wrapping_sub(1) & 63))).leading_ones()
    }
}

impl Params {
    /// Continues pair by pair from pair `i` of `data`. This is the rule as written, used for the
    /// last bytes.
    fn scan_pairs(
        &self,
        data: &[u8],
        value: impl Fn(u8) -> u8,
        mut run: u32,
        mut opposing: u32,
        mut i: usize,
    ) -> Option<usize> {
        let Steps { length, trigger, skip_size, .. } = self.steps();
        while i < data.len() {
            let (before, byte) = (value(data[i - 1]), value(data[i]));
            let in_order = match self.mode {
                Mode::Increasing => before < byte,
                Mode::Decreasing => before > byte,
            };
            let is_run = self.opposing == Opposing::Run;
            if in_order {
                run += 1;
                if run == length {
                    return Some(i);
                }
                opposing = if is_run { 0 } else { opposing };
            } else if before != byte {
                run = 0;
                opposing += 1;
                if opposing == trigger {
                    opposing = 0;
                    i += skip_size;
                }
            } else if self.equal == Equal::Break {
                run = 0;
                opposing = if is_run { 0 } else { opposing };
            }
            i += 1;
        }
        None
    }
}

/// Returns `true` if segment `index`, of which a chunk ended at `end`, need not be cut any further.
fn is_enough(round: Round<'_>, lists: &[List], index: usize, end: usize) -> bool {
    match lists.get(index + 1).map(List::ends) {
        // The last segment.
        None => end >= round.end(),
        Some(next) => {
            end >= next[0] && (end >= next[0] + round.size / 4 || next.binary_search(&end).is_ok())
        }
    }
}
