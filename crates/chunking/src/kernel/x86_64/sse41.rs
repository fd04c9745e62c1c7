//! SSE4.1 with POPCNT: 16 bytes at a time.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_and_si128, _mm_andnot_si128, _mm_castsi128_ps, _mm_cmpeq_epi8,
    _mm_cmpeq_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_max_epu32, _mm_min_epu8,
    _mm_min_epu32, _mm_movemask_epi8, _mm_movemask_ps, _mm_mullo_epi32, _mm_set1_epi8,
    _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_srli_epi16,
    _mm_storeu_si128,
};

use super::level;
use crate::kernel::{
    BLOCK_SIZE, Block, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock, Scalar, Tables,
    Task, VALUE_SIZE_MAX, ValueBlock, first_byte, number_blocks, parts,
};

level! {
    /// Proof that this CPU has SSE4.1 and POPCNT.
    Sse41, "sse4.1,popcnt", "sse4.1", "popcnt"
}

#[inline]
#[target_feature(enable = "sse4.1,popcnt")]
fn squeeze(bits: u64, kept: u64) -> u64 {
    Scalar.squeeze(bits, kept)
}

#[inline]
#[target_feature(enable = "sse4.1,popcnt")]
fn nth_one(mask: u64, n: u32) -> u32 {
    Scalar.nth_one(mask, n)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let (before, after): (&Block, &Block) = (before, after);
    let (before, after) = (before.as_chunks().0, after.as_chunks().0);
    let (mut rising, mut falling) = (0, 0);
    for k in 0..4 {
        let (before, after) = (load(&before[k]), load(&after[k]));
        rising |= mask(at_least(before, after)) << (16 * k);
        falling |= mask(at_least(after, before)) << (16 * k);
    }
    (!rising, !falling)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn above(block: &Block, value: u8) -> u64 {
    let value = _mm_set1_epi8(value.cast_signed());
    let mut others = 0;
    for (k, bytes) in block.as_chunks().0.iter().enumerate() {
        others |= mask(at_least(value, load(bytes))) << (16 * k);
    }
    !others
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn below(block: &Block, value: u8) -> u64 {
    let value = _mm_set1_epi8(value.cast_signed());
    let mut others = 0;
    for (k, bytes) in block.as_chunks().0.iter().enumerate() {
        others |= mask(at_least(load(bytes), value)) << (16 * k);
    }
    !others
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn pairs_from(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds): (&Block, &Block) = (firsts, seconds);
    let [first, second] = pair.map(|byte| _mm_set1_epi8(byte.cast_signed()));
    let mut found = 0;
    for (k, (firsts, seconds)) in firsts.as_chunks().0.iter().zip(seconds.as_chunks().0).enumerate()
    {
        let (firsts, kept) = (load(firsts), at_least(load(seconds), second));
        let reached = at_least(firsts, first);
        found |= mask(beyond_or_equal(reached, firsts, first, kept)) << (16 * k);
    }
    found
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn pairs_to(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds): (&Block, &Block) = (firsts, seconds);
    let [first, second] = pair.map(|byte| _mm_set1_epi8(byte.cast_signed()));
    let mut found = 0;
    for (k, (firsts, seconds)) in firsts.as_chunks().0.iter().zip(seconds.as_chunks().0).enumerate()
    {
        let (firsts, kept) = (load(firsts), at_least(second, load(seconds)));
        let reached = at_least(first, firsts);
        found |= mask(beyond_or_equal(reached, firsts, first, kept)) << (16 * k);
    }
    found
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn values_from(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [_mm_set1_epi8(-1); 4];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let bound = _mm_set1_epi8(bound.cast_signed());
        for (found, bytes) in found.iter_mut().zip(bytes.as_chunks().0) {
            let bytes = load(bytes);
            *found = beyond_or_equal(at_least(bytes, bound), bytes, bound, *found);
        }
    }
    mask(found[0]) | mask(found[1]) << 16 | mask(found[2]) << 32 | mask(found[3]) << 48
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn values_to(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [_mm_set1_epi8(-1); 4];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let bound = _mm_set1_epi8(bound.cast_signed());
        for (found, bytes) in found.iter_mut().zip(bytes.as_chunks().0) {
            let bytes = load(bytes);
            *found = beyond_or_equal(at_least(bound, bytes), bytes, bound, *found);
        }
    }
    mask(found[0]) | mask(found[1]) << 16 | mask(found[2]) << 32 | mask(found[3]) << 48
}

/// Returns `reached`, without the bytes of `a` that equal those of `b`, unless `kept`.
#[inline]
#[target_feature(enable = "sse4.1")]
fn beyond_or_equal(reached: __m128i, a: __m128i, b: __m128i, kept: __m128i) -> __m128i {
    let dropped = _mm_andnot_si128(kept, _mm_cmpeq_epi8(a, b));
    _mm_andnot_si128(dropped, reached)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn least_number(bytes: &NumberBlock, mapping: Mapping) -> u32 {
    let four = least_numbers(bytes, mapping);
    let two = _mm_min_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn has_number_below(bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
    let bound = _mm_set1_epi32(bound.cast_signed());
    let numbers = least_numbers(bytes, mapping);
    _mm_movemask_epi8(_mm_cmpeq_epi32(_mm_max_epu32(numbers, bound), numbers)) != 0xffff
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn least_numbers_of_groups(bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
    let Some([a, b]) = parts(bytes) else {
        return [u32::MAX; LANE_COUNT];
    };
    let (first, second) = (least_numbers(a, mapping), least_numbers(b, mapping));
    let mut groups = [u32::MAX; LANE_COUNT];
    let (low, high) = groups.split_at_mut(4);
    // SAFETY: `low` is 16 writable bytes, and `storeu` requires no alignment.
    unsafe { _mm_storeu_si128(low.as_mut_ptr().cast(), first) };
    // SAFETY: as above.
    unsafe { _mm_storeu_si128(high.as_mut_ptr().cast(), second) };
    groups
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn first_number(bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
    let number = _mm_set1_epi32(number.cast_signed());
    let factor = _mm_set1_epi32(mapping.factor.cast_signed());
    let summand = _mm_set1_epi32(mapping.summand.cast_signed());
    let mut masks = [0; 4];
    for (k, part) in parts(bytes).into_iter().flatten().enumerate() {
        for (mask, block) in masks.iter_mut().zip(number_blocks(part).into_iter().flatten()) {
            for (j, numbers) in block.as_chunks().0.iter().enumerate() {
                let numbers = _mm_add_epi32(_mm_mullo_epi32(load(numbers), factor), summand);
                let equal = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(numbers, number)));
                *mask |= u64::from(equal.cast_unsigned()) << (16 * k + 4 * j);
            }
        }
    }
    first_byte(masks)
}

/// Returns the minimum of every sixteen numbers.
#[inline]
#[target_feature(enable = "sse4.1")]
fn least_numbers(bytes: &NumberBlock, mapping: Mapping) -> __m128i {
    let factor = _mm_set1_epi32(mapping.factor.cast_signed());
    let summand = _mm_set1_epi32(mapping.summand.cast_signed());
    let mut least = _mm_set1_epi32(-1);
    for block in number_blocks(bytes).into_iter().flatten() {
        for numbers in block.as_chunks().0 {
            let product = _mm_mullo_epi32(load(numbers), factor);
            least = _mm_min_epu32(least, _mm_add_epi32(product, summand));
        }
    }
    least
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn sift(bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (before, after): (&Block, &Block) = (before, after);
    let (before, after) = (before.as_chunks().0, after.as_chunks().0);
    let [low0, high0, low1, high1] = tables;
    let (low0, high0, low1, high1) = (load(low0), load(high0), load(low1), load(high1));
    let mut others = 0;
    for k in 0..4 {
        let set0 = look_up(low0, high0, load(&before[k]));
        let set1 = look_up(low1, high1, load(&after[k]));
        let common = _mm_and_si128(set0, set1);
        others |= mask(_mm_cmpeq_epi8(common, _mm_setzero_si128())) << (16 * k);
    }
    !others
}

/// Returns, for each byte, the common bits of the entry of its lower half in `low` and of its upper
/// half in `high`.
#[inline]
#[target_feature(enable = "sse4.1")]
fn look_up(low: __m128i, high: __m128i, bytes: __m128i) -> __m128i {
    let half = _mm_set1_epi8(15);
    let upper = _mm_and_si128(_mm_srli_epi16::<4>(bytes), half);
    let lower = _mm_and_si128(bytes, half);
    _mm_and_si128(_mm_shuffle_epi8(low, lower), _mm_shuffle_epi8(high, upper))
}

/// Returns the bytes of `a` that are not less than those of `b`. SSE compares only signed bytes
/// directly.
#[inline]
#[target_feature(enable = "sse4.1")]
fn at_least(a: __m128i, b: __m128i) -> __m128i {
    _mm_cmpeq_epi8(_mm_min_epu8(a, b), b)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn mask(bytes: __m128i) -> u64 {
    u64::from(_mm_movemask_epi8(bytes).cast_unsigned())
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: `bytes` is 16 readable bytes, and `loadu` requires no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
