//! SeqCDC for many combinations of parameters. The rising and the falling pairs of adjacent bytes
//! are found once and stored as bits, and every combination of parameters then scans these bits.

use cutpoint_chunking::algorithm::seqcdc::Params;

const WORD_BITS: usize = u64::BITS as usize;

/// The rising and falling pairs of a stream.
#[derive(Clone, Debug)]
pub(super) struct Signs {
    len: usize,
    /// The rising pairs: bit i is set if byte i is greater than byte i - 1.
    rising: Vec<u64>,
    /// The falling pairs: bit i is set if byte i is less than byte i - 1.
    falling: Vec<u64>,
}

impl Signs {
    pub(super) fn of(bytes: &[u8]) -> Signs {
        let word_count = bytes.len().div_ceil(WORD_BITS);
        let (mut rising, mut falling) = (vec![0; word_count], vec![0; word_count]);
        let pairs = bytes.iter().zip(bytes.iter().skip(1)).zip(1..);
        for ((before, byte), at) in pairs {
            let (word, bit): (usize, usize) = (at / WORD_BITS, at % WORD_BITS);
            rising[word] |= u64::from(byte > before) << bit;
            falling[word] |= u64::from(byte < before) << bit;
        }
        Signs { len: bytes.len(), rising, falling }
    }

    /// Returns the cut-points of the stream by `params`. The rule must be that of the released
    /// code, for rising runs that equal pairs do not interrupt.
    pub(super) fn cuts(&self, params: &Params) -> impl Iterator<Item = usize> {
        let mut start = 0;
        std::iter::from_fn(move || {
            (start < self.len).then(|| {
                start = self.next_cut(start, params);
                start
            })
        })
    }

    /// Returns the end of the chunk that begins at `start`.
    fn next_cut(&self, start: usize, params: &Params) -> usize {
        let left = self.len - start;
        if left < params.chunk_size_min {
            return self.len;
        }
        let end = start + left.min(params.chunk_size_max);
        let mut at = start + params.chunk_size_min;
        let (mut run, mut opposing) = (0, 0);
        'words: while at < end {
            let word = at / WORD_BITS;
            let ahead = u64::MAX << (at % WORD_BITS);
            let (mut rising, mut falling) = (self.rising[word] & ahead, self.falling[word] & ahead);
            loop {
                let stop = falling.trailing_zeros();
                // The rising pairs before the next falling one.
                let before = rising & 1_u64.checked_shl(stop).unwrap_or(0).wrapping_sub(1);
                let count = before.count_ones();
                if run + count >= params.length {
                    let cut = word * WORD_BITS + nth_one(before, params.length - run - 1);
                    return cut.min(end);
                }
                if falling == 0 {
                    run += count;
                    at = (word + 1) * WORD_BITS;
                    continue 'words;
                }
                run = 0;
                opposing += 1;
                rising ^= before;
                falling &= falling - 1;
                if opposing == params.trigger {
                    opposing = 0;
                    at = word * WORD_BITS + stop as usize + 1 + params.skip_size;
                    continue 'words;
                }
            }
        }
        end
    }
}

/// Returns the position of the set bit with the given number, counted from 0.
fn nth_one(mut word: u64, number: u32) -> usize {
    for _ in 0..number {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use cutpoint_chunking::algorithm::seqcdc::{Equal, Mode, Opposing, Reach, Rule, Skipped};
    use cutpoint_chunking::{Spec, cuts};
    use cutpoint_testing::SplitMix64;

    use super::*;

    #[test]
    fn cut_points_are_those_of_the_chunker() {
        let mut random = SplitMix64::new(17);
        let mut inputs = vec![
            random.take(200_000),
            cutpoint_testing::input::text(100_000),
            cutpoint_testing::input::saw(70_000),
            vec![0; 50_000],
            random.take(63),
            random.take(1),
            Vec::new(),
        ];
        // A long run of equal bytes between random ones.
        let mut mixed = random.take(3000);
        mixed.extend([9; 5000]);
        mixed.extend(random.take(3000));
        inputs.push(mixed);
        for bytes in &inputs {
            let signs = Signs::of(bytes);
            for _ in 0..60 {
                let chunk_size_min = 1 + random.below(3000);
                let params = Params {
                    mode: Mode::Increasing,
                    length: 1 + u32::try_from(random.below(7)).expect("small"),
                    trigger: 1 + u32::try_from(random.below(60)).expect("small"),
                    skip_size: random.below(600),
                    chunk_size_min,
                    chunk_size_max: chunk_size_min + random.below(9000),
                    equal: Equal::Absorb,
                    rule: Rule::Released,
                    reach: Reach::At,
                    skipped: Skipped::Compared,
                    opposing: Opposing::Total,
                };
                let chunker = Spec::try_from(params).expect("in limits").chunker();
                let found: Vec<usize> = signs.cuts(&params).collect();
                let expected: Vec<usize> = cuts(&*chunker, bytes).collect();
                assert_eq!(found, expected, "{params:?} over {} bytes", bytes.len());
            }
        }
    }
}
