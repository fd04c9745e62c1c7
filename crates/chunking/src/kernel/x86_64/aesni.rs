//! AES instructions on one block at a time.

use core::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
    _mm_xor_si128,
};

use super::has;
use crate::kernel::aes::{AesBlock, AesKeys, Cipher, CipherTask, WindowSize, Windows};

/// A proof that this CPU has the AES instructions and SSE4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AesNi(());

impl AesNi {
    pub(crate) fn detect() -> Option<AesNi> {
        has!("aes", "sse4.1").then_some(AesNi(()))
    }
}

impl Cipher for AesNi {
    #[inline]
    fn enter<T: CipherTask>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "aes,sse4.1")]
        fn entered<T: CipherTask>(cipher: AesNi, task: T) -> T::Output {
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

/// The number of blocks that go through the rounds at once.
const COUNT: usize = 8;

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn matches(keys: &AesKeys, bytes: &Windows) -> u64 {
    let mut result = 0;
    for first in (0..64).step_by(COUNT) {
        let [start, middle @ .., last] = &keys.rounds;
        let start = load(start);
        let mut states = [start; COUNT];
        match keys.window {
            WindowSize::One => {
                for (k, state) in states.iter_mut().enumerate() {
                    *state = _mm_xor_si128(block(bytes, first + k), start);
                }
            }
            WindowSize::Two => {
                let [a, b, c, d] = &keys.hash;
                let a = load(a);
                for (k, state) in states.iter_mut().enumerate() {
                    *state = _mm_xor_si128(block(bytes, first + k), a);
                }
                for key in [b, c, d] {
                    let key = load(key);
                    states = states.map(|state| _mm_aesenc_si128(state, key));
                }
                for (k, state) in states.iter_mut().enumerate() {
                    let added = _mm_xor_si128(block(bytes, first + k + 16), start);
                    *state = _mm_aesenc_si128(*state, added);
                }
            }
        }
        for key in middle {
            let key = load(key);
            states = states.map(|state| _mm_aesenc_si128(state, key));
        }
        let last = load(last);
        for (k, state) in states.into_iter().enumerate() {
            let state = _mm_aesenclast_si128(state, last);
            let is_match = _mm_cvtsi128_si32(state).cast_unsigned() & keys.mask == 0;
            result |= u64::from(is_match) << (first + k);
        }
    }
    result
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn block(bytes: &Windows, place: usize) -> __m128i {
    bytes[place..].first_chunk().map_or(load(&[0; 16]), |bytes| load(bytes))
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn load(bytes: &AesBlock) -> __m128i {
    // SAFETY: the reference is to 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
