//! The variants and parameters of the paper.

use std::fmt;
use std::str::FromStr;

/// The name before the parameters in the text of [`Options`].
const NAME: &str = "burst";

/// The parameters of the search for a reference chunk.
///
/// # Text
///
/// `burst:tau=1/8,c_max=255,variant=burst`, in lower case, without spaces. The keys may be in any
/// order, and each may be omitted. `burst` alone is [`Options::BURST`].
///
/// | key | |
/// | --- | --- |
/// | `tau` | `1/N` of the chunk, N at least 3; or bytes, with the suffix `k` for KiB, up to 1024k |
/// | `c_max` | a whole number |
/// | `variant` | `burst`, `head`, `raw`, `head-raw` as in the paper; `legacy`: its baseline |
///
/// The raw variants take no `tau`, which is fixed at 32 bytes. `Display` writes all keys out,
/// except `tau` of a raw variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The ends of a chunk that have a table.
    pub sub_chunks: SubChunks,
    /// The length of the ends.
    pub tau: Tau,
    /// The maximum number of live bursts that were found by one entry of a table. With 0 there are
    /// no bursts.
    ///
    /// The paper starts its counters at 1 in algorithm 1 and at 0 in section III-C, and compares by
    /// "at most", so that a `c_max` of 1 allows one burst or two. Here a `c_max` of 1 allows one,
    /// as in the example of III-C.
    pub c_max: u32,
}

impl Options {
    /// The baseline of the paper: only equal chunks are found.
    pub const LEGACY: Options = Options { sub_chunks: SubChunks::None, ..Options::BURST };
    /// BURST as in section V: head and tail, an eighth of the chunk each.
    pub const BURST: Options =
        Options { sub_chunks: SubChunks::HeadAndTail, tau: Tau::Fraction(8), c_max: 255 };
    /// BURST-Head: no table of tails.
    pub const HEAD: Options = Options { sub_chunks: SubChunks::Head, ..Options::BURST };
    /// BURST-Raw: heads and tails are 32 bytes, which are their own fingerprint.
    pub const RAW: Options = Options { tau: Tau::Raw, ..Options::BURST };
    /// BURST-Head-Raw: BURST-Head with heads as in BURST-Raw.
    pub const HEAD_RAW: Options = Options { tau: Tau::Raw, ..Options::HEAD };

    /// Returns the head or the tail of `chunk`, or `None` if there is no table for this side or the
    /// chunk is too short.
    #[must_use]
    pub fn sub_chunk<'a>(&self, side: Side, chunk: &'a [u8]) -> Option<&'a [u8]> {
        self.has_table(side).then(|| self.tau.sub_chunk(side, chunk))?
    }

    /// Returns `true` if there is a table for this side.
    #[must_use]
    pub fn has_table(&self, side: Side) -> bool {
        match self.sub_chunks {
            SubChunks::None => false,
            SubChunks::Head => side == Side::Head,
            SubChunks::HeadAndTail => true,
        }
    }
}

impl Default for Options {
    /// Returns [`Options::BURST`].
    fn default() -> Options {
        Options::BURST
    }
}

/// The ends of a chunk that lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubChunks {
    /// Neither end: the baseline.
    None,
    /// The first bytes.
    Head,
    /// The first bytes, and the last bytes if the first bytes lead to no chunk.
    HeadAndTail,
}

/// The length of head and tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tau {
    /// The length of the chunk divided by this number, rounded down. Chunks whose heads have
    /// different lengths never find each other.
    Fraction(usize),
    /// A fixed number of bytes.
    Bytes(usize),
    /// [`Tau::RAW_LEN`] bytes, which are not hashed.
    Raw,
}

impl Tau {
    /// The length of a head that is its own fingerprint, in bytes: the length of a fingerprint.
    pub const RAW_LEN: usize = 32;
    /// The maximum length that can be parsed, in bytes.
    const LEN_MAX: usize = 1024 * 1024;

    /// Returns the length of the head and of the tail of a chunk of `chunk_len` bytes.
    ///
    /// Returns `None` if the length is 0 or is not less than half of the chunk, because head and
    /// tail must leave bytes between them (section III-B).
    #[must_use]
    pub fn len(self, chunk_len: usize) -> Option<usize> {
        let len = match self {
            Tau::Fraction(divisor) => chunk_len.checked_div(divisor)?,
            Tau::Bytes(len) => len,
            Tau::Raw => Tau::RAW_LEN,
        };
        (len > 0 && len < chunk_len.div_ceil(2)).then_some(len)
    }

    /// Returns the head or the tail of `chunk`, even if that side has no table. Returns `None` if
    /// [`Tau::len`] does.
    #[must_use]
    pub fn sub_chunk(self, side: Side, chunk: &[u8]) -> Option<&[u8]> {
        let len = self.len(chunk.len())?;
        Some(match side {
            Side::Head => &chunk[..len],
            Side::Tail => &chunk[chunk.len() - len..],
        })
    }
}

impl fmt::Display for Tau {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tau::Fraction(divisor) => write!(f, "1/{divisor}"),
            Tau::Bytes(len) => write!(f, "{len}"),
            Tau::Raw => write!(f, "{}", Tau::RAW_LEN),
        }
    }
}

impl FromStr for Tau {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Tau, ParseError> {
        let error = || ParseError::new("tau", text, "must be 1/3 or less, or 1 to 1024k bytes");
        if let Some(divisor) = text.strip_prefix("1/") {
            let divisor = digits(divisor).filter(|divisor| *divisor >= 3);
            return divisor.map(Tau::Fraction).ok_or_else(error);
        }
        let (number, unit) = match text.strip_suffix('k') {
            Some(number) => (number, 1024),
            None => (text, 1),
        };
        let len = digits(number).and_then(|number| number.checked_mul(unit));
        let len = len.filter(|len| (1..=Tau::LEN_MAX).contains(len));
        len.map(Tau::Bytes).ok_or_else(error)
    }
}

/// An end of a chunk. The ends are declared in the order of lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The first bytes.
    Head,
    /// The last bytes.
    Tail,
}

impl Side {
    /// Both sides, in the order of lookup.
    pub const ALL: [Side; 2] = [Side::Head, Side::Tail];
}

/// An error of parsing [`Options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    fn new(key: &str, value: &str, expected: &str) -> ParseError {
        ParseError(format!("{NAME}: {key}={value}: {expected}"))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// The variants: name, ends with a table, and `true` for raw.
const VARIANTS: [(&str, SubChunks, bool); 5] = [
    ("burst", SubChunks::HeadAndTail, false),
    ("head", SubChunks::Head, false),
    ("raw", SubChunks::HeadAndTail, true),
    ("head-raw", SubChunks::Head, true),
    ("legacy", SubChunks::None, false),
];

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_raw = self.tau == Tau::Raw;
        let variant = VARIANTS.iter().find(|(_, sub_chunks, raw)| {
            // The baseline has no heads, so that the length of heads does not matter.
            *sub_chunks == self.sub_chunks && (*raw == is_raw || *sub_chunks == SubChunks::None)
        });
        let name = variant.map_or("", |(name, ..)| name);
        write!(f, "{NAME}:")?;
        if !is_raw {
            write!(f, "tau={},", self.tau)?;
        }
        write!(f, "c_max={},variant={name}", self.c_max)
    }
}

impl FromStr for Options {
    type Err = ParseError;

    /// Parses the text that [`Options`] describes.
    ///
    /// # Errors
    ///
    /// Returns a [`ParseError`] with the key, the given value and the allowed values.
    fn from_str(text: &str) -> Result<Options, ParseError> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        if name != NAME {
            return Err(ParseError(format!("{text}: must begin with {NAME}")));
        }
        let mut options = Options::default();
        let (mut is_raw, mut given) = (false, Vec::new());
        for item in list.split(',').filter(|_| !list.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let error = |expected| ParseError::new(key, value, expected);
            if given.contains(&key) {
                return Err(error("given twice"));
            }
            given.push(key);
            match key {
                "tau" => options.tau = value.parse()?,
                "c_max" => {
                    let c_max = digits(value).and_then(|number| u32::try_from(number).ok());
                    options.c_max = c_max.ok_or_else(|| error("must be a whole number"))?;
                }
                "variant" => {
                    let found = VARIANTS.iter().find(|(variant, ..)| *variant == value);
                    let (_, sub_chunks, raw) = found
                        .ok_or_else(|| error("must be burst, head, raw, head-raw or legacy"))?;
                    (options.sub_chunks, is_raw) = (*sub_chunks, *raw);
                }
                _ => return Err(error("unknown; allowed: tau, c_max, variant")),
            }
        }
        if is_raw {
            if given.contains(&"tau") {
                let expected = "a raw variant has 32 bytes, and no other tau";
                return Err(ParseError::new("tau", &options.tau.to_string(), expected));
            }
            options.tau = Tau::Raw;
        }
        Ok(options)
    }
}

/// Parses a number that consists of digits only.
fn digits(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
