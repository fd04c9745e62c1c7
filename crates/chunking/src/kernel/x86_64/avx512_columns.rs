//! The columns of AVX-512 F and BW, without VBMI, BITALG and GFNI: 64 bytes at a time. Tables of 256
//! numbers of 16 bits, in 8 vectors, take the place of tables of bytes.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512, _mm512_mask_blend_epi8,
    _mm512_mask_blend_epi16, _mm512_mask_slli_epi16, _mm512_mask_srli_epi16, _mm512_movepi16_mask,
    _mm512_mul_epu32, _mm512_permutex2var_epi16, _mm512_rorv_epi64, _mm512_set1_epi16,
    _mm512_set1_epi64, _mm512_slli_epi64, _mm512_srli_epi16, _mm512_srli_epi64, _mm512_sub_epi64,
    _mm512_test_epi16_mask, _mm512_testn_epi16_mask, _mm512_xor_si512,
};

use super::avx512::{Avx512, load, load_table, of_halves};
use super::columns512::{
    add_16, add_32, add_64, and, any_at_most_32, any_at_most_64, any_without_16, any_without_32,
    any_without_64, at_least_16, or, quotient_32, splat, subtract_16, transpose, turn_32, turn_64,
    weave_16, weave_32, weave_bytes, within_32, within_64, without_16, without_32, without_64, xor,
    xor3, zero_bytes,
};
use super::{HALF_ONES, columns, spread_bmi2 as spread};
use crate::kernel::{
    BLOCK_SIZE, Block, ByteTable, Columns, ColumnsKind, ColumnsWork, Matrix, PairTable,
};

columns! {
    Avx512, Pairs, __m512i, 64, "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt";
    look_up_16(table: &PairTable, bytes: __m512i) -> [__m512i; 2];
    exchange_16(entering: &PairTable, new: __m512i, leaving: &PairTable, old: __m512i) -> [__m512i; 2];
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up_16(table: &PairTable, bytes: __m512i) -> [__m512i; 2] {
    // The look-ups use only the lower byte of each number of 16 bits.
    let [low, high] = weave_bytes(bytes, bytes);
    [numbers_at(&table.numbers, low), numbers_at(&table.numbers, high)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn exchange_16(
    entering: &PairTable,
    new: __m512i,
    leaving: &PairTable,
    old: __m512i,
) -> [__m512i; 2] {
    let ([a, b], [c, d]) = (look_up_16(entering, new), look_up_16(leaving, old));
    [xor(a, c), xor(b, d)]
}

/// Returns, for each number of 16 bits, both of whose bytes are alike, the entry of `numbers` at
/// that byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn numbers_at(numbers: &[Block; 8], indexes: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi16(load(&numbers[0]), indexes, load(&numbers[1]));
    let low_middle = _mm512_permutex2var_epi16(load(&numbers[2]), indexes, load(&numbers[3]));
    let high_middle = _mm512_permutex2var_epi16(load(&numbers[4]), indexes, load(&numbers[5]));
    let high = _mm512_permutex2var_epi16(load(&numbers[6]), indexes, load(&numbers[7]));
    let is_odd_quarter = _mm512_test_epi16_mask(indexes, _mm512_set1_epi16(64));
    let is_high = _mm512_movepi16_mask(indexes);
    let low = _mm512_mask_blend_epi16(is_odd_quarter, low, low_middle);
    let high = _mm512_mask_blend_epi16(is_odd_quarter, high_middle, high);
    _mm512_mask_blend_epi16(is_high, low, high)
}

/// Looks up pairs of bytes as numbers of 16 bits, by the upper 7 bits of the index, and selects one
/// byte of each pair.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up(table: &ByteTable, bytes: __m512i) -> __m512i {
    let (low_byte, one) = (_mm512_set1_epi16(0xff), _mm512_set1_epi16(1));
    // The pairs of the bytes at even places, and at odd ones.
    let even_indexes = _mm512_srli_epi16::<1>(_mm512_and_si512(bytes, low_byte));
    let odd_indexes = _mm512_srli_epi16::<9>(bytes);
    let (even, odd) = (pairs_at(table, even_indexes), pairs_at(table, odd_indexes));
    let takes_upper = _mm512_test_epi16_mask(bytes, one);
    let even = _mm512_mask_srli_epi16::<8>(even, takes_upper, even);
    let takes_lower = _mm512_testn_epi16_mask(bytes, _mm512_set1_epi16(0x100));
    let odd = _mm512_mask_slli_epi16::<8>(odd, takes_lower, odd);
    _mm512_mask_blend_epi8(EVEN_BYTES, odd, even)
}

/// The mask of the bytes at even places.
const EVEN_BYTES: u64 = 0x5555_5555_5555_5555;

/// Returns, for each number of 16 bits, the bytes of `table` from twice the number on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pairs_at(table: &ByteTable, numbers: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi16(load(&table.0[0]), numbers, load(&table.0[1]));
    let high = _mm512_permutex2var_epi16(load(&table.0[2]), numbers, load(&table.0[3]));
    let is_high = _mm512_test_epi16_mask(numbers, _mm512_set1_epi16(64));
    _mm512_mask_blend_epi16(is_high, low, high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn multiply(bytes: __m512i, matrix: &Matrix) -> __m512i {
    let [low, high] = of_halves(load(&matrix.low), load(&matrix.high), bytes);
    _mm512_xor_si512(low, high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn count_ones(bytes: __m512i) -> __m512i {
    let ones = load_table(&HALF_ONES);
    let [low, high] = of_halves(ones, ones, bytes);
    _mm512_add_epi8(low, high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn quotient_64(a: __m512i, factor: u64, subtrahend: u64, shift: u32) -> __m512i {
    let factor_low = _mm512_set1_epi64(factor.cast_signed());
    let factor_high = _mm512_srli_epi64::<32>(factor_low);
    let a_high = _mm512_srli_epi64::<32>(a);
    let middle =
        _mm512_add_epi64(_mm512_mul_epu32(a_high, factor_low), _mm512_mul_epu32(a, factor_high));
    let product =
        _mm512_add_epi64(_mm512_mul_epu32(a, factor_low), _mm512_slli_epi64::<32>(middle));
    let difference = _mm512_sub_epi64(product, _mm512_set1_epi64(subtrahend.cast_signed()));
    _mm512_rorv_epi64(difference, _mm512_set1_epi64(i64::from(shift)))
}
