//! SSE4.1 with POPCNT: 16 bytes at a time.

use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_max_epu8, _mm_min_epu8,
    _mm_minpos_epu16, _mm_movemask_epi8, _mm_set1_epi8, _mm_srli_epi16, _mm_xor_si128,
};

use super::level;
use crate::kernel::{BLOCK_SIZE, Block, Kernel, Scalar, Task};

level! {
    /// Proof that this CPU has SSE4.1 and POPCNT.
    Sse41, "sse4.1,popcnt", "sse4.1", "popcnt"
}

/// Calls a function of this file.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: there is an `Sse41`, so this CPU has the features.
        unsafe { $call }
    };
}

impl Kernel for Sse41 {
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
        Scalar.squeeze(bits, kept)
    }

    #[inline(always)]
    fn nth_one(self, mask: u64, n: u32) -> u32 {
        Scalar.nth_one(mask, n)
    }

    #[inline(always)]
    fn prefetch(self, data: &[u8], offset: usize) {
        super::prefetch(data, offset);
    }
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let (before, after): (&Block, &Block) = (before, after);
    let (before, after) = (before.as_chunks().0, after.as_chunks().0);
    let (mut rising, mut falling) = (0, 0);
    for k in 0..4 {
        let (before, after) = (load(&before[k]), load(&after[k]));
        rising |= mask(at_least(before, after)) << (16 * k);
        falling |= mask(at_least(after, before)) << (16 * k);
    }
    (!rising, !falling)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn above(block: &Block, value: u8) -> u64 {
    let value = _mm_set1_epi8(value.cast_signed());
    let mut found = 0;
    for (k, bytes) in block.as_chunks().0.iter().enumerate() {
        found |= mask(at_least(value, load(bytes))) << (16 * k);
    }
    !found
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn below(block: &Block, value: u8) -> u64 {
    let value = _mm_set1_epi8(value.cast_signed());
    let mut found = 0;
    for (k, bytes) in block.as_chunks().0.iter().enumerate() {
        found |= mask(at_least(load(bytes), value)) << (16 * k);
    }
    !found
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn equal(block: &Block, value: u8) -> u64 {
    let value = _mm_set1_epi8(value.cast_signed());
    let mut found = 0;
    for (k, bytes) in block.as_chunks().0.iter().enumerate() {
        found |= mask(_mm_cmpeq_epi8(load(bytes), value)) << (16 * k);
    }
    found
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn greatest(block: &Block) -> u8 {
    let [a, b, c, d] = block.as_chunks().0 else { return 0 };
    greatest_of(_mm_max_epu8(_mm_max_epu8(load(a), load(b)), _mm_max_epu8(load(c), load(d))))
}

/// The greatest of 16 bytes.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn greatest_of(bytes: __m128i) -> u8 {
    // There is an instruction for the least of 8 pairs of bytes: of each pair the least complement
    // goes to the low byte, and the high byte, which counts more, is cleared.
    let flipped = _mm_xor_si128(bytes, _mm_set1_epi8(-1));
    let least = _mm_min_epu8(flipped, _mm_srli_epi16::<8>(flipped));
    let least = _mm_cvtsi128_si32(_mm_minpos_epu16(least));
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
    let least = least as u8;
    !least
}

/// Which bytes of `a` are not less than those of `b`: SSE compares signed bytes only.
#[inline]
#[target_feature(enable = "sse4.1")]
fn at_least(a: __m128i, b: __m128i) -> __m128i {
    _mm_cmpeq_epi8(_mm_min_epu8(a, b), b)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn mask(bytes: __m128i) -> u64 {
    u64::from(_mm_movemask_epi8(bytes).cast_unsigned())
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: `bytes` is 16 readable bytes, and `loadu` asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
