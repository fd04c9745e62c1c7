//! The count of ones in a window.

use super::candidate_bits::ColumnHash;
use crate::kernel::Columns;

/// Sums of 16 bits, which hold the number of ones of any window that is examined.
#[derive(Clone, Copy)]
pub(crate) struct CountColumns {
    window: usize,
    least: u16,
}

impl CountColumns {
    /// Creates the columns that find positions whose last `window` bytes have at least `least`
    /// ones.
    pub(crate) fn new(window: usize, least: u16) -> CountColumns {
        CountColumns { window, least }
    }
}

impl ColumnHash for CountColumns {
    const LEAVES: bool = true;
    type State<C: Columns> = [C::Vector; 2];

    fn window(&self) -> usize {
        self.window
    }

    #[inline(always)]
    fn empty<C: Columns>(&self, c: C) -> [C::Vector; 2] {
        [c.splat(0); 2]
    }

    #[inline(always)]
    fn enter<C: Columns>(&self, c: C, state: [C::Vector; 2], new: C::Vector) -> [C::Vector; 2] {
        let ones = c.weave_bytes(c.count_ones(new), c.splat(0));
        [c.add_16(state[0], ones[0]), c.add_16(state[1], ones[1])]
    }

    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        c: C,
        state: [C::Vector; 2],
        new: C::Vector,
        old: C::Vector,
    ) -> [C::Vector; 2] {
        let [a, b] = self.enter(c, state, new);
        let ones = c.weave_bytes(c.count_ones(old), c.splat(0));
        [c.subtract_16(a, ones[0]), c.subtract_16(b, ones[1])]
    }

    #[inline(always)]
    fn any<C: Columns>(&self, c: C, state: [C::Vector; 2]) -> bool {
        (c.at_least_16(state[0], self.least) | c.at_least_16(state[1], self.least)) != 0
    }

    #[inline(always)]
    fn rows<C: Columns>(&self, c: C, state: [C::Vector; 2]) -> u64 {
        c.rows_of([c.at_least_16(state[0], self.least), c.at_least_16(state[1], self.least)])
    }
}

super::candidate_hash!(CountColumns);
