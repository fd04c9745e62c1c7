//! AVX-512 with VBMI and BITALG, and GFNI: tables of 256 bytes and matrices of bits, 64 bytes at a
//! time.

use core::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_mask_blend_epi8, _mm512_movepi8_mask,
    _mm512_mullo_epi64, _mm512_permutex2var_epi8, _mm512_popcnt_epi8, _mm512_rorv_epi64,
    _mm512_set1_epi64, _mm512_sub_epi64,
};

use super::avx512::load;
use super::columns512::{
    add_16, add_32, add_64, and, any_at_most_32, any_at_most_64, any_without_16, any_without_32,
    any_without_64, at_least_16, or, quotient_32, splat, subtract_16, transpose, turn_32, turn_64,
    weave_16, weave_32, weave_bytes, within_32, within_64, without_16, without_32, without_64, xor,
    xor3, zero_bytes,
};
use super::{columns, has, spread_bmi2 as spread};
use crate::kernel::{BLOCK_SIZE, ByteTable, Columns, ColumnsKind, ColumnsWork, Matrix};

/// A proof that this CPU has AVX-512 F, BW, DQ, VBMI and BITALG, GFNI and BMI2, and the features of
/// the AVX2 level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512Vbmi(());

impl Avx512Vbmi {
    pub(crate) fn detect() -> Option<Avx512Vbmi> {
        has!(
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vbmi",
            "avx512bitalg",
            "gfni",
            "avx2",
            "bmi1",
            "bmi2",
            "lzcnt",
            "popcnt"
        )
        .then_some(Avx512Vbmi(()))
    }
}

columns! {
    Avx512Vbmi, Bytes, __m512i, 64,
    "avx512f,avx512bw,avx512dq,avx512vbmi,avx512bitalg,gfni,avx2,bmi1,bmi2,lzcnt,popcnt";
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &ByteTable, bytes: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi8(load(&table.0[0]), bytes, load(&table.0[1]));
    let high = _mm512_permutex2var_epi8(load(&table.0[2]), bytes, load(&table.0[3]));
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high)
}

#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn multiply(bytes: __m512i, matrix: &Matrix) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(matrix.rows.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bitalg")]
fn count_ones(bytes: __m512i) -> __m512i {
    _mm512_popcnt_epi8(bytes)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn quotient_64(a: __m512i, factor: u64, subtrahend: u64, shift: u32) -> __m512i {
    let product = _mm512_mullo_epi64(a, _mm512_set1_epi64(factor.cast_signed()));
    let difference = _mm512_sub_epi64(product, _mm512_set1_epi64(subtrahend.cast_signed()));
    _mm512_rorv_epi64(difference, _mm512_set1_epi64(i64::from(shift)))
}
