//! The operations on columns that AVX-512 F and BW suffice for, 64 bytes at a time.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cmpge_epu16_mask, _mm512_cmpge_epu32_mask, _mm512_cmpge_epu64_mask,
    _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_min_epu16, _mm512_min_epu32,
    _mm512_min_epu64, _mm512_mullo_epi32, _mm512_or_si512, _mm512_permutex2var_epi32,
    _mm512_rol_epi32, _mm512_rol_epi64, _mm512_rorv_epi32, _mm512_set1_epi8, _mm512_set1_epi16,
    _mm512_set1_epi32, _mm512_set1_epi64, _mm512_shuffle_epi8, _mm512_shuffle_i32x4,
    _mm512_shuffle_i64x2, _mm512_sub_epi16, _mm512_sub_epi32, _mm512_ternarylogic_epi64,
    _mm512_testn_epi8_mask, _mm512_testn_epi16_mask, _mm512_testn_epi32_mask,
    _mm512_testn_epi64_mask, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi8, _mm512_unpacklo_epi16, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::avx512::{load, load_table};
use crate::kernel::{BLOCK_SIZE, Block, ROW_COUNT_MAX};

/// Defines the functions of this file that consist of one vector intrinsic.
macro_rules! intrinsics {
    ($($function:ident($($name:ident),+) = $intrinsic:expr;)+) => {
        $(
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            pub(super) fn $function($($name: __m512i),+) -> __m512i {
                $intrinsic($($name),+)
            }
        )+
    };
}

intrinsics! {
    and(a, b) = _mm512_and_si512;
    or(a, b) = _mm512_or_si512;
    xor(a, b) = _mm512_xor_si512;
    xor3(a, b, c) = _mm512_ternarylogic_epi64::<0x96>;
    add_16(a, b) = _mm512_add_epi16;
    subtract_16(a, b) = _mm512_sub_epi16;
    add_32(a, b) = _mm512_add_epi32;
    turn_32(a) = _mm512_rol_epi32::<1>;
    add_64(a, b) = _mm512_add_epi64;
    turn_64(a) = _mm512_rol_epi64::<1>;
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(value: u8) -> __m512i {
    _mm512_set1_epi8(value.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn zero_bytes(bytes: __m512i) -> u64 {
    _mm512_testn_epi8_mask(bytes, bytes)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn weave_bytes(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn weave_16(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn weave_32(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn at_least_16(a: __m512i, least: u16) -> u64 {
    u64::from(_mm512_cmpge_epu16_mask(a, _mm512_set1_epi16(least.cast_signed())))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn without_16(a: __m512i, mask: u16) -> u64 {
    u64::from(_mm512_testn_epi16_mask(a, _mm512_set1_epi16(mask.cast_signed())))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn without_32(a: __m512i, mask: u32) -> u64 {
    u64::from(_mm512_testn_epi32_mask(a, _mm512_set1_epi32(mask.cast_signed())))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn without_64(a: __m512i, mask: u64) -> u64 {
    u64::from(_mm512_testn_epi64_mask(a, _mm512_set1_epi64(mask.cast_signed())))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn quotient_32(a: __m512i, factor: u32, subtrahend: u32, shift: u32) -> __m512i {
    let product = _mm512_mullo_epi32(a, _mm512_set1_epi32(factor.cast_signed()));
    let difference = _mm512_sub_epi32(product, _mm512_set1_epi32(subtrahend.cast_signed()));
    _mm512_rorv_epi32(difference, _mm512_set1_epi32(shift.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn within_32(a: __m512i, least: u32, most: u32) -> u64 {
    let (least, most) =
        (_mm512_set1_epi32(least.cast_signed()), _mm512_set1_epi32(most.cast_signed()));
    u64::from(_mm512_cmpge_epu32_mask(a, least) & _mm512_cmple_epu32_mask(a, most))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn within_64(a: __m512i, least: u64, most: u64) -> u64 {
    let (least, most) =
        (_mm512_set1_epi64(least.cast_signed()), _mm512_set1_epi64(most.cast_signed()));
    u64::from(_mm512_cmpge_epu64_mask(a, least) & _mm512_cmple_epu64_mask(a, most))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn any_at_most_32(vectors: [__m512i; 4], most: u32) -> bool {
    let [a, b, c, d] = vectors;
    let least = _mm512_min_epu32(_mm512_min_epu32(a, b), _mm512_min_epu32(c, d));
    _mm512_cmple_epu32_mask(least, _mm512_set1_epi32(most.cast_signed())) != 0
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn any_at_most_64(vectors: [__m512i; 8], most: u64) -> bool {
    let [a, b, c, d, e, f, g, h] = vectors;
    let first = _mm512_min_epu64(_mm512_min_epu64(a, b), _mm512_min_epu64(c, d));
    let second = _mm512_min_epu64(_mm512_min_epu64(e, f), _mm512_min_epu64(g, h));
    let least = _mm512_min_epu64(first, second);
    _mm512_cmple_epu64_mask(least, _mm512_set1_epi64(most.cast_signed())) != 0
}

// The minimum of all numbers is zero if any of them is, which takes one test instead of one for
// each vector.

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn any_without_16(vectors: [__m512i; 2], mask: u16) -> bool {
    let mask = _mm512_set1_epi16(mask.cast_signed());
    let [a, b] = vectors;
    let least = _mm512_min_epu16(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask));
    _mm512_testn_epi16_mask(least, least) != 0
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn any_without_32(vectors: [__m512i; 4], mask: u32) -> bool {
    let mask = _mm512_set1_epi32(mask.cast_signed());
    let [a, b, c, d] = vectors;
    let first = _mm512_min_epu32(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask));
    let second = _mm512_min_epu32(_mm512_and_si512(c, mask), _mm512_and_si512(d, mask));
    let least = _mm512_min_epu32(first, second);
    _mm512_testn_epi32_mask(least, least) != 0
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn any_without_64(vectors: [__m512i; 8], mask: u64) -> bool {
    let mask = _mm512_set1_epi64(mask.cast_signed());
    let [a, b, c, d, e, f, g, h] = vectors;
    let first = _mm512_min_epu64(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask));
    let second = _mm512_min_epu64(_mm512_and_si512(c, mask), _mm512_and_si512(d, mask));
    let third = _mm512_min_epu64(_mm512_and_si512(e, mask), _mm512_and_si512(f, mask));
    let fourth = _mm512_min_epu64(_mm512_and_si512(g, mask), _mm512_and_si512(h, mask));
    let least = _mm512_min_epu64(_mm512_min_epu64(first, second), _mm512_min_epu64(third, fourth));
    _mm512_testn_epi64_mask(least, least) != 0
}

/// The indexes, of numbers of 32 bits, that gather 4 columns from two vectors of 16 rows each, in
/// which number `c` of each quarter has column `c` of 4 rows: the first two columns, and the last
/// two.
const GATHERED: [Block; 2] = {
    let mut indexes = [[0; BLOCK_SIZE]; 2];
    let (mut at, mut column) = (0, 0);
    while column < 2 {
        let mut number = column;
        while number < 32 {
            indexes[0][at] = number;
            indexes[1][at] = number + 2;
            number += 4;
            at += 4;
        }
        column += 1;
    }
    indexes
};

/// The indexes that transpose a matrix of 4 by 4 bytes.
const TRANSPOSED: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// Transposes groups of 16 rows as matrices of 16 numbers of 32 bits each, and then the bytes of
/// the numbers: those of 4 rows, and then all of a column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn transpose(
    data: &[u8],
    first: usize,
    stride: usize,
    columns: &mut [__m512i; BLOCK_SIZE],
    scratch: &mut [__m512i; BLOCK_SIZE],
) {
    let mut starts = data[first..].chunks(stride);
    for group in 0..ROW_COUNT_MAX / 16 {
        let mut rows = [splat(0); 16];
        for (row, bytes) in rows.iter_mut().zip(&mut starts) {
            if let Some(bytes) = bytes.first_chunk() {
                *row = load(bytes);
            }
        }
        let mut pairs = rows;
        for i in 0..8 {
            let (a, b) = (rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i] = _mm512_unpacklo_epi32(a, b);
            pairs[2 * i + 1] = _mm512_unpackhi_epi32(a, b);
        }
        for i in 0..4 {
            let [a, b, c, d] = [pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]];
            rows[4 * i] = _mm512_unpacklo_epi64(a, c);
            rows[4 * i + 1] = _mm512_unpackhi_epi64(a, c);
            rows[4 * i + 2] = _mm512_unpacklo_epi64(b, d);
            rows[4 * i + 3] = _mm512_unpackhi_epi64(b, d);
        }
        // Quarter q of rows[4 * i + k] now has column 4 * q + k of the rows 4 * i to 4 * i + 3.
        for k in 0..4 {
            let a = _mm512_shuffle_i32x4::<0x88>(rows[k], rows[4 + k]);
            let b = _mm512_shuffle_i32x4::<0xdd>(rows[k], rows[4 + k]);
            let c = _mm512_shuffle_i32x4::<0x88>(rows[8 + k], rows[12 + k]);
            let d = _mm512_shuffle_i32x4::<0xdd>(rows[8 + k], rows[12 + k]);
            scratch[4 * k + group] = _mm512_shuffle_i32x4::<0x88>(a, c);
            scratch[4 * (8 + k) + group] = _mm512_shuffle_i32x4::<0xdd>(a, c);
            scratch[4 * (4 + k) + group] = _mm512_shuffle_i32x4::<0x88>(b, d);
            scratch[4 * (12 + k) + group] = _mm512_shuffle_i32x4::<0xdd>(b, d);
        }
    }
    let (first, last) = (load(&GATHERED[0]), load(&GATHERED[1]));
    let transposed = load_table(&TRANSPOSED);
    for (groups, columns) in
        scratch.as_chunks::<4>().0.iter().zip(columns.as_chunks_mut::<4>().0.iter_mut())
    {
        let [a, b, c, d] = *groups;
        let (a, b) = (_mm512_shuffle_epi8(a, transposed), _mm512_shuffle_epi8(b, transposed));
        let (c, d) = (_mm512_shuffle_epi8(c, transposed), _mm512_shuffle_epi8(d, transposed));
        let (first_low, first_high) =
            (_mm512_permutex2var_epi32(a, first, b), _mm512_permutex2var_epi32(c, first, d));
        let (last_low, last_high) =
            (_mm512_permutex2var_epi32(a, last, b), _mm512_permutex2var_epi32(c, last, d));
        *columns = [
            _mm512_shuffle_i64x2::<0x44>(first_low, first_high),
            _mm512_shuffle_i64x2::<0xee>(first_low, first_high),
            _mm512_shuffle_i64x2::<0x44>(last_low, last_high),
            _mm512_shuffle_i64x2::<0xee>(last_low, last_high),
        ];
    }
}
