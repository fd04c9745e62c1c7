//! Chunks of one size.
//!
//! Not content-defined: an insertion moves every later cut-point. It is the yardstick of the papers
//! ("XC" in Udayashankar et al., "FSC" in Gregoriadis et al.), and right for disk images, which
//! change in place.

use alloc::boxed::Box;
use core::fmt;

use super::{ByteChunker, ByteRule, CHUNK_SIZE_LIMIT, Named, Parameters, check_range};
use crate::description::{Parameter, ShortForm};
use crate::keys::Keys;
use crate::{Chunker, Description, KeyMaterial, SpecError};

/// The parameters of fixed sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The size of a chunk in bytes, 1 to [`CHUNK_SIZE_LIMIT`].
    pub size: usize,
}

/// The chunker of fixed sizes. It has no use for a key.
pub type Fixed = ByteChunker<Params>;

impl Parameters for Params {
    fn check(&self) -> Result<(), SpecError> {
        check_range(Params::DESCRIPTION.name, "size", self.size, 1, CHUNK_SIZE_LIMIT)
    }

    fn chunk_size_min(&self) -> usize {
        self.size
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.size)
    }

    fn chunk_size_mean(&self) -> Option<f64> {
        Some(self.size as f64)
    }
}

impl ByteRule for Params {
    fn next_cut(&self, data: &[u8], more: bool, _: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        if data.len() >= self.size { Some(self.size) } else { (!more).then_some(data.len()) }
    }
}

impl Named for Params {
    const DESCRIPTION: &'static Description = &Description {
        name: "fixed",
        title: "Fixed size",
        rule: "Every chunk but the last has the same size.",
        source: "The yardstick of all papers on chunking, there called XC or FSC.",
        dialects: "None.",
        good_at: "Disk images, databases and whatever else changes in place; speed.",
        bad_at: "Everything in which bytes are inserted or deleted: all later chunks are new.",
        parameters: &[Parameter::required("size", "the size of a chunk in bytes", "1 to 1 GiB")],
        short_forms: &[ShortForm::new("avg", &[], "the same as `size`")],
    };

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let key = if keys.form().is_empty() { "size" } else { keys.form() };
        let params = Params { size: keys.size(key)? };
        params.check().map(|()| params)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "size={}", self.size)
    }

    fn chunker(&self, material: Option<&KeyMaterial>) -> Box<dyn Chunker> {
        Box::new(Fixed::from_checked(*self, material))
    }
}
