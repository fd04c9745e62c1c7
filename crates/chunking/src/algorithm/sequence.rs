//! The values of a chunk, of one byte or of several, in an order: the common part of the rules over
//! extreme values.

use core::marker::PhantomData;
use core::ops::Range;

use super::blocks::{Blocks, Extreme, LINE_SIZE, Values};
use crate::kernel::{BLOCK_SIZE, Kernel, VALUE_BLOCK_SIZE, VALUE_SIZE_MAX, ValueBlock};

/// The values of a chunk, one for each position at which a whole value begins.
pub(super) trait Sequence: Copy {
    type Value: PartialEq + Copy;

    /// Set if equal values are rare, so that asking for greater and for equal ones separately does
    /// not pay.
    const ARE_RARELY_EQUAL: bool;

    /// Returns the number of values.
    fn count(self) -> usize;

    fn value(self, index: usize) -> Self::Value;

    /// Returns `true` if `a` is more extreme than `b`.
    fn is_beyond(a: Self::Value, b: Self::Value) -> bool;

    /// Returns `true` if no value is more extreme than `value`.
    fn is_last(self, value: Self::Value) -> bool;

    /// Returns the first index in `range` of a value more extreme than `value`.
    fn first_beyond(self, value: Self::Value, range: Range<usize>) -> Option<usize>;

    /// Returns the first index in `range` of a value not less extreme than `value`.
    fn first_from(self, value: Self::Value, range: Range<usize>) -> Option<usize>;

    /// Returns the last index in `range` of a value not less extreme than `value`.
    fn last_from(self, value: Self::Value, range: Range<usize>) -> Option<usize>;

    /// Returns the first index of the most extreme of the [`START_SIZE`] values from `start` on;
    /// `None` if there are fewer, or if finding it at once is no faster than one after the other.
    fn first_extreme(self, start: usize) -> Option<usize>;

    /// Works as [`Sequence::first_extreme`] and returns the last index.
    fn last_extreme(self, start: usize) -> Option<usize>;

    /// Calls [`Blocks::prefetch_next`].
    fn prefetch_next(self, next: usize, window: usize);

    /// Calls [`Blocks::prefetch`].
    fn prefetch(self, range: Range<usize>);
}

/// The prefetch distance, in bytes. The values are looked at in order, which the hardware predicts,
/// so that this prefetch only brings them from the second-level cache.
const AHEAD: usize = 8 * LINE_SIZE;

/// The number of values at the start of a search of which the most extreme one is found without a
/// branch. Nearly all values that are more extreme than those before them are there, and each would
/// be a branch that is not predicted.
pub(super) const START_SIZE: usize = 4 * BLOCK_SIZE;

/// Values of one byte, with the order of `E`.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a, K, V, E> {
    blocks: Blocks<'a, K, V>,
    extreme: PhantomData<E>,
}

impl<'a, K, V, E> Bytes<'a, K, V, E> {
    #[inline(always)]
    pub(super) fn new(blocks: Blocks<'a, K, V>) -> Bytes<'a, K, V, E> {
        Bytes { blocks, extreme: PhantomData }
    }
}

impl<K: Kernel, V: Values, E: Extreme> Sequence for Bytes<'_, K, V, E> {
    type Value = u8;

    const ARE_RARELY_EQUAL: bool = false;

    #[inline(always)]
    fn count(self) -> usize {
        self.blocks.data.len()
    }

    #[inline(always)]
    fn value(self, index: usize) -> u8 {
        self.blocks.value(index)
    }

    #[inline(always)]
    fn is_beyond(a: u8, b: u8) -> bool {
        E::is_beyond(a, b)
    }

    #[inline(always)]
    fn is_last(self, value: u8) -> bool {
        value == E::LAST
    }

    #[inline(always)]
    fn first_beyond(self, value: u8, range: Range<usize>) -> Option<usize> {
        self.blocks.first_beyond::<E>(value, range)
    }

    #[inline(always)]
    fn first_from(self, value: u8, range: Range<usize>) -> Option<usize> {
        self.blocks.first(E::from(value), range)
    }

    #[inline(always)]
    fn last_from(self, value: u8, range: Range<usize>) -> Option<usize> {
        self.blocks.last(E::from(value), range)
    }

    #[inline(always)]
    fn first_extreme(self, _: usize) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn last_extreme(self, _: usize) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn prefetch_next(self, next: usize, window: usize) {
        self.blocks.prefetch_next(next, window);
    }

    #[inline(always)]
    fn prefetch(self, range: Range<usize>) {
        self.blocks.prefetch(range);
    }
}

/// Values of several bytes, of which the first is the most significant, with the order of `E`.
///
/// A value is a number of 64 bits: its bytes, followed by zeros.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a, K, V, E> {
    blocks: Blocks<'a, K, V>,
    /// The size of a value in bytes, from 2 to [`VALUE_SIZE_MAX`].
    size: usize,
    extreme: PhantomData<E>,
}

impl<'a, K: Kernel, V: Values, E: Extreme> Numbers<'a, K, V, E> {
    #[inline(always)]
    pub(super) fn new(blocks: Blocks<'a, K, V>, size: usize) -> Numbers<'a, K, V, E> {
        Numbers { blocks, size, extreme: PhantomData }
    }

    /// Returns the number of bits of a number behind the bytes of its value.
    #[inline(always)]
    fn unused_bits(self) -> usize {
        8 * (VALUE_SIZE_MAX - self.size)
    }

    /// Returns the bound that exactly the values more extreme than `value` reach; there are some.
    #[inline(always)]
    fn bound_beyond(self, value: u64) -> u64 {
        E::next(value >> self.unused_bits()) << self.unused_bits()
    }

    /// Returns the mask of the values that begin in the first block of `bytes` and reach `bound`.
    #[inline(always)]
    fn reaching(self, bound: u64, bytes: &ValueBlock) -> u64 {
        let Blocks { kernel, values, .. } = self.blocks;
        values.reaching::<K, E>(kernel, bytes, bound.to_be_bytes(), self.size)
    }

    /// Returns `false` if no value of the block at `start` reaches `bound`, by the first two bytes
    /// of each.
    #[inline(always)]
    fn may_reach(self, bound: u64, start: usize) -> bool {
        let Blocks { kernel, data, values } = self.blocks;
        let [first, second, ..] = bound.to_be_bytes();
        let pairs = data[start..].first_chunk();
        pairs.is_none_or(|pairs| values.has_pair::<K, E>(kernel, pairs, [first, second]))
    }

    /// Works as [`Numbers::reaching`] with the bytes from `start` on, of which there may be fewer.
    /// Bits of positions without a value are unspecified.
    #[inline(always)]
    fn reaching_from(self, bound: u64, start: usize) -> u64 {
        let rest = &self.blocks.data[start..];
        let mut end = [0; VALUE_BLOCK_SIZE];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            end[..rest.len()].copy_from_slice(rest);
            &end
        });
        self.reaching(bound, bytes)
    }

    /// Returns the start of the block with the most extreme of the [`START_SIZE`] values from
    /// `start` on, and the mask of the values of that block that equal it. A block takes the place
    /// of an earlier one if `is_taken` holds for their most extreme values.
    #[inline(always)]
    fn extreme_of_start(
        self,
        start: usize,
        is_taken: impl Fn(u64, u64) -> bool,
    ) -> Option<(usize, u64)> {
        let Blocks { kernel, data, values } = self.blocks;
        let bytes = data.get(start..start + START_SIZE + VALUE_SIZE_MAX - 1)?;
        let (mut extreme, mut at) = (0, 0);
        for offset in (0..START_SIZE).step_by(BLOCK_SIZE) {
            let block = bytes[offset..].first_chunk()?;
            let value = values.extreme_value::<K, E>(kernel, block, self.size)?;
            let is_taken = offset == 0 || is_taken(value, extreme);
            at = if is_taken { offset } else { at };
            extreme = if is_taken { value } else { extreme };
        }
        Some((start + at, self.reaching(extreme, bytes[at..].first_chunk()?)))
    }

    /// Returns the first index in `range` of a value that reaches `bound`.
    ///
    /// The first two bytes of a value decide nearly everywhere. All bytes are compared only where a
    /// pair is not less extreme than that of the bound, in a branch of its own: compilers turn
    /// masks that meet into vectors of single bits.
    #[inline(always)]
    fn first(self, bound: u64, range: Range<usize>) -> Option<usize> {
        let Blocks { kernel, data, values } = self.blocks;
        let [first, second, ..] = bound.to_be_bytes();
        let mut start = range.start;
        while start + BLOCK_SIZE <= range.end {
            let Some(bytes) = data[start..].first_chunk::<VALUE_BLOCK_SIZE>() else { break };
            kernel.prefetch(data, start + AHEAD);
            if let Some(pairs) = bytes.first_chunk()
                && values.has_pair::<K, E>(kernel, pairs, [first, second])
            {
                let wanted = self.reaching(bound, bytes);
                if wanted != 0 {
                    return Some(start + wanted.trailing_zeros() as usize);
                }
            }
            start += BLOCK_SIZE;
        }
        // At most a block of values is left, or somewhat more if the data ends there.
        while start < range.end {
            let wanted = self.reaching_from(bound, start);
            if wanted != 0 {
                let at = start + wanted.trailing_zeros() as usize;
                return (at < range.end).then_some(at);
            }
            start += BLOCK_SIZE;
        }
        None
    }
}

impl<K: Kernel, V: Values, E: Extreme> Sequence for Numbers<'_, K, V, E> {
    type Value = u64;

    const ARE_RARELY_EQUAL: bool = true;

    #[inline(always)]
    fn count(self) -> usize {
        (self.blocks.data.len() + 1).saturating_sub(self.size)
    }

    #[inline(always)]
    fn value(self, index: usize) -> u64 {
        let bytes = &self.blocks.data[index..][..self.size];
        let number = bytes
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(self.blocks.values.value(byte)));
        number << self.unused_bits()
    }

    #[inline(always)]
    fn is_beyond(a: u64, b: u64) -> bool {
        E::is_beyond(a, b)
    }

    #[inline(always)]
    fn is_last(self, value: u64) -> bool {
        let last = u64::from_be_bytes([E::LAST; 8]);
        value == last >> self.unused_bits() << self.unused_bits()
    }

    #[inline(always)]
    fn first_beyond(self, value: u64, range: Range<usize>) -> Option<usize> {
        if self.is_last(value) { None } else { self.first(self.bound_beyond(value), range) }
    }

    #[inline(always)]
    fn first_from(self, value: u64, range: Range<usize>) -> Option<usize> {
        self.first(value, range)
    }

    #[inline(always)]
    fn last_from(self, value: u64, range: Range<usize>) -> Option<usize> {
        let mut end = range.end;
        while end > range.start {
            let start = end.saturating_sub(BLOCK_SIZE).max(range.start);
            if self.may_reach(value, start) {
                let wanted = self.reaching_from(value, start);
                let wanted = wanted & u64::MAX >> (BLOCK_SIZE + start - end);
                if wanted != 0 {
                    return Some(start + wanted.ilog2() as usize);
                }
            }
            end = start;
        }
        None
    }

    #[inline(always)]
    fn first_extreme(self, start: usize) -> Option<usize> {
        let is_taken = |value, extreme| E::is_beyond(value, extreme);
        let (at, mask) = self.extreme_of_start(start, is_taken)?;
        Some(at + mask.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn last_extreme(self, start: usize) -> Option<usize> {
        let is_taken = |value, extreme| !E::is_beyond(extreme, value);
        let (at, mask) = self.extreme_of_start(start, is_taken)?;
        Some(at + mask.ilog2() as usize)
    }

    #[inline(always)]
    fn prefetch_next(self, next: usize, window: usize) {
        self.blocks.prefetch_next(next, window);
    }

    #[inline(always)]
    fn prefetch(self, range: Range<usize>) {
        self.blocks.prefetch(range);
    }
}
