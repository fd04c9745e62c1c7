//! AVX2 with eight lanes, and AVX-512 with sixteen.

use core::arch::x86_64::*;

use super::{LANES_MAX, Lanes, Task};

/// Defines the proof type of a level, the entry into code that is compiled for the level, and its
/// lanes, from the functions of a module that enables the features.
macro_rules! level {
    ($(#[$docs:meta])* $Level:ident, $module:ident, $Vector:ty, $count:literal, $features:literal, $($feature:tt),+) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $Level(());

        impl $Level {
            pub(crate) fn detect() -> Option<$Level> {
                let has = $(std::is_x86_feature_detected!($feature))&&+;
                has.then_some($Level(()))
            }

            /// Runs `task` in code that is compiled for the level.
            pub(crate) fn enter<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn entered<T: Task>(lanes: $Level, task: T) -> T::Output {
                    task.run(lanes)
                }
                // SAFETY: `detect` alone makes a value, on a CPU that has the features.
                unsafe { entered(self, task) }
            }
        }

        impl Lanes for $Level {
            type Vector = $Vector;

            const COUNT: usize = $count;

            #[inline(always)]
            fn splat(self, word: u32) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::splat(word) }
            }

            #[inline(always)]
            fn each(self, word: impl Fn(usize) -> u32) -> $Vector {
                let mut words = [0; $count];
                for (lane, each) in words.iter_mut().enumerate() {
                    *each = word(lane);
                }
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::load_words(&words) }
            }

            #[inline(always)]
            fn add(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::add(a, b) }
            }

            #[inline(always)]
            fn xor(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::xor(a, b) }
            }

            #[inline(always)]
            fn rotate_16(self, a: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::rotate_16(a) }
            }

            #[inline(always)]
            fn rotate_12(self, a: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::rotate_12(a) }
            }

            #[inline(always)]
            fn rotate_8(self, a: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::rotate_8(a) }
            }

            #[inline(always)]
            fn rotate_7(self, a: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::rotate_7(a) }
            }

            #[inline(always)]
            fn select(self, mask: $Vector, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::select(mask, a, b) }
            }

            #[inline(always)]
            fn load<'a>(self, block: impl Fn(usize) -> &'a [u8; 64]) -> [$Vector; 16] {
                let mut blocks = [block(0); $count];
                for (lane, each) in blocks.iter_mut().enumerate() {
                    *each = block(lane);
                }
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::load_blocks(&blocks) }
            }

            #[inline(always)]
            fn words(self, vectors: &[$Vector; 8]) -> [[u32; LANES_MAX]; 8] {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::words(vectors) }
            }

            #[inline(always)]
            fn prefetch<'a>(self, bytes: impl Fn(usize) -> &'a [u8], offset: usize) {
                for lane in 0..$count {
                    let line = bytes(lane).as_ptr().wrapping_add(offset);
                    // SAFETY: a prefetch reads nothing that a program could see, and cannot fail
                    // whatever the address.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
                }
            }
        }
    };
}

level! {
    /// Proof that this CPU has AVX2.
    Avx2, avx2, __m256i, 8, "avx2", "avx2"
}

level! {
    /// Proof that this CPU has AVX-512 F.
    Avx512, avx512, __m512i, 16, "avx512f,avx2", "avx512f", "avx2"
}

mod avx2 {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn splat(word: u32) -> __m256i {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_words(words: &[u32; 8]) -> __m256i {
        // SAFETY: these are 32 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn xor(a: __m256i, b: __m256i) -> __m256i {
        _mm256_xor_si256(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn rotate_16(a: __m256i) -> __m256i {
        const TABLE: [u32; 8] = [
            0x0100_0302,
            0x0504_0706,
            0x0908_0b0a,
            0x0d0c_0f0e,
            0x0100_0302,
            0x0504_0706,
            0x0908_0b0a,
            0x0d0c_0f0e,
        ];
        _mm256_shuffle_epi8(a, load_words(&TABLE))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn rotate_12(a: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi32::<12>(a), _mm256_slli_epi32::<20>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn rotate_8(a: __m256i) -> __m256i {
        const TABLE: [u32; 8] = [
            0x0003_0201,
            0x0407_0605,
            0x080b_0a09,
            0x0c0f_0e0d,
            0x0003_0201,
            0x0407_0605,
            0x080b_0a09,
            0x0c0f_0e0d,
        ];
        _mm256_shuffle_epi8(a, load_words(&TABLE))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn rotate_7(a: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi32::<7>(a), _mm256_slli_epi32::<25>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn select(mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
        _mm256_blendv_epi8(b, a, mask)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_blocks(blocks: &[&[u8; 64]; 8]) -> [__m256i; 16] {
        let mut words = [_mm256_setzero_si256(); 16];
        for half in 0..2 {
            let mut rows = [_mm256_setzero_si256(); 8];
            for lane in 0..8 {
                rows[lane] = load(blocks[lane], half);
            }
            let columns = transpose(rows);
            words[8 * half..8 * half + 8].copy_from_slice(&columns);
        }
        words
    }

    /// Loads the first or the second 32 bytes of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(block: &[u8; 64], half: usize) -> __m256i {
        let bytes = &block.as_chunks::<32>().0[half];
        // SAFETY: these are 32 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// Transposes eight rows of eight words.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose(r: [__m256i; 8]) -> [__m256i; 8] {
        let mut pairs = [_mm256_setzero_si256(); 8];
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows each.
        let mut fours = [_mm256_setzero_si256(); 8];
        for i in 0..2 {
            for j in 0..2 {
                let (low, high) = (pairs[4 * i + j], pairs[4 * i + 2 + j]);
                fours[4 * i + 2 * j] = _mm256_unpacklo_epi64(low, high);
                fours[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(low, high);
            }
        }
        let mut columns = [_mm256_setzero_si256(); 8];
        for i in 0..4 {
            columns[i] = _mm256_permute2x128_si256::<0x20>(fours[i], fours[4 + i]);
            columns[4 + i] = _mm256_permute2x128_si256::<0x31>(fours[i], fours[4 + i]);
        }
        columns
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn words(vectors: &[__m256i; 8]) -> [[u32; LANES_MAX]; 8] {
        let mut words = [[0_u32; LANES_MAX]; 8];
        for (words, vector) in words.iter_mut().zip(vectors) {
            // SAFETY: `words` has 64 writable bytes, of which 32 are written, at any alignment.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), *vector) }
        }
        words
    }
}

mod avx512 {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(word: u32) -> __m512i {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load_words(words: &[u32; 16]) -> __m512i {
        // SAFETY: these are 64 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn xor(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate_16(a: __m512i) -> __m512i {
        _mm512_ror_epi32::<16>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate_12(a: __m512i) -> __m512i {
        _mm512_ror_epi32::<12>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate_8(a: __m512i) -> __m512i {
        _mm512_ror_epi32::<8>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate_7(a: __m512i) -> __m512i {
        _mm512_ror_epi32::<7>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn select(mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // Each bit is that of `a` where the mask has a one, and that of `b` elsewhere.
        _mm512_ternarylogic_epi32::<0xca>(mask, a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load_blocks(blocks: &[&[u8; 64]; 16]) -> [__m512i; 16] {
        let mut r = [_mm512_setzero_si512(); 16];
        for lane in 0..16 {
            r[lane] = load(blocks[lane]);
        }
        // Interleaves words of two rows, then of four rows, then quarters of registers.
        let mut pairs = [_mm512_setzero_si512(); 16];
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        let mut fours = [_mm512_setzero_si512(); 16];
        for i in 0..4 {
            for j in 0..2 {
                let (low, high) = (pairs[4 * i + j], pairs[4 * i + 2 + j]);
                fours[4 * i + 2 * j] = _mm512_unpacklo_epi64(low, high);
                fours[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(low, high);
            }
        }
        // `fours[4 * i + c]` has column c + 4 * q of rows 4 * i to 4 * i + 3 in its quarter q.
        let mut words = [_mm512_setzero_si512(); 16];
        for c in 0..4 {
            let (a, b) = (fours[c], fours[4 + c]);
            let (d, e) = (fours[8 + c], fours[12 + c]);
            let (ab02, ab13) =
                (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
            let (de02, de13) =
                (_mm512_shuffle_i32x4::<0x88>(d, e), _mm512_shuffle_i32x4::<0xdd>(d, e));
            words[c] = _mm512_shuffle_i32x4::<0x88>(ab02, de02);
            words[8 + c] = _mm512_shuffle_i32x4::<0xdd>(ab02, de02);
            words[4 + c] = _mm512_shuffle_i32x4::<0x88>(ab13, de13);
            words[12 + c] = _mm512_shuffle_i32x4::<0xdd>(ab13, de13);
        }
        words
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(block: &[u8; 64]) -> __m512i {
        // SAFETY: these are 64 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn words(vectors: &[__m512i; 8]) -> [[u32; LANES_MAX]; 8] {
        let mut words = [[0_u32; LANES_MAX]; 8];
        for (words, vector) in words.iter_mut().zip(vectors) {
            // SAFETY: `words` has 64 writable bytes, and `storeu` asks for no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *vector) }
        }
        words
    }
}
