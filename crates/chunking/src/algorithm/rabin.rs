//! Rabin: the bytes of a window as a polynomial, modulo an irreducible one, tested at the low bits.
//!
//! Source: Rabin, "Fingerprinting by Random Polynomials" (1981), first used for chunking in
//! Muthitacharoen et al., "A Low-bandwidth Network File System" (2001); in the form of the code of
//! Gregoriadis et al., "A Thorough Investigation of Content-Defined Chunking Algorithms for Data
//! Deduplication".
//!
//! The rule, for a chunk that starts at byte 0; polynomials are numbers, bit `k` the coefficient of
//! `x^k`, and have coefficients modulo 2:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for i in max(min, window) - 1..n:
//!     hash = (the bytes i + 1 - window to i as one number, the first highest) modulo poly
//!     if the lowest `bits` bits of hash are 0:  cut at i + 1
//! cut at n
//! ```
//!
//! The byte that completes a match is the chunk's last. A window of zeros matches, so that zeros
//! are cut at every minimum size.
//!
//! This is also the rule of restic's chunker (window 64). With `start=one`, as in dedup-bench, the
//! bytes of a chunk stand behind zeros and a single one, and are tested from the minimum size on,
//! even if that is below the window; the one keeps a first chunk of zeros from matching. If the
//! minimum size is at least the window, there is no difference. Table 1 of Gregoriadis et al.
//! prints the formula of Karp and Rabin, which is a different hash.

use alloc::boxed::Box;
use core::fmt;

use super::{
    Algorithm, check_range, check_sizes, constructors, cut_within, debug_params,
    forward_chunk_sizes, geometric, paper, write_sizes,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::candidates::{
    ColumnsKind, RabinColumns, Selection, Stages, WINDOW_MAX, byte_table, forward_batches,
    is_candidate_search_faster, linear_gain,
};
use crate::kernel::ByteTable;
use crate::keys::Keys;
use crate::rolling::{Rolling, Step};
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "rabin";

const ABOUT: About = About {
    name: NAME,
    title: "Rabin's fingerprint of a window",
    rule: "The bytes of a window are taken as a polynomial over the field of two elements, modulo an \
           irreducible one. A chunk ends with the window whose remainder has zeros at its lowest \
           bits.",
    source: "Rabin, Fingerprinting by Random Polynomials (1981); Muthitacharoen et al., LBFS (2001); \
             as in the code of Gregoriadis et al., A Thorough Investigation.",
    differences: "Any irreducible polynomial, smallest and largest sizes. Table 1 of the paper prints \
                  another hash, that of Karp and Rabin.",
    good_at: "A hash of exactly the window, with proofs about collisions; the oldest rule, and that \
              of restic.",
    bad_at: "Two more table look-ups per byte than a gear hash. Zeros match: they are cut at every \
             smallest size.",
    key: KeyUse::Permutation,
    parameters: &[
        Parameter::new(
            "bits",
            "bits",
            "1 to 30, not above the degree of poly or 8 times the window",
            "Number of lowest bits that must be zero.",
        ),
        Parameter::new("window", "bytes", "1 to 65536", "The window (w or W)."),
        Parameter::new(
            "poly",
            "",
            "irreducible, of degree 8 to 53, decimal or 0x...",
            "The polynomial, bit k the coefficient of x^k.",
        )
        .or("0x3da3358b4dc173"),
        Parameter::new(
            "start",
            "",
            "full or one",
            "Test only full windows, or all windows after a leading one.",
        )
        .or("full"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new(
            "max",
            "bytes",
            "min and, unless start=one, window to 1073741824",
            "The largest chunk.",
        )
        .or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["window", "poly", "start", "max"],
            "256 to 16777216, above window and not above max",
            "Mean in bytes, which sets the other parameters; window 48 unless given. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper-gregoriadis",
            &["max"],
            "512, 1024, 2048, 4096 or 8192",
            "Gregoriadis et al., table 4: a window of 32, and as the bits the logarithm of target - 32, \
             rounded as in their code, which is that of the target: the mean is 31 bytes above it.",
        ),
        ShortForm::new(
            "paper-udayashankar",
            &[],
            "4k, 8k or 16k",
            "Udayashankar et al., SeqCDC, section 6: min half the average and max twice it, but \
             min 1k for 4k; what the paper leaves open, the average's logarithm as the bits, the window \
             of 48 and start=one, is from dedup-bench, their code. Real means 4408, 10460, \
             20920 bytes.",
        ),
        ShortForm::new(
            "paper-zhang",
            &["window", "poly"],
            "2k, 4k, 8k or 16k",
            "Rabin_0.25 of Zhang et al., AE, sections 3.2 and 4.1: the logarithm of the expected size \
             as the bits, min a quarter of that size and max eight times. The paper prints no window: 48 \
             unless given. The mean is a quarter above the expected size, as the paper says itself.",
        ),
    ],
    dialects: &[Dialect::new(
        "start=one",
        "dedup-bench: windows are tested before they are full, behind a one.",
    )],
};

/// The polynomial of restic's tests, dedup-bench and others, of degree 53.
pub const POLYNOMIAL: u64 = 0x3d_a335_8b4d_c173;

/// The windows that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// Only full windows.
    #[default]
    Full,
    /// All windows; a one stands in front of the chunk's bytes while the window is not full.
    One,
}

/// The parameters of Rabin; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of lowest bits that must be zeros: 1 to 30, but not above the degree of the
    /// polynomial or the number of bits in the window.
    pub bits: u32,
    /// The window, 1 byte to 64 KiB.
    pub window: usize,
    /// The irreducible polynomial, of degree 8 to 53; bit `k` is the coefficient of `x^k`.
    pub polynomial: u64,
    /// The windows that are tested.
    pub start: Start,
    /// The minimum chunk size, at least 1. If only full windows are tested, a chunk has at least a
    /// window, too.
    pub chunk_size_min: usize,
    /// The maximum chunk size; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = geometric::AVERAGE_MIN;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = geometric::AVERAGE_MAX;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits and the polynomial is
    /// irreducible. No size may exceed [`CHUNK_SIZE_LIMIT`](super::CHUNK_SIZE_LIMIT).
    pub fn check(&self) -> Result<(), SpecError> {
        let Params { bits, window, polynomial, chunk_size_min: min, .. } = *self;
        check_window(NAME, window)?;
        check_polynomial(NAME, polynomial)?;
        let bits_max = 30.min(polynomial.ilog2() as usize).min(8 * window);
        check_range(NAME, "bits", bits as usize, 1, bits_max)?;
        check_sizes(NAME, min, self.chunk_size_min(), self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the bits and the minimum size changed so that the mean
    /// on random data is `mean` bytes. The number of bits leaves at least a fifth of the mean for
    /// the minimum size.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the window is too large for
    /// the mean.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        let of = |bits, chunk_size_min| Params { bits, chunk_size_min, ..self };
        geometric::for_average(NAME, mean, self.chunk_size_max, of, Params::mean)
    }

    /// Returns the setting of Gregoriadis et al., "A Thorough Investigation", table 4, for a target
    /// of 512, 1024, 2048, 4096 or 8192 bytes, without a maximum size; `None` for any other target.
    ///
    /// The mean is that of table 11: 31 bytes above the target.
    pub fn paper_gregoriadis(target: usize) -> Option<Params> {
        let window = 32;
        Some(Params {
            bits: paper::bits(target, window)?,
            window,
            polynomial: POLYNOMIAL,
            start: Start::Full,
            chunk_size_min: 1,
            chunk_size_max: None,
        })
    }

    /// Returns the setting of Udayashankar et al., "SeqCDC", section 6, for an expected average of
    /// 4, 8 or 16 KiB, with bits, window and start of their code, dedup-bench; `None` for any other
    /// average.
    ///
    /// The mean is 8 to 28 % above the expected average; see [`Params::mean`].
    pub fn paper_udayashankar(nominal_size: usize) -> Option<Params> {
        let (chunk_size_min, max) = paper::sizes(nominal_size)?;
        Some(Params {
            bits: nominal_size.ilog2(),
            window: 48,
            polynomial: POLYNOMIAL,
            start: Start::One,
            chunk_size_min,
            chunk_size_max: Some(max),
        })
    }

    /// Returns Rabin_0.25 of Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking
    /// Algorithm", section 4.1, for an expected size of 2, 4, 8 or 16 KiB; `None` for any other
    /// size.
    ///
    /// The paper prints neither a window nor a polynomial; here they are 48 bytes and
    /// [`POLYNOMIAL`]. The mean is a quarter above the expected size.
    pub fn paper_zhang(expected_size: usize) -> Option<Params> {
        [2048, 4096, 8192, 16384].contains(&expected_size).then(|| Params {
            bits: expected_size.ilog2(),
            window: 48,
            polynomial: POLYNOMIAL,
            start: Start::Full,
            chunk_size_min: expected_size / 4,
            chunk_size_max: Some(expected_size * 8),
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a hash that is independent from byte to byte.
    pub fn mean(&self) -> f64 {
        // Behind the one, fewer bytes than this cannot match.
        let least = self.chunk_size_min().max(self.bits.div_ceil(8) as usize);
        geometric::mean(least, f64::from(1u32 << self.bits), self.chunk_size_max)
    }
}

pub(super) fn check_window(algorithm: &'static str, window: usize) -> Result<(), SpecError> {
    check_range(algorithm, "window", window, 1, Rolling::<Reduce>::WINDOW_MAX)
}

pub(super) fn check_polynomial(algorithm: &'static str, polynomial: u64) -> Result<(), SpecError> {
    if (8..=53).contains(&polynomial.checked_ilog2().unwrap_or(0)) && is_irreducible(polynomial) {
        return Ok(());
    }
    let expected = "must be irreducible and of degree 8 to 53";
    Err(SpecError::new(algorithm, "poly", alloc::format!("{polynomial:#x}"), expected))
}

/// Returns `true` if `polynomial`, of degree 1 to 63, has no divisors except 1 and itself.
///
/// An irreducible polynomial of degree `k` divides `x^(2^k) - x`, and every reducible polynomial
/// has an irreducible factor of at most half its degree (Ben-Or's test).
fn is_irreducible(polynomial: u64) -> bool {
    let mut power = 2;
    (0..polynomial.ilog2() / 2).all(|_| {
        power = multiply(power, power, polynomial);
        greatest_common_divisor(polynomial, power ^ 2) == 1
    })
}

/// Returns the product of two polynomials of lower degree than `modulus`, modulo `modulus`.
fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    let degree = modulus.ilog2();
    (0..degree).rev().fold(0, |product, bit| {
        let doubled = product << 1;
        let reduced = doubled ^ (modulus * (doubled >> degree & 1));
        reduced ^ (a * (b >> bit & 1))
    })
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        // The remainder of a by b.
        while a.checked_ilog2() >= b.checked_ilog2() {
            a ^= b << (a.ilog2() - b.ilog2());
        }
        (a, b) = (b, a);
    }
    a
}

/// A step of the fingerprint: a multiplication by `x^8`, modulo the polynomial.
#[derive(Clone)]
pub(super) struct Reduce {
    /// The distance in bits from the lowest to the highest 8 bits of a hash.
    shift: u32,
    /// For each value of the highest 8 bits, these bits together with the remainder that they
    /// leave.
    table: Box<[u64; 256]>,
}

impl Reduce {
    pub(super) fn new(polynomial: u64) -> Reduce {
        let degree = polynomial.ilog2();
        let mut table = Box::new([0; 256]);
        for (high, entry) in (0u64..).zip(table.iter_mut()) {
            let mut remainder = high << degree;
            for bit in (0..8).rev() {
                if remainder >> (degree + bit) & 1 == 1 {
                    remainder ^= polynomial << bit;
                }
            }
            *entry = high << degree | remainder;
        }
        Reduce { shift: degree - 8, table }
    }

    /// Creates the hash of a window, of bytes mapped by the permutation of the material.
    pub(super) fn rolling(self, window: usize, material: Option<&KeyMaterial>) -> Rolling<Reduce> {
        let permutation = material.map(KeyMaterial::permutation);
        Rolling::new(self, window, |byte| {
            u64::from(permutation.as_ref().map_or(byte, |seen| seen[usize::from(byte)]))
        })
    }
}

impl Step for Reduce {
    #[inline]
    fn step(&self, hash: u64) -> u64 {
        // The hash is below 2^(shift + 8).
        hash << 8 ^ self.table[(hash >> self.shift & 255) as usize]
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            bits: 1,
            window: keys.optional_size("window")?.unwrap_or(48),
            polynomial: keys.bits("poly", POLYNOMIAL)?,
            start: keys.word("start", &[("full", Start::Full), ("one", Start::One)])?,
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        let Params { window, polynomial, chunk_size_max, .. } = params;
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper-gregoriadis" => {
                Ok(Params { chunk_size_max, ..keys.setting(Params::paper_gregoriadis)? })
            }
            "paper-udayashankar" => keys.setting(Params::paper_udayashankar),
            "paper-zhang" => {
                Ok(Params { window, polynomial, ..keys.setting(Params::paper_zhang)? })
            }
            _ => Ok(Params { bits: keys.number("bits")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={},window={}", self.bits, self.window)?;
        if self.polynomial != POLYNOMIAL {
            write!(f, ",poly={:#x}", self.polynomial)?;
        }
        if self.start == Start::One {
            write!(f, ",start=one")?;
        }
        write_sizes(f, self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        match self.start {
            Start::Full => self.chunk_size_min.max(self.window),
            Start::One => self.chunk_size_min,
        }
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of Rabin.
#[derive(Clone)]
pub struct Rabin {
    params: Params,
    rolling: Rolling<Reduce>,
    /// The value that takes the place of each byte value, with a key.
    seen: Option<ByteTable>,
    stages: Stages<RabinColumns>,
}

constructors!(Rabin);

impl Rabin {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Rabin {
        let rolling = Reduce::new(params.polynomial).rolling(params.window, material);
        let seen = material.map(|material| byte_table(&material.permutation()));
        let scalar = Rabin { params, rolling, seen, stages: Stages::at(Level::SCALAR, |_| None) };
        scalar.at_level(level)
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Rabin {
        let stages = Stages::at(level, |kind| self.columns(kind));
        Rabin { stages, ..self }
    }

    /// Returns the columns that find the candidates; `None` if they do not support the size of the
    /// window or of the polynomial, or does not pay.
    fn columns(&self, kind: ColumnsKind) -> Option<RabinColumns> {
        let Params { bits, window, polynomial, .. } = self.params;
        let min = Algorithm::chunk_size_min(&self.params);
        let uses_candidates = window <= WINDOW_MAX
            && is_candidate_search_faster(min, self.params.mean(), linear_gain(kind));
        uses_candidates
            .then(|| RabinColumns::new(&self.rolling, polynomial.ilog2(), bits))
            .flatten()
    }
}

impl Selection for Rabin {
    fn first(&self) -> usize {
        Chunker::chunk_size_min(self) - 1
    }

    fn told_from(&self) -> usize {
        // A one stands in front until the window is full.
        self.first().max(self.params.window - 1)
    }

    fn step(&self) -> usize {
        1
    }

    fn permutation(&self) -> Option<&ByteTable> {
        self.seen.as_ref()
    }

    fn cut_from(&self, _: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        let mask = (1 << self.params.bits) - 1;
        let matches = |_, hash| hash & mask == 0;
        cut_within(data, more, self.params.chunk_size_max, |data| {
            let found = match self.params.start {
                Start::Full => self.rolling.find(data, from, matches),
                Start::One => self.rolling.find_behind_one(data, 0, from, matches),
            };
            found.map(|at| at + 1)
        })
    }
}

impl Chunker for Rabin {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.cut_from(&[], data, more, self.first())
    }
}

debug_params!(Rabin);

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of irreducibility agrees with a division by all candidates, for small degrees from
    /// 8 on.
    #[test]
    fn irreducible_polynomials_are_recognized() {
        let mut count = 0;
        for polynomial in 0x100u64..0x1000 {
            let has_no_divisor = (2u64..0x40).all(|divisor| {
                let mut rest = polynomial;
                while rest.checked_ilog2() >= Some(divisor.ilog2()) {
                    rest ^= divisor << (rest.ilog2() - divisor.ilog2());
                }
                rest != 0
            });
            assert_eq!(is_irreducible(polynomial), has_no_divisor, "{polynomial:#x}");
            count += usize::from(has_no_divisor);
        }
        // The numbers of irreducible polynomials of degree 8, 9, 10 and 11.
        assert_eq!(count, 30 + 56 + 99 + 186, "irreducible polynomials");
        assert!(is_irreducible(POLYNOMIAL), "the default");
        for factor in [3, 7, 0x11b] {
            let product = multiply(factor, 0x1_0000_002b, 1 << 53);
            assert!(!is_irreducible(product), "{product:#x}");
        }
    }
}
