//! The instruction sets of x86-64.

mod aesni;
mod avx2;
mod avx2_columns;
mod avx512;
mod avx512_columns;
mod avx512vbmi;
mod columns512;
mod sse41;
mod vaes;

use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _pdep_u64, _pext_u64};

use super::{BLOCK_SIZE, Extremes, SPAN_SIZE, VALUE_SIZE_MAX, value_bits};

pub(super) use aesni::AesNi;
pub(super) use avx2::Avx2;
pub(super) use avx512::Avx512;
pub(super) use avx512vbmi::Avx512Vbmi;
pub(super) use sse41::Sse41;
pub(super) use vaes::Vaes512;

/// Evaluates to `true` if this CPU has all of the features.
macro_rules! has {
    ($($feature:tt),+) => {{
        #[cfg(feature = "std")]
        let has = $(std::is_x86_feature_detected!($feature))&&+;
        #[cfg(not(feature = "std"))]
        let has = cfg!(all($(target_feature = $feature),+));
        has
    }};
}
use has;

/// Defines the proof type of a level, the entry to code that is compiled for it, and its kernel,
/// from the functions `compare`, `above`, `below`, `pairs_from`, `pairs_to`, `values_from`, `values_to`,
/// `least_number`, `has_number_below`, `least_numbers_of_groups`, `first_number`, `sift`, `squeeze`
/// and `nth_one` of the same file, and from `next_extreme` and `extreme_at` if a largest number of bytes
/// for the latter is given.
macro_rules! level {
    ($(#[$docs:meta])* $Level:ident, $features:literal, $($feature:tt),+ $(; $start_size_max:expr)?) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $Level(());

        impl $Level {
            pub(crate) fn detect() -> Option<$Level> {
                super::has!($($feature),+).then_some($Level(()))
            }

            /// Runs `task` in code that was compiled for the level.
            #[inline]
            pub(crate) fn enter<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn entered<T: Task>(kernel: $Level, task: T) -> T::Output {
                    task.run(kernel)
                }
                // SAFETY: only `detect` creates a value, on a CPU that has the features.
                unsafe { entered(self, task) }
            }
        }

        impl Kernel for $Level {
            #[inline(always)]
            fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { compare(bytes) }
            }

            #[inline(always)]
            fn above(self, block: &Block, value: u8) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { above(block, value) }
            }

            #[inline(always)]
            fn below(self, block: &Block, value: u8) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { below(block, value) }
            }

            #[inline(always)]
            fn pairs_from(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { pairs_from(bytes, pair) }
            }

            #[inline(always)]
            fn pairs_to(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { pairs_to(bytes, pair) }
            }

            #[inline(always)]
            fn values_from(
                self,
                bytes: &ValueBlock,
                bound: [u8; VALUE_SIZE_MAX],
                size: usize,
            ) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { values_from(bytes, bound, size) }
            }

            #[inline(always)]
            fn values_to(
                self,
                bytes: &ValueBlock,
                bound: [u8; VALUE_SIZE_MAX],
                size: usize,
            ) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { values_to(bytes, bound, size) }
            }

            $(
                const START_SIZE_MAX: usize = $start_size_max;

                #[inline(always)]
                fn next_extreme<const LEAST: bool>(
                    self,
                    bytes: &ValueSpan,
                    bound: [u8; VALUE_SIZE_MAX],
                    size: usize,
                    by_prefix: &mut bool,
                ) -> Option<Extremes> {
                    // SAFETY: there is a value of this type, so this CPU has the features.
                    unsafe { next_extreme::<LEAST>(bytes, bound, size, by_prefix) }
                }

                #[inline(always)]
                fn extreme_at<const LEAST: bool, const LAST: bool>(
                    self,
                    bytes: &[u8],
                    size: usize,
                ) -> Option<usize> {
                    // SAFETY: there is a value of this type, so this CPU has the features.
                    unsafe { extreme_at::<LEAST, LAST>(bytes, size) }
                }
            )?

            #[inline(always)]
            fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { least_number(bytes, mapping) }
            }

            #[inline(always)]
            fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { has_number_below(bytes, mapping, bound) }
            }

            #[inline(always)]
            fn least_numbers(self, bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { least_numbers_of_groups(bytes, mapping) }
            }

            #[inline(always)]
            fn first_number(self, bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { first_number(bytes, mapping, number) }
            }

            #[inline(always)]
            fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { sift(bytes, tables) }
            }

            #[inline(always)]
            fn squeeze(self, bits: u64, kept: u64) -> u64 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { squeeze(bits, kept) }
            }

            #[inline(always)]
            fn nth_one(self, mask: u64, n: u32) -> u32 {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { nth_one(mask, n) }
            }

            #[inline(always)]
            fn prefetch(self, data: &[u8], offset: usize) {
                super::prefetch(data, offset);
            }

            #[inline(always)]
            fn prefetch_far(self, data: &[u8], offset: usize) {
                super::prefetch_far(data, offset);
            }
        }
    };
}
use level;

/// Implements [`Columns`](super::Columns) for the proof type of a level by functions of the same
/// file that are named like the methods, and by further ones for methods that have defaults.
macro_rules! columns {
    (
        $Level:ident, $kind:ident, $Vector:ty, $rows:literal, $features:literal;
        $($function:ident($($name:ident: $Type:ty),*) -> $Output:ty;)*
    ) => {
        impl Columns for $Level {
            const KIND: ColumnsKind = ColumnsKind::$kind;

            const ROWS: usize = $rows;

            type Vector = $Vector;

            #[inline]
            fn enter<W: ColumnsWork<$Level>>(self, work: W) -> W::Output {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn entered<W: ColumnsWork<$Level>>(columns: $Level, work: W) -> W::Output {
                    // A vector on the stack aligns the stack. Without it, the compiler keeps those
                    // for which it lacks registers at any address, and some cross cache lines.
                    core::hint::black_box(columns.splat(0));
                    work.run(columns)
                }
                // SAFETY: only `detect` creates a value, on a CPU that has the features.
                unsafe { entered(self, work) }
            }

            #[inline(always)]
            fn transpose(
                self,
                data: &[u8],
                first: usize,
                stride: usize,
                columns: &mut [$Vector; BLOCK_SIZE],
                scratch: &mut [$Vector; BLOCK_SIZE],
            ) {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { transpose(data, first, stride, columns, scratch) }
            }

            #[inline(always)]
            fn prefetch(self, data: &[u8], offset: usize) {
                super::prefetch(data, offset);
            }

            super::columns_by! {
                splat(value: u8) -> $Vector;
                and(a: $Vector, b: $Vector) -> $Vector;
                or(a: $Vector, b: $Vector) -> $Vector;
                xor(a: $Vector, b: $Vector) -> $Vector;
                xor3(a: $Vector, b: $Vector, c: $Vector) -> $Vector;
                look_up(table: &ByteTable, bytes: $Vector) -> $Vector;
                multiply(bytes: $Vector, matrix: &Matrix) -> $Vector;
                count_ones(bytes: $Vector) -> $Vector;
                zero_bytes(bytes: $Vector) -> u64;
                weave_bytes(a: $Vector, b: $Vector) -> [$Vector; 2];
                weave_16(a: $Vector, b: $Vector) -> [$Vector; 2];
                weave_32(a: $Vector, b: $Vector) -> [$Vector; 2];
                add_16(a: $Vector, b: $Vector) -> $Vector;
                subtract_16(a: $Vector, b: $Vector) -> $Vector;
                at_least_16(a: $Vector, least: u16) -> u64;
                without_16(a: $Vector, mask: u16) -> u64;
                add_32(a: $Vector, b: $Vector) -> $Vector;
                turn_32(a: $Vector) -> $Vector;
                without_32(a: $Vector, mask: u32) -> u64;
                add_64(a: $Vector, b: $Vector) -> $Vector;
                turn_64(a: $Vector) -> $Vector;
                without_64(a: $Vector, mask: u64) -> u64;
                quotient_32(a: $Vector, factor: u32, subtrahend: u32, shift: u32) -> $Vector;
                quotient_64(a: $Vector, factor: u64, subtrahend: u64, shift: u32) -> $Vector;
                within_32(a: $Vector, least: u32, most: u32) -> u64;
                within_64(a: $Vector, least: u64, most: u64) -> u64;
                any_at_most_32(vectors: [$Vector; 4], most: u32) -> bool;
                any_at_most_64(vectors: [$Vector; 8], most: u64) -> bool;
                any_without_16(vectors: [$Vector; 2], mask: u16) -> bool;
                any_without_32(vectors: [$Vector; 4], mask: u32) -> bool;
                any_without_64(vectors: [$Vector; 8], mask: u64) -> bool;
                spread(bits: u64, places: u64) -> u64;
                $($function($($name: $Type),*) -> $Output;)*
            }
        }
    };
}
use columns;

/// Defines methods of [`Columns`](super::Columns) by functions of the same file.
macro_rules! columns_by {
    ($($function:ident($($name:ident: $Type:ty),*) -> $Output:ty;)+) => {
        $(
            #[inline(always)]
            fn $function(self, $($name: $Type),*) -> $Output {
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { $function($($name),*) }
            }
        )+
    };
}
use columns_by;

/// The number of ones of each half of a byte.
const HALF_ONES: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];

/// The indexes that reverse the bytes of two numbers of 64 bits.
const REVERSED: [u8; 16] = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8];

/// The indexes that reverse the bytes of a lane of 128 bits.
const LANE_REVERSED: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/// Returns the number that a value which reaches `bound` reaches: the value of its first bytes, or of
/// their inverses if `LEAST` is set, so that greater numbers are more extreme.
#[inline(always)]
fn bound_number<const LEAST: bool>(bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
    let bound = u64::from_be_bytes(bound);
    (if LEAST { !bound } else { bound }) & value_bits(size)
}

/// Returns the extremes of a span from the blocks that have the most extreme value, as bits, and
/// the mask of its positions in such a block; `None` if no block has it.
#[inline(always)]
fn position_extremes(blocks: u32, mask: impl Fn(usize) -> u64) -> Option<Extremes> {
    let (first, last) = (blocks.trailing_zeros() as usize, blocks.checked_ilog2()? as usize);
    let first_mask = mask(first);
    let last_mask = if last == first { first_mask } else { mask(last) };
    Some(Extremes {
        first: first * BLOCK_SIZE + first_mask.trailing_zeros() as usize,
        last: last * BLOCK_SIZE + last_mask.checked_ilog2()? as usize,
        end: SPAN_SIZE,
    })
}

/// Implements [`Kernel::squeeze`](super::Kernel::squeeze) by BMI2.
#[inline]
#[target_feature(enable = "bmi2")]
fn squeeze_bmi2(bits: u64, kept: u64) -> u64 {
    _pext_u64(bits, kept)
}

/// Implements [`Kernel::nth_one`](super::Kernel::nth_one) by BMI2.
#[inline]
#[target_feature(enable = "bmi2")]
fn nth_one_bmi2(mask: u64, n: u32) -> u32 {
    _pdep_u64(1 << n, mask).trailing_zeros()
}

/// Implements [`Columns::spread`](super::Columns::spread) by BMI2.
#[inline]
#[target_feature(enable = "bmi2")]
fn spread_bmi2(bits: u64, places: u64) -> u64 {
    _pdep_u64(bits, places)
}

/// Prefetches the cache line of byte `offset` of `data`.
#[inline(always)]
pub(super) fn prefetch(data: &[u8], offset: usize) {
    // SAFETY: a prefetch has no effect that a program could observe, and cannot fail, whatever the
    // address; every x86-64 CPU supports it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(offset).cast()) }
}

/// Prefetches the cache line of byte `offset` of `data` into the second-level cache.
#[inline(always)]
pub(super) fn prefetch_far(data: &[u8], offset: usize) {
    // SAFETY: as in `prefetch`.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(data.as_ptr().wrapping_add(offset).cast()) }
}
