//! The columns of AVX2, 64 bytes in two vectors. Look-ups are in tables of 16 entries, by halves of a
//! byte.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_add_epi8, _mm256_add_epi16,
    _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_blendv_epi8, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32,
    _mm256_cmpeq_epi64, _mm256_cmpgt_epi64, _mm256_max_epu16, _mm256_max_epu32, _mm256_min_epu16,
    _mm256_min_epu32, _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_movemask_ps,
    _mm256_mul_epu32, _mm256_mullo_epi32, _mm256_or_si256, _mm256_packs_epi16,
    _mm256_permute4x64_epi64, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_sll_epi32, _mm256_sll_epi64, _mm256_slli_epi16, _mm256_slli_epi32, _mm256_slli_epi64,
    _mm256_srl_epi32, _mm256_srl_epi64, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_sub_epi16,
    _mm256_sub_epi32, _mm256_sub_epi64, _mm256_unpackhi_epi8, _mm256_unpackhi_epi16,
    _mm256_unpackhi_epi32, _mm256_unpacklo_epi8, _mm256_unpacklo_epi16, _mm256_unpacklo_epi32,
    _mm256_xor_si256,
};

use super::avx2::{Avx2, join, load_table, of_halves};
use super::{HALF_ONES, columns, spread_bmi2 as spread};
use crate::kernel::{BLOCK_SIZE, Block, ByteTable, Columns, ColumnsWork, Matrix, ROW_COUNT};

/// The bytes of rows 0 to 31, and of the others.
type Halves = [__m256i; 2];

columns! {
    Avx2, Halves, "avx2,bmi1,bmi2,lzcnt,popcnt";
}

/// Defines the functions of this file that consist of one vector intrinsic for each half.
macro_rules! intrinsics {
    ($($function:ident($($name:ident),+) = $intrinsic:expr;)+) => {
        $(
            #[inline]
            #[target_feature(enable = "avx2")]
            fn $function($($name: Halves),+) -> Halves {
                [$intrinsic($($name[0]),+), $intrinsic($($name[1]),+)]
            }
        )+
    };
}

intrinsics! {
    and(a, b) = _mm256_and_si256;
    or(a, b) = _mm256_or_si256;
    xor(a, b) = _mm256_xor_si256;
    low_bytes(a, b) = _mm256_unpacklo_epi8;
    high_bytes(a, b) = _mm256_unpackhi_epi8;
    low_16(a, b) = _mm256_unpacklo_epi16;
    high_16(a, b) = _mm256_unpackhi_epi16;
    low_32(a, b) = _mm256_unpacklo_epi32;
    high_32(a, b) = _mm256_unpackhi_epi32;
    add_bytes(a, b) = _mm256_add_epi8;
    add_16(a, b) = _mm256_add_epi16;
    subtract_16(a, b) = _mm256_sub_epi16;
    add_32(a, b) = _mm256_add_epi32;
    subtract_32(a, b) = _mm256_sub_epi32;
    multiply_32(a, b) = _mm256_mullo_epi32;
    add_64(a, b) = _mm256_add_epi64;
    subtract_64(a, b) = _mm256_sub_epi64;
    multiply_low_32(a, b) = _mm256_mul_epu32;
    equal_bytes(a, b) = _mm256_cmpeq_epi8;
    equal_16(a, b) = _mm256_cmpeq_epi16;
    equal_32(a, b) = _mm256_cmpeq_epi32;
    equal_64(a, b) = _mm256_cmpeq_epi64;
    greater_64(a, b) = _mm256_cmpgt_epi64;
    least_16(a, b) = _mm256_min_epu16;
    least_32(a, b) = _mm256_min_epu32;
    greatest_16(a, b) = _mm256_max_epu16;
    greatest_32(a, b) = _mm256_max_epu32;
    left_16_by_1(a) = _mm256_slli_epi16::<1>;
    left_32_by_1(a) = _mm256_slli_epi32::<1>;
    right_32_by_31(a) = _mm256_srli_epi32::<31>;
    left_64_by_1(a) = _mm256_slli_epi64::<1>;
    right_64_by_63(a) = _mm256_srli_epi64::<63>;
    left_64_by_32(a) = _mm256_slli_epi64::<32>;
    right_64_by_32(a) = _mm256_srli_epi64::<32>;
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(value: u8) -> Halves {
    [_mm256_set1_epi8(value.cast_signed()); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat_16(value: u16) -> Halves {
    [_mm256_set1_epi16(value.cast_signed()); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat_32(value: u32) -> Halves {
    [_mm256_set1_epi32(value.cast_signed()); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat_64(value: u64) -> Halves {
    [_mm256_set1_epi64x(value.cast_signed()); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(a: Halves, b: Halves, c: Halves) -> Halves {
    xor(xor(a, b), c)
}

/// Looks up the lower half of a byte in 16 tables, and selects one result by the bits of the upper
/// half.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: &ByteTable, bytes: Halves) -> Halves {
    let lower = and(bytes, splat(15));
    // Blends select by the highest bit of a byte.
    let by_6 = left_16_by_1(bytes);
    let by_5 = left_16_by_1(by_6);
    let by_4 = left_16_by_1(by_5);
    let [a, b, c, d] = &table.0;
    let quarter = |block: &Block| look_up_64(block, lower, by_4, by_5);
    let low = blend(quarter(a), quarter(b), by_6);
    let high = blend(quarter(c), quarter(d), by_6);
    blend(low, high, bytes)
}

/// Looks up in a table of 64 entries. The highest bits of `by_4` and `by_5` are bits 4 and 5 of the
/// indexes.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up_64(table: &Block, lower: Halves, by_4: Halves, by_5: Halves) -> Halves {
    let (tables, _) = table.as_chunks::<16>();
    let of = |k: usize| {
        let table = load_table(&tables[k]);
        [_mm256_shuffle_epi8(table, lower[0]), _mm256_shuffle_epi8(table, lower[1])]
    };
    blend(blend(of(0), of(1), by_4), blend(of(2), of(3), by_4), by_5)
}

/// Returns the bytes of `b` where the highest bit of `by` is set, and those of `a` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn blend(a: Halves, b: Halves, by: Halves) -> Halves {
    [_mm256_blendv_epi8(a[0], b[0], by[0]), _mm256_blendv_epi8(a[1], b[1], by[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn multiply(bytes: Halves, matrix: &Matrix) -> Halves {
    let (low, high) = (load_table(&matrix.low), load_table(&matrix.high));
    let ([a, b], [c, d]) = (of_halves(low, high, bytes[0]), of_halves(low, high, bytes[1]));
    xor([a, c], [b, d])
}

#[inline]
#[target_feature(enable = "avx2")]
fn count_ones(bytes: Halves) -> Halves {
    let ones = load_table(&HALF_ONES);
    let ([a, b], [c, d]) = (of_halves(ones, ones, bytes[0]), of_halves(ones, ones, bytes[1]));
    add_bytes([a, c], [b, d])
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero_bytes(bytes: Halves) -> u64 {
    let [low, high] = equal_bytes(bytes, splat(0));
    join(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_bytes(a: Halves, b: Halves) -> [Halves; 2] {
    [low_bytes(a, b), high_bytes(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_16(a: Halves, b: Halves) -> [Halves; 2] {
    [low_16(a, b), high_16(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_32(a: Halves, b: Halves) -> [Halves; 2] {
    [low_32(a, b), high_32(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_least_16(a: Halves, least: u16) -> u64 {
    mask_16(equal_16(greatest_16(a, splat_16(least)), a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_16(a: Halves, mask: u16) -> u64 {
    mask_16(equal_16(and(a, splat_16(mask)), splat(0)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn turn_32(a: Halves) -> Halves {
    or(left_32_by_1(a), right_32_by_31(a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_32(a: Halves, mask: u32) -> u64 {
    mask_32(equal_32(and(a, splat_32(mask)), splat(0)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn turn_64(a: Halves) -> Halves {
    or(left_64_by_1(a), right_64_by_63(a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_64(a: Halves, mask: u64) -> u64 {
    mask_64(equal_64(and(a, splat_64(mask)), splat(0)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn quotient_32(a: Halves, factor: u32, subtrahend: u32, shift: u32) -> Halves {
    let difference = subtract_32(multiply_32(a, splat_32(factor)), splat_32(subtrahend));
    // A shift by 32 bits results in zeros.
    let (right, left) = (shift_count(shift), shift_count(32 - shift));
    difference.map(|a| _mm256_or_si256(_mm256_srl_epi32(a, right), _mm256_sll_epi32(a, left)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn quotient_64(a: Halves, factor: u64, subtrahend: u64, shift: u32) -> Halves {
    let (factor_low, factor_high) = (splat_64(factor), splat_64(factor >> 32));
    let middle =
        add_64(multiply_low_32(right_64_by_32(a), factor_low), multiply_low_32(a, factor_high));
    let product = add_64(multiply_low_32(a, factor_low), left_64_by_32(middle));
    let difference = subtract_64(product, splat_64(subtrahend));
    // A shift by 64 bits results in zeros.
    let (right, left) = (shift_count(shift), shift_count(64 - shift));
    difference.map(|a| _mm256_or_si256(_mm256_srl_epi64(a, right), _mm256_sll_epi64(a, left)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn shift_count(count: u32) -> __m128i {
    _mm_cvtsi32_si128(count.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn within_32(a: Halves, least: u32, most: u32) -> u64 {
    let is_not_less = equal_32(greatest_32(a, splat_32(least)), a);
    mask_32(and(is_not_less, equal_32(least_32(a, splat_32(most)), a)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn within_64(a: Halves, least: u64, most: u64) -> u64 {
    // AVX2 compares only signed numbers.
    let (a, top) = (xor(a, splat_64(TOP)), TOP);
    let is_outside = or(greater_64(splat_64(least ^ top), a), greater_64(a, splat_64(most ^ top)));
    !mask_64(is_outside) & 0xff
}

/// The highest bit of a number of 64 bits.
const TOP: u64 = 1 << 63;

#[inline]
#[target_feature(enable = "avx2")]
fn any_at_most_32(vectors: [Halves; 4], most: u32) -> bool {
    let [a, b, c, d] = vectors;
    let [low, high] = least_32(least_32(a, b), least_32(c, d));
    let least = _mm256_min_epu32(low, high);
    let most = _mm256_set1_epi32(most.cast_signed());
    is_any(_mm256_cmpeq_epi32(_mm256_min_epu32(least, most), least))
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_at_most_64(vectors: [Halves; 8], most: u64) -> bool {
    let (most, top) = (splat_64(most ^ TOP), splat_64(TOP));
    let [a, b, c, d, e, f, g, h] = vectors;
    let above =
        |a: Halves, b: Halves| and(greater_64(xor(a, top), most), greater_64(xor(b, top), most));
    let [low, high] = and(and(above(a, b), above(c, d)), and(above(e, f), above(g, h)));
    _mm256_movemask_epi8(_mm256_and_si256(low, high)) != -1
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_16(vectors: [Halves; 2], mask: u16) -> bool {
    let mask = splat_16(mask);
    let [low, high] = least_16(and(vectors[0], mask), and(vectors[1], mask));
    is_any(_mm256_cmpeq_epi16(_mm256_min_epu16(low, high), _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_32(vectors: [Halves; 4], mask: u32) -> bool {
    let mask = splat_32(mask);
    let [a, b, c, d] = vectors;
    let [low, high] =
        least_32(least_32(and(a, mask), and(b, mask)), least_32(and(c, mask), and(d, mask)));
    is_any(_mm256_cmpeq_epi32(_mm256_min_epu32(low, high), _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_64(vectors: [Halves; 8], mask: u64) -> bool {
    let (mask, zero) = (splat_64(mask), splat(0));
    let [a, b, c, d, e, f, g, h] = vectors;
    let without =
        |a: Halves, b: Halves| or(equal_64(and(a, mask), zero), equal_64(and(b, mask), zero));
    let [low, high] = or(or(without(a, b), without(c, d)), or(without(e, f), without(g, h)));
    is_any(_mm256_or_si256(low, high))
}

/// Returns `true` if any bit at the top of a byte is set.
#[inline]
#[target_feature(enable = "avx2")]
fn is_any(found: __m256i) -> bool {
    _mm256_movemask_epi8(found) != 0
}

/// Returns the mask of the numbers of 16 bits that are all ones; the others are zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_16(found: Halves) -> u64 {
    let bytes = _mm256_packs_epi16(found[0], found[1]);
    let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes);
    u64::from(_mm256_movemask_epi8(bytes).cast_unsigned())
}

/// Returns the mask of the numbers of 32 bits whose top bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_32(found: Halves) -> u64 {
    let [low, high] =
        found.map(|half| _mm256_movemask_ps(_mm256_castsi256_ps(half)).cast_unsigned());
    u64::from(low | high << 8)
}

/// Returns the mask of the numbers of 64 bits whose top bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_64(found: Halves) -> u64 {
    let [low, high] =
        found.map(|half| _mm256_movemask_pd(_mm256_castsi256_pd(half)).cast_unsigned());
    u64::from(low | high << 4)
}

/// Transposes matrices of 16 by 16 bytes, two at once: those of 16 rows are in the lower halves of
/// the vectors, and those of the next 16 rows in the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(
    data: &[u8],
    first: usize,
    stride: usize,
    columns: &mut [Halves; BLOCK_SIZE],
    _: &mut [Halves; BLOCK_SIZE],
) {
    let mut rows = [&[0; BLOCK_SIZE]; ROW_COUNT];
    for (row, bytes) in rows.iter_mut().zip(data[first..].chunks(stride)) {
        if let Some(bytes) = bytes.first_chunk() {
            *row = bytes;
        }
    }
    let (rows, _) = rows.as_chunks::<32>();
    for (half, rows) in rows.iter().enumerate() {
        let (columns, _) = columns.as_chunks_mut::<16>();
        for (k, columns) in columns.iter_mut().enumerate() {
            let transposed = transposed_16(rows, k);
            for (column, transposed) in columns.iter_mut().zip(transposed) {
                column[half] = transposed;
            }
        }
    }
}

/// Returns the columns of part `k`, 16 bytes, of 32 rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed_16(rows: &[&Block; 32], k: usize) -> [__m256i; 16] {
    let mut from = [_mm256_setzero_si256(); 16];
    for (i, vector) in from.iter_mut().enumerate() {
        let (low, high) = (rows[i].as_chunks::<16>().0, rows[16 + i].as_chunks::<16>().0);
        *vector = load_two(&low[k], &high[k]);
    }
    // A step weaves vector i with vector i + 8, which turns the index of a byte, 8 bits of row and
    // column, by one bit.
    for _ in 0..4 {
        let mut to = from;
        for i in 0..8 {
            to[2 * i] = _mm256_unpacklo_epi8(from[i], from[8 + i]);
            to[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[8 + i]);
        }
        from = to;
    }
    from
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_two(low: &[u8; 16], high: &[u8; 16]) -> __m256i {
    // SAFETY: `low` is 16 readable bytes, and `loadu` requires no alignment.
    let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
    _mm256_set_m128i(high, low)
}
