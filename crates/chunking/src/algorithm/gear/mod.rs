//! Gear: a hash that forgets by shifting, tested at its top bits, with or without normalized
//! chunking.
//!
//! Source: Xia et al., "Ddelta: A Deduplication-Inspired Fast Delta Compression Approach" (2014),
//! in the form of Gregoriadis et al., "A Thorough Investigation of Content-Defined Chunking
//! Algorithms for Data Deduplication" (algorithm 1, and section 2 for normalized chunking, which is
//! that of Xia et al., "FastCDC" (2016)).
//!
//! The rule, for a chunk that starts at byte 0:
//!
//! ```text
//! n = min(bytes to the end of the stream, max)
//! first = min - 1  (`cut=after`), or min  (`cut=before`)
//! hash = the hash of the bytes before `first` that `start` selects
//! for i in first..n:
//!     hash = 2 * hash + table[byte i]
//!     zeros = bits + level  while i < normal, then bits - level
//!     if the top `zeros` bits of the hash are 0:  cut at i + 1  (`cut=after`), or at i
//! cut at n
//! ```
//!
//! The hash has as many bits as an entry of the table, 64 or 32, and depends on the same number of
//! last bytes.
//!
//! | `start` | bytes hashed before `first` |
//! | --- | --- |
//! | `warm` | the bytes of the chunk: the hash is the same as if the whole chunk were hashed |
//! | `cold` | none |
//! | `carry` | the bytes of the chunk and of earlier ones: matches do not depend on where chunks begin |
//!
//! Without a minimum size, `warm` and `cold` are the same. Algorithm 1 tests the lowest bits, and
//! begins with a full window. The text beside it and the code test the highest bits, which depend
//! on the most bytes, and begin with no byte. dedup-bench is cold and cuts before the byte.

mod table_cdchunking;
mod table_dedup_bench;
mod table_gearhash;

use alloc::boxed::Box;
use core::fmt;

pub use super::bytes::Cut;
use super::{
    Algorithm, CHUNK_SIZE_LIMIT, bisect, check_range, check_sizes, constructors, debug_params,
    forward_chunk_sizes, geometric, paper, power, write_sizes,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::candidates::{ColumnsKind, GearColumns, Selection, Stages, forward_batches};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError, table};

const NAME: &str = "gear";

const ABOUT: About = About {
    name: NAME,
    title: "a gear hash, with or without normalized chunking",
    rule: "Every byte goes into a hash: twice the hash plus the byte's entry in a table. A chunk ends \
           where the top bits of the hash are zeros: `bits` of them, or with a level that many more \
           in the first `normal` bytes, and that many fewer after.",
    source: "Xia et al., Ddelta (2014), and FastCDC (2016) for the levels, as in Gregoriadis et al., \
             A Thorough Investigation, algorithm 1.",
    differences: "The top bits, as in the text and the code; algorithm 1 has the lowest. The hash \
                  begins with no byte, as in the code; algorithm 1 begins with a full window. The \
                  table is our own unless one is chosen.",
    good_at: "Speed among the rolling hashes: no byte must be taken out again.",
    bad_at: "A long constant stretch is never cut but at a largest size, or is cut everywhere. One \
             table look-up a byte, each waiting for the one before.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new("bits", "bits", "1 to 30", "Number of top bits that must be zero (b)."),
        Parameter::new(
            "level",
            "bits",
            "0 to 3, below bits, bits + level at most 31",
            "The normalization level: NC-1 to NC-3.",
        )
        .or("0"),
        Parameter::new(
            "normal",
            "bytes",
            "1 to 1073741824; required with a level, and only then allowed",
            "Number of bytes of a chunk that are tested for more zeros.",
        )
        .or("none"),
        Parameter::new(
            "table",
            "",
            "cutpoint, cutpoint32, cdchunking, gearhash or dedup-bench",
            "The source of the table; cutpoint32 and cdchunking make a hash of 32 bits, others of \
             64.",
        )
        .or("cutpoint"),
        Parameter::new(
            "start",
            "",
            "warm, cold or carry",
            "The bytes that are hashed before the first tested position.",
        )
        .or("warm"),
        Parameter::new("cut", "", "after or before", "Cut after or before the byte that is found.")
            .or("after"),
        Parameter::new("min", "bytes", "1 to 1073741824", "The smallest chunk.").or("1"),
        Parameter::new("max", "bytes", "min to 1073741824", "The largest chunk.").or("none"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["level", "table", "start", "cut", "max"],
            "256 to 16777216, not above max",
            "Mean in bytes, which sets the other parameters; a smallest size of a fifth or more. Chunks have no largest size unless max is given.",
        ),
        ShortForm::new(
            "paper-gregoriadis",
            &["level", "max"],
            "512, 1024, 2048, 4096 or 8192",
            "Gregoriadis et al., table 4: a window of 32, which is a hash of 32 bits, and as the bits the \
             logarithm of target - 32, rounded as in their code, which is that of the target: the mean is \
             the target. The table is that of their code. With a level it is their NC-1 to 3, where \
             normal is the target, as in their code: real means for 8192 are 8931, 8843, 8604 bytes.",
        ),
        ShortForm::new(
            "paper-udayashankar",
            &[],
            "4k, 8k or 16k",
            "Udayashankar et al., SeqCDC, section 6: min half the average and max twice it, but \
             min 1k for 4k; what the paper leaves open, the average's logarithm as the bits, and the \
             dialect, is from dedup-bench, their code. Real means 4408, 10460, 20920 bytes.",
        ),
    ],
    dialects: &[
        Dialect::new("table=cdchunking", "Gregoriadis et al.: Gear32, and with a level NC-1 to 3."),
        Dialect::new("table=gearhash", "Crate gearhash, and Gregoriadis et al.: Gear64."),
        Dialect::new(
            "table=gearhash,start=carry",
            "Crate gearhash where the hash is not reset after a match.",
        ),
        Dialect::new("table=dedup-bench,start=cold,cut=before", "dedup-bench."),
        Dialect::new("table=cutpoint32", "Our table with a hash of 32 bits."),
    ],
};

/// The table of a gear hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Table {
    /// The table of the label `cutpoint gear v1`, of 64 bits.
    #[default]
    Cutpoint,
    /// The lower 32 bits of [`Table::Cutpoint`].
    Cutpoint32,
    /// The table in the code of Gregoriadis et al., of 32 bits.
    Cdchunking,
    /// The table of crate gearhash, of 64 bits.
    Gearhash,
    /// The table of dedup-bench, of 64 bits.
    DedupBench,
}

/// The bytes hashed before the first byte that may be found; the module documentation has details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// The bytes of the chunk.
    #[default]
    Warm,
    /// No bytes.
    Cold,
    /// The bytes of the chunk and of the chunks before.
    Carry,
}

/// The parameters of Gear; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of top bits that must be zeros, 1 to 30.
    pub bits: u32,
    /// The normalization level, 0 to 3: the number of bits added before the normal size, and
    /// removed after it.
    pub level: u32,
    /// The number of bytes of a chunk that are tested for more zeros; `Some` exactly if the level
    /// is above 0.
    pub normal_size: Option<usize>,
    /// The table.
    pub table: Table,
    /// The bytes hashed before the first byte that may be found.
    pub start: Start,
    /// The position of the cut-point relative to the byte that is found.
    pub cut: Cut,
    /// The minimum chunk size, at least 1.
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
        let Params { bits, level, normal_size, chunk_size_min: min, .. } = *self;
        check_range(NAME, "level", level as usize, 0, 3)?;
        let level = level as usize;
        check_range(NAME, "bits", bits as usize, level + 1, (31 - level).min(30))?;
        match (normal_size, level) {
            (None, 0) => {}
            (None, _) => {
                return Err(SpecError::new(
                    NAME,
                    "normal",
                    "",
                    "missing, but required with a level",
                ));
            }
            (Some(normal), 0) => {
                return Err(SpecError::new(NAME, "normal", normal, "not allowed without a level"));
            }
            (Some(normal), _) => check_range(NAME, "normal", normal, 1, CHUNK_SIZE_LIMIT)?,
        }
        check_sizes(NAME, min, min, self.chunk_size_max)
    }

    /// Returns the parameters of `self` with the bits, the minimum size and, if there is a level,
    /// the normal size changed so that the mean on random data is `mean` bytes.
    ///
    /// Without a level, the number of bits leaves at least a fifth of the mean for the minimum
    /// size. With a level, the minimum size is a quarter of the mean.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and not above the maximum size, or if the maximum size is too near
    /// to the mean for any parameters to fit.
    pub fn for_average(self, mean: usize) -> Result<Params, SpecError> {
        check_range(NAME, "level", self.level as usize, 0, 3)?;
        if self.level == 0 {
            let of = |bits, min| Params { bits, normal_size: None, chunk_size_min: min, ..self };
            return geometric::for_average(NAME, mean, self.chunk_size_max, of, Params::mean);
        }
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let max = self.chunk_size_max.unwrap_or(CHUNK_SIZE_LIMIT);
        check_range(NAME, "max", max, mean, CHUNK_SIZE_LIMIT)?;
        let (target, bits, chunk_size_min) = (mean as f64, mean.ilog2(), mean / 4);
        let of = |normal| Params { bits, normal_size: Some(normal), chunk_size_min, ..self };
        let params = of(bisect(1, max.min(16 * mean), |normal| of(normal).mean() >= target));
        if (params.mean() / target - 1.0).abs() > 0.005 {
            let expected = "not possible with this max, which is too near";
            return Err(SpecError::new(NAME, "avg", mean, expected));
        }
        Ok(params)
    }

    /// Returns the setting of Gregoriadis et al., "A Thorough Investigation", table 4, for a target
    /// of 512, 1024, 2048, 4096 or 8192 bytes, with the table of their code and without a maximum
    /// size; `None` for any other target, and for a `level` above 3.
    ///
    /// With a level this is their NC-1 to NC-3, with the target as the normal size, as in their
    /// code. The mean is the target without a level, and up to 9 % above the target with one; see
    /// [`Params::mean`].
    pub fn paper_gregoriadis(target: usize, level: u32) -> Option<Params> {
        (level <= 3).then_some(Params {
            bits: paper::bits(target, 32)?,
            level,
            normal_size: (level > 0).then_some(target),
            table: Table::Cdchunking,
            start: Start::Warm,
            cut: Cut::After,
            chunk_size_min: 1,
            chunk_size_max: None,
        })
    }

    /// Returns the setting of Udayashankar et al., "SeqCDC", section 6, for an expected average of
    /// 4, 8 or 16 KiB, with the bits and the dialect of their code, dedup-bench; `None` for any
    /// other average.
    ///
    /// The mean is 8 to 28 % above the expected average; see [`Params::mean`].
    pub fn paper_udayashankar(nominal_size: usize) -> Option<Params> {
        let (chunk_size_min, max) = paper::sizes(nominal_size)?;
        Some(Params {
            bits: nominal_size.ilog2(),
            level: 0,
            normal_size: None,
            table: Table::DedupBench,
            start: Start::Cold,
            cut: Cut::Before,
            chunk_size_min,
            chunk_size_max: Some(max),
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a hash whose top bits are independent from byte to byte. In the table
    /// of gearhash many entries begin with zeros, so that the bits are not independent. For up to
    /// 16 bits, this is accounted for as measured, which is within 2 %. A key replaces this table.
    pub fn mean(&self) -> f64 {
        let Params { bits, level, chunk_size_min: min, .. } = *self;
        let is_all_tested = self.start == Start::Carry && min == 1;
        let (clump, begins) = match self.table {
            Table::Gearhash if !is_all_tested && bits <= 16 => {
                let is_new = self.start == Start::Cold || self.start == Start::Warm && min == 1;
                (GEARHASH_CLUMP, if is_new { 1.0 - GEARHASH_SMALL } else { 1.0 })
            }
            _ => (1.0, 1.0),
        };
        let passes = |bits| 1.0 - power(0.5, u64::from(bits)) / clump;
        let (hard, easy) = (passes(bits + level), passes(bits - level));
        // The sum of the chances to pass 1, 2, ... tests; `None` stands for an unlimited number of
        // tests.
        let sum = |passes: f64, count: Option<usize>| {
            let left = count.map_or(0.0, |count| power(passes, count as u64));
            (passes - passes * left) / (1.0 - passes)
        };
        let count = self.chunk_size_max.map(|max| max - min);
        let hard_count = self.normal_size.map_or(0, |normal| normal.saturating_sub(self.first()));
        let hard_count = count.map_or(hard_count, |count| hard_count.min(count));
        let easy_count = count.map(|count| count - hard_count);
        let after_hard = power(hard, hard_count as u64);
        min as f64 + begins * (sum(hard, Some(hard_count)) + after_hard * sum(easy, easy_count))
    }

    /// Returns the index of the first byte of a chunk that may be found.
    fn first(&self) -> usize {
        self.chunk_size_min - self.cut.step()
    }

    /// Returns the number of bits of the hash, which is also the number of last bytes on which it
    /// depends.
    fn hash_bits(&self) -> u32 {
        match self.table {
            Table::Cutpoint | Table::Gearhash | Table::DedupBench => 64,
            Table::Cutpoint32 | Table::Cdchunking => 32,
        }
    }
}

/// The mean number of matches that stand together with the table of gearhash, as measured for 10 to
/// 14 bits. Because 20 of its entries begin with 16 zeros, a match often follows a match or the
/// start of a new hash. If the minimum size skips the matches that follow, matches are rarer by
/// this factor.
const GEARHASH_CLUMP: f64 = 1.04;

/// The share of these entries.
const GEARHASH_SMALL: f64 = 20.0 / 256.0;

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let params = Params {
            bits: 1,
            level: keys.optional_number("level")?.unwrap_or(0),
            normal_size: keys.optional_size("normal")?,
            table: keys.word("table", &TABLES)?,
            start: keys.word("start", &STARTS)?,
            cut: keys.word("cut", Cut::WORDS)?,
            chunk_size_min: keys.optional_size("min")?.unwrap_or(1),
            chunk_size_max: keys.optional_size("max")?,
        };
        let Params { level, chunk_size_max, .. } = params;
        match keys.form() {
            "avg" => params.for_average(keys.size("avg")?),
            "paper-gregoriadis" => {
                check_range(NAME, "level", level as usize, 0, 3)?;
                let setting = keys.setting(|target| Params::paper_gregoriadis(target, level))?;
                Ok(Params { chunk_size_max, ..setting })
            }
            "paper-udayashankar" => keys.setting(Params::paper_udayashankar),
            _ => Ok(Params { bits: keys.number("bits")?, ..params }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bits={}", self.bits)?;
        if self.level != 0 {
            write!(f, ",level={}", self.level)?;
        }
        if let Some(normal) = self.normal_size {
            write!(f, ",normal={normal}")?;
        }
        for (word, table) in &TABLES[1..] {
            if *table == self.table {
                write!(f, ",table={word}")?;
            }
        }
        for (word, start) in &STARTS[1..] {
            if *start == self.start {
                write!(f, ",start={word}")?;
            }
        }
        if self.cut == Cut::Before {
            write!(f, ",cut=before")?;
        }
        write_sizes(f, self.chunk_size_min, self.chunk_size_max)
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        self.chunk_size_max
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

const TABLES: [(&str, Table); 5] = [
    ("cutpoint", Table::Cutpoint),
    ("cutpoint32", Table::Cutpoint32),
    ("cdchunking", Table::Cdchunking),
    ("gearhash", Table::Gearhash),
    ("dedup-bench", Table::DedupBench),
];

const STARTS: [(&str, Start); 3] =
    [("warm", Start::Warm), ("cold", Start::Cold), ("carry", Start::Carry)];

/// The chunker of Gear.
#[derive(Clone)]
pub struct Gear {
    params: Params,
    mask_hard: u64,
    mask_easy: u64,
    /// The table, of 32 or 64 bits. A hash of 32 bits is the lower half of a hash of 64 bits.
    gear: Box<[u64; 256]>,
    stages: Stages<GearColumns>,
}

constructors!(Gear);

impl Gear {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> Gear {
        let gear = match (material, params.table) {
            (Some(material), _) => material.table(),
            (None, Table::Cutpoint | Table::Cutpoint32) => Box::new(table::gear::TABLE),
            (None, Table::Cdchunking) => Box::new(table_cdchunking::TABLE.map(u64::from)),
            (None, Table::Gearhash) => Box::new(table_gearhash::TABLE),
            (None, Table::DedupBench) => Box::new(table_dedup_bench::TABLE),
        };
        let mask = |count: u32| ((1 << count) - 1) << (params.hash_bits() - count);
        let (mask_hard, mask_easy) =
            (mask(params.bits + params.level), mask(params.bits - params.level));
        let scalar = Gear {
            params,
            mask_hard,
            mask_easy,
            gear,
            stages: Stages::at(Level::SCALAR, |_| None),
        };
        scalar.at_level(level)
    }

    /// Returns the hash of the bytes before `data[first]` that `start` selects; `first` is not
    /// below the first index that may be found.
    fn hash_before(&self, before: &[u8], data: &[u8], first: usize) -> u64 {
        let known = self.params.hash_bits() as usize - 1;
        let last = |bytes: &[u8], count, hash| {
            feed(&self.gear, hash, &bytes[bytes.len().saturating_sub(count)..])
        };
        let carried = match self.params.start {
            Start::Cold => return last(&data[self.params.first()..first], known, 0),
            Start::Warm => 0,
            Start::Carry => last(before, known.saturating_sub(first), 0),
        };
        last(&data[..first], known, carried)
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> Gear {
        let stages = Stages::at(level, |kind| self.columns(kind));
        Gear { stages, ..self }
    }

    /// Returns the columns that find the candidates of both masks.
    fn columns(&self, kind: ColumnsKind) -> Option<GearColumns> {
        let (min, mean) = (self.params.chunk_size_min, self.params.mean());
        GearColumns::new(&self.gear, self.mask_hard & self.mask_easy, min, mean, kind)
    }
}

impl Selection for Gear {
    fn first(&self) -> usize {
        self.params.first()
    }

    fn told_from(&self) -> usize {
        let (first, known) = (self.first(), self.params.hash_bits() as usize - 1);
        match self.params.start {
            Start::Cold => first + known,
            Start::Warm => first.max(known),
            Start::Carry => first,
        }
    }

    fn step(&self) -> usize {
        self.params.cut.step()
    }

    fn cut_from(&self, before: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        let max = self.params.chunk_size_max;
        let end = max.map_or(data.len(), |max| data.len().min(max));
        let is_complete = !more || Some(end) == max;
        if from < end {
            let hash = self.hash_before(before, data, from);
            let switch = self.params.normal_size.unwrap_or(0).clamp(from, end);
            let masks = [self.mask_hard, self.mask_easy];
            if let Some(at) = scan_in_turn(&self.gear, hash, masks, &data[..end], [from, switch]) {
                return Some(at + self.params.cut.step());
            }
        }
        (is_complete && end > 0).then_some(end)
    }

    fn accepts(
        &self,
        data: &[u8],
        start: usize,
        at: usize,
        hashed: &mut Option<(usize, u64)>,
    ) -> bool {
        // A candidate is a match of the easier mask, whose bits are a subset of the harder mask's.
        let is_easy =
            self.params.normal_size.is_none_or(|normal| at >= start + normal.max(self.first()));
        is_easy || rehash(&self.gear, data, at, hashed) & self.mask_hard == 0
    }
}

impl Chunker for Gear {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.next_cut_after(&[], data, more)
    }

    fn next_cut_after(&self, before: &[u8], data: &[u8], more: bool) -> Option<usize> {
        self.cut_from(before, data, more, self.params.first())
    }

    fn context_size(&self) -> usize {
        match self.params.start {
            Start::Warm | Start::Cold => 0,
            Start::Carry => self.params.hash_bits() as usize - 1,
        }
    }
}

debug_params!(Gear);

/// Returns the hash after `bytes`.
#[inline]
pub(super) fn feed(gear: &[u64; 256], hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash << 1).wrapping_add(gear[byte as usize]))
}

/// Returns the first offset of `data` at which the hash matches: the first mask from the first of
/// `starts` on, or the second mask from the second start on. `hash` is that of the bytes before.
#[inline]
pub(super) fn scan_in_turn(
    gear: &[u64; 256],
    mut hash: u64,
    [first_mask, second_mask]: [u64; 2],
    data: &[u8],
    [from, switch]: [usize; 2],
) -> Option<usize> {
    scan(gear, &mut hash, first_mask, &data[from..switch])
        .map(|at| from + at)
        .or_else(|| scan(gear, &mut hash, second_mask, &data[switch..]).map(|at| switch + at))
}

/// Returns the hash of the 64 bytes up to and including `at`. `hashed` is a position with its hash,
/// and is updated to `at`. If the two positions are near each other, the hash continues from there.
pub(super) fn rehash(
    gear: &[u64; 256],
    data: &[u8],
    at: usize,
    hashed: &mut Option<(usize, u64)>,
) -> u64 {
    let (first, hash) = match *hashed {
        Some((place, hash)) if place <= at && at - place < 64 => (place + 1, hash),
        _ => (at.saturating_sub(63), 0),
    };
    let hash = feed(gear, hash, &data[first..=at]);
    *hashed = Some((at, hash));
    hash
}

/// Feeds `data` to `hash` up to the first byte that makes `hash & mask` zero, and returns the
/// offset of that byte.
///
/// Step by step, the hash needs an addition after a shift for each byte, each waiting for the one
/// before. Four steps are `hash * 16 + (8 * g0 + 4 * g1 + 2 * g2 + g3)`, where the second part does
/// not wait for the hash. A round therefore takes eight bytes, and only two of its additions are in
/// the chain.
#[inline]
pub(super) fn scan(gear: &[u64; 256], hash: &mut u64, mask: u64, data: &[u8]) -> Option<usize> {
    let (blocks, rest) = data.as_chunks::<8>();
    let mut h = *hash;
    let mut offset = 0;
    for block in blocks {
        for half in [&block[..4], &block[4..]] {
            let sum1 = gear[half[0] as usize];
            let sum2 = (sum1 << 1).wrapping_add(gear[half[1] as usize]);
            let sum3 = (sum2 << 1).wrapping_add(gear[half[2] as usize]);
            let sum4 = (sum3 << 1).wrapping_add(gear[half[3] as usize]);
            let (h1, h2) = ((h << 1).wrapping_add(sum1), (h << 2).wrapping_add(sum2));
            let h3 = (h << 3).wrapping_add(sum3);
            h = (h << 4).wrapping_add(sum4);
            if h1 & mask == 0 {
                *hash = h1;
                return Some(offset);
            }
            if h2 & mask == 0 {
                *hash = h2;
                return Some(offset + 1);
            }
            if h3 & mask == 0 {
                *hash = h3;
                return Some(offset + 2);
            }
            if h & mask == 0 {
                *hash = h;
                return Some(offset + 3);
            }
            offset += 4;
        }
    }
    for &byte in rest {
        h = (h << 1).wrapping_add(gear[byte as usize]);
        if h & mask == 0 {
            *hash = h;
            return Some(offset);
        }
        offset += 1;
    }
    *hash = h;
    None
}
