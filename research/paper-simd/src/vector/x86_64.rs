//! The instruction sets of x86-64: 128, 256 and 512 bits.

use core::arch::x86_64::*;

use super::{LANES_MAX, SIZE_MAX, STRIDE_MAX, Table, Task, Vector};

/// Defines the proof type of a width, the entry into code that is compiled for the width, and its
/// vectors, from the functions of a module that enable the features.
macro_rules! machine {
    (
        $(#[$docs:meta])*
        $Machine:ident, $module:ident, $Register:ty, $size:literal, $features:literal,
        $($feature:tt),+
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $Machine(());

        impl $Machine {
            pub(crate) fn detect() -> Option<$Machine> {
                let has = $(std::is_x86_feature_detected!($feature))&&+;
                has.then_some($Machine(()))
            }

            /// Runs `task` in code that is compiled for the width.
            pub(crate) fn enter<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn entered<T: Task>(vector: $Machine, task: T) -> T::Output {
                    task.run(vector)
                }
                // SAFETY: `detect` alone makes a value, on a CPU that has the features.
                unsafe { entered(self, task) }
            }
        }

        impl Vector for $Machine {
            type Register = $Register;

            const SIZE: usize = $size;

            forward! {
                $module
                fn load(bytes: &[u8]) -> $Register;
                fn store(a: $Register) -> [u8; SIZE_MAX];
                fn splat(byte: u8) -> $Register;
                fn max(a: $Register, b: $Register) -> $Register;
                fn min(a: $Register, b: $Register) -> $Register;
                fn greater(a: $Register, b: $Register) -> u64;
                fn at_least(a: $Register, b: $Register) -> u64;
                fn nth_one(mask: u64, n: u32) -> u32;
                fn splat_word(word: u32) -> $Register;
                fn gather(data: &[u8], start: usize, stride: usize) -> $Register;
                fn look_up(table: &Table, words: $Register) -> $Register;
                fn add(a: $Register, b: $Register) -> $Register;
                fn xor(a: $Register, b: $Register) -> $Register;
                fn double(words: $Register) -> $Register;
                fn next_byte(words: $Register) -> $Register;
                fn mark_zeros(
                    marks: $Register, words: $Register, mask: $Register, bit: $Register
                ) -> $Register;
            }
        }
    };
}

/// Defines methods that call the functions of the same names.
macro_rules! forward {
    ($module:ident $(fn $name:ident($($value:ident: $Type:ty),+) -> $Output:ty;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $($value: $Type),+) -> $Output {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $module::$name($($value),+) }
            }
        )+
    };
}

machine! {
    /// Proof that this CPU has SSE2, BMI1, BMI2 and POPCNT.
    Sse2, sse2, __m128i, 16, "sse2,bmi1,bmi2,popcnt", "sse2", "bmi1", "bmi2", "popcnt"
}

machine! {
    /// Proof that this CPU has AVX2, BMI1, BMI2 and POPCNT.
    Avx2, avx2, __m256i, 32, "avx2,bmi1,bmi2,popcnt", "avx2", "bmi1", "bmi2", "popcnt"
}

machine! {
    /// Proof that this CPU has AVX-512 F and BW, AVX2, BMI1, BMI2 and POPCNT.
    Avx512, avx512, __m512i, 64, "avx512f,avx512bw,avx2,bmi1,bmi2,popcnt",
    "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "popcnt"
}

#[inline]
#[target_feature(enable = "bmi1,bmi2")]
fn nth_one(mask: u64, n: u32) -> u32 {
    _pdep_u64(1 << n, mask).trailing_zeros()
}

/// Returns the first bytes as an array.
#[inline(always)]
fn block<const SIZE: usize>(bytes: &[u8]) -> &[u8; SIZE] {
    match bytes.first_chunk() {
        Some(block) => block,
        None => panic!("{} bytes are no register of {SIZE}", bytes.len()),
    }
}

/// Returns the bytes from which words of `lane_count` lanes can be gathered `stride` apart.
#[inline(always)]
fn gathered(data: &[u8], start: usize, stride: usize, lane_count: usize) -> &[u8] {
    assert!(stride <= STRIDE_MAX, "a stride of {stride} bytes");
    &data[start..][..(lane_count - 1) * stride + 4]
}

/// Returns the stride in the type of the intrinsics. [`gathered`] has checked its bound.
#[inline(always)]
fn signed(stride: usize) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "`STRIDE_MAX` bounds it")]
    let stride = stride as u32;
    stride.cast_signed()
}

const _: () = assert!((LANES_MAX - 1) * STRIDE_MAX <= i32::MAX as usize, "offsets are signed");

mod sse2 {
    use super::*;

    pub(super) use super::nth_one;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn load(bytes: &[u8]) -> __m128i {
        let block: &[u8; 16] = block(bytes);
        // SAFETY: `block` is 16 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn store(a: __m128i) -> [u8; SIZE_MAX] {
        let mut bytes = [0; SIZE_MAX];
        // SAFETY: `bytes` has 64 writable bytes, of which 16 are written, at any alignment.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), a) }
        bytes
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn splat(byte: u8) -> __m128i {
        _mm_set1_epi8(byte.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn max(a: __m128i, b: __m128i) -> __m128i {
        _mm_max_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn min(a: __m128i, b: __m128i) -> __m128i {
        _mm_min_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn greater(a: __m128i, b: __m128i) -> u64 {
        !at_least(b, a) & 0xffff
    }

    /// Compares by the maximum, because SSE2 compares signed bytes only.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn at_least(a: __m128i, b: __m128i) -> u64 {
        u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(a, b), a)).cast_unsigned())
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn splat_word(word: u32) -> __m128i {
        _mm_set1_epi32(word.cast_signed())
    }

    /// Gathers by four loads, because SSE2 has no instruction for it.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn gather(data: &[u8], start: usize, stride: usize) -> __m128i {
        let data = gathered(data, start, stride, 4);
        let mut words = [0; 16];
        for (lane, word) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            word.copy_from_slice(&data[lane * stride..][..4]);
        }
        load(&words)
    }

    /// Gathers by four loads, because SSE2 has no instruction for it.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn look_up(table: &Table, a: __m128i) -> __m128i {
        let bytes = store(a);
        let mut words = [0; 16];
        for (lane, word) in words.as_chunks_mut().0.iter_mut().enumerate() {
            *word = table[usize::from(bytes[4 * lane])].to_le_bytes();
        }
        load(&words)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn add(a: __m128i, b: __m128i) -> __m128i {
        _mm_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn xor(a: __m128i, b: __m128i) -> __m128i {
        _mm_xor_si128(a, b)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn double(a: __m128i) -> __m128i {
        _mm_slli_epi32::<1>(a)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn next_byte(a: __m128i) -> __m128i {
        _mm_srli_epi32::<8>(a)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn mark_zeros(marks: __m128i, a: __m128i, mask: __m128i, bit: __m128i) -> __m128i {
        let is_zero = _mm_cmpeq_epi32(_mm_and_si128(a, mask), _mm_setzero_si128());
        _mm_or_si128(marks, _mm_and_si128(is_zero, bit))
    }
}

mod avx2 {
    use super::*;

    pub(super) use super::nth_one;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load(bytes: &[u8]) -> __m256i {
        let block: &[u8; 32] = block(bytes);
        // SAFETY: `block` is 32 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store(a: __m256i) -> [u8; SIZE_MAX] {
        let mut bytes = [0; SIZE_MAX];
        // SAFETY: `bytes` has 64 writable bytes, of which 32 are written, at any alignment.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), a) }
        bytes
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn splat(byte: u8) -> __m256i {
        _mm256_set1_epi8(byte.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn max(a: __m256i, b: __m256i) -> __m256i {
        _mm256_max_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn min(a: __m256i, b: __m256i) -> __m256i {
        _mm256_min_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn greater(a: __m256i, b: __m256i) -> u64 {
        !at_least(b, a) & 0xffff_ffff
    }

    /// Compares by the maximum, because AVX2 compares signed bytes only.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn at_least(a: __m256i, b: __m256i) -> u64 {
        let is_at_least = _mm256_cmpeq_epi8(_mm256_max_epu8(a, b), a);
        u64::from(_mm256_movemask_epi8(is_at_least).cast_unsigned())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn splat_word(word: u32) -> __m256i {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn gather(data: &[u8], start: usize, stride: usize) -> __m256i {
        let data = gathered(data, start, stride, 8);
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let offsets = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(signed(stride)));
        // SAFETY: lane k reads four bytes from k * stride on, and `data` goes on to the end of
        // those of the last; loads of a gather ask for no alignment.
        unsafe { _mm256_i32gather_epi32::<1>(data.as_ptr().cast(), offsets) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn look_up(table: &Table, a: __m256i) -> __m256i {
        let indices = _mm256_and_si256(a, _mm256_set1_epi32(255));
        // SAFETY: each index is below 256, and `table` has as many entries of four bytes.
        unsafe { _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), indices) }
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
    pub(super) fn double(a: __m256i) -> __m256i {
        _mm256_slli_epi32::<1>(a)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn next_byte(a: __m256i) -> __m256i {
        _mm256_srli_epi32::<8>(a)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn mark_zeros(marks: __m256i, a: __m256i, mask: __m256i, bit: __m256i) -> __m256i {
        let is_zero = _mm256_cmpeq_epi32(_mm256_and_si256(a, mask), _mm256_setzero_si256());
        _mm256_or_si256(marks, _mm256_and_si256(is_zero, bit))
    }
}

mod avx512 {
    use super::*;

    pub(super) use super::nth_one;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load(bytes: &[u8]) -> __m512i {
        let block: &[u8; 64] = block(bytes);
        // SAFETY: `block` is 64 readable bytes, and `loadu` asks for no alignment.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store(a: __m512i) -> [u8; SIZE_MAX] {
        let mut bytes = [0; SIZE_MAX];
        // SAFETY: `bytes` has 64 writable bytes, at any alignment.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), a) }
        bytes
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(byte: u8) -> __m512i {
        _mm512_set1_epi8(byte.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn max(a: __m512i, b: __m512i) -> __m512i {
        _mm512_max_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn min(a: __m512i, b: __m512i) -> __m512i {
        _mm512_min_epu8(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn greater(a: __m512i, b: __m512i) -> u64 {
        _mm512_cmpgt_epu8_mask(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn at_least(a: __m512i, b: __m512i) -> u64 {
        _mm512_cmpge_epu8_mask(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat_word(word: u32) -> __m512i {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn gather(data: &[u8], start: usize, stride: usize) -> __m512i {
        let data = gathered(data, start, stride, 16);
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let offsets = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(signed(stride)));
        // SAFETY: lane k reads four bytes from k * stride on, and `data` goes on to the end of
        // those of the last; loads of a gather ask for no alignment.
        unsafe { _mm512_i32gather_epi32::<1>(offsets, data.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn look_up(table: &Table, a: __m512i) -> __m512i {
        let indices = _mm512_and_si512(a, _mm512_set1_epi32(255));
        // SAFETY: each index is below 256, and `table` has as many entries of four bytes.
        unsafe { _mm512_i32gather_epi32::<4>(indices, table.as_ptr().cast()) }
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
    pub(super) fn double(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<1>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn next_byte(a: __m512i) -> __m512i {
        _mm512_srli_epi32::<8>(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn mark_zeros(marks: __m512i, a: __m512i, mask: __m512i, bit: __m512i) -> __m512i {
        _mm512_mask_or_epi32(marks, _mm512_testn_epi32_mask(a, mask), marks, bit)
    }
}
