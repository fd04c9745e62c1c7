//! The variants and parameters of the paper.

use std::fmt;
use std::str::FromStr;

/// What is in front of the parameters in the text of [`Options`].
const NAME: &str = "burst";

/// How a reference chunk is looked for.
///
/// # Text
///
/// `burst:tau=1/8,c_max=255,variant=burst`, in lower case, without spaces; the keys in any order, each
/// of which may be left out. `burst` alone is [`Options::BURST`].
///
/// | key | |
/// | --- | --- |
/// | `tau` | `1/N` of the chunk, N from 3 on; or bytes, with the suffix `k` for KiB, up to 1024k |
/// | `c_max` | a whole number |
/// | `variant` | `burst`, `head`, `raw`, `head-raw` as in the paper; `legacy`: its baseline |
///
/// The raw variants have no `tau`: it is 32 bytes. `Display` writes all out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which ends of a chunk have a table.
    pub sub_chunks: SubChunks,
    /// How long they are.
    pub tau: Tau,
    /// How many bursts may live that were found by one entry of a table. With 0 there are none.
    ///
    /// The paper starts its counters at 1 in algorithm 1 and at 0 in section III-C, and compares by
    /// "at most", so that a `c_max` of 1 allows one burst or two; here it is one, as in the example
    /// of III-C.
    pub c_max: u32,
}

impl Options {
    /// The paper's baseline: only equal chunks are found.
    pub const LEGACY: Options = Options { sub_chunks: SubChunks::None, ..Options::BURST };
    /// BURST as in section V: head and tail, an eighth of the chunk each.
    pub const BURST: Options =
        Options { sub_chunks: SubChunks::HeadAndTail, tau: Tau::Fraction(8), c_max: 255 };
    /// BURST-Head: no table of tails.
    pub const HEAD: Options = Options { sub_chunks: SubChunks::Head, ..Options::BURST };
    /// BURST-Raw: 32 bytes are their own fingerprint.
    pub const RAW: Options = Options { tau: Tau::Raw, ..Options::BURST };
    /// BURST-Head-Raw: both.
    pub const HEAD_RAW: Options = Options { tau: Tau::Raw, ..Options::HEAD };

    /// Returns head or tail, none if `chunk` has no such sub-chunk, or it has no table.
    #[must_use]
    pub fn sub_chunk<'a>(&self, side: Side, chunk: &'a [u8]) -> Option<&'a [u8]> {
        self.has_table(side).then(|| self.tau.sub_chunk(side, chunk))?
    }

    /// Whether there is a table for this side.
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
    /// [`Options::BURST`].
    fn default() -> Options {
        Options::BURST
    }
}

/// Which ends of a chunk lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubChunks {
    /// None: the baseline.
    None,
    /// Its first bytes.
    Head,
    /// Its first bytes, and where they lead nowhere its last.
    HeadAndTail,
}

/// The length of head and tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tau {
    /// The length of the chunk divided by this, rounded down. Chunks of different lengths that have
    /// heads of different lengths never find each other.
    Fraction(usize),
    /// So many bytes.
    Bytes(usize),
    /// [`Tau::RAW_LEN`] bytes, which are not hashed.
    Raw,
}

impl Tau {
    /// How long a head is that is its own fingerprint, in bytes: as a fingerprint is.
    pub const RAW_LEN: usize = 32;
    /// The greatest length that has a text, in bytes.
    const LEN_MAX: usize = 1024 * 1024;

    /// Returns the length of head and tail of a chunk of `chunk_len` bytes.
    ///
    /// None if it is 0, or if head and tail would leave nothing between them: it must be less than
    /// half of a chunk (section III-B).
    #[must_use]
    pub fn len(self, chunk_len: usize) -> Option<usize> {
        let len = match self {
            Tau::Fraction(divisor) => chunk_len.checked_div(divisor)?,
            Tau::Bytes(len) => len,
            Tau::Raw => Tau::RAW_LEN,
        };
        (len > 0 && len < chunk_len.div_ceil(2)).then_some(len)
    }

    /// Returns head or tail of `chunk`, whether or not it has a table; none as [`Tau::len`].
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

/// An end of a chunk, in the order in which they are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Its first bytes.
    Head,
    /// Its last bytes.
    Tail,
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::Head, Side::Tail];
}

/// A text that means no [`Options`].
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

/// The names of variants, and whether they are raw.
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
            // The baseline has no heads, so none of any length.
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
    /// [`ParseError`] names the key, what was given for it and what is allowed.
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
                _ => return Err(error("unknown here; allowed: tau, c_max, variant")),
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

/// A number of digits alone.
fn digits(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
