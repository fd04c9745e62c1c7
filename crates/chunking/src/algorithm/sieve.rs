//! The search for the pairs of bytes, or the bytes, of a set, 64 at a time.

use super::blocks::{AHEAD, LINE_SIZE};
use crate::Level;
use crate::kernel::{BLOCK_SIZE, Kernel, Tables, Task};

/// A filter that passes the members of a set and few others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sieve {
    tables: Tables,
    /// Set if the fraction that passes on random data is small enough for the sieve to pay.
    is_fine: bool,
}

impl Sieve {
    /// Returns the sieve of `pairs`, in ascending order. It is exact for up to 8 pairs, because
    /// there is one bit for each.
    pub(crate) fn of_pairs(pairs: &[[u8; 2]]) -> Sieve {
        let mut tables = [[0; 16]; 4];
        for (k, &[first, second]) in pairs.iter().enumerate() {
            // A set gets neighbouring pairs, because they share the upper half of the first byte.
            let bit = 1 << (k * 8 / pairs.len());
            tables[0][usize::from(first & 15)] |= bit;
            tables[1][usize::from(first >> 4)] |= bit;
            tables[2][usize::from(second & 15)] |= bit;
            tables[3][usize::from(second >> 4)] |= bit;
        }
        Sieve::new(tables)
    }

    /// Returns the sieve of `bytes`, in ascending order, whatever byte follows them.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Sieve {
        let mut tables = [[0; 16], [0; 16], [u8::MAX; 16], [u8::MAX; 16]];
        for (k, &byte) in bytes.iter().enumerate() {
            let bit = 1 << (k * 8 / bytes.len());
            tables[0][usize::from(byte & 15)] |= bit;
            tables[1][usize::from(byte >> 4)] |= bit;
        }
        Sieve::new(tables)
    }

    fn new(tables: Tables) -> Sieve {
        let [low0, high0, low1, high1] = &tables;
        let sets = |low: &[u8; 16], high: &[u8; 16]| -> [u8; 256] {
            core::array::from_fn(|byte| low[byte % 16] & high[byte / 16])
        };
        let (firsts, seconds) = (sets(low0, high0), sets(low1, high1));
        let pass = |first: &u8| seconds.iter().filter(|&second| first & second != 0).count();
        let passing: usize = firsts.iter().map(pass).sum();
        // Four members of a block: looking at each of more costs as much as looking at every byte.
        Sieve { tables, is_fine: passing <= 65_536 / 16 }
    }

    /// Returns the level on which the sieve pays if `level` is requested.
    pub(crate) fn level(&self, level: Level) -> Level {
        if self.is_fine { level.of_kernel() } else { Level::SCALAR }
    }

    /// Returns the first position from `start` on at which `data` has a member of the set.
    /// `is_member` tests two bytes exactly. If there is none, returns as an error the position from
    /// which on nothing was looked at, because too few bytes for a block follow, or because the
    /// level is the scalar one.
    #[inline]
    pub(crate) fn first(
        &self,
        level: Level,
        data: &[u8],
        start: usize,
        is_member: impl Fn(&[u8]) -> bool,
    ) -> Result<usize, usize> {
        match level {
            Level::SCALAR => Err(start),
            level => level.dispatch(First { tables: &self.tables, data, start, is_member }),
        }
    }
}

/// The task of [`Sieve::first`], on a level that has kernels.
struct First<'a, F> {
    tables: &'a Tables,
    data: &'a [u8],
    start: usize,
    is_member: F,
}

impl<F: Fn(&[u8]) -> bool> Task for First<'_, F> {
    type Output = Result<usize, usize>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Result<usize, usize> {
        let First { tables, data, mut start, is_member } = self;
        // The positions that the next chunks look at first if this one ends soon; the hardware does
        // not predict them.
        if start >= 1024 {
            for line in 0..8 {
                kernel.prefetch(data, 2 * start + line * LINE_SIZE);
                kernel.prefetch(data, 3 * start + line * LINE_SIZE);
            }
        }
        let first = start;
        while let Some(bytes) = data.get(start..).and_then(|rest| rest.first_chunk()) {
            // The distance grows the longer nothing is found, with two lines for each one looked
            // at.
            let ahead = (start - first + 8 * LINE_SIZE).min(AHEAD);
            kernel.prefetch(data, start + ahead);
            kernel.prefetch(data, start + ahead + LINE_SIZE);
            let mut passing = kernel.sift(bytes, tables);
            while passing != 0 {
                let at = passing.trailing_zeros() as usize;
                if is_member(&bytes[at..at + 2]) {
                    return Ok(start + at);
                }
                passing &= passing - 1;
            }
            start += BLOCK_SIZE;
        }
        Err(start)
    }
}
