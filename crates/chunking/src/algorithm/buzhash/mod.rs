//! Buzhash: the table entries of a window's bytes, turned by their age and XORed; tested for a
//! remainder.
//!
//! Source: Cohen, "Recursive Hashing Functions for n-Grams" (1997), where it is called hashing by
//! cyclic polynomials; used for chunking in Gregoriadis et al., "A Thorough Investigation of
//! Content-Defined Chunking Algorithms for Data Deduplication".
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! for i in max(min, window) - 1..n:
//!     hash = XOR over k in 0..window of table[byte i - k] turned left by k bits
//!     if hash modulo divisor == remainder:  cut at i + 1
//! cut at n
//! ```
//!
//! The byte that completes a match is the chunk's last. In a constant stretch, the hash is 0 if the
//! window is twice the number of bits of an entry, or a multiple of that; if the window is equal to
//! the number of bits, the hash is 0 for every second value.
//!
//! casync and desync have a window of 48, their own table, a divisor that is fitted to the average,
//! and the greatest remainder. Their first tested byte is one behind the minimum size.
//!
//! # Runs
//!
//! The code of Gregoriadis et al. does not roll the hash in a long run of one value, where rolling
//! changes nothing. But its run counter begins as if a zero stood before the first byte, so that a
//! run of `window` zeros or more right behind the first full window is left one byte early. The
//! oldest byte of the hash is then one of the earlier window, until the run ends. This rule is
//! `runs=early`.

mod table_bita;
mod table_casync;

use alloc::boxed::Box;
use core::fmt;

use super::{
    Algorithm, CHUNK_SIZE_LIMIT, check_range, check_sizes, constructors, cut_within, debug_params,
    forward_chunk_sizes, geometric, paper, write_sizes,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::candidates::{
    BuzhashColumns, ColumnsKind, Selection, Stages, WINDOW_MAX, forward_batches,
    is_candidate_search_faster,
};
use crate::keys::Keys;
use crate::residue::Residue;
use crate::rolling::{Rolling, Step};
use crate::{Chunker, KeyMaterial, Level, SpecError, table};

const NAME: &str = "buzhash";

const ABOUT: About = About {
    name: NAME,
    title: "hashing by cyclic polynomial",
    rule: "The entries of a window's bytes in a table, each turned by the byte's age, are XORed. A \
           chunk ends with the window whose hash leaves the remainder when divided.",
    source: "Cohen, Recursive Hashing Functions for n-Grams (1997); as in the code of \
             Gregoriadis et al., A Thorough Investigation.",
    differences: "Any divisor. Long runs of one value are hashed like everything else, unless \
                  runs=early is chosen. The table is our own unless one is.",
    good_at: "A hash of exactly the window without multiplications.",
    bad_at: "A constant stretch is cut everywhere, or never but at a largest size.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new(
            "divisor",
            "",
            "1 to 1073741824",
            "The divisor of the hash; 2^b tests for b zeros at the low end.",
        ),
        Parameter::new("remainder", "", "0 to divisor - 1", "The remainder of a match.").or("0"),
        Parameter::new("window", "bytes", "1 to 65536", "The window (w or W)."),
        Parameter::new(
            "table",
            "",
            "cutpoint, cutpoint32, bita or casync",
            "The source of the table; all but cutpoint make a hash of 32 bits, that of 64.",
        )
        .or("cutpoint"),
        Parameter::new(
            "runs",
            "",
            "rolled or early",
            "Leave a run of zeros behind the first window when it ends, or one byte early.",
        )
        .or("rolled"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new("max", "bytes", "min and window to 1073741824", "The largest chunk.")
            .or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["window", "table", "runs", "max"],
            "256 to 16777216, above window and not above max",
            "Mean in bytes, which sets the other parameters; window 48 unless given. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper",
            &["runs", "max"],
            "512, 1024, 2048, 4096 or 8192",
            "Gregoriadis et al., section 5.1: window 64, the best of theirs, with which the means of \
             their table 11 are reached; table 4 prints 32. By table 4 the divisor is 2 to \
             the logarithm of target - window, rounded as in their code, which is the target: the mean is \
             63 bytes above it. The table is that of their code, bita; with runs=early the runs are, \
             too.",
        ),
    ],
    dialects: &[
        Dialect::new("table=bita,runs=early", "The code of Gregoriadis et al."),
        Dialect::new("table=casync", "casync and desync; see the module."),
        Dialect::new("table=cutpoint32", "Our table with a hash of 32 bits."),
    ],
};

/// The table of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Table {
    /// The table of the label `cutpoint buzhash v1`, of 64 bits.
    #[default]
    Cutpoint,
    /// The lower 32 bits of [`Table::Cutpoint`].
    Cutpoint32,
    /// The table of bita, of 32 bits.
    Bita,
    /// The table of casync and desync, of 32 bits.
    Casync,
}

/// The treatment of a run of zeros behind the first window; the module documentation has details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Runs {
    /// The run is hashed like all other bytes.
    #[default]
    Rolled,
    /// The run is left one byte early.
    Early,
}

/// The parameters of Buzhash; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The divisor of the hash, 1 to 2^30.
    pub divisor: u32,
    /// The remainder that a match leaves, below the divisor.
    pub remainder: u32,
    /// The window, 1 byte to 64 KiB.
    pub window: usize,
    /// The table.
    pub table: Table,
    /// The treatment of a run of zeros behind the first window.
    pub runs: Runs,
    /// The minimum chunk size, at least 1. A chunk has at least a window, too.
    pub chunk_size_min: usize,
    /// The maximum chunk size; `None` for no limit.
    pub chunk_size_max: Option<usize>,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = geometric::AVERAGE_MIN;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = geometric::AVERAGE_MAX;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits. No size may exceed
    /// [`CHUNK_SIZE_LIMIT`].
    pub fn check(&self) -> Result<(), SpecError> {
        let divisor = self.divisor as usize;
        check_range(NAME, "divisor", divisor, 1, CHUNK_SIZE_LIMIT)?;
        check_range(NAME, "remainder", self.remainder as usize, 0, divisor - 1)?;
        check_range(NAME, "window", self.window, 1, Rolling::<Turn64>::WINDOW_MAX)?;
        check_sizes(NAME, self.chunk_size_min, self.chunk_size_min(), self.chunk_size_max)
    }

    /// Returns the parameters of `self` changed so that the mean on random data is `mean` bytes:
    /// with a power of two as the divisor, the remainder 0, and a minimum size of at least a fifth
    /// of the mean.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the window is too large for
    /// the mean.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        let of = |bits, chunk_size_min| Params {
            divisor: 1u32 << bits,
            remainder: 0,
            chunk_size_min,
            ..self
        };
        geometric::for_average(NAME, mean, self.chunk_size_max, of, Params::mean)
    }

    /// Returns the setting of Gregoriadis et al., "A Thorough Investigation", for a target of 512,
    /// 1024, 2048, 4096 or 8192 bytes, with the table of their code and without a maximum size;
    /// `None` for any other target.
    ///
    /// The window is the 64 of section 5.1, with which the means are those of table 11, 63 bytes
    /// above the target; table 4 prints 32. The divisor is that of table 4, the same for both
    /// windows.
    pub fn paper(target: usize) -> Option<Params> {
        let window = 64;
        Some(Params {
            divisor: 1 << paper::bits(target, window)?,
            remainder: 0,
            window,
            table: Table::Bita,
            runs: Runs::Rolled,
            chunk_size_min: 1,
            chunk_size_max: None,
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a hash that is independent from byte to byte.
    pub fn mean(&self) -> f64 {
        geometric::mean(self.chunk_size_min(), self.divisor.into(), self.chunk_size_max)
    }
}

/// A step of a 64-bit hash.
#[derive(Clone)]
struct Turn64;

impl Step for Turn64 {
    #[inline]
    fn step(&self, hash: u64) -> u64 {
        hash.rotate_left(1)
    }
}

/// A step of a 32-bit hash, the upper half of which is 0.
#[derive(Clone)]
struct Turn32;

impl Step for Turn32 {
    #[inline]
    fn step(&self, hash: u64) -> u64 {
        (hash << 1 | hash >> 31) & 0xffff_ffff
    }
}

const TABLES: [(&str, Table); 4] = [
    ("cutpoint", Table::Cutpoint),
    ("cutpoint32", Table::Cutpoint32),
    ("bita", Table::Bita),
    ("casync", Table::Casync),
];

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            divisor: 1,
            remainder: keys.optional_number("remainder")?.unwrap_or(0),
            window: keys.optional_size("window")?.unwrap_or(48),
            table: keys.word("table", &TABLES)?,
            runs: keys.word("runs", &[("rolled", Runs::Rolled), ("early", Runs::Early)])?,
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        let Params { runs, chunk_size_max, .. } = params;
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper" => Ok(Params { runs, chunk_size_max, ..keys.setting(Params::paper)? }),
            _ => Ok(Params { divisor: keys.number("divisor")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "divisor={}", self.divisor)?;
        if self.remainder != 0 {
            write!(f, ",remainder={}", self.remainder)?;
        }
        write!(f, ",window={}", self.window)?;
        for (word, table) in &TABLES[1..] {
            if *table == self.table {
                write!(f, ",table={word}")?;
            }
        }
        if self.runs == Runs::Early {
            write!(f, ",runs=early")?;
        }
        write_sizes(f, self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min.max(self.window)
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of Buzhash.
#[derive(Clone)]
pub struct Buzhash {
    params: Params,
    residue: Residue,
    hash: Hash,
    stages: Stages<BuzhashColumns>,
}

#[derive(Clone)]
enum Hash {
    Of32(Rolling<Turn32>),
    Of64(Rolling<Turn64>),
}

constructors!(Buzhash);

impl Buzhash {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Buzhash {
        let table = match (material, params.table) {
            (Some(material), _) => material.table(),
            (None, Table::Cutpoint | Table::Cutpoint32) => Box::new(table::buzhash::TABLE),
            (None, Table::Bita) => {
                Box::new(table_bita::TABLE.map(|entry| u64::from(entry ^ 0x1032_4195)))
            }
            (None, Table::Casync) => Box::new(table_casync::TABLE.map(u64::from)),
        };
        let entry = |byte| table[usize::from(byte)];
        let hash = match params.table {
            Table::Cutpoint => Hash::Of64(Rolling::new(Turn64, params.window, entry)),
            _ => Hash::Of32(Rolling::new(Turn32, params.window, |byte| entry(byte) & 0xffff_ffff)),
        };
        let residue = Residue::new(params.divisor.into(), params.remainder.into());
        let scalar = Buzhash { params, residue, hash, stages: Stages::at(Level::SCALAR, |_| None) };
        scalar.at_level(level)
    }

    /// Returns the last byte of the chunk, if it is found in `data`.
    fn find<S: Step>(&self, rolling: &Rolling<S>, data: &[u8]) -> Option<usize> {
        let first = self.chunk_size_min() - 1;
        let matches = |_, hash| self.residue.matches(hash);
        let window = self.params.window;
        let run = data.get(first + 1..).unwrap_or(&[]);
        let run_size = run.iter().position(|&byte| byte != 0).unwrap_or(run.len());
        if self.params.runs == Runs::Rolled || run_size < window {
            return rolling.find(data, first, matches);
        }
        // The last zero that is hashed, and the hash at that byte.
        let last = first + window - 1;
        let mut hash = 0;
        let found = rolling.find(&data[..=last], first, |_, next| {
            hash = next;
            self.residue.matches(next)
        });
        if found.is_some() {
            return found;
        }
        // The byte behind the run takes the place of the last one before it.
        let behind = first + 1 + run_size;
        let hash = rolling.roll(hash, data[first], *data.get(behind)?);
        if self.residue.matches(hash) {
            return Some(behind);
        }
        rolling.find_behind(hash, data, behind, |hash| self.residue.matches(hash))
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Buzhash {
        let stages = Stages::at(level, |kind| self.columns(kind));
        Buzhash { stages, ..self }
    }

    /// Returns the columns that find the candidates; `None` if the window is too large, if runs
    /// need separate treatment, or if they do not pay.
    fn columns(&self, kind: ColumnsKind) -> Option<BuzhashColumns> {
        let Params { window, runs, .. } = self.params;
        let bytes = match self.hash {
            Hash::Of32(_) => 4,
            Hash::Of64(_) => 8,
        };
        let gain = BuzhashColumns::gain(bytes, kind);
        let min = Algorithm::chunk_size_min(&self.params);
        let is_worth = is_candidate_search_faster(min, self.params.mean(), gain);
        let uses_candidates = window <= WINDOW_MAX && runs == Runs::Rolled && is_worth;
        uses_candidates.then(|| match &self.hash {
            Hash::Of32(rolling) => BuzhashColumns::new(4, rolling, &self.residue),
            Hash::Of64(rolling) => BuzhashColumns::new(8, rolling, &self.residue),
        })
    }
}

impl Selection for Buzhash {
    fn first(&self) -> usize {
        Chunker::chunk_size_min(self) - 1
    }

    fn step(&self) -> usize {
        1
    }

    fn can_continue(&self) -> bool {
        // A run at the smallest size changes the hashes behind it.
        self.params.runs == Runs::Rolled
    }

    fn cut_from(&self, _: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        let matches = |_, hash| self.residue.matches(hash);
        cut_within(data, more, self.params.chunk_size_max, |data| {
            let found = match &self.hash {
                Hash::Of32(rolling) => rolling.find(data, from, matches),
                Hash::Of64(rolling) => rolling.find(data, from, matches),
            };
            found.map(|at| at + 1)
        })
    }
}

impl Chunker for Buzhash {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        cut_within(data, more, self.params.chunk_size_max, |data| {
            let found = match &self.hash {
                Hash::Of32(rolling) => self.find(rolling, data),
                Hash::Of64(rolling) => self.find(rolling, data),
            };
            found.map(|at| at + 1)
        })
    }
}

debug_params!(Buzhash);
