//! Rabin's fingerprint: linear over bits, so that each byte of it is a sum of products with matrices.

use super::marks::ColumnHash;
use super::matrices;
use crate::algorithm::rolling::{Rolling, Step};
use crate::kernel::Columns;

const BYTES: usize = 7;

/// The bytes of a fingerprint that is shifted up, so that its highest bit is the highest of 7 bytes: the
/// byte that a step pushes out is then one of them, and a step but renames the others.
#[derive(Clone)]
pub(crate) struct RabinColumns {
    window: usize,
    /// What the highest byte leaves as a remainder.
    reduce: [u64; BYTES],
    /// What a byte takes away when it leaves.
    leave: [u64; BYTES],
    /// What a byte brings, which is all in the two lowest bytes.
    enter: [u64; 2],
    /// The bits that are zeros where it matches.
    tested: [u8; BYTES],
    /// The bytes above have none of these.
    tested_bytes: usize,
}

impl RabinColumns {
    /// The fingerprint modulo a polynomial of `degree`; `None` unless it takes 7 bytes. A place matches
    /// if the lowest `bits` bits are zeros. Bytes are seen through no permutation here.
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
            tested_bytes: tested_planes.iter().take_while(|&&bits| bits != 0).count(),
        })
    }

    #[inline(always)]
    fn push<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; BYTES],
        new: C::Vector,
    ) -> [C::Vector; BYTES] {
        let top = state[BYTES - 1];
        let mut next = state;
        for k in 2..BYTES {
            next[k] = c.xor(state[k - 1], c.multiply(top, self.reduce[k]));
        }
        let enter = [c.multiply(new, self.enter[0]), c.multiply(new, self.enter[1])];
        next[1] = c.xor3(state[0], c.multiply(top, self.reduce[1]), enter[1]);
        next[0] = c.xor(c.multiply(top, self.reduce[0]), enter[0]);
        next
    }

    /// What is left of the bits that are zeros where it matches.
    #[inline(always)]
    fn rest<C: Columns>(&self, c: C, state: &[C::Vector; BYTES]) -> C::Vector {
        let mut rest = c.and(state[0], c.splat(self.tested[0]));
        for k in 1..self.tested_bytes {
            rest = c.or(rest, c.and(state[k], c.splat(self.tested[k])));
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
        self.push(c, state, new)
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; BYTES],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; BYTES] {
        let mut state = self.push(c, state, new);
        for k in 0..BYTES {
            state[k] = c.xor(state[k], c.multiply(old, self.leave[k]));
        }
        state
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: &[C::Vector; BYTES]) -> bool {
        self.rows(c, state) != 0
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: &[C::Vector; BYTES]) -> u64 {
        c.zero_bytes(self.rest(c, state))
    }
}

super::marking!(RabinColumns);
