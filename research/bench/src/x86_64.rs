//! The code that takes `unsafe` on x86-64.
//!
//! There are two forms of `unsafe`: inline assembly of an instruction between registers, and calls
//! of functions that are compiled for CPU features. Such functions are reachable only after the
//! detection of exactly these features.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_set1_epi8, _mm256_set1_epi8, _mm512_set1_epi8,
};
use std::arch::{asm, is_x86_feature_detected as has};

use crate::operation::{Operation, UNROLLED};
use crate::sum::{Sum, sum};

/// Returns the name of the widest vectors of this CPU, and [`sum`] compiled for them.
pub(crate) fn widest_sum() -> (&'static str, Sum) {
    macro_rules! sum_by {
        ($name:literal, $feature:tt) => {
            if has!($feature) {
                fn entered(data: &[u8]) -> u64 {
                    #[target_feature(enable = $feature)]
                    fn compiled(data: &[u8]) -> u64 {
                        sum(data)
                    }
                    // SAFETY: `entered` is in scope only after the detection of the feature.
                    unsafe { compiled(data) }
                }
                return ($name, entered);
            }
        };
    }
    sum_by!("AVX-512", "avx512f");
    sum_by!("AVX2", "avx2");
    ("SSE2", sum)
}

/// Adds an operation, if the CPU has the features for it.
///
/// `$step` makes the instruction from the name of the register that it reads and writes. The
/// instruction may also read `{m}`. It touches no memory, and no registers except these and
/// `$scratch`.
macro_rules! operation {
    (
        $list:ident, $name:literal, $features:literal, [$($feature:tt),+],
        $register:ident $Type:ty = $value:expr, $mask_register:ident = $mask:expr,
        $step:ident $(, $scratch:tt)?
    ) => {
        if $(has!($feature))&&+ {
            /// Runs steps that each depend on the previous one.
            fn chained(count: u64) {
                #[target_feature(enable = $features)]
                fn compiled(count: u64) {
                    let mut value: $Type = $value;
                    let mask = $mask;
                    for _ in 0..count {
                        // SAFETY: the instructions are in `$features`, and `compiled` is called
                        // after their detection. They read and write the registers that are
                        // named here, flags, and nothing else.
                        unsafe {
                            asm!(
                                "/* {m} is there for all */",
                                $step!("a"), $step!("a"), $step!("a"), $step!("a"),
                                $step!("a"), $step!("a"), $step!("a"), $step!("a"),
                                $step!("a"), $step!("a"), $step!("a"), $step!("a"),
                                $step!("a"), $step!("a"), $step!("a"), $step!("a"),
                                a = inout($register) value,
                                m = in($mask_register) mask,
                                $(out($scratch) _,)?
                                options(nomem, nostack)
                            );
                        }
                    }
                    std::hint::black_box(value);
                }
                // SAFETY: `chained` is in scope only after the detection of the features.
                unsafe { compiled(count) }
            }

            /// Runs eight chains of steps that do not depend on each other.
            fn side_by_side(count: u64) {
                #[target_feature(enable = $features)]
                fn compiled(count: u64) {
                    let mut values: [$Type; 8] = [$value; 8];
                    let [a, b, c, d, e, f, g, h] = &mut values;
                    let mask = $mask;
                    for _ in 0..count {
                        // SAFETY: as in `chained`.
                        unsafe {
                            asm!(
                                "/* {m} is there for all */",
                                $step!("a"), $step!("b"), $step!("c"), $step!("d"),
                                $step!("e"), $step!("f"), $step!("g"), $step!("h"),
                                $step!("a"), $step!("b"), $step!("c"), $step!("d"),
                                $step!("e"), $step!("f"), $step!("g"), $step!("h"),
                                a = inout($register) *a,
                                b = inout($register) *b,
                                c = inout($register) *c,
                                d = inout($register) *d,
                                e = inout($register) *e,
                                f = inout($register) *f,
                                g = inout($register) *g,
                                h = inout($register) *h,
                                m = in($mask_register) mask,
                                $(out($scratch) _,)?
                                options(nomem, nostack)
                            );
                        }
                    }
                    std::hint::black_box(values);
                }
                // SAFETY: `side_by_side` is in scope only after the detection of the features.
                unsafe { compiled(count) }
            }

            const _: () = assert!(UNROLLED == 16, "as many steps as are written out");
            $list.push(Operation { name: $name, chained, side_by_side });
        }
    };
}

/// Returns the operations of this CPU that are timed.
pub(crate) fn operations() -> Vec<Operation> {
    /// An instruction whose first two operands are the register.
    macro_rules! step {
        ($step:ident, $before:literal, $between:literal, $after:literal) => {
            macro_rules! $step {
                ($register:literal) => {
                    concat!($before, "{", $register, "}", $between, "{", $register, "}", $after)
                };
            }
        };
    }
    step!(popcnt, "popcnt ", ", ", "");
    step!(tzcnt, "tzcnt ", ", ", "");
    step!(lzcnt, "lzcnt ", ", ", "");
    step!(pdep, "pdep ", ", ", ", {m}");
    step!(pext, "pext ", ", ", ", {m}");
    step!(vpcmpgtb, "vpcmpgtb ", ", ", ", {m}");
    step!(vpcompressb, "vpcompressb ", "{{{m}}}{{z}}, ", "");
    step!(vpcompressd, "vpcompressd ", "{{{m}}}{{z}}, ", "");
    macro_rules! add {
        ($register:literal) => {
            concat!("add {", $register, "}, {m}")
        };
    }
    macro_rules! pcmpgtb {
        ($register:literal) => {
            concat!("pcmpgtb {", $register, "}, {m}")
        };
    }
    macro_rules! vpcmpub {
        ($register:literal) => {
            concat!("vpcmpub k2, {", $register, "}, {m}, 1\nvpmovm2b {", $register, "}, k2")
        };
    }

    // Half of the bits are set, because the time of microcoded instructions depends on their
    // number.
    const HALF: u64 = 0x6996_9669_c33c_3cc3;
    let mut list = Vec::new();
    operation!(list, "add r64", "sse2", ["sse2"], reg u64 = HALF, reg = 1_u64, add);
    operation!(list, "popcnt r64", "popcnt", ["popcnt"], reg u64 = HALF, reg = HALF, popcnt);
    operation!(list, "tzcnt r64", "bmi1", ["bmi1"], reg u64 = HALF, reg = HALF, tzcnt);
    operation!(list, "lzcnt r64", "lzcnt", ["lzcnt"], reg u64 = HALF, reg = HALF, lzcnt);
    operation!(list, "pdep r64", "bmi2", ["bmi2"], reg u64 = u64::MAX, reg = HALF, pdep);
    operation!(list, "pext r64", "bmi2", ["bmi2"], reg u64 = u64::MAX, reg = HALF, pext);
    operation!(
        list, "pcmpgtb xmm", "sse2", ["sse2"],
        xmm_reg __m128i = _mm_set1_epi8(3), xmm_reg = _mm_set1_epi8(1), pcmpgtb
    );
    operation!(
        list, "vpcmpgtb ymm", "avx2", ["avx2"],
        ymm_reg __m256i = _mm256_set1_epi8(3), ymm_reg = _mm256_set1_epi8(1), vpcmpgtb
    );
    operation!(
        list, "vpcmpub zmm, k + vpmovm2b k, zmm", "avx512f,avx512bw", ["avx512f", "avx512bw"],
        zmm_reg __m512i = _mm512_set1_epi8(3), zmm_reg = _mm512_set1_epi8(1), vpcmpub, "k2"
    );
    operation!(
        list, "vpcompressd zmm", "avx512f", ["avx512f"],
        zmm_reg __m512i = _mm512_set1_epi8(3), kreg = 0x6996_u16, vpcompressd
    );
    operation!(
        list, "vpcompressb zmm", "avx512f,avx512bw,avx512vbmi2",
        ["avx512f", "avx512bw", "avx512vbmi2"],
        zmm_reg __m512i = _mm512_set1_epi8(3), kreg = HALF, vpcompressb
    );
    list
}
