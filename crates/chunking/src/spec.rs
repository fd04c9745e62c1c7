//! Algorithms with their parameters, as text.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::algorithm::{
    Algorithm, ae, aes, bfbc, buzhash, check_key, crc, fastcdc, fixed, gear, jc, maxp, mii, mincdc,
    pci, rabin, ram, repmaxcdc, ronomon, samplebyte, seqcdc, tttd, ultracdc,
};
use crate::keys::Keys;
use crate::{About, Chunker, KeyMaterial, Level, SpecError};

/// A chunking algorithm with all its parameters, validated.
///
/// # Text
///
/// The form is `algorithm:key=value,key=value`, in lower case, without spaces, with the keys in any
/// order. A size is in bytes, or has the suffix `k` (KiB) or `m` (MiB).
///
/// | text | meaning |
/// | --- | --- |
/// | `seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096,max=16384` | all parameters written out |
/// | `seqcdc:paper=8k` | a setting of a paper, as printed there, whatever mean it results in |
/// | `seqcdc:avg=16k` | the parameters whose mean on random data is the target |
///
/// [`algorithms`] lists the keys of each algorithm, their allowed values, and which of them may be
/// left out. `avg` is the real mean chunk size on random data; an algorithm refuses a mean that it
/// cannot reach. If several papers have settings of an algorithm, each is named after its first
/// author: `rabin:paper-zhang=8k`. The description of a setting says which values its paper leaves
/// open, and where they come from.
///
/// `Display` always writes the parameters out, in the order of [`About::parameters`] and in bytes.
/// A parameter with a default appears only if it differs from the default, except where the
/// algorithm always writes it. The meaning of this text never changes, even if the meaning of a
/// short form does.
///
/// # In Rust
///
/// Every algorithm has a module in [`algorithm`](crate::algorithm). The module has a `Params`, from
/// which a spec is made by `try_from`, and a chunker of its own type for callers that know which
/// algorithm they want.
///
/// ```
/// use cutpoint_chunking::{Spec, algorithm::fixed};
///
/// assert_eq!(Spec::try_from(fixed::Params { size: 4096 })?, "fixed:size=4k".parse()?);
/// # Ok::<(), cutpoint_chunking::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec(Any);

/// Generates from the list of algorithms every item that depends on the whole list.
macro_rules! all {
    ($($module:ident::$Chunker:ident,)+) => {
        #[derive(Clone, PartialEq, Eq, Debug)]
        enum Any {
            $($Chunker($module::Params),)+
        }

        /// Evaluates an expression on the parameters of a spec, whatever the algorithm.
        macro_rules! each {
            ($spec:expr, $params:ident => $result:expr) => {
                match &$spec.0 {
                    $(Any::$Chunker($params) => $result,)+
                }
            };
        }

        $(
            impl TryFrom<$module::Params> for Spec {
                type Error = SpecError;

                fn try_from(params: $module::Params) -> Result<Spec, SpecError> {
                    params.check()?;
                    Ok(Spec(Any::$Chunker(params)))
                }
            }
        )+

        /// Creates the chunker of a spec, on `level` if the rule has code for it.
        fn chunker(spec: &Spec, material: Option<&KeyMaterial>, level: Level) -> Box<dyn Chunker> {
            match spec.0.clone() {
                $(
                    Any::$Chunker(params) => {
                        Box::new($module::$Chunker::from_checked(params, material, level))
                    }
                )+
            }
        }

        /// All algorithms, in the order of the list.
        static ALGORITHMS: &[&About] = &[$(<$module::Params as Algorithm>::ABOUT,)+];

        fn parse(name: &str, list: &str) -> Option<Result<Spec, SpecError>> {
            $(
                if name == <$module::Params as Algorithm>::ABOUT.name {
                    let keys = Keys::parse(<$module::Params as Algorithm>::ABOUT, list);
                    return Some(keys.and_then(|keys| $module::Params::parse(&keys)).and_then(Spec::try_from));
                }
            )+
            None
        }
    };
}

// The list: one line for each algorithm, with its module and its chunker.
all! {
    seqcdc::SeqCdc,
    fastcdc::FastCdc,
    fixed::Fixed,
    ae::Ae,
    maxp::Maxp,
    ram::Ram,
    mii::Mii,
    gear::Gear,
    rabin::Rabin,
    crc::Crc,
    tttd::Tttd,
    pci::Pci,
    bfbc::Bfbc,
    samplebyte::SampleByte,
    mincdc::MinCdc,
    buzhash::Buzhash,
    ronomon::Ronomon,
    repmaxcdc::RepMaxCdc,
    ultracdc::UltraCdc,
    jc::Jc,
    aes::Aes,
}

/// Returns the descriptions of all algorithms.
pub fn algorithms() -> &'static [&'static About] {
    ALGORITHMS
}

impl Spec {
    /// Returns the spec of `algorithm` whose mean chunk size on random data is `average` bytes, as
    /// the text `algorithm:avg=average` does.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if there is no such algorithm, or if it cannot reach that average; the
    /// error then says which averages it can reach.
    pub fn for_average(algorithm: &str, average: usize) -> Result<Spec, SpecError> {
        format!("{algorithm}:avg={average}").parse()
    }

    /// Returns the chunker, on the fastest level of this CPU.
    pub fn chunker(&self) -> Box<dyn Chunker> {
        self.chunker_at(Level::best())
    }

    /// Returns the chunker on `level`, or on the next lower level for which the rule has code;
    /// [`Chunker::level`] tells which. The cut-points are the same on every level.
    pub fn chunker_at(&self, level: Level) -> Box<dyn Chunker> {
        chunker(self, None, level)
    }

    /// Returns the chunker with secret cut-points.
    ///
    /// [`KeyMaterial`] describes how the rules use `material`. `fixed` ignores it, because its
    /// cut-points reveal nothing of the bytes.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Spec::keyable`].
    pub fn keyed_chunker(&self, material: &KeyMaterial) -> Result<Box<dyn Chunker>, SpecError> {
        self.keyed_chunker_at(material, Level::best())
    }

    /// Returns the chunker with secret cut-points on `level`, as [`Spec::chunker_at`] does.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Spec::keyable`].
    pub fn keyed_chunker_at(
        &self,
        material: &KeyMaterial,
        level: Level,
    ) -> Result<Box<dyn Chunker>, SpecError> {
        check_key(self.about())?;
        Ok(chunker(self, Some(material), level))
    }

    /// Returns the spec if its cut-points can be secret.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if the rule searches for something that was learned from data
    /// ([`KeyUse::Refused`]): a key would make it search for something else, and without a key its
    /// cut-points reveal the content.
    ///
    /// [`KeyUse::Refused`]: crate::KeyUse::Refused
    pub fn keyable(self) -> Result<Spec, SpecError> {
        check_key(self.about()).map(|()| self)
    }

    /// Returns the description of the algorithm.
    pub fn about(&self) -> &'static About {
        fn of<A: Algorithm>(_: &A) -> &'static About {
            A::ABOUT
        }
        each!(self, params => of(params))
    }

    /// Returns the algorithm's name, the part before the colon.
    pub fn algorithm(&self) -> &'static str {
        self.about().name
    }

    /// Returns the minimum chunk size in bytes; only the last chunk of a stream may be smaller.
    pub fn chunk_size_min(&self) -> usize {
        each!(self, params => Algorithm::chunk_size_min(params))
    }

    /// Returns the mean chunk size on random data in bytes, rounded; `None` if it is unknown or not
    /// finite.
    pub fn chunk_size_average(&self) -> Option<usize> {
        let mean =
            each!(self, params => Algorithm::mean(params)).filter(|mean| mean.is_finite())?;
        // Some means are approximations, good to a few percent.
        let max = self.chunk_size_max().map_or(f64::INFINITY, |max| max as f64);
        let mean = mean.clamp(self.chunk_size_min() as f64, max);
        #[expect(clippy::cast_possible_truncation, reason = "a mean is the size of a chunk")]
        let rounded = (mean + 0.5) as usize;
        Some(rounded)
    }

    /// Returns the maximum chunk size in bytes; `None` if there is no limit.
    pub fn chunk_size_max(&self) -> Option<usize> {
        each!(self, params => Algorithm::chunk_size_max(params))
    }

    /// Returns the spec if cutting a chunk needs only a buffer of known size and no bytes of other
    /// chunks.
    ///
    /// This holds for every algorithm with a maximum chunk size, except for the dialects that keep
    /// state over a cut-point ([`Chunker::context_size`]).
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if there is no maximum size, or if the rule is such a dialect.
    pub fn bounded(self) -> Result<Spec, SpecError> {
        let name = self.algorithm();
        let Some(max) = self.chunk_size_max() else {
            let expected =
                format!("missing: `{self}` has no largest chunk, which is required here");
            return Err(SpecError::new(name, "max", "", expected));
        };
        if self.chunker().context_size() > 0 {
            let expected =
                format!("`{self}` reads bytes of other chunks, which is not possible here");
            return Err(SpecError::new(name, "max", max, expected));
        }
        Ok(self)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm())?;
        each!(self, params => params.write(f))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    /// Parses the text that [`Spec`] describes.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] with the parameter, the given value and the allowed values.
    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        parse(name, list).unwrap_or_else(|| {
            let names: Vec<&str> = ALGORITHMS.iter().map(|about| about.name).collect();
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            let expected = format!("must be {} or {last}", others.join(", "));
            Err(SpecError::new(name, "algorithm", name, expected))
        })
    }
}
