//! AVX-512 with byte lanes (F and BW) and BMI2: 64 bytes at a time.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_cmpeq_epu8_mask, _mm512_cmpeq_epu32_mask, _mm512_cmpge_epu64_mask,
    _mm512_cmpgt_epu8_mask, _mm512_cmple_epu64_mask, _mm512_cmplt_epu8_mask,
    _mm512_cmplt_epu32_mask, _mm512_loadu_si512, _mm512_mask_cmpge_epu8_mask,
    _mm512_mask_cmple_epu8_mask, _mm512_max_epu64, _mm512_min_epu32, _mm512_min_epu64,
    _mm512_mullo_epi32, _mm512_reduce_max_epu64, _mm512_reduce_min_epu32, _mm512_reduce_min_epu64,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_storeu_si512, _mm512_test_epi8_mask, _pdep_u64,
};

use super::{REVERSED, level, nth_one_bmi2 as nth_one, squeeze_bmi2 as squeeze};
use crate::kernel::{
    BLOCK_SIZE, Block, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock, Tables, Task,
    VALUE_SIZE_MAX, ValueBlock, first_byte, number_blocks, parts, value_bits,
};

level! {
    /// Proof that this CPU has AVX-512 F and BW, BMI2, and what belongs to AVX2.
    Avx512, "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let (before, after) = (load(before), load(after));
    (_mm512_cmplt_epu8_mask(before, after), _mm512_cmpgt_epu8_mask(before, after))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn above(block: &Block, value: u8) -> u64 {
    _mm512_cmpgt_epu8_mask(load(block), _mm512_set1_epi8(value.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn below(block: &Block, value: u8) -> u64 {
    _mm512_cmplt_epu8_mask(load(block), _mm512_set1_epi8(value.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pairs_from(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds) = (load(firsts), load(seconds));
    let [first, second] = pair.map(|byte| _mm512_set1_epi8(byte.cast_signed()));
    let equal = _mm512_cmpeq_epu8_mask(firsts, first);
    let kept = _mm512_mask_cmpge_epu8_mask(equal, seconds, second);
    _mm512_cmpgt_epu8_mask(firsts, first) | kept
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pairs_to(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let (firsts, seconds) = (load(firsts), load(seconds));
    let [first, second] = pair.map(|byte| _mm512_set1_epi8(byte.cast_signed()));
    let equal = _mm512_cmpeq_epu8_mask(firsts, first);
    let kept = _mm512_mask_cmple_epu8_mask(equal, seconds, second);
    _mm512_cmplt_epu8_mask(firsts, first) | kept
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn values_from(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    // The bytes behind a value do not matter, as those of the bound are zeros.
    let bound = u64::from_be_bytes(bound) & value_bits(size);
    let bound = _mm512_set1_epi64(bound.cast_signed());
    let mut found = 0;
    for (k, bytes) in bytes.windows(BLOCK_SIZE).enumerate() {
        let Some(bytes) = bytes.first_chunk() else { return 0 };
        let reached = _mm512_cmpge_epu64_mask(values(bytes), bound);
        found |= _pdep_u64(u64::from(reached), FIRST_BYTES << k);
    }
    found
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn values_to(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    // The bytes behind a value do not matter, as those of the bound are ones.
    let bound = u64::from_be_bytes(bound) | !value_bits(size);
    let bound = _mm512_set1_epi64(bound.cast_signed());
    let mut found = 0;
    for (k, bytes) in bytes.windows(BLOCK_SIZE).enumerate() {
        let Some(bytes) = bytes.first_chunk() else { return 0 };
        let reached = _mm512_cmple_epu64_mask(values(bytes), bound);
        found |= _pdep_u64(u64::from(reached), FIRST_BYTES << k);
    }
    found
}

/// The mask of the first byte of every eight.
const FIRST_BYTES: u64 = 0x0101_0101_0101_0101;

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn greatest_value(bytes: &ValueBlock, size: usize) -> Option<u64> {
    let mut greatest = _mm512_setzero_si512();
    for bytes in bytes.windows(BLOCK_SIZE) {
        let bytes = bytes.first_chunk()?;
        greatest = _mm512_max_epu64(greatest, values(bytes));
    }
    // The bytes behind the value decide only between equal values.
    Some(_mm512_reduce_max_epu64(greatest) & value_bits(size))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least_value(bytes: &ValueBlock, size: usize) -> Option<u64> {
    let mut least = _mm512_set1_epi64(-1);
    for bytes in bytes.windows(BLOCK_SIZE) {
        let bytes = bytes.first_chunk()?;
        least = _mm512_min_epu64(least, values(bytes));
    }
    Some(_mm512_reduce_min_epu64(least) & value_bits(size))
}

/// Returns the numbers of every eight bytes, of which the first is the most significant.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn values(bytes: &Block) -> __m512i {
    _mm512_shuffle_epi8(load(bytes), load_table(&REVERSED))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least_number(bytes: &NumberBlock, mapping: Mapping) -> u32 {
    _mm512_reduce_min_epu32(least_numbers(bytes, mapping))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn has_number_below(bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
    let bound = _mm512_set1_epi32(bound.cast_signed());
    _mm512_cmplt_epu32_mask(least_numbers(bytes, mapping), bound) != 0
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least_numbers_of_groups(bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
    let Some([a, b]) = parts(bytes) else {
        return [u32::MAX; LANE_COUNT];
    };
    let least = _mm512_min_epu32(least_numbers(a, mapping), least_numbers(b, mapping));
    let mut groups = [0; LANE_COUNT];
    // SAFETY: `groups` is 64 writable bytes, and `storeu` requires no alignment.
    unsafe { _mm512_storeu_si512(groups.as_mut_ptr().cast(), least) };
    groups
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn first_number(bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
    let number = _mm512_set1_epi32(number.cast_signed());
    let mut masks = [0; 4];
    for (k, part) in parts(bytes).into_iter().flatten().enumerate() {
        for (mask, block) in masks.iter_mut().zip(number_blocks(part).into_iter().flatten()) {
            let equal = _mm512_cmpeq_epu32_mask(mapped(load(block), mapping), number);
            *mask |= u64::from(equal) << (16 * k);
        }
    }
    first_byte(masks)
}

/// Returns the minimum of every four numbers, which begin at neighbouring bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least_numbers(bytes: &NumberBlock, mapping: Mapping) -> __m512i {
    let Some([a, b, c, d]) = number_blocks(bytes) else {
        return _mm512_set1_epi32(-1);
    };
    let first = _mm512_min_epu32(mapped(load(a), mapping), mapped(load(b), mapping));
    _mm512_min_epu32(first, _mm512_min_epu32(mapped(load(c), mapping), mapped(load(d), mapping)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn mapped(numbers: __m512i, mapping: Mapping) -> __m512i {
    let product = _mm512_mullo_epi32(numbers, _mm512_set1_epi32(mapping.factor.cast_signed()));
    _mm512_add_epi32(product, _mm512_set1_epi32(mapping.summand.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sift(bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let [low0, high0, low1, high1] = tables;
    let set0 = look_up(load_table(low0), load_table(high0), load(before));
    let set1 = look_up(load_table(low1), load_table(high1), load(after));
    _mm512_test_epi8_mask(set0, set1)
}

/// Returns, for each byte, the common bits of the entry of its lower half in `low` and of its upper
/// half in `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up(low: __m512i, high: __m512i, bytes: __m512i) -> __m512i {
    let [lower, upper] = of_halves(low, high, bytes);
    _mm512_and_si512(lower, upper)
}

/// Returns, for each byte, the entry of its lower half in `low`, and that of its upper half in
/// `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn of_halves(low: __m512i, high: __m512i, bytes: __m512i) -> [__m512i; 2] {
    let half = _mm512_set1_epi8(15);
    let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), half);
    let lower = _mm512_and_si512(bytes, half);
    [_mm512_shuffle_epi8(low, lower), _mm512_shuffle_epi8(high, upper)]
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(block: &Block) -> __m512i {
    // SAFETY: `block` is 64 readable bytes, and `loadu` requires no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

/// Loads a table four times, because shuffles look up each quarter of the bytes in its own quarter
/// of the table.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_table(table: &[u8; 16]) -> __m512i {
    // SAFETY: `table` is 16 readable bytes, and `loadu` requires no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}
