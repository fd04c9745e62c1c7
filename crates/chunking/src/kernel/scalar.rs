//! Portable Rust, which defines every answer.

use super::{
    BLOCK_SIZE, Block, Extremes, Kernel, LANE_COUNT, LONG_BLOCK_SIZE, LongNumberBlock, Mapping,
    NumberBlock, Tables, VALUE_SIZE_MAX, ValueBlock, ValueSpan, first_reaching, reaching_values,
    value_bits,
};

/// The kernel of every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar;

impl Kernel for Scalar {
    #[inline(always)]
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        let (mut rising, mut falling) = (0, 0);
        let (before, after) = (bytes[..BLOCK_SIZE].as_chunks(), bytes[1..].as_chunks());
        for (&before, &after) in before.0.iter().zip(after.0).rev() {
            let (before, after) = (u64::from_le_bytes(before), u64::from_le_bytes(after));
            let less = less(before, after);
            rising = rising << 8 | gather(less);
            falling = falling << 8 | gather(unequal(before, after) & !less);
        }
        (rising, falling)
    }

    #[inline(always)]
    fn above(self, block: &Block, value: u8) -> u64 {
        // Mostly no byte is greater. The maximum, which compilers compute by vectors, then
        // suffices.
        if block.iter().fold(0, |greatest, &byte| byte.max(greatest)) <= value {
            return 0;
        }
        mask(block, |bytes| less(splat(value), bytes))
    }

    #[inline(always)]
    fn below(self, block: &Block, value: u8) -> u64 {
        if block.iter().fold(u8::MAX, |least, &byte| byte.min(least)) >= value {
            return 0;
        }
        mask(block, |bytes| less(bytes, splat(value)))
    }

    #[inline(always)]
    fn pairs_from(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        let (first, second) = (splat(pair[0]), splat(pair[1]));
        // Mostly no first byte is that great.
        if bytes[..BLOCK_SIZE].iter().fold(0, |greatest, &byte| byte.max(greatest)) < pair[0] {
            return 0;
        }
        mask_pairs(bytes, |a, b| less(first, a) | !unequal(first, a) & TOPS & !less(b, second))
    }

    #[inline(always)]
    fn pairs_to(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        let (first, second) = (splat(pair[0]), splat(pair[1]));
        if bytes[..BLOCK_SIZE].iter().fold(u8::MAX, |least, &byte| byte.min(least)) > pair[0] {
            return 0;
        }
        mask_pairs(bytes, |a, b| less(a, first) | !unequal(first, a) & TOPS & !less(second, b))
    }

    #[inline(always)]
    fn values_from(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        // The bytes behind a value do not matter, as those of the bound are zeros.
        let bound = u64::from_be_bytes(bound) & value_bits(size);
        mask_values(bytes, |value| value >= bound)
    }

    #[inline(always)]
    fn values_to(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        // The bytes behind a value do not matter, as those of the bound are ones.
        let bound = u64::from_be_bytes(bound) | !value_bits(size);
        mask_values(bytes, |value| value <= bound)
    }

    #[inline(always)]
    fn next_extreme<const LEAST: bool>(
        self,
        bytes: &ValueSpan,
        bound: [u8; VALUE_SIZE_MAX],
        size: usize,
        _: &mut bool,
    ) -> Option<Extremes> {
        let start = first_reaching::<_, LEAST>(self, bytes, bound, size)? & !(BLOCK_SIZE - 1);
        let block = bytes[start..].first_chunk()?;
        let extreme = if LEAST {
            values(block).fold(u64::MAX, u64::min)
        } else {
            values(block).fold(0, u64::max)
        };
        // The bytes behind a value decide only between equal values.
        let mask = reaching_values::<_, LEAST>(self, block, extreme.to_be_bytes(), size);
        Some(Extremes {
            first: start + mask.trailing_zeros() as usize,
            last: start + mask.checked_ilog2()? as usize,
            end: start + BLOCK_SIZE,
        })
    }

    #[inline(always)]
    fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32 {
        let numbers = bytes.windows(4).map(|four| mapping.map([0, 1, 2, 3].map(|k| four[k])));
        numbers.fold(u32::MAX, u32::min)
    }

    #[inline(always)]
    fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
        self.least_number(bytes, mapping) < bound
    }

    #[inline(always)]
    fn least_numbers(self, bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
        let numbers = bytes.windows(4).map(|four| mapping.map([0, 1, 2, 3].map(|k| four[k])));
        [numbers.fold(u32::MAX, u32::min); LANE_COUNT]
    }

    #[inline(always)]
    fn first_number(self, bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
        let mut numbers = bytes.windows(4).map(|four| mapping.map([0, 1, 2, 3].map(|k| four[k])));
        numbers.position(|each| each == number).unwrap_or(LONG_BLOCK_SIZE)
    }

    #[inline(always)]
    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
        let [low0, high0, low1, high1] = tables;
        let set = |low: &[u8; 16], high: &[u8; 16], byte: u8| {
            low[usize::from(byte & 15)] & high[usize::from(byte >> 4)]
        };
        let mut mask = 0;
        for (k, pair) in bytes.windows(2).enumerate() {
            let common = set(low0, high0, pair[0]) & set(low1, high1, pair[1]);
            mask |= u64::from(common != 0) << k;
        }
        mask
    }

    #[inline(always)]
    fn squeeze(self, mut bits: u64, mut kept: u64) -> u64 {
        bits &= kept;
        // Each round removes the lowest stretch of bits that are not kept.
        while kept & kept.wrapping_add(1) != 0 {
            let start = kept.trailing_ones();
            let width = (kept >> start).trailing_zeros();
            let below = (1 << start) - 1;
            bits = bits & below | bits >> width & !below;
            kept = kept & below | kept >> width & !below;
        }
        bits
    }

    #[inline(always)]
    fn nth_one(self, mut mask: u64, mut n: u32) -> u32 {
        // The mask is halved first: on average n is near 30, and clearing one bit at a time would
        // take as many steps.
        let mut index = 0;
        for width in [32, 16, 8] {
            let low_count = (mask & ((1 << width) - 1)).count_ones();
            if n >= low_count {
                n -= low_count;
                mask >>= width;
                index += width;
            }
        }
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        if mask == 0 { 64 } else { index + mask.trailing_zeros() }
    }

    #[inline(always)]
    fn prefetch(self, data: &[u8], offset: usize) {
        // A prefetch changes no answer, and every x86-64 CPU supports it.
        #[cfg(target_arch = "x86_64")]
        super::x86_64::prefetch(data, offset);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (data, offset);
    }

    #[inline(always)]
    fn prefetch_far(self, data: &[u8], offset: usize) {
        // As above.
        #[cfg(target_arch = "x86_64")]
        super::x86_64::prefetch_far(data, offset);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (data, offset);
    }
}

/// Returns the mask of the bytes of `block` for which `wanted`, given 8 bytes at once, sets the top
/// bit.
#[inline(always)]
fn mask(block: &Block, wanted: impl Fn(u64) -> u64) -> u64 {
    let mut mask = 0;
    for &bytes in block.as_chunks().0.iter().rev() {
        mask = mask << 8 | gather(wanted(u64::from_le_bytes(bytes)));
    }
    mask
}

/// Returns the mask of the first 64 bytes for which `wanted`, given 8 bytes and those one further,
/// sets the top bit.
#[inline(always)]
fn mask_pairs(bytes: &[u8; BLOCK_SIZE + 1], wanted: impl Fn(u64, u64) -> u64) -> u64 {
    let mut mask = 0;
    let (firsts, seconds) = (bytes[..BLOCK_SIZE].as_chunks(), bytes[1..].as_chunks());
    for (&firsts, &seconds) in firsts.0.iter().zip(seconds.0).rev() {
        let (firsts, seconds) = (u64::from_le_bytes(firsts), u64::from_le_bytes(seconds));
        mask = mask << 8 | gather(wanted(firsts, seconds));
    }
    mask
}

/// Returns the mask of the first 64 bytes for which `wanted` holds, given the 8 bytes from there on.
#[inline(always)]
fn mask_values(bytes: &ValueBlock, wanted: impl Fn(u64) -> bool) -> u64 {
    let mut mask = 0;
    for (k, value) in values(bytes).enumerate() {
        mask |= u64::from(wanted(value)) << k;
    }
    mask
}

/// Returns the values of 8 bytes that begin at each of the first 64 bytes.
#[inline(always)]
fn values(bytes: &ValueBlock) -> impl Iterator<Item = u64> {
    let eights = bytes.windows(VALUE_SIZE_MAX);
    eights.map(|eight| eight.first_chunk().map_or(0, |&eight| u64::from_be_bytes(eight)))
}

/// Returns `value` in each byte.
#[inline(always)]
fn splat(value: u8) -> u64 {
    u64::from(value) * 0x0101_0101_0101_0101
}

/// The top bit of each byte.
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Returns the top bit of each byte of `a` that is less than its counterpart in `b`.
#[inline(always)]
fn less(a: u64, b: u64) -> u64 {
    // Byte by byte, with the top bits set and clear so that nothing is borrowed from a neighbour:
    // the difference keeps its top bit if the lower seven bits of a are not less.
    let not_less = (a | TOPS) - (b & !TOPS);
    (!a & b | !(a ^ b) & !not_less) & TOPS
}

/// Returns the top bit of each byte of `a` that is not its counterpart in `b`.
#[inline(always)]
fn unequal(a: u64, b: u64) -> u64 {
    let changed = a ^ b;
    // The sum carries into the top bit if any of the lower seven bits is set.
    (((changed & !TOPS) + !TOPS) | changed) & TOPS
}

/// Moves the top bits of the 8 bytes to the lowest 8 bits, in order.
#[inline(always)]
fn gather(tops: u64) -> u64 {
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
