//! Chunks of one size.
//!
//! The rule is not content-defined: an insertion moves every later cut-point. It is the baseline of
//! the papers ("XC" in Udayashankar et al., "FSC" in Gregoriadis et al.), and suits disk images,
//! which change in place.

use core::fmt;

use super::{Algorithm, CHUNK_SIZE_LIMIT, check_range, constructors, forward_chunk_sizes};
use crate::about::{About, KeyUse, Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "fixed";

const ABOUT: About = About {
    name: NAME,
    title: "chunks of one size",
    rule: "A chunk ends after `size` bytes, whatever the content.",
    source: "The yardstick of the papers: XC in Udayashankar et al., FSC in Gregoriadis et al.",
    differences: "",
    good_at: "Content that changes in place, such as disk images and databases; the fastest.",
    bad_at: "An insertion or deletion moves every later cut-point, so all later data is stored \
         again.",
    key: KeyUse::None,
    parameters: &[Parameter::new("size", "bytes", "1 to 1073741824", "The size of a chunk.")],
    short_forms: &[ShortForm::new("avg", &[], "1 to 1073741824", "The same as size.")],
    dialects: &[],
};

/// The parameter of chunks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The size of a chunk in bytes: 1 to [`CHUNK_SIZE_LIMIT`].
    pub size: usize,
}

impl Params {
    /// Checks the parameter.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless the size is within its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        check_range(NAME, "size", self.size, 1, CHUNK_SIZE_LIMIT)
    }
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        Ok(Params { size: keys.size(if keys.form() == "avg" { "avg" } else { "size" })? })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "size={}", self.size)
    }

    fn chunk_size_min(&self) -> usize {
        self.size
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.size)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.size as f64)
    }
}

/// The chunker of chunks of one size.
#[derive(Clone, Debug)]
pub struct Fixed {
    params: Params,
}

constructors!(Fixed);

impl Fixed {
    pub(crate) fn from_checked(params: Params, _material: Option<&KeyMaterial>, _: Level) -> Fixed {
        Fixed { params }
    }
}

impl Chunker for Fixed {
    forward_chunk_sizes!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        if data.len() >= self.params.size {
            Some(self.params.size)
        } else if more || data.is_empty() {
            None
        } else {
            Some(data.len())
        }
    }
}
