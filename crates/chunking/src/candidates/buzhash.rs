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

/// Hashes of 32 bits or of 64.
#[derive(Clone)]
pub(crate) enum BuzhashColumns {
    Of32(TurnColumns<4>),
    Of64(TurnColumns<8>),
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
            BuzhashColumns::Of32(columns) => cut(columns, rule, permutation, level, batch),
            BuzhashColumns::Of64(columns) => cut(columns, rule, permutation, level, batch),
        }
    }
}

/// Hashes of `BYTES` bytes: 4 or 8.
#[derive(Clone)]
pub(crate) struct TurnColumns<const BYTES: usize> {
    window: usize,
    enter: Box<[ByteTable; BYTES]>,
    leave: Box<[ByteTable; BYTES]>,
    parts: Parts,
    /// The bits that are zeros where it matches, where that is all.
    zeros: Option<u64>,
}

impl<const BYTES: usize> TurnColumns<BYTES> {
    /// A place matches if its hash is one of `residue`, whose numbers have as many bytes.
    pub(crate) fn new<S: Step>(rolling: &Rolling<S>, residue: &Residue) -> TurnColumns<BYTES> {
        TurnColumns {
            window: rolling.window(),
            enter: Box::new(planes(rolling.entering())),
            leave: Box::new(planes(rolling.leaving())),
            parts: residue.parts(u64::MAX >> (64 - 8 * BYTES)),
            zeros: residue.zeros(),
        }
    }

    /// Byte `k` of what changes.
    #[inline(always)]
    fn change<C: Columns>(&self, c: C, k: usize, new: C::Vector, old: C::Vector) -> C::Vector {
        c.xor(c.look_up(&self.enter[k], new), c.look_up(&self.leave[k], old))
    }
}

impl ColumnHash for TurnColumns<4> {
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
        if let Some(zeros) = self.zeros {
            return c.any_without_32(state, zeros as u32);
        }
        let Parts { factor, subtrahend, shift, limit, .. } = self.parts;
        let quotients =
            each!(K of 4 => c.quotient_32(state[K], factor as u32, subtrahend as u32, shift));
        c.any_at_most_32(quotients, limit as u32)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> u64 {
        let Parts { remainder, factor, subtrahend, shift, limit } = self.parts;
        c.rows_of(each!(K of 4 => {
            let quotients = c.quotient_32(state[K], factor as u32, subtrahend as u32, shift);
            c.within_32(quotients, 0, limit as u32)
                & c.within_32(state[K], remainder as u32, u32::MAX)
        }))
    }
}

impl ColumnHash for TurnColumns<8> {
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
        if let Some(zeros) = self.zeros {
            return c.any_without_64(state, zeros);
        }
        let Parts { factor, subtrahend, shift, limit, .. } = self.parts;
        let quotients = each!(K of 8 => c.quotient_64(state[K], factor, subtrahend, shift));
        c.any_at_most_64(quotients, limit)
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 8]) -> u64 {
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
