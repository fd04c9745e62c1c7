//! AES instructions on four blocks at a time, and permutations of bytes that place windows side by
//! side.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_aesenc_epi128, _mm512_aesenclast_epi128,
    _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_mask_testn_epi32_mask,
    _mm512_permutexvar_epi8, _mm512_set1_epi32, _mm512_xor_si512, _pext_u64,
};

use super::has;
use crate::kernel::Block;
use crate::kernel::aes::{AesBlock, AesKeys, Cipher, CipherTask, WindowSize, Windows};

/// A proof that this CPU has AVX-512 F, BW and VBMI, VAES and BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vaes512(());

impl Vaes512 {
    pub(crate) fn detect() -> Option<Vaes512> {
        has!("avx512f", "avx512bw", "avx512vbmi", "vaes", "aes", "bmi1", "bmi2")
            .then_some(Vaes512(()))
    }
}

impl Cipher for Vaes512 {
    #[inline]
    fn enter<T: CipherTask>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes,aes,bmi1,bmi2")]
        fn entered<T: CipherTask>(cipher: Vaes512, task: T) -> T::Output {
            task.run(cipher)
        }
        // SAFETY: only `detect` creates a value, on a CPU that has the features.
        unsafe { entered(self, task) }
    }

    #[inline(always)]
    fn matches(self, keys: &AesKeys, bytes: &Windows) -> u64 {
        // SAFETY: there is a value of this type, so this CPU has the features.
        unsafe { matches(keys, bytes) }
    }

    #[inline(always)]
    fn prefetch(self, data: &[u8], offset: usize) {
        super::prefetch(data, offset);
    }
}

/// The source index, of 64 bytes, of each byte of four vectors of windows. Vector `k` holds the
/// windows that begin at bytes `4 * k` to `4 * k + 3`.
const PLACES: [Block; 4] = {
    let mut places = [[0; 64]; 4];
    let mut k = 0;
    while k < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "at most 30")]
        let place = (k / 16 + k % 16) as u8;
        places[k / 64][k % 64] = place;
        k += 1;
    }
    places
};

/// Returns the windows that begin at bytes `first` to `first + 15`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes,aes,bmi1,bmi2")]
fn blocks(bytes: &Windows, first: usize) -> [__m512i; 4] {
    let bytes = bytes[first..].first_chunk().map_or(load(&[0; 64]), |bytes| load(bytes));
    let [a, b, c, d] = &PLACES;
    [a, b, c, d].map(|places| _mm512_permutexvar_epi8(load(places), bytes))
}

/// Tests 64 windows in two halves; 32 windows go through the rounds at once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes,aes,bmi1,bmi2")]
fn matches(keys: &AesKeys, bytes: &Windows) -> u64 {
    let mut result = 0;
    for first in [0, 32] {
        result |= u64::from(matches_32(keys, bytes, first)) << first;
    }
    result
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes,aes,bmi1,bmi2")]
fn matches_32(keys: &AesKeys, bytes: &Windows, first: usize) -> u32 {
    let [start, middle @ .., last] = &keys.rounds;
    let start = splat(start);
    let [a, b, c, d] = blocks(bytes, first);
    let [e, f, g, h] = blocks(bytes, first + 16);
    let mut states = [a, b, c, d, e, f, g, h];
    match keys.window {
        WindowSize::One => {
            states = states.map(|state| _mm512_xor_si512(state, start));
        }
        WindowSize::Two => {
            let [i, j, k, l] = blocks(bytes, first + 32);
            let [key, keys @ ..] = &keys.hash;
            let key = splat(key);
            states = states.map(|state| _mm512_xor_si512(state, key));
            for key in keys {
                let key = splat(key);
                states = states.map(|state| _mm512_aesenc_epi128(state, key));
            }
            for (state, added) in states.iter_mut().zip([e, f, g, h, i, j, k, l]) {
                *state = _mm512_aesenc_epi128(*state, _mm512_xor_si512(added, start));
            }
        }
    }
    for key in middle {
        let key = splat(key);
        states = states.map(|state| _mm512_aesenc_epi128(state, key));
    }
    let last = splat(last);
    let mask = _mm512_set1_epi32(keys.mask.cast_signed());
    let found = states.map(|state| {
        let state = _mm512_aesenclast_epi128(state, last);
        // The first number of each block.
        _mm512_mask_testn_epi32_mask(0x1111, state, mask)
    });
    let any = found.iter().fold(0, |any, &each| any | each);
    if any == 0 {
        return 0;
    }
    let mut result = 0;
    for (k, found) in found.into_iter().enumerate() {
        result |= gathered(found) << (4 * k);
    }
    result
}

/// Gathers every fourth bit, side by side.
#[inline]
#[target_feature(enable = "bmi2")]
fn gathered(found: u16) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "four bits")]
    let bits = _pext_u64(u64::from(found), 0x1111) as u32;
    bits
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(key: &AesBlock) -> __m512i {
    // SAFETY: the reference is to 16 bytes; the load needs no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(key.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &Block) -> __m512i {
    // SAFETY: the reference is to 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
