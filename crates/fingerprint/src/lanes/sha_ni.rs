//! The instructions for SHA-1 and SHA-256.
//!
//! A round depends on the previous one, and the latency of its instruction exceeds the interval at
//! which the CPU can issue the next one. The rounds of several streams are therefore interleaved.

use core::arch::x86_64::*;

use super::compress::{Block, Compress, Sha1State, Sha256State};

/// Proof that this CPU has the instructions, and the shuffles of SSSE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShaNi(());

impl ShaNi {
    pub(crate) fn detect() -> Option<ShaNi> {
        let has = std::is_x86_feature_detected!("sha")
            && std::is_x86_feature_detected!("sse2")
            && std::is_x86_feature_detected!("ssse3");
        has.then_some(ShaNi(()))
    }
}

impl Compress<Sha256State> for ShaNi {
    fn compress<const N: usize>(self, states: &mut [Sha256State; N], blocks: [&[Block]; N]) {
        // SAFETY: `detect` alone makes a value, on a CPU that has the features.
        unsafe { sha256(states, blocks) }
    }

    fn prefetch(self, chunk: &[u8]) {
        for line in chunk.chunks(size_of::<Block>()).take(PREFETCH_SIZE / size_of::<Block>()) {
            prefetch(line.as_ptr());
        }
    }
}

impl Compress<Sha1State> for ShaNi {
    fn compress<const N: usize>(self, states: &mut [Sha1State; N], blocks: [&[Block]; N]) {
        // SAFETY: `detect` alone makes a value, on a CPU that has the features.
        unsafe { sha1(states, blocks) }
    }

    fn prefetch(self, chunk: &[u8]) {
        for line in chunk.chunks(size_of::<Block>()).take(PREFETCH_SIZE / size_of::<Block>()) {
            prefetch(line.as_ptr());
        }
    }
}

/// The distance by which cache lines are prefetched, in bytes.
const PREFETCH_SIZE: usize = 1024;

/// Prefetches the cache line at `line`, which need not be a valid address.
#[inline(always)]
fn prefetch(line: *const u8) {
    // SAFETY: a prefetch reads nothing that a program could see, and cannot fail whatever the
    // address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

/// The round constants: the fractional parts of the cube roots of the first 64 primes, with four
/// rounds per row.
const ROUND_WORDS: [[u32; 4]; 16] = [
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
    [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
    [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
    [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
    [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
    [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
    [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
    [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
    [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
];

/// Repeats the block once for each of the numbers, with the number as a constant.
macro_rules! unrolled {
    ($i:ident in [$($number:literal)*] $body:block) => {
        $({
            const $i: usize = $number;
            $body
        })*
    };
}

/// Compresses the blocks of each stream with SHA-256. The instruction takes the words as `a b e f`
/// and `c d g h`, the first in the highest place.
#[expect(clippy::needless_range_loop, reason = "the number of the block is the second index")]
#[target_feature(enable = "sha,sse2,ssse3")]
fn sha256<const N: usize>(states: &mut [Sha256State; N], blocks: [&[Block]; N]) {
    let zero = _mm_setzero_si128();
    let (mut abef, mut cdgh) = ([zero; N], [zero; N]);
    for n in 0..N {
        let [a, b, c, d, e, f, g, h] = states[n];
        abef[n] = vector([f, e, b, a]);
        cdgh[n] = vector([h, g, d, c]);
    }
    for block in 0..block_count(&blocks) {
        let (abef_before, cdgh_before) = (abef, cdgh);
        let mut words = [[zero; 4]; N];
        for n in 0..N {
            let swapped = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
            words[n] = load(&blocks[n][block], swapped);
            prefetch(blocks[n][block].as_ptr().wrapping_add(PREFETCH_SIZE));
        }
        unrolled!(I in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
            for n in 0..N {
                let [w0, w1, w2, w3] = [0, 1, 2, 3].map(|i| words[n][(I + i) % 4]);
                if is_made(I) {
                    let w9 = _mm_alignr_epi8::<4>(w3, w2);
                    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), w9);
                    words[n][I % 4] = _mm_sha256msg2_epu32(sum, w3);
                }
                let sum = _mm_add_epi32(words[n][I % 4], vector(ROUND_WORDS[I]));
                cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], sum);
                let sum = _mm_shuffle_epi32::<0x0e>(sum);
                abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], sum);
            }
        });
        for n in 0..N {
            abef[n] = _mm_add_epi32(abef[n], abef_before[n]);
            cdgh[n] = _mm_add_epi32(cdgh[n], cdgh_before[n]);
        }
    }
    for n in 0..N {
        let ([f, e, b, a], [h, g, d, c]) = (words(abef[n]), words(cdgh[n]));
        states[n] = [a, b, c, d, e, f, g, h];
    }
}

/// Compresses the blocks of each stream with SHA-1. The instruction takes `a` to `d` in one vector,
/// the first in the highest place, and `e` in the highest place of another one.
#[expect(clippy::needless_range_loop, reason = "the number of the block is the second index")]
#[target_feature(enable = "sha,sse2,ssse3")]
fn sha1<const N: usize>(states: &mut [Sha1State; N], blocks: [&[Block]; N]) {
    let zero = _mm_setzero_si128();
    let (mut abcd, mut e) = ([zero; N], [zero; N]);
    for n in 0..N {
        let [word_a, word_b, word_c, word_d, word_e] = states[n];
        abcd[n] = vector([word_d, word_c, word_b, word_a]);
        e[n] = vector([0, 0, 0, word_e]);
    }
    for block in 0..block_count(&blocks) {
        let (abcd_before, e_before) = (abcd, e);
        let mut words = [[zero; 4]; N];
        for n in 0..N {
            let reversed = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            words[n] = load(&blocks[n][block], reversed);
            prefetch(blocks[n][block].as_ptr().wrapping_add(PREFETCH_SIZE));
        }
        unrolled!(I in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19] {
            #[expect(clippy::cast_possible_truncation, reason = "it is below four")]
            #[expect(clippy::cast_possible_wrap, reason = "it is below four")]
            const KIND: i32 = (I / 5) as i32;
            for n in 0..N {
                let [w0, w1, w2, w3] = [0, 1, 2, 3].map(|i| words[n][(I + i) % 4]);
                if is_made(I) {
                    let sum = _mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2);
                    words[n][I % 4] = _mm_sha1msg2_epu32(sum, w3);
                }
                // `e` is the vector before last, from which the instruction takes `a` and rotates
                // it; at the start it is ready.
                let sum = if I == 0 {
                    _mm_add_epi32(e[n], words[n][0])
                } else {
                    _mm_sha1nexte_epu32(e[n], words[n][I % 4])
                };
                e[n] = abcd[n];
                abcd[n] = _mm_sha1rnds4_epu32::<KIND>(abcd[n], sum);
            }
        });
        for n in 0..N {
            abcd[n] = _mm_add_epi32(abcd[n], abcd_before[n]);
            e[n] = _mm_sha1nexte_epu32(e[n], e_before[n]);
        }
    }
    for n in 0..N {
        let ([word_d, word_c, word_b, word_a], [_, _, _, word_e]) = (words(abcd[n]), words(e[n]));
        states[n] = [word_a, word_b, word_c, word_d, word_e];
    }
}

/// Returns `true` if the `fours`th group of four words is computed from earlier words. The first
/// sixteen words are those of the block.
const fn is_made(fours: usize) -> bool {
    fours >= 4
}

/// The number of blocks that all streams have.
fn block_count(blocks: &[&[Block]]) -> usize {
    blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0)
}

/// Returns a vector of these words, the first in the lowest place.
#[inline]
#[target_feature(enable = "sse2")]
fn vector(words: [u32; 4]) -> __m128i {
    let [w0, w1, w2, w3] = words.map(u32::cast_signed);
    _mm_set_epi32(w3, w2, w1, w0)
}

/// Returns the words of a vector, the lowest first.
#[inline]
#[target_feature(enable = "sse2")]
fn words(vector: __m128i) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: `words` has 16 writable bytes, and `storeu` asks for no alignment.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), vector) };
    words
}

/// Loads the quarters of a block, with the bytes of each shuffled by `order`.
#[inline]
#[target_feature(enable = "ssse3")]
fn load(block: &Block, order: __m128i) -> [__m128i; 4] {
    let mut quarters = [order; 4];
    for (quarter, bytes) in quarters.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: these are 16 readable bytes, and `loadu` asks for no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *quarter = _mm_shuffle_epi8(bytes, order);
    }
    quarters
}
