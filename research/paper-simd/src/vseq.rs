//! VSEQ: SeqCDC with a vector loaded for each byte of a run.

use cutpoint_chunking::Spec;

use crate::BaselineError;
use crate::keys::Keys;
use crate::rule::Rule;
use crate::vector::Vector;

/// SeqCDC with `equal=break`: an equal pair breaks a run.
pub(crate) struct Seq {
    is_decreasing: bool,
    /// The number of pairs in a run.
    pair_count: usize,
    /// The number of opposing pairs before a skip.
    trigger: u32,
    skip_size: usize,
    /// The index of the byte that completes the first pair to check.
    first: usize,
    /// The distance in bytes from the byte that completes a run to the cut-point.
    step: usize,
    chunk_size_max: usize,
}

impl Seq {
    pub(crate) fn new(spec: &Spec) -> Result<Seq, BaselineError> {
        let known = ["mode", "length", "trigger", "skip", "min", "max", "equal", "rule"];
        let keys = Keys::new(spec, &known)?;
        if !keys.is("equal", "break") {
            let reason = "its masks let an equal pair break a run, as equal=break says";
            return Err(keys.refused(reason));
        }
        let (length, trigger) = (keys.number("length")?, keys.number("trigger")?);
        let trigger =
            u32::try_from(trigger).map_err(|_| keys.refused("the trigger is too large"))?;
        let min = keys.number("min")?;
        // By the text, `length` counts bytes, scanning begins `length` bytes before `min`, the cut
        // is after the run, and the skip comes when the trigger is exceeded.
        let is_literal = keys.is("rule", "literal");
        let (pair_count, first) =
            if is_literal { (length - 1, min.saturating_sub(length) + 1) } else { (length, min) };
        Ok(Seq {
            is_decreasing: keys.is("mode", "dec"),
            pair_count,
            trigger: trigger + u32::from(is_literal),
            skip_size: keys.number("skip")?,
            first,
            step: usize::from(is_literal),
            chunk_size_max: keys.number("max")?,
        })
    }

    /// Returns the index of the byte that completes a run. Runs have `PAIRS` pairs, so that the
    /// compiler can unroll the loop, or `pair_count` pairs if `PAIRS` is 0.
    #[inline(always)]
    fn find_run<V: Vector, const PAIRS: usize, const DECREASING: bool>(
        &self,
        vector: V,
        data: &[u8],
    ) -> Option<usize> {
        let pair_count = if PAIRS == 0 { self.pair_count } else { PAIRS };
        let (mut opposing, mut i) = (0, self.first);
        // Bit k of `starts` is set if a run begins with the bytes i - 1 + k, i + k and so on.
        while let Some(bytes) = data.get(i - 1..i - 1 + V::SIZE + pair_count) {
            let (first, second) = (vector.load(bytes), vector.load(&bytes[1..]));
            let mut starts = rising::<V, DECREASING>(vector, first, second);
            let mut last = second;
            for offset in 2..pair_count + 1 {
                let next = vector.load(&bytes[offset..]);
                starts &= rising::<V, DECREASING>(vector, last, next);
                last = next;
            }
            let opposed = rising::<V, DECREASING>(vector, second, first);
            let opposed_count = opposed.count_ones();
            let is_triggered = opposing + opposed_count >= self.trigger;
            let trigger_at = if is_triggered {
                vector.nth_one(opposed, self.trigger - opposing - 1)
            } else {
                64
            };
            // No pair of a run is opposing, so the run that begins first is complete first.
            if starts != 0 && starts.trailing_zeros() < trigger_at {
                return Some(i + starts.trailing_zeros() as usize + pair_count - 1);
            }
            if is_triggered {
                i += trigger_at as usize + 1 + self.skip_size;
                opposing = 0;
            } else {
                i += V::SIZE;
                opposing += opposed_count;
            }
        }
        self.find_run_slowly::<DECREASING>(data, opposing, i)
    }

    /// Continues the search pair by pair, from the pair that byte `i` completes.
    fn find_run_slowly<const DECREASING: bool>(
        &self,
        data: &[u8],
        mut opposing: u32,
        mut i: usize,
    ) -> Option<usize> {
        let mut run = 0;
        while i < data.len() {
            let (a, b) = if DECREASING { (data[i], data[i - 1]) } else { (data[i - 1], data[i]) };
            run = if a < b { run + 1 } else { 0 };
            if run == self.pair_count {
                return Some(i);
            }
            if a > b {
                opposing += 1;
                if opposing == self.trigger {
                    opposing = 0;
                    i += self.skip_size;
                }
            }
            i += 1;
        }
        None
    }

    #[inline(always)]
    fn find_in<V: Vector, const DECREASING: bool>(&self, vector: V, data: &[u8]) -> Option<usize> {
        match self.pair_count {
            4 => self.find_run::<V, 4, DECREASING>(vector, data),
            5 => self.find_run::<V, 5, DECREASING>(vector, data),
            _ => self.find_run::<V, 0, DECREASING>(vector, data),
        }
    }
}

/// Returns the mask of the bytes of `after` that are greater than those of `before`, or less if
/// `DECREASING` is set.
#[inline(always)]
fn rising<V: Vector, const DECREASING: bool>(
    vector: V,
    before: V::Register,
    after: V::Register,
) -> u64 {
    if DECREASING { vector.greater(before, after) } else { vector.greater(after, before) }
}

impl Rule for Seq {
    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    #[inline(always)]
    fn find<V: Vector>(
        &self,
        vector: V,
        _tree: &mut Vec<V::Register>,
        data: &[u8],
    ) -> Option<usize> {
        let found = if self.is_decreasing {
            self.find_in::<V, true>(vector, data)
        } else {
            self.find_in::<V, false>(vector, data)
        };
        found.map(|at| at + self.step)
    }
}
