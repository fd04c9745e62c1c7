//! Looking for the pairs of bytes, or the bytes, of a set: 64 at a time.

use super::blocks::{AHEAD, LINE_SIZE};
use crate::Level;
use crate::kernel::{BLOCK_SIZE, Kernel, Tables, Task};

/// What lets the members of a set pass, and hardly anything else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sieve {
    tables: Tables,
    /// Whether so little passes on random data that it helps.
    is_fine: bool,
}

impl Sieve {
    /// The sieve of `pairs`, in rising order: exact for up to 8, so many sets as there are bits.
    pub(crate) fn of_pairs(pairs: &[[u8; 2]]) -> Sieve {
        let mut tables = [[0; 16]; 4];
        for (k, &[first, second]) in pairs.iter().enumerate() {
            // Neighbours of one set, as they have the upper half of the first byte in common.
            let bit = 1 << (k * 8 / pairs.len());
            tables[0][usize::from(first & 15)] |= bit;
            tables[1][usize::from(first >> 4)] |= bit;
            tables[2][usize::from(second & 15)] |= bit;
            tables[3][usize::from(second >> 4)] |= bit;
        }
        Sieve::new(tables)
    }

    /// The sieve of `bytes`, in rising order; whatever follows them.
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
        // Four of a block: to look at each costs as much as a look at every byte.
        Sieve { tables, is_fine: passing <= 65_536 / 16 }
    }

    /// Returns the level on which the sieve is of use, where `level` is asked for.
    pub(crate) fn level(&self, level: Level) -> Level {
        if self.is_fine { level.of_kernel() } else { Level::SCALAR }
    }

    /// Returns the first place from `start` on at which `data` has a member of the set, which
    /// `is_member` knows by two bytes; else, as an error, the place from which on nothing was looked
    /// at, as too few bytes follow for a block or as the level is the scalar one.
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

/// [`Sieve::first`] on a level that has it.
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
        // Where the next chunks look first, if this one ends soon: the hardware does not foresee it.
        if start >= 1024 {
            for line in 0..8 {
                kernel.prefetch(data, 2 * start + line * LINE_SIZE);
                kernel.prefetch(data, 3 * start + line * LINE_SIZE);
            }
        }
        let first = start;
        while let Some(bytes) = data.get(start..).and_then(|rest| rest.first_chunk()) {
            // The further ahead the longer nothing is found, two lines for each that is looked at.
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
