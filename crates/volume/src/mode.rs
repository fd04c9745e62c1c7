//! The rule by which written blocks are compared with stored ones.

use std::fmt;
use std::str::FromStr;

use cutpoint_delta::burst::{Options, SubChunks, Tau};

use crate::error::{Error, Kind};

/// The rule by which a written block is compared with stored ones. It can change at any time, and
/// applies to later writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every block is stored by itself.
    Off,
    /// Equal blocks are stored once.
    Exact,
    /// Equal blocks are stored once, and a block whose head or tail is that of a stored block is
    /// stored as a burst on it.
    Burst(Burst),
    /// Equal blocks are stored once, and a block that resembles stored blocks is stored as copied and
    /// new bytes.
    Delta,
}

/// The parameters of the paper's BURST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The length of head and tail: a fraction of the block or a number of bytes.
    pub tau: Tau,
    /// The maximum number of live bursts that one entry of a table has found.
    pub c_max: u32,
    /// Cleared if there is no table of tails: BURST-Head.
    pub has_tails: bool,
}

impl Burst {
    /// Returns the parameters in the form of `cutpoint-delta`.
    #[must_use]
    pub fn options(self) -> Options {
        let sub_chunks = if self.has_tails { SubChunks::HeadAndTail } else { SubChunks::Head };
        Options { sub_chunks, tau: self.tau, c_max: self.c_max }
    }

    /// Returns `true` if heads and tails are their own keys: BURST-Raw.
    pub(crate) fn is_raw(self) -> bool {
        self.tau == Tau::Raw
    }
}

impl Default for Burst {
    /// Returns the paper's parameters: heads and tails of an eighth of the block, 255 bursts.
    fn default() -> Burst {
        Burst { tau: Options::BURST.tau, c_max: Options::BURST.c_max, has_tails: true }
    }
}

impl Mode {
    /// Returns `true` if equal blocks are stored once.
    pub(crate) fn is_deduplicating(self) -> bool {
        self != Mode::Off
    }

    /// Returns the parameters of BURST, if it is the mode.
    pub(crate) fn burst(self) -> Option<Burst> {
        match self {
            Mode::Burst(burst) => Some(burst),
            Mode::Off | Mode::Exact | Mode::Delta => None,
        }
    }
}

impl Default for Mode {
    /// Returns [`Mode::Burst`] with the paper's parameters.
    fn default() -> Mode {
        Mode::Burst(Burst::default())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Off => f.write_str("off"),
            Mode::Exact => f.write_str("exact"),
            Mode::Delta => f.write_str("delta"),
            Mode::Burst(burst) => {
                let Burst { tau, c_max, has_tails } = burst;
                f.write_str("burst")?;
                f.write_str(if *has_tails { "" } else { "-head" })?;
                match tau {
                    Tau::Raw => write!(f, "-raw:c_max={c_max}"),
                    _ => write!(f, ":tau={tau},c_max={c_max}"),
                }
            }
        }
    }
}

impl FromStr for Mode {
    type Err = Error;

    /// Parses `off`, `exact`, `delta`, or a variant of BURST (`burst`, `burst-head`, `burst-raw`,
    /// `burst-head-raw`) with `tau` and `c_max` as in [`Options`].
    ///
    /// # Errors
    ///
    /// Fails with the unknown word or the wrong value.
    fn from_str(text: &str) -> Result<Mode, Error> {
        let invalid = |problem: String| Error::new(Kind::Invalid, format!("mode {text}"), problem);
        match text {
            "off" => return Ok(Mode::Off),
            "exact" => return Ok(Mode::Exact),
            "delta" => return Ok(Mode::Delta),
            _ => {}
        }
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let variant = match name {
            "burst" => "burst",
            "burst-head" => "head",
            "burst-raw" => "raw",
            "burst-head-raw" => "head-raw",
            _ => {
                let expected = "off, exact, delta, burst, burst-head, burst-raw or burst-head-raw";
                return Err(invalid(format!("unknown (expected {expected})")));
            }
        };
        if parameters.contains("variant") {
            return Err(invalid("the variant is a part of the name".to_owned()));
        }
        let separator = if parameters.is_empty() { "" } else { "," };
        let options: Result<Options, _> =
            format!("burst:variant={variant}{separator}{parameters}").parse();
        let Options { sub_chunks, tau, c_max } =
            options.map_err(|error| invalid(format!("{error}")))?;
        Ok(Mode::Burst(Burst { tau, c_max, has_tails: sub_chunks == SubChunks::HeadAndTail }))
    }
}

/// The compression of later writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored as they are.
    #[default]
    None,
    /// LZ4.
    Lz4,
    /// zstd with a level from 1 to 19.
    Zstd(u8),
}

impl Compression {
    /// The levels of zstd.
    const LEVELS: std::ops::RangeInclusive<u8> = 1..=19;

    /// Returns zstd with a level, or `None` if there is no such level.
    #[must_use]
    pub fn zstd(level: u8) -> Option<Compression> {
        Compression::LEVELS.contains(&level).then_some(Compression::Zstd(level))
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    /// Parses `none`, `lz4`, `zstd` or `zstd:LEVEL`.
    ///
    /// # Errors
    ///
    /// Fails with the expected words.
    fn from_str(text: &str) -> Result<Compression, Error> {
        let problem = "unknown (expected none, lz4, zstd, or zstd:LEVEL with a level from 1 to 19)";
        let unknown = || Error::new(Kind::Invalid, format!("compression {text}"), problem);
        match text {
            "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Ok(Compression::Zstd(1)),
            _ => {
                let level = text.strip_prefix("zstd:").and_then(|level| level.parse().ok());
                level.and_then(Compression::zstd).ok_or_else(unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_parsed_from_its_text() {
        for text in [
            "off",
            "exact",
            "delta",
            "burst:tau=1/8,c_max=255",
            "burst:tau=512,c_max=1",
            "burst-head:tau=1/4,c_max=3",
            "burst-raw:c_max=255",
            "burst-head-raw:c_max=1",
        ] {
            let mode: Mode = text.parse().expect("a mode");
            assert_eq!(mode.to_string(), text);
        }
        assert_eq!("burst".parse::<Mode>().ok(), Some(Mode::default()));
    }

    #[test]
    fn unknown_mode_is_refused() {
        for text in [
            "",
            "on",
            "burst:c_max",
            "burst:variant=raw",
            "burst-tail",
            "burst-raw:tau=8",
            "burst:tau=0",
        ] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }

    #[test]
    fn compression_is_parsed_from_its_text() {
        for text in ["none", "lz4", "zstd:1", "zstd:19"] {
            let compression: Compression = text.parse().expect("a compression");
            assert_eq!(compression.to_string(), text);
        }
        assert_eq!("zstd".parse().ok(), Some(Compression::Zstd(1)));
        for text in ["", "gzip", "zstd:0", "zstd:20", "zstd:-1"] {
            assert!(text.parse::<Compression>().is_err(), "{text}");
        }
    }
}
