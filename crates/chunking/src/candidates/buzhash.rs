//! Buzhash: each byte turns the hash and changes it by an entry of a table.

#![expect(clippy::cast_possible_truncation, reason = "the numbers have as many bytes as they say")]

use alloc::boxed::Box;

use super::gear::{woven_32, woven_64};
use super::marks::ColumnHash;
use super::{Batch, Marking, Selection, cut, planes};
use crate::Level;
use crate::algorithm::residue::{Parts, Residue};
use crate::algorithm::rolling::{Rolling, Step};
use crate::kernel::{ByteTable, Columns};

/// Hashes of 32 bits or of 64, which match by their lowest bits alone or by any residue.
///
/// These are four loops and not two with a branch, because the state would not fit into registers.
#[derive(Clone)]
pub(crate) enum BuzhashColumns {
    Zeros32(TurnColumns<4, true>),
    Residue32(TurnColumns<4, false>),
    Zeros64(TurnColumns<8, true>),
    Residue64(TurnColumns<8, false>),
}

impl BuzhashColumns {
    /// A place matches if its hash of 32 bits is one of `residue`.
    pub(crate) fn of_32<S: Step>(rolling: &Rolling<S>, residue: &Residue) -> BuzhashColumns {
        match residue.zeros() {
            Some(_) => BuzhashColumns::Zeros32(TurnColumns::new(rolling, residue)),
            None => BuzhashColumns::Residue32(TurnColumns::new(rolling, residue)),
        }
    }

    /// A place matches if its hash of 64 bits is one of `residue`.
    pub(crate) fn of_64<S: Step>(rolling: &Rolling<S>, residue: &Residue) -> BuzhashColumns {
        match residue.zeros() {
            Some(_) => BuzhashColumns::Zeros64(TurnColumns::new(rolling, residue)),
            None => BuzhashColumns::Residue64(TurnColumns::new(rolling, residue)),
        }
    }
}

impl Marking for BuzhashColumns {
    fn cut<S: Selection>(
        &self,
        rule: &S,
        permutation: Option<&ByteTable>,
        level: Level,
        batch: &mut Batch<'_>,
    ) -> usize {
        match self {
            BuzhashColumns::Zeros32(columns) => cut(columns, rule, permutation, level, batch),
            BuzhashColumns::Residue32(columns) => cut(columns, rule, permutation, level, batch),
            BuzhashColumns::Zeros64(columns) => cut(columns, rule, permutation, level, batch),
            BuzhashColumns::Residue64(columns) => cut(columns, rule, permutation, level, batch),
        }
    }
}

/// Hashes of `BYTES` bytes, 4 or 8; with `ZEROS` they match where bits are zeros.
#[derive(Clone)]
pub(crate) struct TurnColumns<const BYTES: usize, const ZEROS: bool> {
    window: usize,
    enter: Box<[ByteTable; BYTES]>,
    leave: Box<[ByteTable; BYTES]>,
    parts: Parts,
    /// The bits that are zeros where it matches, with `ZEROS`.
    zeros: u64,
}

impl<const BYTES: usize, const ZEROS: bool> TurnColumns<BYTES, ZEROS> {
    fn new<S: Step>(rolling: &Rolling<S>, residue: &Residue) -> TurnColumns<BYTES, ZEROS> {
        TurnColumns {
            window: rolling.window(),
            enter: Box::new(planes(rolling.entering())),
            leave: Box::new(planes(rolling.leaving())),
            parts: residue.parts(u64::MAX >> (64 - 8 * BYTES)),
            zeros: residue.zeros().unwrap_or(0),
        }
    }

    /// Byte `k` of what changes.
    #[inline(always)]
    fn change<C: Columns>(&self, c: C, k: usize, new: C::Vector, old: C::Vector) -> C::Vector {
        c.xor(c.look_up(&self.enter[k], new), c.look_up(&self.leave[k], old))
    }
}

impl<const ZEROS: bool> ColumnHash for TurnColumns<4, ZEROS> {
    const LEAVES: bool = true;
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
        let bytes = each!(K of 4 => c.look_up(&self.enter[K], new));
        turned_32(c, state, bytes)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 4],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 4] {
        let bytes = each!(K of 4 => self.change(c, K, new, old));
        turned_32(c, state, bytes)
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

impl<const ZEROS: bool> ColumnHash for TurnColumns<8, ZEROS> {
    const LEAVES: bool = true;
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
        let bytes = each!(K of 8 => c.look_up(&self.enter[K], new));
        turned_64(c, state, bytes)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 8],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 8] {
        let bytes = each!(K of 8 => self.change(c, K, new, old));
        turned_64(c, state, bytes)
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
fn turned_32<C: Columns>(c: C, state: [C::Vector; 4], bytes: [C::Vector; 4]) -> [C::Vector; 4] {
    let change = woven_32(c, bytes);
    each!(K of 4 => c.xor(c.turn_32(state[K]), change[K]))
}

#[inline(always)]
fn turned_64<C: Columns>(c: C, state: [C::Vector; 8], bytes: [C::Vector; 8]) -> [C::Vector; 8] {
    let change = woven_64(c, bytes);
    each!(K of 8 => c.xor(c.turn_64(state[K]), change[K]))
}
