//! What rules share that look at the values of bytes and at nothing else.

use core::fmt;

use super::Algorithm;

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

/// Cuts `data` by `rule`; bytes count as `permutation` says, where there is one.
pub(crate) fn next_cut<R: ByteRule>(
    rule: &R,
    permutation: Option<&[u8; 256]>,
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
    let found = match (permutation, is_first) {
        (None, true) => rule.find(data, |byte| byte),
        (None, false) => rule.find_later(data, |byte| byte),
        (Some(values), true) => rule.find(data, |byte| values[usize::from(byte)]),
        (Some(values), false) => rule.find_later(data, |byte| values[usize::from(byte)]),
    };
    let last = || match permutation {
        None => rule.find_last(data, |byte| byte),
        Some(values) => rule.find_last(data, |byte| values[usize::from(byte)]),
    };
    found.or_else(|| is_complete.then(last))
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
        }

        crate::algorithm::constructors!($Chunker);

        impl $Chunker {
            fn from_checked(params: Params, material: Option<&KeyMaterial>) -> $Chunker {
                $Chunker { params, permutation: material.map(KeyMaterial::permutation) }
            }
        }

        impl Chunker for $Chunker {
            fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
                self.next_cut_after(&[], data, more)
            }

            fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
                let permutation = self.permutation.as_deref();
                let is_first = before.is_empty();
                super::bytes::next_cut(&self.params, permutation, is_first, data, more)
            }

            fn context_size(&self) -> usize {
                usize::from(<Params as ByteRule>::KNOWS_FIRST)
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
