//! RepMaxCDC: the position with the greatest hash within a horizon, chosen repeatedly until the
//! chunk is small.
//!
//! Source: buildbarn/go-cdc v0.0.10, `NewRepMaxContentDefinedChunker`, by its documentation and its
//! simple form, with the gear table that it derives from an empty seed.
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, 2 * min + horizon)
//! if n < 2 * min:  cut at n
//! end = n - min
//! repeat:
//!     i = the first position from min to end with the greatest hash
//!     if i < 2 * min:  cut at i
//!     end = i - min
//! hash at a position: over the 64 bytes in front of it, hash = 2 * hash + TABLE[byte], modulo 2^64
//! ```
//!
//! The best positions far ahead are thus kept free. A chunk has at least `min` bytes and less than
//! twice as many, except in a stream smaller than that. Finding the end of a chunk needs the bytes
//! of the horizon.
//!
//! A single pass finds the positions whose hash exceeds all before; the answer is among them. The
//! pass may stop when `min - 1` positions in a row follow one without a greater hash: however great
//! a later hash is, going back from it ends there.
//!
//! # Mean
//!
//! With a horizon of at most `min` there is one choice for each chunk, and all sizes up to `min +
//! horizon` are equally likely, so the mean is `min + horizon / 2`. With a horizon of twice `min`
//! or more, positions are taken in the order of their hashes wherever there is room, as cars are
//! parked at random, so the mean is `min` divided by Renyi's parking constant. Measurements with
//! 60,000 chunks each are within 0.5 % of that. Between the two, the mean is not known.
//!
//! The table is made from cSHAKE128; `examples/tables_of_others.rs` prints it.

mod table;

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_range, constructors, debug_params, forward_chunk_sizes,
};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};
use table::TABLE;

const NAME: &str = "repmaxcdc";

const ABOUT: About = About {
    name: NAME,
    title: "repeated maximum of a gear hash",
    rule: "Of all places within a horizon the one with the greatest gear hash will be a cut-point; \
           of those in front of it, far enough from it, again the one with the greatest; and so on \
           until the first chunk is smaller than twice the smallest size.",
    source: "buildbarn/go-cdc v0.0.10, NewRepMaxContentDefinedChunker with NewSeededGearTable(nil).",
    differences: "None for min from 64 and a horizon from 1 on; less is refused.",
    good_at: "All chunks have nearly one size and none is cut by force; a chunk's size shows that it \
              is one.",
    bad_at: "Bytes are hashed about three times, and a horizon of bytes must be there before \
             anything is cut.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new("min", "bytes", "64 to 268435456", "The smallest chunk."),
        Parameter::new(
            "horizon",
            "bytes",
            "1 to 268435456",
            "The horizon: number of bytes searched beyond the smallest chunk.",
        ),
    ],
    short_forms: &[ShortForm::new(
        "avg",
        &[],
        "128 to 16777216",
        "Mean in bytes, which sets the smallest size, three quarters of it, and a horizon of eight \
         times that.",
    )],
    dialects: &[],
};

/// The number of last bytes on which the hash depends.
const WINDOW: usize = 64;

/// The parameters of RepMaxCDC; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The minimum chunk size: 64 to 2^28. The maximum is one byte below twice the minimum.
    pub chunk_size_min: usize,
    /// The number of bytes beyond twice the minimum size that are looked at: 1 to 2^28.
    pub horizon: usize,
}

/// Renyi's parking constant: the share of a long road that is covered by cars of one length parked
/// at random.
const PARKED: f64 = 0.747_597_920_253_411;

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 128;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 16 * 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "min", self.chunk_size_min, WINDOW, CHUNK_SIZE_LIMIT / 4)?;
        check_range(NAME, "horizon", self.horizon, 1, CHUNK_SIZE_LIMIT / 4)
    }

    /// Returns the parameters whose mean on random data is `mean` bytes, with a horizon of eight
    /// times the minimum size.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`].
    pub fn for_average(mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is less than the mean")]
        let chunk_size_min = (mean as f64 * PARKED + 0.5) as usize;
        Ok(Params { chunk_size_min, horizon: 8 * chunk_size_min })
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        if keys.form() == "avg" {
            return Params::for_average(keys.size("avg")?);
        }
        Ok(Params { chunk_size_min: keys.size("min")?, horizon: keys.size("horizon")? })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "min={},horizon={}", self.chunk_size_min, self.horizon)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(2 * self.chunk_size_min - 1)
    }

    fn mean(&self) -> Option<f64> {
        let (min, horizon) = (self.chunk_size_min as f64, self.horizon as f64);
        if horizon <= min {
            Some(min + horizon / 2.0)
        } else if horizon >= 2.0 * min {
            Some(min / PARKED)
        } else {
            None
        }
    }
}

/// The chunker of RepMaxCDC.
#[derive(Clone)]
pub struct RepMaxCdc {
    params: Params,
    table: Box<[u64; 256]>,
}

constructors!(RepMaxCdc);

impl RepMaxCdc {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        _: Level,
    ) -> RepMaxCdc {
        RepMaxCdc { params, table: material.map_or_else(|| Box::new(TABLE), KeyMaterial::table) }
    }
}

impl Chunker for RepMaxCdc {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        let Params { chunk_size_min: min, horizon } = self.params;
        let needed = 2 * min + horizon;
        let size = data.len().min(needed);
        let is_complete = !more || size == needed;
        if size < 2 * min {
            return (is_complete && size > 0).then_some(size);
        }
        let step = |hash: u64, &byte: &u8| (hash << 1).wrapping_add(self.table[usize::from(byte)]);
        let mut hash = data[min - WINDOW..min].iter().fold(0, step);
        // The positions whose hash exceeds that of all positions before, from `min` on.
        let mut greatest = hash;
        let mut places = vec![min];
        let mut is_settled = false;
        for (place, byte) in (min + 1..).zip(&data[min..size - min]) {
            if place == places[places.len() - 1] + min {
                is_settled = true;
                break;
            }
            hash = step(hash, byte);
            if hash > greatest {
                greatest = hash;
                places.push(place);
            }
        }
        if !is_settled && !is_complete {
            return None;
        }
        let mut cut = places.pop().unwrap_or(min);
        while cut >= 2 * min {
            // The greatest of the positions up to `cut - min`.
            let end = cut - min;
            while let Some(place) = places.pop() {
                if place <= end {
                    cut = place;
                    break;
                }
            }
        }
        Some(cut)
    }

    /// Returns the number of bytes that are looked at: twice the minimum size and the horizon.
    fn needed_size_max(&self) -> Option<usize> {
        Some(2 * self.params.chunk_size_min + self.params.horizon)
    }
}

debug_params!(RepMaxCdc);
