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
}

/// The parameters of the paper's BURST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The length of head and tail: a fraction of the block or a number of bytes.
    pub tau: Tau,
    /// The maximum number of live bursts that one entry of a table has found.
    pub c_max: u32,
}

impl Burst {
    /// Returns the parameters in the form of `cutpoint-delta`.
    #[must_use]
    pub fn options(self) -> Options {
        Options { sub_chunks: SubChunks::HeadAndTail, tau: self.tau, c_max: self.c_max }
    }
}

impl Default for Burst {
    /// Returns the paper's parameters: heads and tails of an eighth of the block, 255 bursts.
    fn default() -> Burst {
        Burst { tau: Options::BURST.tau, c_max: Options::BURST.c_max }
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
            Mode::Off | Mode::Exact => None,
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
            Mode::Burst(burst) => write!(f, "burst:tau={},c_max={}", burst.tau, burst.c_max),
        }
    }
}

impl FromStr for Mode {
    type Err = Error;

    /// Parses `off`, `exact`, or `burst` with `tau` and `c_max` as in [`Options`].
    ///
    /// # Errors
    ///
    /// Fails with the unknown word or the wrong value. The variants of BURST are unknown.
    fn from_str(text: &str) -> Result<Mode, Error> {
        let invalid = |problem: String| Error::new(Kind::Invalid, format!("mode {text}"), problem);
        match text {
            "off" => return Ok(Mode::Off),
            "exact" => return Ok(Mode::Exact),
            _ => {}
        }
        if text.split_once(':').map_or(text, |(name, _)| name) != "burst" {
            return Err(invalid("unknown (expected off, exact or burst)".to_owned()));
        }
        let options: Options = text.parse().map_err(|error| invalid(format!("{error}")))?;
        let Options { sub_chunks, tau, c_max } = options;
        if sub_chunks != SubChunks::HeadAndTail || tau == Tau::Raw {
            return Err(invalid("a volume has no variants of burst".to_owned()));
        }
        Ok(Mode::Burst(Burst { tau, c_max }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_parsed_from_its_text() {
        for text in ["off", "exact", "burst:tau=1/8,c_max=255", "burst:tau=512,c_max=1"] {
            let mode: Mode = text.parse().expect("a mode");
            assert_eq!(mode.to_string(), text);
        }
        assert_eq!("burst".parse::<Mode>().ok(), Some(Mode::default()));
    }

    #[test]
    fn unknown_mode_is_refused() {
        for text in
            ["", "on", "burst:c_max", "burst:variant=raw", "burst:variant=head", "burst:tau=0"]
        {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }
}
