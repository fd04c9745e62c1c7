//! Chunkers of rules that look at the values of bytes and at nothing else.

use alloc::boxed::Box;
use core::fmt;

use super::Parameters;
use crate::{Chunker, KeyMaterial, SpecError};

/// A rule over byte values. Implemented by the parameters of such algorithms.
pub trait ByteRule: Parameters {
    /// As [`Chunker::next_cut`], where byte `v` counts as `value(v)`; `data` is not empty.
    fn next_cut(&self, data: &[u8], more: bool, value: impl Fn(u8) -> u8 + Copy) -> Option<usize>;
}

/// The chunker of a rule over byte values, plain or keyed.
#[derive(Clone)]
pub struct ByteChunker<R> {
    params: R,
    /// What each byte value counts as; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
}

impl<R: ByteRule> ByteChunker<R> {
    /// Makes a chunker that takes the bytes as they are.
    ///
    /// # Errors
    ///
    /// Where the parameters are wrong.
    pub fn new(params: R) -> Result<ByteChunker<R>, SpecError> {
        params.check()?;
        Ok(ByteChunker::from_checked(params, None))
    }

    /// Makes a chunker that replaces each byte by another, as a secret permutation says.
    ///
    /// It cuts `data` where a chunker without a key cuts `data` with each byte `v` replaced by
    /// `permutation[v]`. How the permutation comes from `material` is said at [`KeyMaterial`].
    ///
    /// # Errors
    ///
    /// Where the parameters are wrong.
    pub fn keyed(params: R, material: &KeyMaterial) -> Result<ByteChunker<R>, SpecError> {
        params.check()?;
        Ok(ByteChunker::from_checked(params, Some(material)))
    }

    pub(crate) fn from_checked(params: R, material: Option<&KeyMaterial>) -> ByteChunker<R> {
        ByteChunker { params, permutation: material.map(KeyMaterial::permutation) }
    }

    /// Returns the parameters.
    pub fn params(&self) -> &R {
        &self.params
    }
}

impl<R: ByteRule> Chunker for ByteChunker<R> {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        if data.is_empty() {
            return None;
        }
        match &self.permutation {
            None => self.params.next_cut(data, more, |byte| byte),
            Some(permutation) => {
                self.params.next_cut(data, more, |byte| permutation[usize::from(byte)])
            }
        }
    }

    fn chunk_size_min(&self) -> usize {
        self.params.chunk_size_min()
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.params.chunk_size_max()
    }
}

impl<R: fmt::Debug> fmt::Debug for ByteChunker<R> {
    /// Leaves the permutation out, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteChunker")
            .field("params", &self.params)
            .field("keyed", &self.permutation.is_some())
            .finish()
    }
}
