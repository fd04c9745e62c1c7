//! SSE4.1 with POPCNT: 16 bytes at a time.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpeq_epi32, _mm_cvtsi128_si32,
    _mm_loadu_si128, _mm_max_epu32, _mm_min_epu8, _mm_min_epu32, _mm_movemask_epi8,
    _mm_mullo_epi32, _mm_set1_epi8, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_shuffle_epi32, _mm_srli_epi16,
};

use super::level;
use crate::kernel::{
    BLOCK_SIZE, Block, Kernel, Mapping, NumberBlock, Scalar, Tables, Task, number_blocks,
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
