//! An algorithm with its parameters, as text.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::algorithm::{self, Named, Parameters};
use crate::keys::{Keys, alternatives};
use crate::{Chunker, Description, KeyMaterial, SpecError};

/// A chunking algorithm with all its parameters, checked.
///
/// # Text
///
/// `algorithm:key=value,key=value`, in lower case, without spaces; the keys in any order. A size is
/// in bytes, or with the suffix `k` (KiB) or `m` (MiB). Most algorithms know short forms, above all
/// `avg=16k`: the parameters that give that mean chunk size on random data. What each algorithm can
/// be told is in its [`Description`], and `cutpoint algorithms` prints it.
///
/// `avg` is the real mean. It is not FastCDC's `normal`, which crate fastcdc calls the average.
/// `Display` always writes the parameters out, in one order and form, so the text that it gives
/// means the same for ever, whatever a short form may come to mean.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec(Algorithm);

/// Makes the enum of all algorithms, and what is asked of it.
macro_rules! algorithms {
    ($($variant:ident($params:ty)),+ $(,)?) => {
        #[derive(Clone, PartialEq, Debug)]
        enum Algorithm {
            $($variant($params)),+
        }

        /// Every algorithm, in the order in which they are listed.
        const DESCRIPTIONS: &[&Description] = &[$(<$params>::DESCRIPTION),+];

        /// Calls `$body` with the parameters, whatever their type.
        macro_rules! each {
            ($algorithm:expr, $name:ident => $body:expr) => {
                match $algorithm {
                    $(Algorithm::$variant($name) => $body),+
                }
            };
        }

        impl Algorithm {
            /// Parses what stands behind `name:`; `None` where no algorithm has the name.
            fn parse(name: &str, list: &str) -> Option<Result<Algorithm, SpecError>> {
                $(if name == <$params>::DESCRIPTION.name {
                    let parsed = Keys::parse(<$params>::DESCRIPTION, list)
                        .and_then(|keys| <$params>::parse(&keys));
                    return Some(parsed.map(Algorithm::$variant));
                })+
                None
            }
        }

        $(impl TryFrom<$params> for Spec {
            type Error = SpecError;

            fn try_from(params: $params) -> Result<Spec, SpecError> {
                params.check().map(|()| Spec(Algorithm::$variant(params)))
            }
        })+
    };
}

algorithms! {
    Fixed(algorithm::fixed::Params),
    SeqCdc(algorithm::seqcdc::Params),
    FastCdc(algorithm::fastcdc::Params),
}

/// Returns every algorithm, described.
pub fn descriptions() -> impl ExactSizeIterator<Item = &'static Description> + Clone {
    DESCRIPTIONS.iter().copied()
}

impl Spec {
    /// Makes the chunker.
    pub fn chunker(&self) -> Box<dyn Chunker> {
        each!(&self.0, params => params.chunker(None))
    }

    /// Makes the chunker whose cut-points are secret.
    ///
    /// What becomes of `material` is said at [`KeyMaterial`], and where an algorithm has a table of
    /// its own at that; `fixed` has no use for it.
    pub fn keyed_chunker(&self, material: &KeyMaterial) -> Box<dyn Chunker> {
        each!(&self.0, params => params.chunker(Some(material)))
    }

    /// Returns the algorithm's name, as it stands before the colon.
    pub fn algorithm(&self) -> &'static str {
        self.description().name
    }

    /// Returns what the algorithm is, in words.
    pub fn description(&self) -> &'static Description {
        each!(&self.0, params => description_of(params))
    }

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    pub fn chunk_size_min(&self) -> usize {
        each!(&self.0, params => params.chunk_size_min())
    }

    /// Returns the mean chunk size on random data in bytes, rounded; `None` where it is not known.
    pub fn chunk_size_average(&self) -> Option<usize> {
        let mean = each!(&self.0, params => params.chunk_size_mean())?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean is at least one byte, and one above usize is as good as usize's largest"
        )]
        let rounded = (mean + 0.5) as usize;
        Some(rounded)
    }

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    pub fn chunk_size_max(&self) -> Option<usize> {
        each!(&self.0, params => params.chunk_size_max())
    }
}

fn description_of<P: Named>(_: &P) -> &'static Description {
    P::DESCRIPTION
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm())?;
        each!(&self.0, params => params.write(f))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    /// Parses the text that [`Spec`] describes.
    ///
    /// # Errors
    ///
    /// [`SpecError`] names the parameter, what was given for it and what is allowed.
    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        let parsed = Algorithm::parse(name, list).ok_or_else(|| {
            let names: Vec<&str> = descriptions().map(|description| description.name).collect();
            SpecError::new(name, "algorithm", name, format!("must be {}", alternatives(&names)))
        })?;
        parsed.map(Spec)
    }
}
