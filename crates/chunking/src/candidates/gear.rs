//! The sums of Gear: each byte doubles the hash and adds a table entry.

#![expect(clippy::cast_possible_truncation, reason = "the numbers have as many bytes as they say")]

use alloc::boxed::Box;

use super::candidate_bits::ColumnHash;
use super::{Batch, CandidateHash, Selection, cut, is_candidate_search_faster, planes};
use crate::Level;
use crate::kernel::{ByteTable, Columns};

/// The minimum number of bits of a mask. With fewer bits, matches are too frequent for candidates
/// to pay.
const MASK_BITS_MIN: u32 = 8;

/// Sums of only as many bytes as a mask needs, because the bits above its highest bit do not change
/// those below.
#[derive(Clone)]
pub(crate) enum GearColumns {
    Of16(Box<Sums<2>>),
    Of32(Box<Sums<4>>),
    Of48(Box<Sums<6>>),
    Of64(Box<Sums<8>>),
}

impl GearColumns {
    /// Returns the columns that find the positions where the hash over `table` has none of the bits
    /// of `mask`. `min` is the minimum and `mean` the mean chunk size in bytes.
    ///
    /// Returns `None` if that would not be faster. Each candidate is looked at again, so candidates
    /// must be rare.
    pub(crate) fn new(table: &[u64; 256], mask: u64, min: usize, mean: f64) -> Option<GearColumns> {
        // The gains were measured on Zen 5.
        let (gain, columns) = match mask.checked_ilog2()? {
            0..16 => (3.5, GearColumns::Of16(Box::new(Sums::new(table, mask)))),
            16..32 => (2.7, GearColumns::Of32(Box::new(Sums::new(table, mask)))),
            32..48 => (2.1, GearColumns::Of48(Box::new(Sums::new(table, mask)))),
            _ => (1.65, GearColumns::Of64(Box::new(Sums::new(table, mask)))),
        };
        let is_worth =
            mask.count_ones() >= MASK_BITS_MIN && is_candidate_search_faster(min, mean, gain);
        is_worth.then_some(columns)
    }
}

impl CandidateHash for GearColumns {
    fn cut<S: Selection>(&self, rule: &S, level: Level, batch: &mut Batch<'_>) -> (usize, usize) {
        match self {
            GearColumns::Of16(sums) => cut(&**sums, rule, level, batch),
            GearColumns::Of32(sums) => cut(&**sums, rule, level, batch),
            GearColumns::Of48(sums) => cut(&**sums, rule, level, batch),
            GearColumns::Of64(sums) => cut(&**sums, rule, level, batch),
        }
    }
}

/// Sums of `PLANES` bytes.
#[derive(Clone)]
pub(crate) struct Sums<const PLANES: usize> {
    planes: [ByteTable; PLANES],
    mask: u64,
}

impl<const PLANES: usize> Sums<PLANES> {
    fn new(table: &[u64; 256], mask: u64) -> Sums<PLANES> {
        Sums { planes: planes(table), mask }
    }
}

impl ColumnHash for Sums<2> {
    const LEAVES: bool = false;
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
        let [a, b] = &self.planes;
        let entries = c.weave_bytes(c.look_up(a, new), c.look_up(b, new));
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

impl ColumnHash for Sums<4> {
    const LEAVES: bool = false;
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
        let [p0, p1, p2, p3] = &self.planes;
        let entries = woven_32(
            c,
            [c.look_up(p0, new), c.look_up(p1, new), c.look_up(p2, new), c.look_up(p3, new)],
        );
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
    ($PLANES:literal) => {
        impl ColumnHash for Sums<$PLANES> {
            const LEAVES: bool = false;
            type State<C: Columns> = [C::Vector; 8];

            fn window(&self) -> usize {
                8 * $PLANES
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
                let bytes = each!(K of 8 => {
                    // With fewer planes the highest bytes are zeros.
                    if K < $PLANES { c.look_up(&self.planes[K % $PLANES], new) } else { c.splat(0) }
                });
                let entries = woven_64(c, bytes);
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

sums_64!(6);
sums_64!(8);

/// Weaves numbers of 32 bits from their bytes, lowest first.
#[inline(always)]
pub(super) fn woven_32<C: Columns>(c: C, bytes: [C::Vector; 4]) -> [C::Vector; 4] {
    let [a, b] = [c.weave_bytes(bytes[0], bytes[1]), c.weave_bytes(bytes[2], bytes[3])];
    let [low, high] = [c.weave_16(a[0], b[0]), c.weave_16(a[1], b[1])];
    [low[0], low[1], high[0], high[1]]
}

/// Weaves numbers of 64 bits from their bytes, lowest first.
#[inline(always)]
pub(super) fn woven_64<C: Columns>(c: C, bytes: [C::Vector; 8]) -> [C::Vector; 8] {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = bytes;
    let low = woven_32(c, [b0, b1, b2, b3]);
    let high = woven_32(c, [b4, b5, b6, b7]);
    let [a, b] = [c.weave_32(low[0], high[0]), c.weave_32(low[1], high[1])];
    let [d, e] = [c.weave_32(low[2], high[2]), c.weave_32(low[3], high[3])];
    [a[0], a[1], b[0], b[1], d[0], d[1], e[0], e[1]]
}
