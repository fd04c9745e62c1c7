//! AVX2 with BMI2: 32 bytes at a time.

use core::arch::x86_64::{
    __m256i, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_min_epu32, _mm_shuffle_epi32,
    _mm256_add_epi32, _mm256_add_epi64, _mm256_alignr_epi8, _mm256_and_si256, _mm256_andnot_si256,
    _mm256_blendv_epi8, _mm256_broadcastsi128_si256, _mm256_castsi256_ps, _mm256_castsi256_si128,
    _mm256_cmpeq_epi8, _mm256_cmpeq_epi32, _mm256_cmpgt_epi64, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_max_epu32, _mm256_min_epu8, _mm256_min_epu32, _mm256_movemask_epi8,
    _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_xor_si256,
};
use core::hint::black_box;

use super::{
    LANE_REVERSED, REVERSED, bound_number, level, nth_one_bmi2 as nth_one, position_extremes,
    squeeze_bmi2 as squeeze,
};
use crate::kernel::{
    BLOCK_SIZE, Block, Extremes, Kernel, LANE_COUNT, LongNumberBlock, Mapping, NumberBlock,
    SPAN_BLOCK_COUNT, SPAN_SIZE, TAIL_SIZE, Tables, Task, VALUE_SIZE_MAX, ValueBlock, ValueSpan,
    first_byte, number_blocks, parts, span_block, value_bits, value_block,
};

level! {
    /// Proof that this CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
    Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"; 4 * SPAN_SIZE
}

#[inline]
#[target_feature(enable = "avx2")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let ([before0, before1], [after0, after1]) = (load(before), load(after));
    let (not_falling0, not_rising0) = (at_least(after0, before0), at_least(before0, after0));
    let (not_falling1, not_rising1) = (at_least(after1, before1), at_least(before1, after1));
    (!join(not_rising0, not_rising1), !join(not_falling0, not_falling1))
}

#[inline]
#[target_feature(enable = "avx2")]
fn above(block: &Block, value: u8) -> u64 {
    let value = _mm256_set1_epi8(value.cast_signed());
    let [low, high] = load(block);
    !join(at_least(value, low), at_least(value, high))
}

#[inline]
#[target_feature(enable = "avx2")]
fn below(block: &Block, value: u8) -> u64 {
    let value = _mm256_set1_epi8(value.cast_signed());
    let [low, high] = load(block);
    !join(at_least(low, value), at_least(high, value))
}

#[inline]
#[target_feature(enable = "avx2")]
fn pairs_from(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let ([firsts0, firsts1], [seconds0, seconds1]) = (load(firsts), load(seconds));
    let [first, second] = pair.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
    join(
        beyond_or_equal(at_least(firsts0, first), firsts0, first, at_least(seconds0, second)),
        beyond_or_equal(at_least(firsts1, first), firsts1, first, at_least(seconds1, second)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn pairs_to(bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
    let (Some(firsts), Some(seconds)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let ([firsts0, firsts1], [seconds0, seconds1]) = (load(firsts), load(seconds));
    let [first, second] = pair.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
    join(
        beyond_or_equal(at_least(first, firsts0), firsts0, first, at_least(second, seconds0)),
        beyond_or_equal(at_least(first, firsts1), firsts1, first, at_least(second, seconds1)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn values_from(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [_mm256_set1_epi8(-1); 2];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let Some(bytes) = bytes.first_chunk() else { return 0 };
        let ([low, high], bound) = (load(bytes), _mm256_set1_epi8(bound.cast_signed()));
        found[0] = beyond_or_equal(at_least(low, bound), low, bound, found[0]);
        found[1] = beyond_or_equal(at_least(high, bound), high, bound, found[1]);
    }
    join(found[0], found[1])
}

#[inline]
#[target_feature(enable = "avx2")]
fn values_to(bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let mut found = [_mm256_set1_epi8(-1); 2];
    for (bytes, &bound) in bytes.windows(BLOCK_SIZE).zip(&bound[..size]).rev() {
        let Some(bytes) = bytes.first_chunk() else { return 0 };
        let ([low, high], bound) = (load(bytes), _mm256_set1_epi8(bound.cast_signed()));
        found[0] = beyond_or_equal(at_least(bound, low), low, bound, found[0]);
        found[1] = beyond_or_equal(at_least(bound, high), high, bound, found[1]);
    }
    join(found[0], found[1])
}

/// Returns `reached`, without the bytes of `a` that equal those of `b`, unless `kept`.
#[inline]
#[target_feature(enable = "avx2")]
fn beyond_or_equal(reached: __m256i, a: __m256i, b: __m256i, kept: __m256i) -> __m256i {
    let dropped = _mm256_andnot_si256(kept, _mm256_cmpeq_epi8(a, b));
    _mm256_andnot_si256(dropped, reached)
}

/// Searches for the greatest values, or, if `LEAST` is set, for those of inverted bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn next_extreme<const LEAST: bool>(
    bytes: &ValueSpan,
    bound: [u8; VALUE_SIZE_MAX],
    size: usize,
    _: &mut bool,
) -> Option<Extremes> {
    let bound = bound_number::<LEAST>(bound, size);
    // Comparing all bytes of each value is so slow that the first ones are always compared before.
    let (order, mut greatest) = (lane_reversed(), _mm256_setzero_si256());
    for k in 0..SPAN_BLOCK_COUNT {
        for lanes in reversed_lanes::<LEAST>(span_block(bytes, k), order) {
            greatest = _mm256_max_epu32(greatest, greatest_prefixes(lanes));
        }
    }
    let prefix = _mm256_set1_epi32((bound >> 32) as i32);
    let reached = _mm256_cmpeq_epi32(_mm256_max_epu32(greatest, prefix), greatest);
    if _mm256_movemask_epi8(reached) == 0 {
        return None;
    }
    greatest_values_from::<LEAST>(bytes, bound, size)
}

/// Works as [`next_extreme`] by comparing all bytes of each value.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn greatest_values_from<const LEAST: bool>(
    bytes: &ValueSpan,
    bound: u64,
    size: usize,
) -> Option<Extremes> {
    let mut values = [_mm256_setzero_si256(); SPAN_BLOCK_COUNT];
    for (k, values) in values.iter_mut().enumerate() {
        *values = greatest_values::<LEAST>(value_block(bytes, k));
    }
    let [a, b, c, d] = values;
    let all = unsigned(greater(greater(a, b), greater(c, d)));
    // The bytes behind a value decide only between equal values.
    let greatest = all[0].max(all[1]).max(all[2].max(all[3])) & value_bits(size);
    if greatest < bound {
        return None;
    }
    let number = _mm256_set1_epi64x(greatest.cast_signed() ^ i64::MIN);
    let mut blocks = 0;
    for (k, values) in values.into_iter().enumerate() {
        let is_less = _mm256_cmpgt_epi64(number, values);
        blocks |= u32::from(_mm256_movemask_epi8(is_less) != -1) << k;
    }
    position_extremes(blocks, |k| positions::<LEAST>(value_block(bytes, k), greatest, size))
}

#[inline(never)]
#[target_feature(enable = "avx2")]
fn extreme_at<const LEAST: bool, const LAST: bool>(bytes: &[u8], size: usize) -> Option<usize> {
    let count = bytes.len().checked_sub(TAIL_SIZE)? / BLOCK_SIZE;
    let bits = _mm256_set1_epi64x(value_bits(size).cast_signed());
    // For each lane the greatest value, and the block that it was found in.
    let mut greatest = _mm256_and_si256(_mm256_set1_epi64x(i64::MIN), bits);
    let (mut block, mut number) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for k in 0..count {
        let values = greatest_values::<LEAST>(bytes[k * BLOCK_SIZE..].first_chunk()?);
        let values = _mm256_and_si256(values, bits);
        let is_greater = _mm256_cmpgt_epi64(values, greatest);
        let is_kept = _mm256_cmpgt_epi64(greatest, values);
        block = if LAST {
            _mm256_blendv_epi8(number, block, is_kept)
        } else {
            _mm256_blendv_epi8(block, number, is_greater)
        };
        greatest = _mm256_blendv_epi8(greatest, values, is_greater);
        number = _mm256_add_epi64(number, _mm256_set1_epi64x(1));
    }
    let greatest = unsigned(greatest);
    // The numbers of blocks are not inverted.
    let block = unsigned(_mm256_xor_si256(block, _mm256_set1_epi64x(i64::MIN)));
    let value = greatest[0].max(greatest[1]).max(greatest[2].max(greatest[3]));
    let with_value = (0..4).filter(|&lane| greatest[lane] == value).map(|lane| block[lane]);
    let block = if LAST { with_value.max() } else { with_value.min() };
    let start = usize::try_from(block?).ok()? * BLOCK_SIZE;
    let mask = positions::<LEAST>(bytes[start..].first_chunk()?, value, size);
    let position = if LAST { mask.checked_ilog2()? } else { mask.trailing_zeros() };
    Some(start + position as usize)
}

/// Returns the mask of the values of a block, of which `value` is the greatest; of its inverted
/// bytes if `LEAST` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn positions<const LEAST: bool>(bytes: &ValueBlock, value: u64, size: usize) -> u64 {
    if LEAST {
        values_to(bytes, (!value).to_be_bytes(), size)
    } else {
        values_from(bytes, value.to_be_bytes(), size)
    }
}

/// Returns the greatest of the numbers of four bytes that begin in each four bytes of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn greatest_prefixes([lanes, behind]: [__m256i; 2]) -> __m256i {
    let one = _mm256_alignr_epi8::<15>(lanes, behind);
    let two = _mm256_alignr_epi8::<14>(lanes, behind);
    let three = _mm256_alignr_epi8::<13>(lanes, behind);
    _mm256_max_epu32(_mm256_max_epu32(lanes, one), _mm256_max_epu32(two, three))
}

/// Returns four of the numbers of eight bytes that begin in the block, among them the greatest, with
/// their top bits inverted; of inverted bytes if `LEAST` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn greatest_values<const LEAST: bool>(bytes: &ValueBlock) -> __m256i {
    let mut greatest = [_mm256_set1_epi64x(i64::MIN); 2];
    for bytes in bytes.windows(BLOCK_SIZE) {
        let Some(bytes) = bytes.first_chunk() else { break };
        let [low, high] = signed_values::<LEAST>(bytes);
        greatest = [greater(greatest[0], low), greater(greatest[1], high)];
    }
    greater(greatest[0], greatest[1])
}

/// Returns the indexes that reverse the bytes of each lane, hidden from the compiler: it would merge
/// shuffles by known indexes with the shifts behind them, into three times as many instructions.
#[inline]
#[target_feature(enable = "avx2")]
fn lane_reversed() -> __m256i {
    load_table(black_box(&LANE_REVERSED))
}

/// Returns, for each half of a block, the 16 bytes of each lane in reverse, and likewise those of
/// the lanes behind them; of inverted bytes if `LEAST` is set. A number of neighbouring bytes of both
/// is one whose first byte is the most significant. `order` is [`lane_reversed`].
#[inline]
#[target_feature(enable = "avx2")]
fn reversed_lanes<const LEAST: bool>(
    bytes: &[u8; BLOCK_SIZE + TAIL_SIZE],
    order: __m256i,
) -> [[__m256i; 2]; 2] {
    let (Some(block), Some(behind)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return [[_mm256_setzero_si256(); 2]; 2];
    };
    let ([low, high], [low_behind, high_behind]) = (load(block), load(behind));
    [
        [reversed::<LEAST>(low, order), reversed::<LEAST>(low_behind, order)],
        [reversed::<LEAST>(high, order), reversed::<LEAST>(high_behind, order)],
    ]
}

/// Returns the bytes of each lane in reverse, and inverted if `LEAST` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn reversed<const LEAST: bool>(bytes: __m256i, order: __m256i) -> __m256i {
    let lanes = _mm256_shuffle_epi8(bytes, order);
    if LEAST { _mm256_xor_si256(lanes, _mm256_set1_epi64x(-1)) } else { lanes }
}

/// Returns the numbers of every eight bytes, of which the first is the most significant, with their
/// top bits inverted; of inverted bytes if `LEAST` is set. AVX2 compares only signed numbers
/// directly.
#[inline]
#[target_feature(enable = "avx2")]
fn signed_values<const LEAST: bool>(bytes: &Block) -> [__m256i; 2] {
    let top = _mm256_set1_epi64x(if LEAST { i64::MAX } else { i64::MIN });
    let reversed = load_table(&REVERSED);
    let [low, high] = load(bytes);
    [
        _mm256_xor_si256(_mm256_shuffle_epi8(low, reversed), top),
        _mm256_xor_si256(_mm256_shuffle_epi8(high, reversed), top),
    ]
}

/// Undoes the inversion of [`signed_values`].
#[inline]
#[target_feature(enable = "avx2")]
fn unsigned(numbers: __m256i) -> [u64; 4] {
    let numbers = _mm256_xor_si256(numbers, _mm256_set1_epi64x(i64::MIN));
    let mut four = [0; 4];
    // SAFETY: `four` is 32 writable bytes, and `storeu` requires no alignment.
    unsafe { _mm256_storeu_si256(four.as_mut_ptr().cast(), numbers) };
    four
}

/// Returns the greater of each two numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn greater(a: __m256i, b: __m256i) -> __m256i {
    _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn least_number(bytes: &NumberBlock, mapping: Mapping) -> u32 {
    let eight = least_numbers(bytes, mapping);
    let four = _mm_min_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    let two = _mm_min_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx2")]
fn has_number_below(bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
    let bound = _mm256_set1_epi32(bound.cast_signed());
    let numbers = least_numbers(bytes, mapping);
    // AVX2 compares only signed numbers directly.
    let at_least = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, bound), numbers);
    _mm256_movemask_epi8(at_least) != -1
}

#[inline]
#[target_feature(enable = "avx2")]
fn least_numbers_of_groups(bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
    let Some([a, b]) = parts(bytes) else {
        return [u32::MAX; LANE_COUNT];
    };
    let (first, second) = (least_numbers(a, mapping), least_numbers(b, mapping));
    let mut groups = [0; LANE_COUNT];
    let (low, high) = groups.split_at_mut(8);
    // SAFETY: `low` is 32 writable bytes, and `storeu` requires no alignment.
    unsafe { _mm256_storeu_si256(low.as_mut_ptr().cast(), first) };
    // SAFETY: as above.
    unsafe { _mm256_storeu_si256(high.as_mut_ptr().cast(), second) };
    groups
}

#[inline]
#[target_feature(enable = "avx2")]
fn first_number(bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
    let number = _mm256_set1_epi32(number.cast_signed());
    let mut masks = [0; 4];
    for (k, part) in parts(bytes).into_iter().flatten().enumerate() {
        for (mask, block) in masks.iter_mut().zip(number_blocks(part).into_iter().flatten()) {
            let [low, high] = load(block);
            let (low, high) = (mapped(low, mapping), mapped(high, mapping));
            let low = equal_lanes(low, number);
            *mask |= (low | equal_lanes(high, number) << 8) << (16 * k);
        }
    }
    first_byte(masks)
}

/// Returns the mask of the numbers of `a` that equal those of `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn equal_lanes(a: __m256i, b: __m256i) -> u64 {
    let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
    u64::from(_mm256_movemask_ps(equal).cast_unsigned())
}

/// Returns the minimum of every eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn least_numbers(bytes: &NumberBlock, mapping: Mapping) -> __m256i {
    let Some([a, b, c, d]) = number_blocks(bytes) else {
        return _mm256_set1_epi32(-1);
    };
    let first = _mm256_min_epu32(least_of(a, mapping), least_of(b, mapping));
    _mm256_min_epu32(first, _mm256_min_epu32(least_of(c, mapping), least_of(d, mapping)))
}

/// Returns the lane-wise minimum of the mapped numbers of both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn least_of(block: &Block, mapping: Mapping) -> __m256i {
    let [low, high] = load(block);
    _mm256_min_epu32(mapped(low, mapping), mapped(high, mapping))
}

#[inline]
#[target_feature(enable = "avx2")]
fn mapped(numbers: __m256i, mapping: Mapping) -> __m256i {
    let product = _mm256_mullo_epi32(numbers, _mm256_set1_epi32(mapping.factor.cast_signed()));
    _mm256_add_epi32(product, _mm256_set1_epi32(mapping.summand.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sift(bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return 0;
    };
    let ([before0, before1], [after0, after1]) = (load(before), load(after));
    let [low0, high0, low1, high1] = tables;
    let (low0, high0, low1, high1) =
        (load_table(low0), load_table(high0), load_table(low1), load_table(high1));
    let common0 = _mm256_and_si256(look_up(low0, high0, before0), look_up(low1, high1, after0));
    let common1 = _mm256_and_si256(look_up(low0, high0, before1), look_up(low1, high1, after1));
    let nothing = _mm256_setzero_si256();
    !join(_mm256_cmpeq_epi8(common0, nothing), _mm256_cmpeq_epi8(common1, nothing))
}

/// Returns, for each byte, the common bits of the entry of its lower half in `low` and of its upper
/// half in `high`.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(low: __m256i, high: __m256i, bytes: __m256i) -> __m256i {
    let [lower, upper] = of_halves(low, high, bytes);
    _mm256_and_si256(lower, upper)
}

/// Returns, for each byte, the entry of its lower half in `low`, and that of its upper half in
/// `high`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn of_halves(low: __m256i, high: __m256i, bytes: __m256i) -> [__m256i; 2] {
    let half = _mm256_set1_epi8(15);
    let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
    let lower = _mm256_and_si256(bytes, half);
    [_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper)]
}

/// Returns the bytes of `a` that are not less than those of `b`. AVX2 compares only signed bytes
/// directly.
#[inline]
#[target_feature(enable = "avx2")]
fn at_least(a: __m256i, b: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_min_epu8(a, b), b)
}

/// Returns the top bits of 64 bytes as a mask.
#[inline]
#[target_feature(enable = "avx2")]
fn join(low: __m256i, high: __m256i) -> u64 {
    let mask = |half| u64::from(_mm256_movemask_epi8(half).cast_unsigned());
    mask(low) | mask(high) << 32
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(block: &Block) -> [__m256i; 2] {
    let (low, high) = block.split_at(32);
    // SAFETY: `low` is 32 readable bytes, and `loadu` requires no alignment.
    let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
    [low, high]
}

/// Loads a table twice, because shuffles look up each half of the bytes in its own half of the
/// table.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_table(table: &[u8; 16]) -> __m256i {
    // SAFETY: `table` is 16 readable bytes, and `loadu` requires no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}
