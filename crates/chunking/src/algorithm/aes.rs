//! AES: a secret universal hash of a window, encrypted with a secret key and tested at its low
//! bits.
//!
//! Source: the construction proven by Truong et al. (eprint 2025/558): a universal hash, then a
//! pseudo-random function. The hash is that of Minematsu and Tsunoo, "Provably Secure MACs from
//! Differentially-Uniform Permutations and AES-Based Implementations" (FSE 2006): four rounds of
//! AES with independent keys. The cipher is AES-128, FIPS 197. The combination of hash and cipher
//! to a rule originates here.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for i in max(min, window) - 1..n:
//!     window = 16:  block = bytes i - 15 to i
//!     window = 32:  block = rounds(bytes i - 31 to i - 16) XOR bytes i - 15 to i
//!     result = AES-128 of block
//!     if the lowest `bits` bits of the first 4 bytes of result, little-endian, are 0:  cut at i + 1
//! cut at n
//!
//! rounds(block):  four times: block = block XOR the next hash key; SubBytes, ShiftRows, MixColumns
//! ```
//!
//! The byte that completes a match is the chunk's last. The keys come from [`KeyMaterial`]. Without
//! key material, byte `k` of it is taken to be `k`, so that nothing is secret.
//!
//! # Security
//!
//! Let an adversary see the cut-points of chosen plaintext. Compared with a random function of the
//! window, the adversary's advantage is at most that of breaking AES-128 plus `q * q * 2^-114`, for
//! `q` different windows in all. With a window of 16 bytes the block *is* the window, and the
//! second term is `q * q * 2^-129`, the difference between a permutation and a function. Two
//! windows of 32 bytes have the same block with a chance of at most `1.9 * 2^-114`. That bound is
//! proven for four rounds with independent keys (Keliher and Sui, "Exact maximum expected
//! differential and linear probability for two-round Advanced Encryption Standard", 2007; the
//! chance is taken over the keys).
//!
//! Nothing is tested before the cipher. A filter by bits of the hash would reveal information about
//! the hash's key, and a filter by public bits would reveal the possible lengths of a known file.

use core::fmt;

use super::{
    Algorithm, check_range, check_sizes, constructors, cut_within, debug_params,
    forward_chunk_sizes, geometric, write_sizes,
};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::kernel::{AesKeys, Cipher, CipherTask, LevelCipher, WindowSize, Windows};
use crate::key::cipher;
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "aes";

const ABOUT: About = About {
    name: NAME,
    title: "AES of a secret hash of a window",
    rule: "A window of 32 bytes is hashed to 16 by four rounds of AES with secret keys; a window of 16 is \
           taken as it is. A chunk ends with the window for which AES-128 of that has zeros at its lowest \
           bits.",
    source: "A universal hash and then a pseudo-random function: Truong et al., eprint 2025/558. The \
             hash: Minematsu and Tsunoo, FSE 2006, with the bound of Keliher and Sui, 2007. AES: FIPS 197. \
             Put together here.",
    differences: "Borg 2 hashes by a polynomial of 64 bits before AES; cut-points are not those of Borg.",
    good_at: "The only rule whose secret cut-points have a proof: without the key, lengths of chunks tell \
              nothing but lengths, and which windows are equal.",
    bad_at: "14 rounds of AES for each byte behind the smallest size, 10 with window=16. Without \
             instructions for AES it is some hundred times slower.",
    key: KeyUse::Cipher,
    parameters: &[
        Parameter::new("bits", "bits", "1 to 30", "Number of lowest bits that must be zero."),
        Parameter::new("window", "bytes", "16 or 32", "The window.").or("32"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new("max", "bytes", "min and window to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &["window", "max"],
        "256 to 16777216, not above max",
        "Mean in bytes, which sets the other parameters. Chunks have no largest size unless max is given.",
    )],
    dialects: &[],
};

/// The parameters of AES; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of lowest bits that must be zeros, 1 to 30.
    pub bits: u32,
    /// The window, 16 or 32 bytes.
    pub window: usize,
    /// The minimum chunk size, at least 1. A chunk has at least a window, too.
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
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`](super::CHUNK_SIZE_LIMIT).
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "bits", self.bits as usize, 1, 30)?;
        if ![16, 32].contains(&self.window) {
            return Err(SpecError::new(NAME, "window", self.window, "must be 16 or 32"));
        }
        check_sizes(NAME, self.chunk_size_min, self.chunk_size_min(), self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the bits and the minimum size changed so that the mean
    /// on random data is `mean` bytes. The number of bits leaves at least a fifth of the mean for
    /// the minimum size.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        let of = |bits, chunk_size_min| Params { bits, chunk_size_min, ..self };
        geometric::for_average(NAME, mean, self.chunk_size_max, of, Params::mean)
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a cipher whose results are independent from byte to byte.
    pub fn mean(&self) -> f64 {
        let divisor = f64::from(1u32 << self.bits);
        geometric::mean(self.chunk_size_min(), divisor, self.chunk_size_max)
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            bits: 1,
            window: keys.optional_size("window")?.unwrap_or(32),
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            _ => Ok(Params { bits: keys.number("bits")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={}", self.bits)?;
        if self.window != 32 {
            write!(f, ",window={}", self.window)?;
        }
        write_sizes(f, self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min.max(self.window)
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of AES.
#[derive(Clone)]
pub struct Aes {
    params: Params,
    keys: AesKeys,
    level: Level,
    cipher: LevelCipher,
}

constructors!(Aes);

impl Aes {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Aes {
        let (key, hash) = material.map_or_else(
            || {
                let public: [u8; 80] = core::array::from_fn(|index| index.to_le_bytes()[0]);
                cipher(&public)
            },
            KeyMaterial::cipher,
        );
        let window = if params.window == 16 { WindowSize::One } else { WindowSize::Two };
        let keys = AesKeys::new(window, (1 << params.bits) - 1, hash, key);
        let (level, cipher) = level.cipher();
        Aes { params, keys, level, cipher }
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Aes {
        let (level, cipher) = level.cipher();
        Aes { level, cipher, ..self }
    }
}

/// The prefetch distance in bytes. Behind a minimum size, the CPU does not predict the next bytes.
const AHEAD: usize = 1024;

/// Finds the first position from `first` on, within `data`, that ends a matching window.
struct Find<'a> {
    keys: &'a AesKeys,
    data: &'a [u8],
    first: usize,
    window: usize,
}

impl CipherTask for Find<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<C: Cipher>(self, cipher: C) -> Option<usize> {
        let Find { keys, data, mut first, window } = self;
        for line in 0..AHEAD / 64 {
            cipher.prefetch(data, first + 64 * line);
        }
        while first < data.len() {
            cipher.prefetch(data, first + AHEAD);
            let bytes = &data[first + 1 - window..];
            let mut end: Windows = [0; _];
            let windows = bytes.first_chunk().unwrap_or_else(|| {
                end[..bytes.len()].copy_from_slice(bytes);
                &end
            });
            // A single call site; with several the call would not be inlined.
            let mut matches = cipher.matches(keys, windows);
            let count = data.len() - first;
            if count < 64 {
                matches &= (1 << count) - 1;
            }
            if matches != 0 {
                return Some(first + matches.trailing_zeros() as usize);
            }
            first += 64;
        }
        None
    }
}

impl Chunker for Aes {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let window = self.params.window;
        let first = Chunker::chunk_size_min(self) - 1;
        cut_within(data, more, self.params.chunk_size_max, |data| {
            let task = Find { keys: &self.keys, data, first, window };
            self.cipher.dispatch(task).map(|at| at + 1)
        })
    }

    fn level(&self) -> Level {
        self.level
    }
}

debug_params!(Aes);
