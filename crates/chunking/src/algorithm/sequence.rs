//! The values of a chunk, of one byte or of several, in an order: the common part of the rules over
//! extreme values.

use core::marker::PhantomData;
use core::ops::Range;

use super::blocks::{AHEAD, Blocks, Extreme, LINE_SIZE, Values};
use crate::kernel::{
    BLOCK_SIZE, Extremes, Kernel, SPAN_SIZE, TAIL_SIZE, VALUE_BLOCK_SIZE, VALUE_SIZE_MAX,
    ValueBlock, ValueSpan,
};

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

    /// Searches `range` for a value more extreme than `value`. If there is one, returns the most
    /// extreme values of the range before an end somewhere behind that value.
    ///
    /// No value from `known` on to the range is more extreme.
    fn next_extreme(
        self,
        value: Self::Value,
        known: usize,
        range: Range<usize>,
    ) -> Option<Extremes>;

    /// Searches `range` for a value not less extreme than `value`, as [`Sequence::next_extreme`]
    /// does. All values from `known` on to the range are less extreme.
    fn next_from(self, value: Self::Value, known: usize, range: Range<usize>) -> Option<Extremes>;

    /// Returns the last index in `range` of a value not less extreme than `value`.
    fn last_from(self, value: Self::Value, range: Range<usize>) -> Option<usize>;

    /// Returns the most extreme of the values from `start` on, before an end at most `room` behind
    /// it, and that end: the last of equal ones if `LAST` is set, and the first one if not. `None` if
    /// finding values at once is no faster than one after the other, or if there are few.
    fn extreme_from<const LAST: bool>(self, start: usize, room: usize) -> Option<(usize, usize)>;

    /// Calls [`Blocks::prefetch_next`].
    fn prefetch_next(self, next: usize, window: usize);

    /// Calls [`Blocks::prefetch`].
    fn prefetch(self, range: Range<usize>);
}

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
    fn next_extreme(self, value: u8, _: usize, range: Range<usize>) -> Option<Extremes> {
        self.blocks.first_beyond::<E>(value, range).map(Extremes::single)
    }

    #[inline(always)]
    fn next_from(self, value: u8, _: usize, range: Range<usize>) -> Option<Extremes> {
        self.blocks.first(E::from(value), range).map(Extremes::single)
    }

    #[inline(always)]
    fn last_from(self, value: u8, range: Range<usize>) -> Option<usize> {
        self.blocks.last(E::from(value), range)
    }

    #[inline(always)]
    fn extreme_from<const LAST: bool>(self, _: usize, _: usize) -> Option<(usize, usize)> {
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

    /// Searches the values of the span at `start` for one that reaches `bound`, as
    /// [`Kernel::next_extreme`] does; `None` also if the data ends in the span.
    #[inline(always)]
    fn search_span(self, bound: u64, start: usize, by_prefix: &mut bool) -> Option<Extremes> {
        let Blocks { kernel, data, values } = self.blocks;
        let bytes = data.get(start..)?.first_chunk()?;
        let bound = bound.to_be_bytes();
        let found = values.next_extreme::<K, E>(kernel, bytes, bound, self.size, by_prefix);
        found.map(|found| found.behind(start))
    }

    /// Searches `range` for a value that reaches `bound`. If there is one, returns the most extreme
    /// values of the range before an end somewhere behind that value. No value from `known` on to
    /// the range reaches the bound.
    #[inline(always)]
    fn search(self, bound: u64, known: usize, range: Range<usize>) -> Option<Extremes> {
        let Blocks { kernel, data, .. } = self.blocks;
        // The last span ends with the range. It may begin with known values.
        let last = range
            .end
            .checked_sub(SPAN_SIZE)
            .filter(|&last| last >= known && data.len() - last >= size_of::<ValueSpan>());
        let mut by_prefix = true;
        let mut start = range.start;
        while let Some(last) = last
            && start < range.end
        {
            for offset in (0..SPAN_SIZE).step_by(LINE_SIZE) {
                kernel.prefetch(data, start + AHEAD + offset);
            }
            let span = start.min(last);
            if let Some(found) = self.search_span(bound, span, &mut by_prefix) {
                return Some(found);
            }
            start = span + SPAN_SIZE;
        }
        while start < range.end {
            if self.may_reach(bound, start) {
                let wanted = self.reaching_from(bound, start);
                if wanted != 0 {
                    let at = start + wanted.trailing_zeros() as usize;
                    return (at < range.end).then_some(Extremes::single(at));
                }
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
        let rest = &self.blocks.data[index..];
        let bytes = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut bytes = [0; VALUE_SIZE_MAX];
            bytes[..rest.len()].copy_from_slice(rest);
            bytes
        });
        let number = u64::from_be_bytes(bytes.map(|byte| self.blocks.values.value(byte)));
        number >> self.unused_bits() << self.unused_bits()
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
    fn next_extreme(self, value: u64, known: usize, range: Range<usize>) -> Option<Extremes> {
        if self.is_last(value) { None } else { self.search(self.bound_beyond(value), known, range) }
    }

    #[inline(always)]
    fn next_from(self, value: u64, known: usize, range: Range<usize>) -> Option<Extremes> {
        self.search(value, known, range)
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
    fn extreme_from<const LAST: bool>(self, start: usize, room: usize) -> Option<(usize, usize)> {
        let Blocks { kernel, data, values } = self.blocks;
        if room < SPAN_SIZE {
            return None;
        }
        let size = room.min(K::START_SIZE_MAX) & !(SPAN_SIZE - 1);
        self.prefetch(start + AHEAD..start + AHEAD + size);
        if let Some(bytes) = data.get(start..start + size + TAIL_SIZE)
            && let Some(at) = values.extreme_at::<K, E, LAST>(kernel, bytes, self.size)
        {
            return Some((start + at, start + size));
        }
        // Every value reaches the least extreme one.
        let bound = u64::from_be_bytes([!E::LAST; VALUE_SIZE_MAX]);
        let Extremes { first, last, end } = self.search_span(bound, start, &mut false)?;
        Some((if LAST { last } else { first }, end))
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
