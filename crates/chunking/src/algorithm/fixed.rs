//! Chunks of one size.
//!
//! Not content-defined: an insertion moves every later cut-point. It is the yardstick of the papers
//! ("XC" in Udayashankar et al., "FSC" in Gregoriadis et al.), and right for disk images, which
//! change in place.

use super::{CHUNK_SIZE_LIMIT, check_range};
use crate::{Chunker, SpecError};

/// Cuts every `size` bytes; a chunker by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    size: usize,
}

impl Fixed {
    /// Makes chunks of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`SpecError`] unless `size` is from 1 to [`CHUNK_SIZE_LIMIT`].
    pub fn new(size: usize) -> Result<Fixed, SpecError> {
        check_range("fixed", "size", size, 1, CHUNK_SIZE_LIMIT)?;
        Ok(Fixed { size })
    }

    /// Returns the size of a chunk in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Chunker for Fixed {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        if data.len() >= self.size {
            Some(self.size)
        } else if more || data.is_empty() {
            None
        } else {
            Some(data.len())
        }
    }

    fn chunk_size_min(&self) -> usize {
        self.size
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.size)
    }
}
