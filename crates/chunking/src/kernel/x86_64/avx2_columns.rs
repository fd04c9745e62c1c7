//! The columns of AVX2, of 32 rows. Look-ups are in tables of 16 entries, by halves of a byte.

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

use super::avx2::{Avx2, load, load_table, of_halves};
use super::{HALF_ONES, columns, spread_bmi2 as spread};
use crate::kernel::{BLOCK_SIZE, Block, ByteTable, Columns, ColumnsKind, ColumnsWork, Matrix};

columns! {
    Avx2, HalfBytes, __m256i, 32, "avx2,bmi1,bmi2,lzcnt,popcnt";
}

/// Defines the functions of this file that consist of one vector intrinsic.
macro_rules! intrinsics {
    ($($function:ident($($name:ident),+) = $intrinsic:expr;)+) => {
        $(
            #[inline]
            #[target_feature(enable = "avx2")]
            fn $function($($name: __m256i),+) -> __m256i {
                $intrinsic($($name),+)
            }
        )+
    };
}

intrinsics! {
    and(a, b) = _mm256_and_si256;
    or(a, b) = _mm256_or_si256;
    xor(a, b) = _mm256_xor_si256;
    add_16(a, b) = _mm256_add_epi16;
    subtract_16(a, b) = _mm256_sub_epi16;
    add_32(a, b) = _mm256_add_epi32;
    add_64(a, b) = _mm256_add_epi64;
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(value: u8) -> __m256i {
    _mm256_set1_epi8(value.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    xor(xor(a, b), c)
}

/// Looks up the lower half of a byte in 16 tables, and selects one result by the bits of the upper
/// half.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: &ByteTable, bytes: __m256i) -> __m256i {
    let lower = _mm256_and_si256(bytes, splat(15));
    // Blends select by the highest bit of a byte.
    let by_6 = _mm256_slli_epi16::<1>(bytes);
    let by_5 = _mm256_slli_epi16::<2>(bytes);
    let by_4 = _mm256_slli_epi16::<3>(bytes);
    let [a, b, c, d] = &table.0;
    let (a, b) = (look_up_64(a, lower, by_4, by_5), look_up_64(b, lower, by_4, by_5));
    let (c, d) = (look_up_64(c, lower, by_4, by_5), look_up_64(d, lower, by_4, by_5));
    let (low, high) = (_mm256_blendv_epi8(a, b, by_6), _mm256_blendv_epi8(c, d, by_6));
    _mm256_blendv_epi8(low, high, bytes)
}

/// Looks up in a table of 64 entries. The highest bits of `by_4` and `by_5` are bits 4 and 5 of the
/// indexes.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up_64(table: &Block, lower: __m256i, by_4: __m256i, by_5: __m256i) -> __m256i {
    let (tables, _) = table.as_chunks::<16>();
    let (a, b) = (load_table(&tables[0]), load_table(&tables[1]));
    let (c, d) = (load_table(&tables[2]), load_table(&tables[3]));
    let (a, b) = (_mm256_shuffle_epi8(a, lower), _mm256_shuffle_epi8(b, lower));
    let (c, d) = (_mm256_shuffle_epi8(c, lower), _mm256_shuffle_epi8(d, lower));
    let (low, high) = (_mm256_blendv_epi8(a, b, by_4), _mm256_blendv_epi8(c, d, by_4));
    _mm256_blendv_epi8(low, high, by_5)
}

#[inline]
#[target_feature(enable = "avx2")]
fn multiply(bytes: __m256i, matrix: &Matrix) -> __m256i {
    let ([low, _], [high, _]) = (load(&matrix.low), load(&matrix.high));
    let [low, high] = of_halves(low, high, bytes);
    _mm256_xor_si256(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn count_ones(bytes: __m256i) -> __m256i {
    let ones = load_table(&HALF_ONES);
    let [low, high] = of_halves(ones, ones, bytes);
    _mm256_add_epi8(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero_bytes(bytes: __m256i) -> u64 {
    byte_mask(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_bytes(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_16(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn weave_32(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_least_16(a: __m256i, least: u16) -> u64 {
    let least = _mm256_set1_epi16(least.cast_signed());
    mask_16(_mm256_cmpeq_epi16(_mm256_max_epu16(a, least), a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_16(a: __m256i, mask: u16) -> u64 {
    let tested = _mm256_and_si256(a, _mm256_set1_epi16(mask.cast_signed()));
    mask_16(_mm256_cmpeq_epi16(tested, _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn turn_32(a: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi32::<1>(a), _mm256_srli_epi32::<31>(a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_32(a: __m256i, mask: u32) -> u64 {
    let tested = _mm256_and_si256(a, _mm256_set1_epi32(mask.cast_signed()));
    mask_32(_mm256_cmpeq_epi32(tested, _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn turn_64(a: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi64::<1>(a), _mm256_srli_epi64::<63>(a))
}

#[inline]
#[target_feature(enable = "avx2")]
fn without_64(a: __m256i, mask: u64) -> u64 {
    let tested = _mm256_and_si256(a, _mm256_set1_epi64x(mask.cast_signed()));
    mask_64(_mm256_cmpeq_epi64(tested, _mm256_setzero_si256()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn quotient_32(a: __m256i, factor: u32, subtrahend: u32, shift: u32) -> __m256i {
    let product = _mm256_mullo_epi32(a, _mm256_set1_epi32(factor.cast_signed()));
    let difference = _mm256_sub_epi32(product, _mm256_set1_epi32(subtrahend.cast_signed()));
    // A shift by 32 bits results in zeros.
    let (right, left) = (shift_count(shift), shift_count(32 - shift));
    _mm256_or_si256(_mm256_srl_epi32(difference, right), _mm256_sll_epi32(difference, left))
}

#[inline]
#[target_feature(enable = "avx2")]
fn quotient_64(a: __m256i, factor: u64, subtrahend: u64, shift: u32) -> __m256i {
    let factor = _mm256_set1_epi64x(factor.cast_signed());
    let (a_high, factor_high) = (_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(factor));
    let middle =
        _mm256_add_epi64(_mm256_mul_epu32(a_high, factor), _mm256_mul_epu32(a, factor_high));
    let product = _mm256_add_epi64(_mm256_mul_epu32(a, factor), _mm256_slli_epi64::<32>(middle));
    let difference = _mm256_sub_epi64(product, _mm256_set1_epi64x(subtrahend.cast_signed()));
    // A shift by 64 bits results in zeros.
    let (right, left) = (shift_count(shift), shift_count(64 - shift));
    _mm256_or_si256(_mm256_srl_epi64(difference, right), _mm256_sll_epi64(difference, left))
}

#[inline]
#[target_feature(enable = "avx2")]
fn shift_count(count: u32) -> __m128i {
    _mm_cvtsi32_si128(count.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn within_32(a: __m256i, least: u32, most: u32) -> u64 {
    let (least, most) =
        (_mm256_set1_epi32(least.cast_signed()), _mm256_set1_epi32(most.cast_signed()));
    let is_not_less = _mm256_cmpeq_epi32(_mm256_max_epu32(a, least), a);
    let is_not_more = _mm256_cmpeq_epi32(_mm256_min_epu32(a, most), a);
    mask_32(_mm256_and_si256(is_not_less, is_not_more))
}

#[inline]
#[target_feature(enable = "avx2")]
fn within_64(a: __m256i, least: u64, most: u64) -> u64 {
    let a = signed_64(a);
    let least = signed_64(_mm256_set1_epi64x(least.cast_signed()));
    let most = signed_64(_mm256_set1_epi64x(most.cast_signed()));
    let is_outside = _mm256_or_si256(_mm256_cmpgt_epi64(least, a), _mm256_cmpgt_epi64(a, most));
    !mask_64(is_outside) & 0xf
}

/// Returns numbers of 64 bits with their top bits inverted. AVX2 compares only signed numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn signed_64(a: __m256i) -> __m256i {
    _mm256_xor_si256(a, _mm256_set1_epi64x(i64::MIN))
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_at_most_32(vectors: [__m256i; 4], most: u32) -> bool {
    let [a, b, c, d] = vectors;
    let least = _mm256_min_epu32(_mm256_min_epu32(a, b), _mm256_min_epu32(c, d));
    within_32(least, 0, most) != 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_at_most_64(vectors: [__m256i; 8], most: u64) -> bool {
    let mut least = signed_64(vectors[0]);
    for vector in vectors {
        let vector = signed_64(vector);
        least = _mm256_blendv_epi8(least, vector, _mm256_cmpgt_epi64(least, vector));
    }
    within_64(signed_64(least), 0, most) != 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_16(vectors: [__m256i; 2], mask: u16) -> bool {
    let mask = _mm256_set1_epi16(mask.cast_signed());
    let [a, b] = vectors;
    let least = _mm256_min_epu16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
    byte_mask(_mm256_cmpeq_epi16(least, _mm256_setzero_si256())) != 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_32(vectors: [__m256i; 4], mask: u32) -> bool {
    let mask = _mm256_set1_epi32(mask.cast_signed());
    let [a, b, c, d] = vectors;
    let first = _mm256_min_epu32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
    let second = _mm256_min_epu32(_mm256_and_si256(c, mask), _mm256_and_si256(d, mask));
    let least = _mm256_min_epu32(first, second);
    byte_mask(_mm256_cmpeq_epi32(least, _mm256_setzero_si256())) != 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_without_64(vectors: [__m256i; 8], mask: u64) -> bool {
    let mask = _mm256_set1_epi64x(mask.cast_signed());
    let mut found = _mm256_setzero_si256();
    for vector in vectors {
        let tested = _mm256_and_si256(vector, mask);
        let is_zero = _mm256_cmpeq_epi64(tested, _mm256_setzero_si256());
        found = _mm256_or_si256(found, is_zero);
    }
    byte_mask(found) != 0
}

/// Returns the mask of the bytes whose top bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_mask(bytes: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(bytes).cast_unsigned())
}

/// Returns the mask of the numbers of 16 bits that are all ones; the others are zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_16(found: __m256i) -> u64 {
    let found = _mm256_packs_epi16(found, _mm256_setzero_si256());
    byte_mask(_mm256_permute4x64_epi64::<0b11_01_10_00>(found))
}

/// Returns the mask of the numbers of 32 bits whose top bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_32(found: __m256i) -> u64 {
    u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(found)).cast_unsigned())
}

/// Returns the mask of the numbers of 64 bits whose top bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_64(found: __m256i) -> u64 {
    u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(found)).cast_unsigned())
}

/// Transposes matrices of 16 by 16 bytes, two at once: those of the first 16 rows are in the lower
/// halves of the vectors, and those of the others in the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(
    data: &[u8],
    first: usize,
    stride: usize,
    columns: &mut [__m256i; BLOCK_SIZE],
    _: &mut [__m256i; BLOCK_SIZE],
) {
    let mut rows = [&[0; BLOCK_SIZE]; Avx2::ROWS];
    for (row, bytes) in rows.iter_mut().zip(data[first..].chunks(stride)) {
        if let Some(bytes) = bytes.first_chunk() {
            *row = bytes;
        }
    }
    let (columns, _) = columns.as_chunks_mut::<16>();
    for (k, columns) in columns.iter_mut().enumerate() {
        *columns = transposed_16(&rows, k);
    }
}

/// Returns the columns of part `k`, 16 bytes, of 32 rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed_16(rows: &[&Block; Avx2::ROWS], k: usize) -> [__m256i; 16] {
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
