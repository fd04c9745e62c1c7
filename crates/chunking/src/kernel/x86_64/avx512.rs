//! AVX-512 with byte lanes (F and BW) and BMI2: 64 bytes at a time.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi32, _mm512_add_epi64, _mm512_alignr_epi8,
    _mm512_alignr_epi64, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_cmpeq_epu8_mask,
    _mm512_cmpeq_epu32_mask, _mm512_cmpeq_epu64_mask, _mm512_cmpge_epu32_mask,
    _mm512_cmpge_epu64_mask, _mm512_cmpgt_epu8_mask, _mm512_cmpgt_epu64_mask,
    _mm512_cmple_epu64_mask, _mm512_cmplt_epu8_mask, _mm512_cmplt_epu32_mask, _mm512_loadu_si512,
    _mm512_mask_cmpge_epu8_mask, _mm512_mask_cmple_epu8_mask, _mm512_mask_mov_epi64,
    _mm512_mask_reduce_max_epu64, _mm512_mask_reduce_min_epu64, _mm512_max_epu32, _mm512_max_epu64,
    _mm512_min_epu32, _mm512_mullo_epi32, _mm512_reduce_max_epu64, _mm512_reduce_min_epu32,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_storeu_si512, _mm512_test_epi8_mask,
    _mm512_xor_si512, _pdep_u64,
};
use core::hint::black_box;

use super::{
    LANE_REVERSED, REVERSED, bound_number, level, nth_one_bmi2 as nth_one, position_extremes,
    squeeze_bmi2 as squeeze,
};
use crate::kernel::{
    BLOCK_SIZE, Block, Extremes, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock,
    SPAN_BLOCK_COUNT, SPAN_SIZE, Tables, Task, VALUE_SIZE_MAX, ValueBlock, ValueSpan, first_byte,
    number_blocks, parts, span_block, value_bits, value_block,
};

level! {
    /// Proof that this CPU has AVX-512 F and BW, BMI2, and what belongs to AVX2.
    Avx512, "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"; 8 * SPAN_SIZE
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

/// Searches for the greatest values, or, if `LEAST` is set, for those of inverted bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn next_extreme<const LEAST: bool>(
    bytes: &ValueSpan,
    bound: [u8; VALUE_SIZE_MAX],
    size: usize,
    by_prefix: &mut bool,
) -> Option<Extremes> {
    let bound = bound_number::<LEAST>(bound, size);
    if *by_prefix {
        let mut greatest = _mm512_setzero_si512();
        for lanes in reversed_lanes::<LEAST>(bytes) {
            greatest = _mm512_max_epu32(greatest, greatest_prefixes(lanes));
        }
        let prefix = _mm512_set1_epi32((bound >> 32) as i32);
        if _mm512_cmpge_epu32_mask(greatest, prefix) == 0 {
            return None;
        }
    }
    let found = greatest_values_from::<LEAST>(bytes, bound, size);
    *by_prefix &= found.is_some();
    found
}

/// Works as [`next_extreme`] by comparing all bytes of each value.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn greatest_values_from<const LEAST: bool>(
    bytes: &ValueSpan,
    bound: u64,
    size: usize,
) -> Option<Extremes> {
    let [a, b, c, d] = reversed_lanes::<LEAST>(bytes);
    let values = [greatest_values(a), greatest_values(b), greatest_values(c), greatest_values(d)];
    let [a, b, c, d] = values;
    let all = _mm512_max_epu64(_mm512_max_epu64(a, b), _mm512_max_epu64(c, d));
    if _mm512_cmpge_epu64_mask(all, _mm512_set1_epi64(bound.cast_signed())) == 0 {
        return None;
    }
    // The bytes behind a value decide only between equal values.
    let greatest = _mm512_reduce_max_epu64(all) & value_bits(size);
    let number = _mm512_set1_epi64(greatest.cast_signed());
    let mut blocks = 0;
    for (k, values) in values.into_iter().enumerate() {
        blocks |= u32::from(_mm512_cmpge_epu64_mask(values, number) != 0) << k;
    }
    position_extremes(blocks, |k| positions::<LEAST>(value_block(bytes, k), greatest, size))
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn extreme_at<const LEAST: bool, const LAST: bool>(bytes: &[u8], size: usize) -> Option<usize> {
    let (blocks, tail) = bytes.as_chunks();
    let (&[ref first, ref rest @ ..], Some(tail)) = (blocks, tail.first_chunk()) else {
        return None;
    };
    let order = lane_reversed();
    let tail = reversed::<LEAST>(load_table(tail), order);
    let bits = _mm512_set1_epi64(value_bits(size).cast_signed());
    let mut lanes = reversed::<LEAST>(load(first), order);
    // For each lane the greatest value, and the block that it was found in.
    let (mut greatest, mut block) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut number = _mm512_setzero_si512();
    for k in 0..blocks.len() {
        let next = rest.get(k).map_or(tail, |next| reversed::<LEAST>(load(next), order));
        let behind = _mm512_alignr_epi64::<2>(next, lanes);
        let values = _mm512_and_si512(greatest_values([lanes, behind]), bits);
        let is_taken = if LAST {
            _mm512_cmpge_epu64_mask(values, greatest)
        } else {
            _mm512_cmpgt_epu64_mask(values, greatest)
        };
        greatest = _mm512_max_epu64(greatest, values);
        block = _mm512_mask_mov_epi64(block, is_taken, number);
        number = _mm512_add_epi64(number, _mm512_set1_epi64(1));
        lanes = next;
    }
    let value = _mm512_reduce_max_epu64(greatest);
    let has_value = _mm512_cmpeq_epu64_mask(greatest, _mm512_set1_epi64(value.cast_signed()));
    let block = if LAST {
        _mm512_mask_reduce_max_epu64(has_value, block)
    } else {
        _mm512_mask_reduce_min_epu64(has_value, block)
    };
    let start = usize::try_from(block).ok()? * BLOCK_SIZE;
    let mask = positions::<LEAST>(bytes[start..].first_chunk()?, value, size);
    let position = if LAST { mask.checked_ilog2()? } else { mask.trailing_zeros() };
    Some(start + position as usize)
}

/// Returns the mask of the values of a block, of which `value` is the greatest; of its inverted
/// bytes if `LEAST` is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn positions<const LEAST: bool>(bytes: &ValueBlock, value: u64, size: usize) -> u64 {
    if LEAST {
        values_to(bytes, (!value).to_be_bytes(), size)
    } else {
        values_from(bytes, value.to_be_bytes(), size)
    }
}

/// Returns the greatest of the numbers of four bytes that begin in each four bytes of the lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn greatest_prefixes([lanes, behind]: [__m512i; 2]) -> __m512i {
    let one = _mm512_alignr_epi8::<15>(lanes, behind);
    let two = _mm512_alignr_epi8::<14>(lanes, behind);
    let three = _mm512_alignr_epi8::<13>(lanes, behind);
    _mm512_max_epu32(_mm512_max_epu32(lanes, one), _mm512_max_epu32(two, three))
}

/// Returns the greatest of the numbers of eight bytes that begin in each eight bytes of the lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn greatest_values([lanes, behind]: [__m512i; 2]) -> __m512i {
    let one = _mm512_alignr_epi8::<15>(lanes, behind);
    let two = _mm512_alignr_epi8::<14>(lanes, behind);
    let three = _mm512_alignr_epi8::<13>(lanes, behind);
    let four = _mm512_alignr_epi8::<12>(lanes, behind);
    let five = _mm512_alignr_epi8::<11>(lanes, behind);
    let six = _mm512_alignr_epi8::<10>(lanes, behind);
    let seven = _mm512_alignr_epi8::<9>(lanes, behind);
    let low = _mm512_max_epu64(_mm512_max_epu64(lanes, one), _mm512_max_epu64(two, three));
    let high = _mm512_max_epu64(_mm512_max_epu64(four, five), _mm512_max_epu64(six, seven));
    _mm512_max_epu64(low, high)
}

/// Returns, for each block of a span, the 16 bytes of each lane in reverse, and likewise those of the
/// lanes behind them. A number of neighbouring bytes of both is one whose first byte is the most
/// significant.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reversed_lanes<const LEAST: bool>(bytes: &ValueSpan) -> [[__m512i; 2]; SPAN_BLOCK_COUNT] {
    let order = lane_reversed();
    let block = |k| span_block(bytes, k).first_chunk().map_or(order, |block| load(block));
    let [a, b] = [reversed::<LEAST>(block(0), order), reversed::<LEAST>(block(1), order)];
    let [c, d] = [reversed::<LEAST>(block(2), order), reversed::<LEAST>(block(3), order)];
    let tail = bytes.last_chunk().map_or(order, |tail| load_table(tail));
    let tail = reversed::<LEAST>(tail, order);
    [
        [a, _mm512_alignr_epi64::<2>(b, a)],
        [b, _mm512_alignr_epi64::<2>(c, b)],
        [c, _mm512_alignr_epi64::<2>(d, c)],
        [d, _mm512_alignr_epi64::<2>(tail, d)],
    ]
}

/// Returns the bytes of each lane in reverse, and inverted if `LEAST` is set; `order` is
/// [`lane_reversed`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reversed<const LEAST: bool>(bytes: __m512i, order: __m512i) -> __m512i {
    let lanes = _mm512_shuffle_epi8(bytes, order);
    if LEAST { _mm512_xor_si512(lanes, _mm512_set1_epi64(-1)) } else { lanes }
}

/// Returns the indexes that reverse the bytes of each lane, hidden from the compiler: it would merge
/// shuffles by known indexes with the shifts behind them, into three times as many instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn lane_reversed() -> __m512i {
    load_table(black_box(&LANE_REVERSED))
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
