//! AVX-512 with byte lanes (F and BW) and BMI2: 64 bytes at a time.

use core::arch::x86_64::{
    __m512i, _mm512_cmpgt_epu8_mask, _mm512_cmplt_epu8_mask, _mm512_loadu_si512, _pdep_u64,
    _pext_u64,
};

use super::level;
use crate::kernel::{BLOCK_SIZE, Block, Kernel, Task};

level! {
    /// Proof that this CPU has AVX-512 F and BW, BMI2, and what belongs to AVX2.
    Avx512, "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}

/// Calls a function of this file, or one of the level below.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: there is an `Avx512`, so this CPU has the features.
        unsafe { $call }
    };
}

impl Kernel for Avx512 {
    #[inline(always)]
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        call!(compare(bytes))
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
#[target_feature(enable = "avx512f,avx512bw")]
fn compare(bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
    let (Some(before), Some(after)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return (0, 0);
    };
    let (before, after) = (load(before), load(after));
    (_mm512_cmplt_epu8_mask(before, after), _mm512_cmpgt_epu8_mask(before, after))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &Block) -> __m512i {
    // SAFETY: `block` is 64 readable bytes, and `loadu` asks for no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}
