//! JC: a gear hash tested against two masks; if only the easier one matches, bytes are skipped.
//!
//! Source: Jin et al., "Accelerating Content-Defined Chunking for Data Deduplication Based on
//! Speculative Jump" (2023), algorithm 1, in the form of PlakarKorp/go-cdc-chunkers v1.1.0 under
//! the name `jc-v1.1.0`.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! hash = 0; i = min
//! while i < n:
//!     hash = 2 * hash + table[byte i]                 modulo 2^64
//!     if hash & mask_jump == 0:
//!         if hash & mask_cut == 0:  cut at i
//!         hash = 0; i = i + jump
//!     else:  i = i + 1
//! cut at n
//! ```
//!
//! `mask_cut` has `bits` one bits, and `mask_jump` has all of them except the lowest, so that half
//! of the matches of `mask_jump` are cut-points. If `jump` is `2^bits`, as that module computes it,
//! about half of the bytes behind the minimum size are skipped. The bits are at 63, 63 - d, 63 - 2
//! d and so on, where d is `64 / bits` rounded down, as in `jc-v1.0.0`.
//!
//! `form=plakar` has the table and the masks of `jc-v1.1.0`, of 11 and 10 bits for all sizes. These
//! masks belong to a normal size of 8192, for which that module skips 4096 bytes. The forms `jc`
//! and `jc-v1.0.0` of the module do not search the rest of a stream unless the rest is above the
//! normal size, which is not in the paper.

mod table_plakar;

use alloc::boxed::Box;
use core::fmt;

use super::gear::scan;
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_range, check_sizes, constructors, debug_params,
    far_from_max, forward_chunk_sizes,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError, table};

const NAME: &str = "jc";

const ABOUT: About = About {
    name: NAME,
    title: "a gear hash that jumps",
    rule: "From the smallest size on, every byte goes into a hash: twice the hash plus the byte's \
           entry in a table. Where the hash has zeros at all bits of a mask, the chunk ends before \
           the byte if one bit more is zero, too; otherwise a number of bytes is skipped, and the \
           hash starts again.",
    source: "Jin et al., Accelerating Content-Defined Chunking for Data Deduplication Based on \
             Speculative Jump (2023), algorithm 1, as in PlakarKorp/go-cdc-chunkers v1.1.0, jc-v1.1.0.",
    differences: "Any number of bits and any jump; the table is our own. form=plakar has the table and \
                  the masks of that module, which are those of 8 KiB for all sizes.",
    good_at: "Few bytes are hashed: by avg a fifth to three eighths of them.",
    bad_at: "A change in front of a jump may move all that comes behind it, up to the next cut-point. \
             A long constant stretch is cut at the largest size, or wherever it may.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new(
            "bits",
            "bits",
            "Number of bits that must be zero for a cut.",
            "How many bits must be zeros to cut.",
        ),
        Parameter::new("jump", "bytes", "1 to 1073741824", "Number of bytes that a jump skips."),
        Parameter::new(
            "form",
            "",
            "cutpoint or plakar",
            "The source of table and masks; plakar with 11 bits.",
        )
        .or("cutpoint"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk."),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk."),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &[],
        "256 to 16777216",
        "The bits and the jump that give this mean; a smallest size of a quarter, a largest of eight \
         times it.",
    )],
    dialects: &[Dialect::new(
        "form=plakar",
        "go-cdc-chunkers, jc-v1.1.0: its table and its masks.",
    )],
};

/// The table and the masks of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// The table of [`gear`](super::gear), and masks of any number of bits.
    #[default]
    Cutpoint,
    /// The table and the masks of go-cdc-chunkers.
    Plakar,
}

/// The parameters of JC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of bits that must be zeros to cut, 2 to 30; 11 in go-cdc-chunkers.
    pub bits: u32,
    /// The number of bytes to skip, at least 1.
    pub jump_size: usize,
    /// The table and the masks of the hash.
    pub form: Form,
    /// The minimum chunk size, at least 1.
    pub chunk_size_min: usize,
    /// The maximum chunk size, not below the minimum.
    pub chunk_size_max: usize,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 256;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        match self.form {
            Form::Cutpoint => check_range(NAME, "bits", self.bits as usize, 2, 30)?,
            Form::Plakar => {
                let bits = PLAKAR_MASK.count_ones() as usize;
                check_range(NAME, "bits", self.bits as usize, bits, bits)?;
            }
        }
        check_range(NAME, "jump", self.jump_size, 1, CHUNK_SIZE_LIMIT)?;
        let min = self.chunk_size_min;
        check_sizes(NAME, min, min, Some(self.chunk_size_max))
    }

    /// Returns the parameters whose mean on random data is `mean` bytes.
    ///
    /// The minimum size is a quarter of the mean. Of the rest, the jump takes a half to three
    /// quarters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let (chunk_size_min, bits) = (mean / 4, (mean * 3 / 8).ilog2());
        Ok(Params {
            bits,
            jump_size: mean - chunk_size_min - (1 << bits) + 2,
            form: Form::Cutpoint,
            chunk_size_min,
            chunk_size_max: 8 * mean,
        })
    }

    /// Returns the mean on random data in bytes, without a maximum size. Of two matches, each after
    /// `2^(bits - 1)` tested bytes, one is a jump.
    fn mean_without_max(&self) -> f64 {
        let tested = (1usize << self.bits) - 2;
        (self.chunk_size_min + tested + self.jump_size) as f64
    }

    /// Returns the bits that are zeros at a cut-point.
    fn mask(&self) -> u64 {
        match self.form {
            Form::Cutpoint => (0..self.bits).map(|each| 1 << (63 - each * (64 / self.bits))).sum(),
            Form::Plakar => PLAKAR_MASK,
        }
    }
}

/// The bits that are zeros at a cut-point of go-cdc-chunkers.
const PLAKAR_MASK: u64 = 0x5900_0357_0000;

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        if keys.form() == "avg" {
            return Params::for_average(keys.size("avg")?);
        }
        Ok(Params {
            bits: keys.number("bits")?,
            jump_size: keys.size("jump")?,
            form: keys.word("form", &[("cutpoint", Form::Cutpoint), ("plakar", Form::Plakar)])?,
            chunk_size_min: keys.size("min")?,
            chunk_size_max: keys.size("max")?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={},jump={}", self.bits, self.jump_size)?;
        if self.form == Form::Plakar {
            write!(f, ",form=plakar")?;
        }
        write!(f, ",min={},max={}", self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        far_from_max(self.mean_without_max(), Some(self.chunk_size_max), 6.0)
    }
}

/// The chunker of JC.
#[derive(Clone)]
pub struct Jc {
    params: Params,
    mask_cut: u64,
    mask_jump: u64,
    gear: Box<[u64; 256]>,
}

constructors!(Jc);

impl Jc {
    pub(crate) fn from_checked(params: Params, material: Option<&KeyMaterial>, _: Level) -> Jc {
        let gear = match (material, params.form) {
            (Some(material), _) => material.table(),
            (None, Form::Cutpoint) => Box::new(table::gear::TABLE),
            (None, Form::Plakar) => Box::new(table_plakar::TABLE),
        };
        let mask_cut = params.mask();
        Jc { params, mask_cut, mask_jump: mask_cut & (mask_cut - 1), gear }
    }
}

impl Chunker for Jc {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let size = data.len().min(max);
        let is_complete = !more || size == max;
        let (mut from, mut hash) = (self.params.chunk_size_min, 0);
        while let Some(tail) = data.get(from..size)
            && let Some(at) = scan(&self.gear, &mut hash, self.mask_jump, tail)
        {
            from += at;
            if hash & self.mask_cut == 0 {
                return Some(from);
            }
            (from, hash) = (from + self.params.jump_size, 0);
        }
        (is_complete && size > 0).then_some(size)
    }
}

debug_params!(Jc);
