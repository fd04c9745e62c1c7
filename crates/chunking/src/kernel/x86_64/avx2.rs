//! AVX2 with BMI2: 32 bytes at a time.

use core::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
};

use super::{level, nth_one_bmi2 as nth_one, squeeze_bmi2 as squeeze};
use crate::kernel::{BLOCK_SIZE, Block, Kernel, Task};

level! {
    /// Proof that this CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
    Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
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
    // SAFETY: `low` is 32 readable bytes, and `loadu` asks for no alignment.
    let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
    [low, high]
}
