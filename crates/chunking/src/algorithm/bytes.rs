//! The common part of the rules that look only at the values of bytes.

use core::fmt;

use super::Algorithm;
use super::blocks::{AsItIs, PermutedBytes, Values};
use crate::Level;
use crate::kernel::{Kernel, Task};

/// A rule over byte values, written over any kernel.
pub(crate) trait BlockRule: Algorithm + Clone + fmt::Debug + Send + Sync {
    /// Returns the end of the chunk in `data`, which is not empty and has at most the maximum size;
    /// `None` if the rule finds no end in it. `is_first` says that the chunk begins the stream.
    ///
    /// The method is `#[inline(always)]` for the reason given at [`Kernel`].
    fn find<K: Kernel>(
        &self,
        kernel: K,
        is_first: bool,
        data: &[u8],
        values: impl Values,
    ) -> Option<usize>;

    /// Returns the end of the chunk if `find` returned `None` and `data` is the end of the stream
    /// or has the maximum size.
    ///
    /// The method is `#[inline(always)]`, as [`BlockRule::find`] is.
    #[inline(always)]
    fn find_last<K: Kernel>(&self, kernel: K, data: &[u8], values: impl Values) -> usize {
        let _ = (kernel, values);
        data.len()
    }

    /// Returns `true` if the first chunk of a stream may be cut by a different rule than the
    /// others.
    fn knows_first(&self) -> bool {
        false
    }

    /// Returns `true` if the rule uses the kernel; otherwise all levels are equal.
    fn has_levels(&self) -> bool {
        true
    }
}

/// A rule over byte values, written byte by byte.
pub(crate) trait ByteRule: Algorithm + Clone + fmt::Debug + Send + Sync {
    /// Returns the end of the chunk in `data`, which is not empty and has at most the maximum size;
    /// `None` if the rule finds no end in it. `value(v)` takes the place of byte `v`.
    fn find(&self, data: &[u8], value: impl Fn(u8) -> u8 + Copy) -> Option<usize>;
}

impl<R: ByteRule> BlockRule for R {
    #[inline(always)]
    fn find<K: Kernel>(&self, _: K, _: bool, data: &[u8], values: impl Values) -> Option<usize> {
        ByteRule::find(self, data, |byte| values.value(byte))
    }

    fn has_levels(&self) -> bool {
        false
    }
}

/// The position of a cut-point relative to the byte that completes the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Cut {
    /// The byte is the chunk's last.
    #[default]
    After,
    /// The byte is the next chunk's first.
    Before,
}

impl Cut {
    /// The values of the key `cut`.
    pub(crate) const WORDS: &'static [(&'static str, Cut)] =
        &[("after", Cut::After), ("before", Cut::Before)];

    /// Returns the number of bytes from the byte to the cut-point.
    pub(crate) fn step(self) -> usize {
        match self {
            Cut::After => 1,
            Cut::Before => 0,
        }
    }
}

/// Cuts `data` by `rule` on `level`, after mapping the bytes by `permutation`, if there is one.
pub(crate) fn next_cut<R: BlockRule>(
    rule: &R,
    permutation: Option<&[u8; 256]>,
    level: Level,
    is_first: bool,
    data: &[u8],
    more: bool,
) -> Option<usize> {
    if data.is_empty() {
        return None;
    }
    let max = rule.chunk_size_max();
    let end = max.map_or(data.len(), |max| data.len().min(max));
    let is_complete = !more || Some(end) == max;
    let data = &data[..end];
    level.dispatch(Find { rule, permutation, is_first, is_complete, data })
}

/// The task of [`BlockRule::find`], followed by [`BlockRule::find_last`] if that returns `None` and
/// the data is complete, with or without a key.
struct Find<'a, R> {
    rule: &'a R,
    permutation: Option<&'a [u8; 256]>,
    is_first: bool,
    is_complete: bool,
    data: &'a [u8],
}

impl<R: BlockRule> Find<'_, R> {
    #[inline(always)]
    fn find<K: Kernel>(self, kernel: K, values: impl Values) -> Option<usize> {
        let Find { rule, is_first, is_complete, data, .. } = self;
        let found = rule.find(kernel, is_first, data, values);
        if found.is_none() && is_complete {
            return Some(rule.find_last(kernel, data, values));
        }
        found
    }
}

impl<R: BlockRule> Task for Find<'_, R> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Option<usize> {
        match self.permutation {
            None => self.find(kernel, AsItIs),
            Some(table) => self.find(kernel, PermutedBytes(table)),
        }
    }
}

/// Defines the chunker `$Chunker` of the rule `Params`, plain or keyed.
macro_rules! byte_chunker {
    ($(#[$doc:meta])* $Chunker:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $Chunker {
            params: Params,
            /// The value that takes the place of each byte value; `None` without a key.
            permutation: Option<Box<[u8; 256]>>,
            level: $crate::Level,
        }

        crate::algorithm::constructors!($Chunker);

        impl $Chunker {
            pub(crate) fn from_checked(params: Params, material: Option<&KeyMaterial>, level: $crate::Level) -> $Chunker {
                let permutation = material.map(KeyMaterial::permutation);
                $Chunker { params, permutation, level }
            }

            /// Returns the same chunker on another level than the best of this CPU, if the rule has
            /// code for levels ([`Chunker::level`]). The cut-points are the same; only the speed
            /// differs.
            #[must_use]
            pub fn at_level(self, level: $crate::Level) -> $Chunker {
                $Chunker { level, ..self }
            }
        }

        impl Chunker for $Chunker {
            crate::algorithm::forward_chunk_sizes!();

            fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
                self.next_cut_after(&[], data, more)
            }

            fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
                let permutation = self.permutation.as_deref();
                let is_first = before.is_empty();
                let level = self.level();
                super::bytes::next_cut(&self.params, permutation, level, is_first, data, more)
            }

            fn context_size(&self) -> usize {
                use super::bytes::BlockRule;

                usize::from(self.params.knows_first())
            }

            fn level(&self) -> $crate::Level {
                use super::bytes::BlockRule;

                if self.params.has_levels() {
                    self.level.of_kernel()
                } else {
                    $crate::Level::SCALAR
                }
            }
        }

        crate::algorithm::debug_params!($Chunker, permutation);
    };
}
pub(crate) use byte_chunker;
