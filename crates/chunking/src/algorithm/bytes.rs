//! What rules share that look at the values of bytes and at nothing else.

use core::fmt;

use super::Algorithm;
use super::blocks::{AsItIs, Permuted, Values};
use crate::Level;
use crate::kernel::{Kernel, Task};

/// A rule over byte values, written over any kernel.
pub(crate) trait BlockRule: Algorithm + Clone + fmt::Debug + Send + Sync {
    /// Returns where the rule cuts `data`, which is not empty and has at most the largest size;
    /// `None` where it finds nothing in it. `is_first` says whether it begins the stream.
    ///
    /// `#[inline(always)]`, for the reason given at [`Kernel`].
    fn find<K: Kernel>(
        &self,
        kernel: K,
        is_first: bool,
        data: &[u8],
        values: impl Values,
    ) -> Option<usize>;

    /// Returns where the rule cuts `data` if nothing was found in it, and it is the end of the stream or
    /// has the largest size.
    ///
    /// `#[inline(always)]`, as [`BlockRule::find`].
    #[inline(always)]
    fn find_last<K: Kernel>(&self, kernel: K, data: &[u8], values: impl Values) -> usize {
        let _ = (kernel, values);
        data.len()
    }

    /// Whether the first chunk of a stream may be cut by another rule than the others.
    fn knows_first(&self) -> bool {
        false
    }

    /// Whether it asks the kernel; else one level is as good as another.
    fn has_levels(&self) -> bool {
        true
    }
}

/// A rule over byte values, written byte by byte.
pub(crate) trait ByteRule: Algorithm + Clone + fmt::Debug + Send + Sync {
    /// Returns where the rule cuts `data`, which is not empty and has at most the largest size;
    /// `None` where it finds nothing in it. Byte `v` counts as `value(v)`.
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

/// Where a chunk ends, seen from the byte that completes it.
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

    /// Returns how many bytes there are from the byte to the cut-point.
    pub(crate) fn step(self) -> usize {
        match self {
            Cut::After => 1,
            Cut::Before => 0,
        }
    }
}

/// Cuts `data` by `rule` on `level`; bytes count as `permutation` says, where there is one.
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

/// [`BlockRule::find`], and if that is nothing and the data complete [`BlockRule::find_last`]; with or
/// without a key.
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
            Some(table) => self.find(kernel, Permuted(table)),
        }
    }
}

/// Makes the chunker `$Chunker` of the rule `Params`, plain or keyed.
macro_rules! byte_chunker {
    ($(#[$doc:meta])* $Chunker:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $Chunker {
            params: Params,
            /// What each byte value counts as; `None` without a key.
            permutation: Option<Box<[u8; 256]>>,
            level: $crate::Level,
        }

        crate::algorithm::constructors!($Chunker);

        impl $Chunker {
            fn from_checked(params: Params, material: Option<&KeyMaterial>, level: $crate::Level) -> $Chunker {
                let permutation = material.map(KeyMaterial::permutation);
                $Chunker { params, permutation, level }
            }

            /// The same on another level than the best of this CPU, if the rule has code for levels
            /// ([`Chunker::level`]): as exact, and slower.
            #[must_use]
            pub fn at_level(self, level: $crate::Level) -> $Chunker {
                $Chunker { level, ..self }
            }
        }

        impl Chunker for $Chunker {
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

            fn chunk_size_min(&self) -> usize {
                Algorithm::chunk_size_min(&self.params)
            }

            fn chunk_size_max(&self) -> Option<usize> {
                Algorithm::chunk_size_max(&self.params)
            }
        }

        impl fmt::Debug for $Chunker {
            /// Leaves the permutation out, which is secret.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Chunker))
                    .field("params", &self.params)
                    .field("keyed", &self.permutation.is_some())
                    .finish()
            }
        }
    };
}
pub(crate) use byte_chunker;
