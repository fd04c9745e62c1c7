//! Buzhash: each byte turns the hash and changes it by an entry of a table.

#![expect(clippy::cast_possible_truncation, reason = "the numbers have as many bytes as they say")]

use alloc::boxed::Box;

use super::candidate_bits::ColumnHash;
use super::gear::{woven_32, woven_64};
use super::{Batch, CandidateHash, ColumnsKind, Selection, cut, pairs};
use crate::Level;
use crate::kernel::{Columns, PairTable};
use crate::residue::{Parts, Residue};
use crate::rolling::{Rolling, Step};

/// Generates the list of loops, one for each way to match and to leave, because a single loop that
/// branches would not keep its state in registers.
macro_rules! loops {
    ($($Loop:ident: $pairs:literal, $zeros:literal, $turn:expr;)+) => {
        /// Hashes of 32 or 64 bits that match by their lowest bits alone (`Zeros`) or by any
        /// residue.
        #[derive(Clone)]
        pub(crate) enum BuzhashColumns {
            $($Loop(TurnColumns<$pairs, $zeros, { $turn }>),)+
        }

        impl BuzhashColumns {
            /// Creates the columns that find positions whose hash of `bytes` bytes, 4 or 8, is one
            /// of `residue`.
            pub(crate) fn new<S: Step>(
                bytes: usize,
                rolling: &Rolling<S>,
                residue: &Residue,
            ) -> BuzhashColumns {
                let window = rolling.window();
                $(
                    let is_it = ($turn == OTHER || window % (16 * $pairs) == 16 * $turn)
                        && $zeros == residue.zeros().is_some();
                    if bytes == 2 * $pairs && is_it {
                        return BuzhashColumns::$Loop(TurnColumns::new(rolling, residue));
                    }
                )+
                BuzhashColumns::Residue64(TurnColumns::new(rolling, residue))
            }
        }

        impl CandidateHash for BuzhashColumns {
            fn cut<S: Selection>(
                &self,
                rule: &S,
                level: Level,
                from: usize,
                batch: &mut Batch<'_>,
            ) -> (usize, usize) {
                match self {
                    $(BuzhashColumns::$Loop(loops) => cut(loops, rule, level, from, batch),)+
                }
            }
        }
    };
}

impl BuzhashColumns {
    /// Returns the gain, for [`is_candidate_search_faster`](super::is_candidate_search_faster), for
    /// hashes of `bytes` bytes, 4 or 8. Those for [`ColumnsKind::Bytes`] were measured on Zen 5.
    /// Those for [`ColumnsKind::Pairs`] are below the measured ones, because a look-up takes two
    /// cycles on the CPUs of Intel that have no others.
    pub(crate) fn gain(bytes: usize, kind: ColumnsKind) -> f64 {
        let [of_32, of_64] = match kind {
            ColumnsKind::HalfBytes => [0.0; 2],
            ColumnsKind::Pairs => [3.0, 1.3],
            ColumnsKind::Bytes => [8.0, 4.0],
        };
        if bytes == 4 { of_32 } else { of_64 }
    }
}

/// The turn between leaving and entering entries is not a whole number of pairs of bytes, or is one
/// that has no loop.
const OTHER: usize = usize::MAX;

loops! {
    Zeros32By0: 2, true, 0;
    Zeros32By16: 2, true, 1;
    Zeros32: 2, true, OTHER;
    Residue32By0: 2, false, 0;
    Residue32By16: 2, false, 1;
    Residue32: 2, false, OTHER;
    Zeros64: 4, true, OTHER;
    Residue64: 4, false, OTHER;
}

/// Hashes of `PAIRS` pairs of bytes, 2 or 4. With `ZEROS`, a match has zeros at certain bits. The
/// leaving entry of a byte is its entering entry turned by `TURN` pairs, so that one table serves
/// for both and stays in registers; [`OTHER`] takes two tables.
#[derive(Clone)]
pub(crate) struct TurnColumns<const PAIRS: usize, const ZEROS: bool, const TURN: usize> {
    window: usize,
    enter: Box<[PairTable; PAIRS]>,
    leave: Box<[PairTable; PAIRS]>,
    parts: Parts,
    /// The bits that are zeros in a match, with `ZEROS`.
    zeros: u64,
}

impl<const PAIRS: usize, const ZEROS: bool, const TURN: usize> TurnColumns<PAIRS, ZEROS, TURN> {
    fn new<S: Step>(rolling: &Rolling<S>, residue: &Residue) -> TurnColumns<PAIRS, ZEROS, TURN> {
        TurnColumns {
            window: rolling.window(),
            enter: Box::new(pairs(rolling.entering())),
            leave: Box::new(pairs(rolling.leaving())),
            parts: residue.parts(u64::MAX >> (64 - 16 * PAIRS)),
            zeros: residue.zeros().unwrap_or(0),
        }
    }

    /// Returns pair `k` of the change of the hash.
    #[inline(always)]
    fn change<C: Columns>(&self, c: C, k: usize, new: C::Vector, old: C::Vector) -> [C::Vector; 2] {
        let leaving = match TURN {
            OTHER => &self.leave[k],
            // After a turn to the left, pair k comes from a lower one.
            turn => &self.enter[(k + PAIRS - turn) % PAIRS],
        };
        c.exchange_16(&self.enter[k], new, leaving, old)
    }
}

impl<const ZEROS: bool, const TURN: usize> ColumnHash for TurnColumns<2, ZEROS, TURN> {
    const LEAVES: bool = true;
    const LOOKS_UP: bool = true;
    type State<C: Columns> = [C::Vector; 4];

    fn window(&self) -> usize {
        self.window
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; 4] {
        [c.splat(0); 4]
    }

    #[inline(always)]
    fn enter<C: Columns>(&self, c: C, state: [C::Vector; 4], new: C::Vector) -> [C::Vector; 4] {
        let pairs = each!(K of 2 => c.look_up_16(&self.enter[K], new));
        turned_32(c, state, pairs)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 4],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 4] {
        let pairs = each!(K of 2 => self.change(c, K, new, old));
        turned_32(c, state, pairs)
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> bool {
        if ZEROS {
            return c.any_without_32(state, self.zeros as u32);
        }
        let Parts { factor, subtrahend, shift, limit, .. } = self.parts;
        let quotients =
            each!(K of 4 => c.quotient_32(state[K], factor as u32, subtrahend as u32, shift));
        c.any_at_most_32(quotients, limit as u32)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> u64 {
        if ZEROS {
            return c.rows_of(each!(K of 4 => c.without_32(state[K], self.zeros as u32)));
        }
        let Parts { remainder, factor, subtrahend, shift, limit } = self.parts;
        c.rows_of(each!(K of 4 => {
            let quotients = c.quotient_32(state[K], factor as u32, subtrahend as u32, shift);
            c.within_32(quotients, 0, limit as u32)
                & c.within_32(state[K], remainder as u32, u32::MAX)
        }))
    }
}

impl<const ZEROS: bool, const TURN: usize> ColumnHash for TurnColumns<4, ZEROS, TURN> {
    const LEAVES: bool = true;
    const LOOKS_UP: bool = true;
    type State<C: Columns> = [C::Vector; 8];

    fn window(&self) -> usize {
        self.window
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; 8] {
        [c.splat(0); 8]
    }

    #[inline(always)]
    fn enter<C: Columns>(&self, c: C, state: [C::Vector; 8], new: C::Vector) -> [C::Vector; 8] {
        let pairs = each!(K of 4 => c.look_up_16(&self.enter[K], new));
        turned_64(c, state, pairs)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 8],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 8] {
        let pairs = each!(K of 4 => self.change(c, K, new, old));
        turned_64(c, state, pairs)
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: [C::Vector; 8]) -> bool {
        if ZEROS {
            return c.any_without_64(state, self.zeros);
        }
        let Parts { factor, subtrahend, shift, limit, .. } = self.parts;
        let quotients = each!(K of 8 => c.quotient_64(state[K], factor, subtrahend, shift));
        c.any_at_most_64(quotients, limit)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 8]) -> u64 {
        if ZEROS {
            return c.rows_of(each!(K of 8 => c.without_64(state[K], self.zeros)));
        }
        let Parts { remainder, factor, subtrahend, shift, limit } = self.parts;
        c.rows_of(each!(K of 8 => {
            let quotients = c.quotient_64(state[K], factor, subtrahend, shift);
            c.within_64(quotients, 0, limit) & c.within_64(state[K], remainder, u64::MAX)
        }))
    }
}

#[inline(always)]
fn turned_32<C: Columns>(
    c: C,
    state: [C::Vector; 4],
    pairs: [[C::Vector; 2]; 2],
) -> [C::Vector; 4] {
    let change = woven_32(c, pairs);
    each!(K of 4 => c.xor(c.turn_32(state[K]), change[K]))
}

#[inline(always)]
fn turned_64<C: Columns>(
    c: C,
    state: [C::Vector; 8],
    pairs: [[C::Vector; 2]; 4],
) -> [C::Vector; 8] {
    let change = woven_64(c, pairs);
    each!(K of 8 => c.xor(c.turn_64(state[K]), change[K]))
}
