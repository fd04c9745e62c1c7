//! The sums of Gear: each byte doubles the hash and adds a table entry.

#![expect(clippy::cast_possible_truncation, reason = "the numbers have as many bytes as they say")]

use alloc::boxed::Box;

use super::candidate_bits::ColumnHash;
use super::{Batch, CandidateHash, ColumnsKind, Selection, cut, is_candidate_search_faster, pairs};
use crate::Level;
use crate::kernel::{Columns, PairTable};

/// The minimum number of bits of a mask. With fewer bits, matches are too frequent for candidates
/// to pay.
const MASK_BITS_MIN: u32 = 8;

/// Sums of only as many bytes as a mask needs, because the bits above its highest bit do not change
/// those below.
#[derive(Clone)]
pub(crate) enum GearColumns {
    Of16(Box<Sums<1>>),
    Of32(Box<Sums<2>>),
    Of48(Box<Sums<3>>),
    Of64(Box<Sums<4>>),
}

impl GearColumns {
    /// Returns the columns that find the positions where the hash over `table` has none of the bits
    /// of `mask`. `min` is the minimum and `mean` the mean chunk size in bytes.
    ///
    /// Returns `None` if that would not be faster. Each candidate is looked at again, so candidates
    /// must be rare.
    pub(crate) fn new(
        table: &[u64; 256],
        mask: u64,
        min: usize,
        mean: f64,
        kind: ColumnsKind,
    ) -> Option<GearColumns> {
        let bits = mask.checked_ilog2()? + 1;
        let is_worth = mask.count_ones() >= MASK_BITS_MIN
            && is_candidate_search_faster(min, mean, gain(bits, kind));
        is_worth.then(|| match bits {
            0..=16 => GearColumns::Of16(Box::new(Sums::new(table, mask))),
            17..=32 => GearColumns::Of32(Box::new(Sums::new(table, mask))),
            33..=48 => GearColumns::Of48(Box::new(Sums::new(table, mask))),
            _ => GearColumns::Of64(Box::new(Sums::new(table, mask))),
        })
    }
}

/// Returns the gain, for [`is_candidate_search_faster`], of a mask of `bits` bits. Those for
/// [`ColumnsKind::Bytes`] were measured on Zen 5. Those for [`ColumnsKind::Pairs`] are below the
/// measured ones, because a look-up takes two cycles on the CPUs of Intel that have no others.
fn gain(bits: u32, kind: ColumnsKind) -> f64 {
    let [of_16, of_32, of_48, of_64] = match kind {
        ColumnsKind::HalfBytes => [0.0; 4],
        ColumnsKind::Pairs => [2.2, 1.8, 1.3, 1.1],
        ColumnsKind::Bytes => [3.5, 2.7, 2.1, 1.65],
    };
    match bits {
        0..=16 => of_16,
        17..=32 => of_32,
        33..=48 => of_48,
        _ => of_64,
    }
}

impl CandidateHash for GearColumns {
    fn cut<S: Selection>(
        &self,
        rule: &S,
        level: Level,
        from: usize,
        batch: &mut Batch<'_>,
    ) -> (usize, usize) {
        match self {
            GearColumns::Of16(sums) => cut(&**sums, rule, level, from, batch),
            GearColumns::Of32(sums) => cut(&**sums, rule, level, from, batch),
            GearColumns::Of48(sums) => cut(&**sums, rule, level, from, batch),
            GearColumns::Of64(sums) => cut(&**sums, rule, level, from, batch),
        }
    }
}

/// Sums of `PAIRS` pairs of bytes.
#[derive(Clone)]
pub(crate) struct Sums<const PAIRS: usize> {
    pairs: [PairTable; PAIRS],
    mask: u64,
}

impl<const PAIRS: usize> Sums<PAIRS> {
    fn new(table: &[u64; 256], mask: u64) -> Sums<PAIRS> {
        Sums { pairs: pairs(table), mask }
    }
}

impl ColumnHash for Sums<1> {
    const LEAVES: bool = false;
    const LOOKS_UP: bool = true;
    type State<C: Columns> = [C::Vector; 2];

    fn window(&self) -> usize {
        16
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; 2] {
        [c.splat(0); 2]
    }

    #[inline(always)]
    fn enter<C: Columns>(&self, c: C, state: [C::Vector; 2], new: C::Vector) -> [C::Vector; 2] {
        let entries = c.look_up_16(&self.pairs[0], new);
        each!(K of 2 => c.add_16(c.add_16(state[K], state[K]), entries[K]))
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: [C::Vector; 2]) -> bool {
        c.any_without_16(state, self.mask as u16)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 2]) -> u64 {
        c.rows_of(each!(K of 2 => c.without_16(state[K], self.mask as u16)))
    }
}

impl ColumnHash for Sums<2> {
    const LEAVES: bool = false;
    const LOOKS_UP: bool = true;
    type State<C: Columns> = [C::Vector; 4];

    fn window(&self) -> usize {
        32
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; 4] {
        [c.splat(0); 4]
    }

    #[inline(always)]
    fn enter<C: Columns>(&self, c: C, state: [C::Vector; 4], new: C::Vector) -> [C::Vector; 4] {
        let entries = woven_32(c, each!(K of 2 => c.look_up_16(&self.pairs[K], new)));
        each!(K of 4 => c.add_32(c.add_32(state[K], state[K]), entries[K]))
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> bool {
        c.any_without_32(state, self.mask as u32)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> u64 {
        c.rows_of(each!(K of 4 => c.without_32(state[K], self.mask as u32)))
    }
}

macro_rules! sums_64 {
    ($PAIRS:literal) => {
        impl ColumnHash for Sums<$PAIRS> {
            const LEAVES: bool = false;
            const LOOKS_UP: bool = true;
            type State<C: Columns> = [C::Vector; 8];

            fn window(&self) -> usize {
                16 * $PAIRS
            }

            #[inline(always)]
            fn empty<C: Columns>(&self, c: C) -> [C::Vector; 8] {
                [c.splat(0); 8]
            }

            #[inline(always)]
            fn enter<C: Columns>(
                &self,
                c: C,
                state: [C::Vector; 8],
                new: C::Vector,
            ) -> [C::Vector; 8] {
                let pairs = each!(K of 4 => {
                    // With fewer pairs the highest bytes are zeros.
                    if K < $PAIRS {
                        c.look_up_16(&self.pairs[K % $PAIRS], new)
                    } else {
                        [c.splat(0); 2]
                    }
                });
                let entries = woven_64(c, pairs);
                each!(K of 8 => c.add_64(c.add_64(state[K], state[K]), entries[K]))
            }

            #[inline(always)]
            fn any<C: Columns>(&self, c: C, state: [C::Vector; 8]) -> bool {
                c.any_without_64(state, self.mask)
            }

            #[inline(always)]
            fn rows<C: Columns>(&self, c: C, state: [C::Vector; 8]) -> u64 {
                c.rows_of(each!(K of 8 => c.without_64(state[K], self.mask)))
            }
        }
    };
}

sums_64!(3);
sums_64!(4);

/// Weaves numbers of 32 bits from numbers of 16 bits, lowest first.
#[inline(always)]
pub(super) fn woven_32<C: Columns>(c: C, pairs: [[C::Vector; 2]; 2]) -> [C::Vector; 4] {
    let [a, b] = pairs;
    let [low, high] = [c.weave_16(a[0], b[0]), c.weave_16(a[1], b[1])];
    [low[0], low[1], high[0], high[1]]
}

/// Weaves numbers of 64 bits from numbers of 16 bits, lowest first.
#[inline(always)]
pub(super) fn woven_64<C: Columns>(c: C, pairs: [[C::Vector; 2]; 4]) -> [C::Vector; 8] {
    let [p0, p1, p2, p3] = pairs;
    let low = woven_32(c, [p0, p1]);
    let high = woven_32(c, [p2, p3]);
    let [a, b] = [c.weave_32(low[0], high[0]), c.weave_32(low[1], high[1])];
    let [d, e] = [c.weave_32(low[2], high[2]), c.weave_32(low[3], high[3])];
    [a[0], a[1], b[0], b[1], d[0], d[1], e[0], e[1]]
}
