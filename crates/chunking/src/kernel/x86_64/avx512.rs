//! AVX-512 with byte lanes (F and BW) and BMI2: 64 bytes at a time.

use core::arch::x86_64::{
    __m512i, _mm512_cmpgt_epu8_mask, _mm512_cmplt_epu8_mask, _mm512_loadu_si512,
};

use super::{level, nth_one_bmi2 as nth_one, squeeze_bmi2 as squeeze};
use crate::kernel::{BLOCK_SIZE, Block, Kernel, Task};

level! {
    /// Proof that this CPU has AVX-512 F and BW, BMI2, and what belongs to AVX2.
    Avx512, "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt",
    "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
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
