//! An algorithm with its parameters, as text.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::algorithm::fastcdc::{self, FastCdc};
use crate::algorithm::fixed::Fixed;
use crate::algorithm::seqcdc::{self, Mode, SeqCdc};
use crate::{Chunker, KeyMaterial};

/// A chunking algorithm with all its parameters, checked.
///
/// # Text
///
/// `algorithm:key=value,key=value`, in lower case, without spaces; the keys in any order. A size is
/// in bytes, or with the suffix `k` (KiB) or `m` (MiB).
///
/// | written out | keys |
/// | --- | --- |
/// | `seqcdc:mode=inc,length=5,trigger=50,skip=256,min=4096,max=16384` | [`seqcdc::Params`]; mode `inc` or `dec` |
/// | `fastcdc:level=1,min=2048,normal=8192,max=65536,seed=0` | [`fastcdc::Params`]; seed decimal, or hexadecimal after `0x`; 0 where left out |
/// | `fixed:size=8192` | [`Fixed`] |
///
/// | in short | meaning |
/// | --- | --- |
/// | `seqcdc:avg=16k` and, if wanted, `mode` | [`seqcdc::Params::for_mean`]; `inc` |
/// | `seqcdc:paper=8k` and, if wanted, `mode` | [`seqcdc::Params::paper`]; `inc` |
/// | `fastcdc:avg=16k` and, if wanted, `level`, `seed` | [`fastcdc::Params::for_mean`] |
///
/// `avg` is the real mean chunk size on random data. It is not FastCDC's `normal`, which crate
/// fastcdc calls the average. `Display` always writes the parameters out, in the order and form of
/// the first table, so the text that it gives means the same for ever, whatever a short form may
/// come to mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec(Algorithm);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Algorithm {
    SeqCdc(seqcdc::Params),
    FastCdc(fastcdc::Params),
    Fixed(Fixed),
}

impl Spec {
    /// Makes the chunker.
    pub fn chunker(&self) -> Box<dyn Chunker> {
        self.make(None)
    }

    /// Makes the chunker whose cut-points are secret.
    ///
    /// What becomes of `material` is said at [`SeqCdc::keyed`] and [`FastCdc::keyed`]; `fixed` has
    /// no use for it.
    pub fn keyed_chunker(&self, material: &KeyMaterial) -> Box<dyn Chunker> {
        self.make(Some(material))
    }

    fn make(&self, material: Option<&KeyMaterial>) -> Box<dyn Chunker> {
        match &self.0 {
            Algorithm::SeqCdc(params) => Box::new(SeqCdc::from_checked(*params, material)),
            Algorithm::FastCdc(params) => Box::new(FastCdc::from_checked(*params, material)),
            Algorithm::Fixed(fixed) => Box::new(*fixed),
        }
    }

    /// Returns the algorithm's name, as it stands before the colon.
    pub fn algorithm(&self) -> &'static str {
        match &self.0 {
            Algorithm::SeqCdc(_) => "seqcdc",
            Algorithm::FastCdc(_) => "fastcdc",
            Algorithm::Fixed(_) => "fixed",
        }
    }

    /// Returns the size in bytes that no chunk is smaller than, but for the last of a stream.
    pub fn chunk_size_min(&self) -> usize {
        match &self.0 {
            Algorithm::SeqCdc(params) => params.chunk_size_min,
            Algorithm::FastCdc(params) => params.chunk_size_min,
            Algorithm::Fixed(fixed) => fixed.size(),
        }
    }

    /// Returns the mean chunk size on random data in bytes, computed and rounded.
    pub fn chunk_size_average(&self) -> usize {
        let mean = match &self.0 {
            Algorithm::SeqCdc(params) => params.mean(),
            Algorithm::FastCdc(params) => params.mean(),
            Algorithm::Fixed(fixed) => return fixed.size(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "a mean is at most the largest size")]
        let rounded = (mean + 0.5) as usize;
        rounded
    }

    /// Returns the size in bytes that no chunk is larger than.
    pub fn chunk_size_max(&self) -> usize {
        match &self.0 {
            Algorithm::SeqCdc(params) => params.chunk_size_max,
            Algorithm::FastCdc(params) => params.chunk_size_max,
            Algorithm::Fixed(fixed) => fixed.size(),
        }
    }
}

impl TryFrom<seqcdc::Params> for Spec {
    type Error = SpecError;

    fn try_from(params: seqcdc::Params) -> Result<Spec, SpecError> {
        params.check().map(|()| Spec(Algorithm::SeqCdc(params)))
    }
}

impl TryFrom<fastcdc::Params> for Spec {
    type Error = SpecError;

    fn try_from(params: fastcdc::Params) -> Result<Spec, SpecError> {
        params.check().map(|()| Spec(Algorithm::FastCdc(params)))
    }
}

impl From<Fixed> for Spec {
    fn from(fixed: Fixed) -> Spec {
        Spec(Algorithm::Fixed(fixed))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Algorithm::SeqCdc(params) => {
                let seqcdc::Params {
                    mode,
                    length,
                    trigger,
                    skip_size,
                    chunk_size_min,
                    chunk_size_max,
                } = params;
                let mode = match mode {
                    Mode::Increasing => "inc",
                    Mode::Decreasing => "dec",
                };
                write!(f, "seqcdc:mode={mode},length={length},trigger={trigger},skip={skip_size}")?;
                write!(f, ",min={chunk_size_min},max={chunk_size_max}")
            }
            Algorithm::FastCdc(params) => {
                let fastcdc::Params { level, chunk_size_min, normal_size, chunk_size_max, seed } =
                    params;
                write!(f, "fastcdc:level={level},min={chunk_size_min},normal={normal_size}")?;
                write!(f, ",max={chunk_size_max},seed={seed}")
            }
            Algorithm::Fixed(fixed) => write!(f, "fixed:size={}", fixed.size()),
        }
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
        match name {
            "seqcdc" => parse_seqcdc(list),
            "fastcdc" => parse_fastcdc(list),
            "fixed" => {
                let keys = Keys::parse("fixed", list, &["size"])?;
                let size = keys.required("size")?;
                Fixed::new(parse_size("fixed", "size", size)?).map(Spec::from)
            }
            _ => Err(SpecError::new(name, "algorithm", name, "must be seqcdc, fastcdc or fixed")),
        }
    }
}

fn parse_seqcdc(list: &str) -> Result<Spec, SpecError> {
    const NAME: &str = "seqcdc";
    let (short, keys) = Keys::parse_forms(
        NAME,
        list,
        &[
            ("avg", &["avg", "mode"]),
            ("paper", &["paper", "mode"]),
            ("", &["mode", "length", "trigger", "skip", "min", "max"]),
        ],
    )?;
    let mode = match keys.optional("mode") {
        None if short.is_empty() => return Err(keys.missing("mode")),
        None | Some("inc") => Mode::Increasing,
        Some("dec") => Mode::Decreasing,
        Some(value) => return Err(SpecError::new(NAME, "mode", value, "must be inc or dec")),
    };
    let params = match short {
        "avg" => seqcdc::Params::for_mean(parse_size(NAME, "avg", keys.required("avg")?)?, mode)?,
        "paper" => {
            let value = keys.required("paper")?;
            let params = seqcdc::Params::paper(parse_size(NAME, "paper", value)?);
            let params = params
                .ok_or_else(|| SpecError::new(NAME, "paper", value, "must be 4k, 8k or 16k"))?;
            seqcdc::Params { mode, ..params }
        }
        _ => seqcdc::Params {
            mode,
            length: parse_number(NAME, "length", keys.required("length")?)?,
            trigger: parse_number(NAME, "trigger", keys.required("trigger")?)?,
            skip_size: parse_size(NAME, "skip", keys.required("skip")?)?,
            chunk_size_min: parse_size(NAME, "min", keys.required("min")?)?,
            chunk_size_max: parse_size(NAME, "max", keys.required("max")?)?,
        },
    };
    Spec::try_from(params)
}

fn parse_fastcdc(list: &str) -> Result<Spec, SpecError> {
    const NAME: &str = "fastcdc";
    let (short, keys) = Keys::parse_forms(
        NAME,
        list,
        &[("avg", &["avg", "level", "seed"]), ("", &["level", "min", "normal", "max", "seed"])],
    )?;
    let seed = keys.optional("seed").map_or(Ok(0), |value| {
        let parsed = match value.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None => parse_digits(value),
        };
        parsed.ok_or_else(|| {
            SpecError::new(NAME, "seed", value, "must be a 64-bit number, decimal or 0x...")
        })
    })?;
    let params = if short == "avg" {
        let level = keys.optional("level");
        let level = level.map(|value| parse_number(NAME, "level", value)).transpose()?;
        let mean = parse_size(NAME, "avg", keys.required("avg")?)?;
        fastcdc::Params { seed, ..fastcdc::Params::for_mean(mean, level)? }
    } else {
        fastcdc::Params {
            level: parse_number(NAME, "level", keys.required("level")?)?,
            chunk_size_min: parse_size(NAME, "min", keys.required("min")?)?,
            normal_size: parse_size(NAME, "normal", keys.required("normal")?)?,
            chunk_size_max: parse_size(NAME, "max", keys.required("max")?)?,
            seed,
        }
    };
    Spec::try_from(params)
}

/// The keys of a text and their values, until they are taken.
struct Keys<'a> {
    algorithm: &'static str,
    allowed: &'static [&'static str],
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    /// Splits `list`; each key must be allowed, and given once.
    fn parse(
        algorithm: &'static str,
        list: &'a str,
        allowed: &'static [&'static str],
    ) -> Result<Keys<'a>, SpecError> {
        let mut values: Vec<(&str, &str)> = Vec::new();
        for item in list.split(',').filter(|_| !list.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            if !allowed.contains(&key) {
                let allowed = format!("unknown here; allowed: {}", allowed.join(", "));
                return Err(SpecError::new(algorithm, key, value, allowed));
            }
            if values.iter().any(|&(other, _)| other == key) {
                return Err(SpecError::new(algorithm, key, value, "given twice"));
            }
            values.push((key, value));
        }
        Ok(Keys { algorithm, allowed, values })
    }

    /// Parses by the first form whose leading key is in `list`; the last form has none.
    /// Returns that key with the keys.
    fn parse_forms(
        algorithm: &'static str,
        list: &'a str,
        forms: &[(&'static str, &'static [&'static str])],
    ) -> Result<(&'static str, Keys<'a>), SpecError> {
        let has = |key: &str| {
            list.split(',').any(|item| item.split_once('=').is_some_and(|(name, _)| name == key))
        };
        let &(short, allowed) =
            forms.iter().find(|&&(short, _)| short.is_empty() || has(short)).unwrap_or(&("", &[]));
        Ok((short, Keys::parse(algorithm, list, allowed)?))
    }

    fn optional(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|&&(name, _)| name == key).map(|&(_, value)| value)
    }

    fn required(&self, key: &'static str) -> Result<&'a str, SpecError> {
        self.optional(key).ok_or_else(|| self.missing(key))
    }

    fn missing(&self, key: &'static str) -> SpecError {
        let needed = format!("missing; needed: {}", self.allowed.join(", "));
        SpecError::new(self.algorithm, key, "", needed)
    }
}

/// Parses a size in bytes: digits, then perhaps `k` or `m`.
fn parse_size(
    algorithm: &'static str,
    parameter: &'static str,
    value: &str,
) -> Result<usize, SpecError> {
    let (digits, unit) = match value.as_bytes().last() {
        Some(b'k') => (&value[..value.len() - 1], 1024),
        Some(b'm') => (&value[..value.len() - 1], 1024 * 1024),
        _ => (value, 1),
    };
    parse_digits::<usize>(digits).and_then(|number| number.checked_mul(unit)).ok_or_else(|| {
        SpecError::new(algorithm, parameter, value, "must be a number of bytes, or of k or m")
    })
}

fn parse_number(
    algorithm: &'static str,
    parameter: &'static str,
    value: &str,
) -> Result<u32, SpecError> {
    parse_digits(value)
        .ok_or_else(|| SpecError::new(algorithm, parameter, value, "must be a whole number"))
}

/// Parses digits only: no sign, which `from_str` would take.
fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A text or parameters that describe no chunker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    algorithm: String,
    parameter: String,
    value: String,
    expected: String,
}

impl SpecError {
    pub(crate) fn new(
        algorithm: &str,
        parameter: &str,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> SpecError {
        SpecError {
            algorithm: algorithm.to_owned(),
            parameter: parameter.to_owned(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    pub(crate) fn out_of_range(
        algorithm: &str,
        parameter: &str,
        value: usize,
        low: usize,
        high: usize,
    ) -> SpecError {
        SpecError::new(algorithm, parameter, value, format!("must be from {low} to {high}"))
    }

    /// Returns the name of the parameter that is wrong, missing, unknown or given twice;
    /// `algorithm` where it is the algorithm's name.
    pub fn parameter(&self) -> &str {
        &self.parameter
    }

    /// Returns what was given for the parameter; empty where nothing was.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns what is allowed, in words.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpecError { algorithm, parameter, value, expected } = self;
        if parameter == "algorithm" {
            write!(f, "chunking algorithm `{value}`: {expected}")
        } else if value.is_empty() {
            write!(f, "{algorithm}: {parameter}: {expected}")
        } else {
            write!(f, "{algorithm}: {parameter}={value}: {expected}")
        }
    }
}

impl Error for SpecError {}
