//! Queries about the bytes of a chunk, block by block, by a kernel: the common part of rules over
//! byte values.

use core::ops::Range;

use crate::kernel::{
    BLOCK_SIZE, Block, Extremes, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock,
    VALUE_SIZE_MAX, ValueBlock, ValueSpan,
};

/// The size of a cache line, in bytes.
pub(crate) const LINE_SIZE: usize = 64;

/// The prefetch distance, in bytes. The hardware prefetches less, and a mispredicted branch right
/// behind a cut-point would wait for memory.
pub(crate) const AHEAD: usize = 4096;

/// The mapping of bytes to values.
pub(crate) trait Values: Copy {
    fn value(self, byte: u8) -> u8;

    /// Compares neighbouring bytes by their values.
    fn compare<K: Kernel>(self, kernel: K, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64);

    /// Calls [`Kernel::least_number`] on the values.
    fn least_number<K: Kernel>(self, kernel: K, bytes: &NumberBlock, mapping: Mapping) -> u32;

    /// Calls [`Kernel::has_number_below`] on the values.
    fn has_number_below<K: Kernel>(
        self,
        kernel: K,
        bytes: &NumberBlock,
        mapping: Mapping,
        bound: u32,
    ) -> bool;

    /// Calls [`Kernel::least_numbers`] on the values.
    fn least_numbers<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
    ) -> [u32; LANE_COUNT];

    /// Calls [`Kernel::first_number`] on the values.
    fn first_number<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
        number: u32,
    ) -> usize;

    /// Returns `true` if the values have a pair of neighbours that [`Extreme::pairs`] selects.
    fn has_pair<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &[u8; BLOCK_SIZE + 1],
        pair: [u8; 2],
    ) -> bool;

    /// Calls [`reaching`] on the values.
    fn reaching<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64;

    /// Calls [`Extreme::next_extreme`] on the values.
    fn next_extreme<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes>;

    /// Calls [`Extreme::extreme_at`] on the values; `None` if they are not the bytes themselves.
    fn extreme_at<K: Kernel, E: Extreme, const LAST: bool>(
        self,
        kernel: K,
        bytes: &[u8],
        size: usize,
    ) -> Option<usize>;

    /// Evaluates a question about the values of a block.
    fn ask<K: Kernel>(self, kernel: K, question: impl Question, block: &Block) -> u64;
}

/// The mapping without a key: every byte is its own value.
#[derive(Clone, Copy)]
pub(crate) struct AsItIs;

impl Values for AsItIs {
    #[inline(always)]
    fn value(self, byte: u8) -> u8 {
        byte
    }

    #[inline(always)]
    fn compare<K: Kernel>(self, kernel: K, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        kernel.compare(bytes)
    }

    #[inline(always)]
    fn least_number<K: Kernel>(self, kernel: K, bytes: &NumberBlock, mapping: Mapping) -> u32 {
        kernel.least_number(bytes, mapping)
    }

    #[inline(always)]
    fn has_number_below<K: Kernel>(
        self,
        kernel: K,
        bytes: &NumberBlock,
        mapping: Mapping,
        bound: u32,
    ) -> bool {
        kernel.has_number_below(bytes, mapping, bound)
    }

    #[inline(always)]
    fn least_numbers<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
    ) -> [u32; LANE_COUNT] {
        kernel.least_numbers(bytes, mapping)
    }

    #[inline(always)]
    fn first_number<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
        number: u32,
    ) -> usize {
        kernel.first_number(bytes, mapping, number)
    }

    #[inline(always)]
    fn has_pair<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &[u8; BLOCK_SIZE + 1],
        pair: [u8; 2],
    ) -> bool {
        E::pairs(kernel, bytes, pair) != 0
    }

    #[inline(always)]
    fn reaching<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64 {
        reaching::<K, E>(kernel, bytes, bound, size)
    }

    #[inline(always)]
    fn next_extreme<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes> {
        E::next_extreme(kernel, bytes, bound, size, by_prefix)
    }

    #[inline(always)]
    fn extreme_at<K: Kernel, E: Extreme, const LAST: bool>(
        self,
        kernel: K,
        bytes: &[u8],
        size: usize,
    ) -> Option<usize> {
        E::extreme_at::<K, LAST>(kernel, bytes, size)
    }

    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, question: impl Question, block: &Block) -> u64 {
        question.ask(kernel, block)
    }
}

/// The mapping with a key: every byte has the value at its index in the table.
#[derive(Clone, Copy)]
pub(crate) struct PermutedBytes<'a>(pub(crate) &'a [u8; 256]);

impl Values for PermutedBytes<'_> {
    #[inline(always)]
    fn value(self, byte: u8) -> u8 {
        self.0[usize::from(byte)]
    }

    #[inline(always)]
    fn compare<K: Kernel>(self, kernel: K, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        kernel.compare(&bytes.map(|byte| self.value(byte)))
    }

    #[inline(always)]
    fn least_number<K: Kernel>(self, kernel: K, bytes: &NumberBlock, mapping: Mapping) -> u32 {
        kernel.least_number(&bytes.map(|byte| self.value(byte)), mapping)
    }

    #[inline(always)]
    fn has_number_below<K: Kernel>(
        self,
        kernel: K,
        bytes: &NumberBlock,
        mapping: Mapping,
        bound: u32,
    ) -> bool {
        kernel.has_number_below(&bytes.map(|byte| self.value(byte)), mapping, bound)
    }

    #[inline(always)]
    fn least_numbers<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
    ) -> [u32; LANE_COUNT] {
        kernel.least_numbers(&bytes.map(|byte| self.value(byte)), mapping)
    }

    #[inline(always)]
    fn first_number<K: Kernel>(
        self,
        kernel: K,
        bytes: &LongNumberBlock,
        mapping: Mapping,
        number: u32,
    ) -> usize {
        kernel.first_number(&bytes.map(|byte| self.value(byte)), mapping, number)
    }

    #[inline(always)]
    fn has_pair<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &[u8; BLOCK_SIZE + 1],
        pair: [u8; 2],
    ) -> bool {
        E::pairs(kernel, &bytes.map(|byte| self.value(byte)), pair) != 0
    }

    #[inline(always)]
    fn reaching<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64 {
        reaching::<K, E>(kernel, &bytes.map(|byte| self.value(byte)), bound, size)
    }

    #[inline(always)]
    fn next_extreme<K: Kernel, E: Extreme>(
        self,
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes> {
        E::next_extreme(kernel, &bytes.map(|byte| self.value(byte)), bound, size, by_prefix)
    }

    #[inline(always)]
    fn extreme_at<K: Kernel, E: Extreme, const LAST: bool>(
        self,
        _: K,
        _: &[u8],
        _: usize,
    ) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, question: impl Question, block: &Block) -> u64 {
        question.ask(kernel, &block.map(|byte| self.value(byte)))
    }
}

/// A question about the bytes of a block. (A closure might not be inlined, and would then be
/// compiled for no instruction set.)
pub(crate) trait Question: Copy {
    fn ask<K: Kernel>(self, kernel: K, block: &Block) -> u64;
}

/// Selects the bytes greater than a value.
#[derive(Clone, Copy)]
pub(crate) struct Above(pub(crate) u8);

impl Question for Above {
    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, block: &Block) -> u64 {
        kernel.above(block, self.0)
    }
}

/// Selects the bytes less than a value.
#[derive(Clone, Copy)]
pub(crate) struct Below(pub(crate) u8);

impl Question for Below {
    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, block: &Block) -> u64 {
        kernel.below(block, self.0)
    }
}

/// Selects the bytes not less than a value.
#[derive(Clone, Copy)]
pub(crate) struct AtLeast(pub(crate) u8);

impl Question for AtLeast {
    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, block: &Block) -> u64 {
        let all = if self.0 == 0 { u64::MAX } else { 0 };
        all | kernel.above(block, self.0.saturating_sub(1))
    }
}

/// Selects the bytes not greater than a value.
#[derive(Clone, Copy)]
pub(crate) struct AtMost(u8);

impl Question for AtMost {
    #[inline(always)]
    fn ask<K: Kernel>(self, kernel: K, block: &Block) -> u64 {
        let all = if self.0 == u8::MAX { u64::MAX } else { 0 };
        all | kernel.below(block, self.0.saturating_add(1))
    }
}

/// A question that selects the values more extreme than a given one.
pub(crate) trait Extreme: Question {
    /// The question that also selects the given value itself.
    type OrEqual: Question;

    /// The most extreme value. Once it is met, no other byte need be looked at.
    const LAST: u8;

    fn than(value: u8) -> Self;

    fn from(value: u8) -> Self::OrEqual;

    /// Returns `true` if `a` is more extreme than `b`.
    fn is_beyond<N: Ord>(a: N, b: N) -> bool;

    /// Returns the number next to `number` that is more extreme.
    fn next(number: u64) -> u64;

    /// Selects the pairs of neighbours that are not less extreme than `pair`, in which the first
    /// byte is the more significant one.
    fn pairs<K: Kernel>(kernel: K, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64;

    /// Selects the values of `size` bytes, 4 or 8, that are not less extreme than the first bytes
    /// of `bound`.
    fn values<K: Kernel>(
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64;

    /// Searches for a value not less extreme than that of the first bytes of `bound`, as
    /// [`Kernel::next_extreme`] does.
    fn next_extreme<K: Kernel>(
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes>;

    /// Returns the position of the most extreme value, as [`Kernel::extreme_at`] does.
    fn extreme_at<K: Kernel, const LAST: bool>(
        kernel: K,
        bytes: &[u8],
        size: usize,
    ) -> Option<usize>;
}

impl Extreme for Above {
    type OrEqual = AtLeast;

    const LAST: u8 = u8::MAX;

    #[inline(always)]
    fn than(value: u8) -> Above {
        Above(value)
    }

    #[inline(always)]
    fn from(value: u8) -> AtLeast {
        AtLeast(value)
    }

    #[inline(always)]
    fn is_beyond<N: Ord>(a: N, b: N) -> bool {
        a > b
    }

    #[inline(always)]
    fn pairs<K: Kernel>(kernel: K, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        kernel.pairs_from(bytes, pair)
    }

    #[inline(always)]
    fn next(number: u64) -> u64 {
        number.wrapping_add(1)
    }

    #[inline(always)]
    fn values<K: Kernel>(
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64 {
        kernel.values_from(bytes, bound, size)
    }

    #[inline(always)]
    fn next_extreme<K: Kernel>(
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes> {
        kernel.next_extreme::<false>(bytes, bound, size, by_prefix)
    }

    #[inline(always)]
    fn extreme_at<K: Kernel, const LAST: bool>(
        kernel: K,
        bytes: &[u8],
        size: usize,
    ) -> Option<usize> {
        kernel.extreme_at::<false, LAST>(bytes, size)
    }
}

impl Extreme for Below {
    type OrEqual = AtMost;

    const LAST: u8 = 0;

    #[inline(always)]
    fn than(value: u8) -> Below {
        Below(value)
    }

    #[inline(always)]
    fn from(value: u8) -> AtMost {
        AtMost(value)
    }

    #[inline(always)]
    fn is_beyond<N: Ord>(a: N, b: N) -> bool {
        a < b
    }

    #[inline(always)]
    fn pairs<K: Kernel>(kernel: K, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        kernel.pairs_to(bytes, pair)
    }

    #[inline(always)]
    fn next(number: u64) -> u64 {
        number.wrapping_sub(1)
    }

    #[inline(always)]
    fn values<K: Kernel>(
        kernel: K,
        bytes: &ValueBlock,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
    ) -> u64 {
        kernel.values_to(bytes, bound, size)
    }

    #[inline(always)]
    fn next_extreme<K: Kernel>(
        kernel: K,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        by_prefix: &mut bool,
    ) -> Option<Extremes> {
        kernel.next_extreme::<true>(bytes, bound, size, by_prefix)
    }

    #[inline(always)]
    fn extreme_at<K: Kernel, const LAST: bool>(
        kernel: K,
        bytes: &[u8],
        size: usize,
    ) -> Option<usize> {
        kernel.extreme_at::<true, LAST>(bytes, size)
    }
}

/// Returns the mask of the values of `size` bytes, at least 2, that begin in the first block of
/// `bytes` and are not less extreme than the first bytes of `bound`. The first byte of a value is
/// the most significant one.
#[inline(always)]
fn reaching<K: Kernel, E: Extreme>(
    kernel: K,
    bytes: &ValueBlock,
    bound: [u8; VALUE_SIZE_MAX],
    size: usize,
) -> u64 {
    match size {
        2 => bytes.first_chunk().map_or(0, |pairs| E::pairs(kernel, pairs, [bound[0], bound[1]])),
        // Constant sizes, so that the loop over the bytes of a value is unrolled.
        4 => E::values(kernel, bytes, bound, 4),
        _ => E::values(kernel, bytes, bound, VALUE_SIZE_MAX),
    }
}

/// The bytes of a chunk, with the kernel and the mapping to evaluate them.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a, K, V> {
    pub(crate) kernel: K,
    pub(crate) data: &'a [u8],
    pub(crate) values: V,
}

impl<K: Kernel, V: Values> Blocks<'_, K, V> {
    /// Returns the value of the byte at `index`.
    #[inline(always)]
    pub(crate) fn value(self, index: usize) -> u8 {
        self.values.value(self.data[index])
    }

    /// Returns the first byte of `range` that the question selects.
    #[inline(always)]
    pub(crate) fn first(self, question: impl Question, range: Range<usize>) -> Option<usize> {
        let bytes = self.data.get(range.clone())?;
        let mut start = range.start;
        for block in bytes.as_chunks().0 {
            let wanted = self.values.ask(self.kernel, question, block);
            if wanted != 0 {
                return Some(start + wanted.trailing_zeros() as usize);
            }
            self.kernel.prefetch(self.data, start + AHEAD);
            start += BLOCK_SIZE;
        }
        let wanted = self.ask(question, start..range.end);
        (wanted != 0).then(|| start + wanted.trailing_zeros() as usize)
    }

    /// Returns the last byte of `range` that the question selects.
    #[inline(always)]
    pub(crate) fn last(self, question: impl Question, range: Range<usize>) -> Option<usize> {
        let bytes = self.data.get(range.clone())?;
        let mut end = range.end;
        for block in bytes.as_rchunks().1.iter().rev() {
            end -= BLOCK_SIZE;
            let wanted = self.values.ask(self.kernel, question, block);
            if wanted != 0 {
                return Some(end + wanted.ilog2() as usize);
            }
        }
        let wanted = self.ask(question, range.start..end);
        (wanted != 0).then(|| range.start + wanted.ilog2() as usize)
    }

    /// Returns the first byte of `range` that is more extreme than `value`; `None` if `value` is
    /// the most extreme of all.
    #[inline(always)]
    pub(crate) fn first_beyond<E: Extreme>(self, value: u8, range: Range<usize>) -> Option<usize> {
        if value == E::LAST { None } else { self.first(E::than(value), range) }
    }

    /// Returns the mask of the selected bytes of `range`, which has fewer than 64 bytes.
    #[inline(always)]
    fn ask(self, question: impl Question, range: Range<usize>) -> u64 {
        let bytes = &self.data[range.clone()];
        if bytes.is_empty() {
            return 0;
        }
        // Both cases share one question, because compilers turn two masks that meet into vectors of
        // single bits.
        let mut end = [0; BLOCK_SIZE];
        let block = self.data[range.start..].first_chunk().unwrap_or_else(|| {
            end[..bytes.len()].copy_from_slice(bytes);
            &end
        });
        let wanted = self.values.ask(self.kernel, question, block);
        wanted & ((1 << bytes.len()) - 1)
    }

    /// Prefetches the bytes that are looked at soon if the rest of a window of `window` bytes is
    /// skipped, for this chunk and the next ones: from byte `next` on, and about one and two
    /// windows behind it. The hardware predicts none of these.
    #[inline(always)]
    pub(crate) fn prefetch_next(self, next: usize, window: usize) {
        // The bytes behind a smaller window are within the prefetch distance of `first`.
        if window >= 1024 {
            self.prefetch(next..next + 8 * LINE_SIZE);
            self.prefetch(next + window..next + window + 16 * LINE_SIZE);
            let last = next + 2 * window + 4 * LINE_SIZE;
            self.prefetch(last..last + 12 * LINE_SIZE);
        }
    }

    /// Prefetches the cache lines of `range`, from its start in steps of one line.
    #[inline(always)]
    pub(crate) fn prefetch(self, range: Range<usize>) {
        for offset in range.step_by(LINE_SIZE) {
            self.kernel.prefetch(self.data, offset);
        }
    }
}

/// Returns the bits of `mask` that end a run of at least `length` ones.
#[inline(always)]
pub(crate) fn runs(mut mask: u64, length: u32) -> u64 {
    let mut width = 1;
    while 2 * width <= length {
        mask &= mask.unbounded_shl(width);
        width *= 2;
    }
    mask & mask.unbounded_shl(length - width)
}
