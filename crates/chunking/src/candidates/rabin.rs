//! Rabin's fingerprint: it is linear over bits, so that each of its bytes is a sum of products with
//! matrices.

use super::candidate_bits::ColumnHash;
use super::matrices;
use crate::kernel::{Columns, Matrix};
use crate::rolling::{Rolling, Step};

const BYTES: usize = 7;

/// The bytes of a fingerprint that is shifted up, so that its highest bit is the highest of 7
/// bytes. The byte that a step pushes out is then one of them, and a step merely renames the
/// others.
#[derive(Clone)]
pub(crate) struct RabinColumns {
    window: usize,
    /// The remainder that the highest byte leaves.
    reduce: [Matrix; BYTES],
    /// The correction for a byte that leaves.
    leave: [Matrix; BYTES],
    /// The contribution of a byte that enters, which is all in the two lowest bytes.
    enter: [Matrix; 2],
    /// The bits that are zeros in a match.
    tested: [u8; BYTES],
}

impl RabinColumns {
    /// Creates the columns of the fingerprint modulo a polynomial of `degree`; `None` unless it
    /// takes 7 bytes. A position matches if the lowest `bits` bits are zeros. Bytes are not
    /// permuted here.
    pub(crate) fn new<S: Step>(
        rolling: &Rolling<S>,
        degree: u32,
        bits: u32,
    ) -> Option<RabinColumns> {
        let shift = 56u32.checked_sub(degree).filter(|&shift| shift < 8)?;
        let step = rolling.step();
        let window = rolling.window();
        let leave =
            |byte: u8| (0..window).fold(u64::from(byte), |hash, _| step.step(hash)) << shift;
        let tested = ((1u64 << bits) - 1) << shift;
        let mut tested_planes = [0; BYTES];
        tested_planes.copy_from_slice(&tested.to_le_bytes()[..BYTES]);
        Some(RabinColumns {
            window,
            reduce: matrices(|byte| step.step(u64::from(byte) << (degree - 8)) << shift),
            leave: matrices(leave),
            enter: matrices(|byte| u64::from(byte) << shift),
            tested: tested_planes,
        })
    }

    /// Returns the hashes after `new` has entered, and `old`, if any, has left.
    #[inline(always)]
    fn push<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; BYTES],
        new: C::Vector,
        old: Option<C::Vector>,
    ) -> [C::Vector; BYTES] {
        let highest = state[BYTES - 1];
        // From the highest byte on, so that each result takes the register of a byte that is not
        // needed any more.
        let byte6 = c.xor(state[5], self.change(c, 6, highest, old));
        let byte5 = c.xor(state[4], self.change(c, 5, highest, old));
        let byte4 = c.xor(state[3], self.change(c, 4, highest, old));
        let byte3 = c.xor(state[2], self.change(c, 3, highest, old));
        let byte2 = c.xor(state[1], self.change(c, 2, highest, old));
        let entered = [c.multiply(new, &self.enter[0]), c.multiply(new, &self.enter[1])];
        let byte1 = c.xor3(state[0], self.change(c, 1, highest, old), entered[1]);
        let byte0 = c.xor(self.change(c, 0, highest, old), entered[0]);
        [byte0, byte1, byte2, byte3, byte4, byte5, byte6]
    }

    /// Returns what the highest byte and the byte that leaves contribute to byte `k`.
    #[inline(always)]
    fn change<C: Columns>(
        &self,
        c: C,
        k: usize,
        highest: C::Vector,
        old: Option<C::Vector>,
    ) -> C::Vector {
        let reduced = c.multiply(highest, &self.reduce[k]);
        match old {
            Some(old) => c.xor(reduced, c.multiply(old, &self.leave[k])),
            None => reduced,
        }
    }

    /// Returns what remains of the bits that are zeros in a match.
    #[inline(always)]
    fn rest<C: Columns>(&self, c: C, state: [C::Vector; BYTES]) -> C::Vector {
        let tested = each!(K of 5 => c.and(state[K], c.splat(self.tested[K])));
        let mut rest = c.or(tested[0], tested[1]);
        if self.tested[2] != 0 {
            // Up to 30 bits, shifted by less than a byte, take 5 bytes.
            rest = c.or(rest, c.or(tested[2], c.or(tested[3], tested[4])));
        }
        rest
    }
}

impl ColumnHash for RabinColumns {
    const LEAVES: bool = true;
    type State<C: Columns> = [C::Vector; BYTES];

    fn window(&self) -> usize {
        self.window
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; BYTES] {
        [c.splat(0); BYTES]
    }

    #[inline(always)]
    fn enter<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; BYTES],
        new: C::Vector,
    ) -> [C::Vector; BYTES] {
        self.push(c, state, new, None)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; BYTES],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; BYTES] {
        self.push(c, state, new, Some(old))
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; BYTES]) -> u64 {
        c.zero_bytes(self.rest(c, state))
    }
}

super::candidate_hash!(RabinColumns);
