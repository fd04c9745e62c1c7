//! An algorithm with its parameters, as text.

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

/// A chunking algorithm with all its parameters, checked.
///
/// # Text
///
/// `algorithm:key=value,key=value`, in lower case, without spaces; the keys in any order. A size is
/// in bytes, or with the suffix `k` (KiB) or `m` (MiB).
///
/// | text | what it is |
/// | --- | --- |
/// | `seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096,max=16384` | written out |
/// | `seqcdc:paper=8k` | a setting of a paper, as printed there; its mean is what it is |
/// | `seqcdc:avg=16k` | the parameters whose mean on random data is the target |
///
/// [`algorithms`] says of each algorithm which keys it has, what they may be, and which may be left
/// out. `avg` is the real mean chunk size on random data; what an algorithm cannot reach, it refuses.
/// Where several papers have settings of an algorithm, each has its first author's name:
/// `rabin:paper-zhang=8k`. Its description says what the paper leaves open, and whence that is.
///
/// `Display` always writes the parameters out, in the order of [`About::parameters`] and in bytes;
/// those that have a default only where they differ from it, unless the algorithm has always written
/// them. The text that it gives means the same for ever, whatever a short form may come to mean.
///
/// # In Rust
///
/// Every algorithm has a module in [`algorithm`](crate::algorithm) with a `Params`, from which a
/// spec is made by `try_from`, and a chunker of its own type for who knows which one is wanted.
///
/// ```
/// use cutpoint_chunking::{Spec, algorithm::fixed};
///
/// assert_eq!(Spec::try_from(fixed::Params { size: 4096 })?, "fixed:size=4k".parse()?);
/// # Ok::<(), cutpoint_chunking::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec(Any);

/// Makes of the list of algorithms everything that must know all of them.
macro_rules! all {
    ($($Variant:ident($Params:ty),)+) => {
        #[derive(Clone, PartialEq, Eq, Debug)]
        enum Any {
            $($Variant($Params),)+
        }

        /// Does with the parameters of a spec what is the same for every algorithm.
        macro_rules! each {
            ($spec:expr, $params:ident => $result:expr) => {
                match &$spec.0 {
                    $(Any::$Variant($params) => $result,)+
                }
            };
        }

        $(
            impl TryFrom<$Params> for Spec {
                type Error = SpecError;

                fn try_from(params: $Params) -> Result<Spec, SpecError> {
                    Algorithm::check(&params)?;
                    Ok(Spec(Any::$Variant(params)))
                }
            }
        )+

        /// Every algorithm, in the order of the list.
        static ALGORITHMS: &[&About] = &[$(<$Params as Algorithm>::ABOUT,)+];

        fn parse(name: &str, list: &str) -> Option<Result<Spec, SpecError>> {
            $(
                if name == <$Params as Algorithm>::ABOUT.name {
                    let keys = Keys::parse(<$Params as Algorithm>::ABOUT, list);
                    return Some(keys.and_then(|keys| <$Params>::parse(&keys)).and_then(Spec::try_from));
                }
            )+
            None
        }
    };
}

// The list: a line for each algorithm.
all! {
    SeqCdc(seqcdc::Params),
    FastCdc(fastcdc::Params),
    Fixed(fixed::Params),
    Ae(ae::Params),
    Maxp(maxp::Params),
    Ram(ram::Params),
    Mii(mii::Params),
    Gear(gear::Params),
    Rabin(rabin::Params),
    Crc(crc::Params),
    Tttd(tttd::Params),
    Pci(pci::Params),
    Bfbc(bfbc::Params),
    SampleByte(samplebyte::Params),
    MinCdc(mincdc::Params),
    Buzhash(buzhash::Params),
    Ronomon(ronomon::Params),
    RepMaxCdc(repmaxcdc::Params),
    UltraCdc(ultracdc::Params),
    Jc(jc::Params),
    Aes(aes::Params),
}

/// Returns what there is to know about each algorithm.
pub fn algorithms() -> &'static [&'static About] {
    ALGORITHMS
}

impl Spec {
    /// Returns the spec of `algorithm` whose mean chunk size on random data is `average` bytes: what
    /// the text `algorithm:avg=average` says.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where there is no such algorithm, and where it cannot reach that average; it
    /// then says which it can.
    pub fn for_average(algorithm: &str, average: usize) -> Result<Spec, SpecError> {
        format!("{algorithm}:avg={average}").parse()
    }

    /// Makes the chunker, on the fastest level of this CPU.
    pub fn chunker(&self) -> Box<dyn Chunker> {
        self.chunker_at(Level::best())
    }

    /// Makes the chunker on `level`, or where the rule has no code for it, on one below it that it has:
    /// [`Chunker::level`] says which. The cut-points are the same.
    pub fn chunker_at(&self, level: Level) -> Box<dyn Chunker> {
        each!(self, params => params.chunker(None, level))
    }

    /// Makes the chunker whose cut-points are secret.
    ///
    /// [`KeyMaterial`] says what becomes of `material`. `fixed` has no use for it: its cut-points say
    /// nothing of the bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Spec::keyable`].
    pub fn keyed_chunker(&self, material: &KeyMaterial) -> Result<Box<dyn Chunker>, SpecError> {
        self.keyed_chunker_at(material, Level::best())
    }

    /// The same on `level`, as [`Spec::chunker_at`].
    ///
    /// # Errors
    ///
    /// Those of [`Spec::keyable`].
    pub fn keyed_chunker_at(
        &self,
        material: &KeyMaterial,
        level: Level,
    ) -> Result<Box<dyn Chunker>, SpecError> {
        check_key(self.about())?;
        Ok(each!(self, params => params.chunker(Some(material), level)))
    }

    /// Returns the spec, if its cut-points can be secret.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where what the rule looks for was learned from data ([`KeyUse::Refused`]): a key
    /// would make it look for something else, and without one its cut-points tell of the content.
    ///
    /// [`KeyUse::Refused`]: crate::KeyUse::Refused
    pub fn keyable(self) -> Result<Spec, SpecError> {
        check_key(self.about()).map(|()| self)
    }

    /// Returns what there is to know about the algorithm.
    pub fn about(&self) -> &'static About {
        fn of<A: Algorithm>(_: &A) -> &'static About {
            A::ABOUT
        }
        each!(self, params => of(params))
    }

    /// Returns the algorithm's name, as it stands before the colon.
    pub fn algorithm(&self) -> &'static str {
        self.about().name
    }

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    pub fn chunk_size_min(&self) -> usize {
        each!(self, params => Algorithm::chunk_size_min(params))
    }

    /// Returns the mean chunk size on random data in bytes, rounded; `None` where it is not known, or
    /// not finite.
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

    /// Returns the size in bytes that no chunk is larger than; `None` where there is no limit.
    pub fn chunk_size_max(&self) -> Option<usize> {
        each!(self, params => Algorithm::chunk_size_max(params))
    }

    /// Returns the spec, if a chunk needs only a buffer of known size and no bytes of other chunks.
    ///
    /// That is so for every algorithm with a largest chunk size, but for those dialects that keep
    /// state over a cut-point ([`Chunker::context_size`]).
    ///
    /// # Errors
    ///
    /// [`SpecError`] says that the largest size is missing, or that the rule is such a dialect.
    pub fn bounded(self) -> Result<Spec, SpecError> {
        let name = self.algorithm();
        let Some(max) = self.chunk_size_max() else {
            let expected =
                format!("missing: `{self}` has no largest chunk, and here one is needed");
            return Err(SpecError::new(name, "max", "", expected));
        };
        if self.chunker().context_size() > 0 {
            let expected =
                format!("`{self}` looks at bytes of other chunks, which cannot be done here");
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
    /// [`SpecError`] names the parameter, what was given for it and what is allowed.
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
