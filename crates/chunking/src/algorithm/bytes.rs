//! The chunker of rules that look at the values of bytes and at nothing else.

use alloc::boxed::Box;
use core::fmt;

use super::Algorithm;
use crate::{Chunker, KeyMaterial};

/// A rule over byte values.
pub(crate) trait ByteRule: Algorithm + Clone + fmt::Debug + Send + Sync {
    /// Returns where the rule cuts `data`, which is not empty and has at most the largest size;
    /// `None` where it finds nothing in it. Byte `v` counts as `value(v)`.
    fn find(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize>;

    /// The rule for the chunks that begin no stream, where it is another one for those: then
    /// [`ByteRule::KNOWS_FIRST`] is true.
    fn find_later(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize> {
        self.find(data, value)
    }

    /// Returns where the rule cuts `data` if nothing was found in it, and it is the end of the stream or
    /// has the largest size.
    fn find_last(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> usize {
        let _ = value;
        data.len()
    }

    /// Whether the first chunk of a stream may be cut by another rule than the others.
    const KNOWS_FIRST: bool = false;
}

/// Its chunker, plain or keyed. The public chunkers are made of it.
#[derive(Clone)]
pub(crate) struct ByteChunker<R> {
    pub(crate) params: R,
    /// What each byte value counts as; `None` without a key.
    permutation: Option<Box<[u8; 256]>>,
}

impl<R: ByteRule> ByteChunker<R> {
    pub(crate) fn from_checked(params: R, material: Option<&KeyMaterial>) -> ByteChunker<R> {
        ByteChunker { params, permutation: material.map(KeyMaterial::permutation) }
    }
}

impl<R: ByteRule> ByteChunker<R> {
    fn cut(&self, is_first: bool, data: &[u8], more: bool) -> Option<usize> {
        if data.is_empty() {
            return None;
        }
        let max = self.params.chunk_size_max();
        let end = max.map_or(data.len(), |max| data.len().min(max));
        let is_complete = !more || Some(end) == max;
        let data = &data[..end];
        let keyed = self.permutation.as_deref();
        let found = match (keyed, is_first) {
            (None, true) => self.params.find(data, |byte| byte),
            (None, false) => self.params.find_later(data, |byte| byte),
            (Some(keyed), true) => self.params.find(data, |byte| keyed[usize::from(byte)]),
            (Some(keyed), false) => self.params.find_later(data, |byte| keyed[usize::from(byte)]),
        };
        let last = || match keyed {
            None => self.params.find_last(data, |byte| byte),
            Some(keyed) => self.params.find_last(data, |byte| keyed[usize::from(byte)]),
        };
        found.or_else(|| is_complete.then(last))
    }
}

impl<R: ByteRule> Chunker for ByteChunker<R> {
    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.cut(true, data, more)
    }

    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        self.cut(before.is_empty(), data, more)
    }

    fn context_size(&self) -> usize {
        usize::from(R::KNOWS_FIRST)
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

/// Makes the public chunker `$Chunker` of the rule `Params`.
macro_rules! byte_chunker {
    ($(#[$doc:meta])* $Chunker:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Chunker(crate::algorithm::bytes::ByteChunker<Params>);

        impl $Chunker {
            /// Makes a chunker.
            ///
            /// # Errors
            ///
            /// Those of [`Params::check`].
            pub fn new(params: Params) -> Result<$Chunker, SpecError> {
                params.check()?;
                Ok($Chunker::from_checked(params, None))
            }

            /// Makes a chunker whose cut-points are secret; [`KeyMaterial`] says how.
            ///
            /// # Errors
            ///
            /// Those of [`Params::check`].
            pub fn keyed(params: Params, material: &KeyMaterial) -> Result<$Chunker, SpecError> {
                params.check()?;
                Ok($Chunker::from_checked(params, Some(material)))
            }

            /// Returns the parameters.
            pub fn params(&self) -> &Params {
                &self.0.params
            }

            fn from_checked(params: Params, material: Option<&KeyMaterial>) -> $Chunker {
                $Chunker(crate::algorithm::bytes::ByteChunker::from_checked(params, material))
            }
        }

        impl Chunker for $Chunker {
            fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
                self.0.next_cut(data, more)
            }

            fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
                self.0.next_cut_after(before, data, more)
            }

            fn context_size(&self) -> usize {
                self.0.context_size()
            }

            fn chunk_size_min(&self) -> usize {
                self.0.chunk_size_min()
            }

            fn chunk_size_max(&self) -> Option<usize> {
                self.0.chunk_size_max()
            }
        }
    };
}
pub(crate) use byte_chunker;
