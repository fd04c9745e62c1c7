//! The CRC-32 of a window: it is linear over bits, as Rabin's fingerprint is.

use super::candidate_bits::ColumnHash;
use super::matrices;
use crate::kernel::{Columns, Matrix};
use crate::rolling::{Rolling, Step};

/// The 4 bytes of the register, of which a step pushes out the lowest.
#[derive(Clone)]
pub(crate) struct CrcColumns {
    window: usize,
    /// The result of a step for the lowest byte, combined with the new one.
    step: [Matrix; 4],
    /// The correction for a byte that leaves.
    leave: [Matrix; 4],
    /// The bits that are zeros in a match.
    tested: [u8; 4],
}

impl CrcColumns {
    /// Creates the columns that find positions whose lowest `bits` bits are zeros. Bytes are not
    /// permuted here.
    pub(crate) fn new<S: Step>(rolling: &Rolling<S>, bits: u32) -> CrcColumns {
        let (step, window) = (rolling.step(), rolling.window());
        // A byte enters by a step of the register of which it is the lowest byte.
        let leave = |byte: u8| (0..=window).fold(u64::from(byte), |hash, _| step.step(hash));
        let tested = u32::MAX >> (32 - bits);
        CrcColumns {
            window,
            step: matrices(|byte| step.step(byte.into())),
            leave: matrices(leave),
            tested: tested.to_le_bytes(),
        }
    }
}

impl ColumnHash for CrcColumns {
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
        let [s0, s1, s2, s3] = state;
        let [m0, m1, m2, m3] = &self.step;
        let lowest = c.xor(s0, new);
        [
            c.xor(s1, c.multiply(lowest, m0)),
            c.xor(s2, c.multiply(lowest, m1)),
            c.xor(s3, c.multiply(lowest, m2)),
            c.multiply(lowest, m3),
        ]
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 4],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 4] {
        let [s0, s1, s2, s3] = state;
        let [m0, m1, m2, m3] = &self.step;
        let left = each!(K of 4 => c.multiply(old, &self.leave[K]));
        let lowest = c.xor(s0, new);
        [
            c.xor3(s1, left[0], c.multiply(lowest, m0)),
            c.xor3(s2, left[1], c.multiply(lowest, m1)),
            c.xor3(s3, left[2], c.multiply(lowest, m2)),
            c.xor(left[3], c.multiply(lowest, m3)),
        ]
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 4]) -> u64 {
        let tested = each!(K of 4 => c.and(state[K], c.splat(self.tested[K])));
        let mut rest = c.or(tested[0], tested[1]);
        if self.tested[2] != 0 {
            rest = c.or(rest, c.or(tested[2], tested[3]));
        }
        c.zero_bytes(rest)
    }
}

super::candidate_hash!(CrcColumns);
