//! The rules, one file each.
//!
//! A file holds the rule's parameters, their limits, their text form and the chunker that they make.

pub mod fastcdc;
pub mod fixed;
pub mod seqcdc;

mod bytes;

use alloc::boxed::Box;
use core::fmt;

pub use bytes::{ByteChunker, ByteRule};

use crate::keys::Keys;
use crate::{Chunker, Description, KeyMaterial, SpecError};

/// No chunk of any algorithm may be larger, in bytes: 1 GiB. It bounds a reader's buffer.
pub const CHUNK_SIZE_LIMIT: usize = 1 << 30;

/// What the parameters of every algorithm have.
pub trait Parameters: Clone + PartialEq + fmt::Debug + Send + Sync {
    /// Checks each parameter, and that they go together.
    ///
    /// # Errors
    ///
    /// [`SpecError`] names the first that is wrong, and what is allowed.
    fn check(&self) -> Result<(), SpecError>;

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    fn chunk_size_min(&self) -> usize;

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    fn chunk_size_max(&self) -> Option<usize>;

    /// Returns the mean chunk size on random data without end, in bytes; `None` where it is not
    /// known.
    fn chunk_size_mean(&self) -> Option<f64>;
}

/// What an algorithm needs to be named by a [`Spec`](crate::Spec).
pub(crate) trait Named: Parameters {
    /// The algorithm in words; its keys are those that `parse` takes.
    const DESCRIPTION: &'static Description;

    /// Takes the values of the keys, and checks them.
    fn parse(keys: &Keys<'_>) -> Result<Self, SpecError>;

    /// Writes all keys with their values, in the order of the description; what is absent by default
    /// is not written.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Makes the chunker of parameters that were checked.
    fn chunker(&self, material: Option<&KeyMaterial>) -> Box<dyn Chunker>;
}

/// Checks that `low <= value <= high`.
pub(crate) fn check_range(
    algorithm: &'static str,
    parameter: &'static str,
    value: usize,
    low: usize,
    high: usize,
) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(SpecError::out_of_range(algorithm, parameter, value, low, high))
    }
}

/// Returns `base` to the power of `exponent`.
///
/// By squaring, so that every platform gets the same bits; `f64::powi` does not promise that.
pub(crate) fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
