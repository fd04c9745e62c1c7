//! AVX2 with BMI2: 32 bytes at a time.

use core::arch::x86_64::{
    __m256i, _mm_max_epu8, _mm256_castsi256_si128, _mm256_cmpeq_epi8, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_max_epu8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8,
    _pdep_u64, _pext_u64,
};

use super::level;
use super::sse41::greatest_of as greatest_of_16;
use crate::kernel::{BLOCK_SIZE, Block, Kernel, Task};

level! {
    /// Proof that this CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
    Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}

/// Calls a function of this file.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: there is an `Avx2`, so this CPU has the features.
        unsafe { $call }
    };
}

impl Kernel for Avx2 {
    #[inline(always)]
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        call!(compare(bytes))
    }

    #[inline(always)]
    fn above(self, block: &Block, value: u8) -> u64 {
        call!(above(block, value))
    }

    #[inline(always)]
    fn below(self, block: &Block, value: u8) -> u64 {
        call!(below(block, value))
    }

    #[inline(always)]
    fn equal(self, block: &Block, value: u8) -> u64 {
        call!(equal(block, value))
    }

    #[inline(always)]
    fn greatest(self, block: &Block) -> u8 {
        call!(greatest(block))
    }

    #[inline(always)]
    fn squeeze(self, bits: u64, kept: u64) -> u64 {
        call!(_pext_u64(bits, kept))
    }

    #[inline(always)]
    fn nth_one(self, mask: u64, n: u32) -> u32 {
        call!(_pdep_u64(1 << n, mask)).trailing_zeros()
    }

    #[inline(always)]
    fn prefetch(self, data: &[u8], offset: usize) {
        super::prefetch(data, offset);
    }
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
fn equal(block: &Block, value: u8) -> u64 {
    let value = _mm256_set1_epi8(value.cast_signed());
    let [low, high] = load(block);
    join(_mm256_cmpeq_epi8(low, value), _mm256_cmpeq_epi8(high, value))
}

#[inline]
#[target_feature(enable = "avx2")]
fn greatest(block: &Block) -> u8 {
    let [low, high] = load(block);
    greatest_of(_mm256_max_epu8(low, high))
}

/// The greatest of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn greatest_of(bytes: __m256i) -> u8 {
    let low = _mm256_castsi256_si128(bytes);
    greatest_of_16(_mm_max_epu8(low, _mm256_extracti128_si256::<1>(bytes)))
}

/// Which bytes of `a` are not less than those of `b`: AVX2 compares signed bytes only.
#[inline]
#[target_feature(enable = "avx2")]
fn at_least(a: __m256i, b: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_min_epu8(a, b), b)
}

/// The top bits of 64 bytes as a mask.
#[inline]
#[target_feature(enable = "avx2")]
fn join(low: __m256i, high: __m256i) -> u64 {
    let mask = |half| u64::from(_mm256_movemask_epi8(half).cast_unsigned());
    mask(low) | mask(high) << 32
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> [__m256i; 2] {
    let (low, high) = block.split_at(32);
    // SAFETY: each half is 32 readable bytes, and `loadu` asks for no alignment.
    unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
}
