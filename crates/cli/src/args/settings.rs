//! The settings of a repository, and the command that changes them.

use std::fmt;
use std::str::FromStr;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_repository::format::config::{
    BurstOptions, COMPRESSION_LEVEL, CONTAINER_SIZE, REGION_SIZE,
};

use crate::defaults::{self, Preset};
use crate::units::{number, parse_whole_percent, size_in};

/// Show or change repository settings
///
/// Without options, the command prints the settings. Changed settings apply to data that is stored
/// from then on; what is already stored stays as it is. After a change of --cut, duplicates of
/// older data are not found any more; old snapshots stay complete. After --parity, `cutpoint repair
/// data` adds parity to older data.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint config
  cutpoint config --compression-level 1
  cutpoint config --parity 10%
      Stores 10 % more, from which damaged data can be rebuilt.
  cutpoint config --cut seqcdc:avg=16k
  cutpoint config --probe
      Run this after the repository was moved to another storage.")]
pub(crate) struct ConfigArgs {
    /// The settings to change.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Test whether the storage creates objects atomically
    ///
    /// The result is recorded as the setting `creates-atomically`.
    #[arg(long)]
    pub(crate) probe: bool,
}

/// Settings of a repository. A setting that is not given keeps its value.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Settings {
    /// Use a preset of sizes and level
    ///
    /// Explicit options override the preset.
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Cut data with this algorithm and parameters
    ///
    /// SPEC is the name of an algorithm with its parameters, for example `fastcdc:avg=16k`,
    /// `seqcdc:avg=16k` or `fixed:size=4k`. `cutpoint-lab algorithms` lists all of them.
    #[arg(long, value_name = "SPEC")]
    pub(crate) cut: Option<String>,
    /// Compress SIZE bytes of chunks together: 16k to 4M
    #[arg(long, value_name = "SIZE", value_parser = size_in(REGION_SIZE))]
    pub(crate) region_size: Option<u32>,
    /// Store data in objects of about SIZE: 4M to 48M
    #[arg(long, value_name = "SIZE", value_parser = size_in(CONTAINER_SIZE))]
    pub(crate) container_size: Option<u32>,
    /// Set the zstd level: -7 (fast) to 19 (small)
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = number(COMPRESSION_LEVEL))]
    pub(crate) compression_level: Option<i32>,
    /// Add this share of parity: 0% to 100%
    ///
    /// Damaged data can be rebuilt from parity. It is added to data that is stored from now on, and
    /// takes this share of its size. `0%` adds none.
    #[arg(long, value_name = "PERCENT", value_parser = parse_whole_percent)]
    pub(crate) parity: Option<u32>,
    /// Store differences of chunks: off, on or burst
    ///
    /// `on` compares a new chunk with the previous version of its file, or with chunks that
    /// resemble it, and stores only what they do not have in common. `off` stores such chunks in
    /// full. `burst` compares a new chunk with a single chunk, and finds one common prefix and
    /// suffix, as in the BURST paper; it takes options, for example
    /// `burst:tau=1/8,c_max=255,variant=burst` (docs/notes/burst.md).
    #[arg(long, value_name = "RULE")]
    pub(crate) delta: Option<DeltaMode>,
}

/// A preset of settings for a purpose. `book/src/reference/modes.md` has the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Shorter backups: --compression-level 1
    Fast,
    /// General use: --region-size 2M --container-size 16M --compression-level 3
    Default,
    /// Least space: --region-size 4M --container-size 48M --compression-level 12
    Max,
    /// Fast access to parts of files: --region-size 128k
    Random,
}

impl Mode {
    /// Returns the settings of the mode.
    pub(crate) fn preset(self) -> Preset {
        match self {
            Mode::Fast => defaults::FAST,
            Mode::Default => defaults::DEFAULT,
            Mode::Max => defaults::MAX,
            Mode::Random => defaults::RANDOM,
        }
    }
}

/// The treatment of chunks that resemble others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeltaMode {
    /// They are stored like any others.
    Off,
    /// Only the parts that they do not share with previous versions are stored.
    On,
    /// Only the part between the prefix and the suffix that they share with one other chunk is
    /// stored.
    Burst(BurstOptions),
}

impl FromStr for DeltaMode {
    type Err = String;

    fn from_str(text: &str) -> Result<DeltaMode, String> {
        match text {
            "off" => Ok(DeltaMode::Off),
            "on" => Ok(DeltaMode::On),
            _ if text.starts_with("burst") => {
                let options = text.parse::<BurstOptions>();
                options.map(DeltaMode::Burst).map_err(|error| error.to_string())
            }
            _ => Err(format!(
                "{text:?} is no rule (expected off, on, or burst with options or without)"
            )),
        }
    }
}

impl fmt::Display for DeltaMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeltaMode::Off => f.write_str("off"),
            DeltaMode::On => f.write_str("on"),
            DeltaMode::Burst(options) => options.fmt(f),
        }
    }
}
