//! FastCDC: a gear hash, tested against a harder mask up to a normal size and an easier one after.
//!
//! Source: Xia et al., "The Design of Fast Content-Defined Chunking for Data Deduplication Based
//! Storage Systems" (2020), with the cut-points of crate fastcdc 5.0.0, module `v2020` (its `v2016`
//! cuts alike). As in the crate, and in the paper's pseudo-code, the byte that completes a matching
//! hash opens the next chunk, although it took part in the hash.
//!
//! The rule, for a chunk that starts at byte 0 of `n` bytes to the end of the stream:
//!
//! ```text
//! if n <= min: cut at n
//! end = max if n >= max, else n rounded down to an even number
//! hash = 0
//! for i in min..end:
//!     hash = 2 * hash + gear[byte i]              modulo 2^64
//!     mask = (i < normal) ? mask_small : mask_large
//!     if hash & mask == 0: cut at i
//! cut at min(n, max)
//! ```
//!
//! With `bits = round(log2(normal))`, `mask_small` has `bits + level` one bits and `mask_large` has
//! `bits - level`. The even end comes from the crate, which reads bytes in pairs: the last byte of
//! a stream of odd length is never tested.
//!
//! # Dialects
//!
//! [`Form::DedupBench`] is FastCDC in dedup-bench, UWASL's program of the SeqCDC and VectorCDC
//! papers. It has another gear table; `mask_small` and `mask_large` are the *lowest* `bits + level`
//! and `bits - level` bits, so that the hash depends only on that many last bytes; every byte is
//! tested, also the last one; and sizes may be odd. The lists of its cut-points come from a build
//! in which `char` is unsigned; if it is signed, that program reads in front of its table.

mod table;
mod table_dedup_bench;

use alloc::boxed::Box;
use core::fmt;

use self::table::{GEAR, MASKS};
use super::gear::{feed, rehash, scan_in_turn};
use super::{
    Algorithm, check_range, constructors, debug_params, forward_chunk_sizes, paper, power,
    rounded_log2,
};
use crate::about::{About, Dialect, KeyUse, Parameter, ShortForm};
use crate::candidates::{ColumnsKind, GearColumns, Selection, Stages, forward_batches};
use crate::keys::Keys;
use crate::{Chunker, KeyMaterial, Level, SpecError};

const NAME: &str = "fastcdc";

const ABOUT: About = About {
    name: NAME,
    title: "a gear hash against a harder mask, then an easier one",
    rule: "From the smallest size on, every byte goes into a hash: twice the hash plus the byte's \
           entry in a table. A chunk ends where the hash has zeros at all bits of a mask, which has \
           `level` bits more than the logarithm of `normal` below that size, and `level` fewer \
           above. The byte that completes the match opens the next chunk.",
    source: "Xia et al., The Design of Fast Content-Defined Chunking for Data Deduplication Based \
             Storage Systems (2020), in the form of crate fastcdc 5.0.0, v2020; its v2016 cuts alike.",
    differences: "The last byte of a stream of odd length is never tested, as in the crate, which \
                  reads bytes in pairs.",
    good_at: "Sizes near the mean; cut-points settle soon after a change. The most used rule.",
    bad_at: "A long constant stretch is cut at the largest size. One table look-up a byte, each \
             waiting for the one before.",
    key: KeyUse::Table,
    parameters: &[
        Parameter::new("level", "bits", "0 to 3", "The normalization level."),
        Parameter::new("min", "bytes", "64 to 1048576, even", "The smallest chunk."),
        Parameter::new(
            "normal",
            "bytes",
            "256 to 4194304, even, not below min",
            "The size from which the easier mask is used; the crate calls it the average, but the \
             mean differs.",
        ),
        Parameter::new(
            "max",
            "bytes",
            "1024 to 16777216, even, not below normal",
            "The largest chunk.",
        ),
        Parameter::new("seed", "", "64 bits, decimal or 0x...", "XORed onto the table; no secret.")
            .or("0"),
        Parameter::new("form", "", "crate or dedup-bench", "The source of masks and table.")
            .or("crate"),
    ],
    short_forms: &[
        ShortForm::new(
            "avg",
            &["level", "seed", "form"],
            "1024 to 1048576; with a level, not in the gaps between two powers of two",
            "Mean in bytes, which sets the other parameters; the level of 2, 3 and 1 that fits \
             best unless given. What other programs call the average of min, avg and max is normal, \
             which is not the mean.",
        )
        .instead(
            "avg is the mean here; for the min, avg and max of other programs write \
             level=1,min=MIN,normal=AVG,max=MAX",
        ),
        ShortForm::new(
            "paper",
            &[],
            "4k, 8k or 16k",
            "Udayashankar et al., SeqCDC, section 6: level 2, min half the average and max twice it, \
             but min 1k for 4k; in the form of dedup-bench, their code. Real means 4545, \
             9520, 19041 bytes.",
        ),
    ],
    dialects: &[Dialect::new(
        "form=dedup-bench",
        "dedup-bench's: another table, masks of the lowest bits, every byte tested, odd sizes.",
    )],
};

/// The form of the rule; the module documentation gives the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// The form of crate fastcdc, whose masks are spread.
    #[default]
    Crate,
    /// The form of dedup-bench, whose masks are the lowest bits.
    DedupBench,
}

/// The parameters of FastCDC. Sizes are in bytes, and are even unless the form allows odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The normalization level, 0 to 3: the number of bits that one mask has more and the other
    /// fewer.
    pub level: u32,
    /// The minimum chunk size, 64 bytes to 1 MiB.
    pub chunk_size_min: usize,
    /// The size at which the easier mask begins, 256 bytes to 4 MiB. The masks follow from its
    /// logarithm.
    ///
    /// Crate fastcdc calls it the average size, although it is not the mean; see [`Params::mean`].
    pub normal_size: usize,
    /// The maximum chunk size, 1 KiB to 16 MiB.
    pub chunk_size_max: usize,
    /// A number that is XORed onto every entry of the gear table, also of a secret one. The seed is
    /// not secret.
    pub seed: u64,
    /// The form of the rule.
    pub form: Form,
}

impl Params {
    /// The smallest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MIN: usize = 1024;

    /// The largest mean that [`Params::for_average`] accepts, in bytes.
    pub const AVERAGE_MAX: usize = 1024 * 1024;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless each parameter is within its limits, which are those of crate
    /// fastcdc, `min <= normal <= max`, and the sizes are even. In the form of dedup-bench, sizes
    /// may be odd.
    pub fn check(&self) -> Result<(), SpecError> {
        let Params {
            level,
            chunk_size_min: min,
            normal_size: normal,
            chunk_size_max: max,
            seed: _,
            form,
        } = *self;
        check_range(NAME, "level", level as usize, 0, 3)?;
        check_range(NAME, "min", min, 64, 1024 * 1024)?;
        check_range(NAME, "normal", normal, min.max(256), 4 * 1024 * 1024)?;
        check_range(NAME, "max", max, normal.max(1024), 16 * 1024 * 1024)?;
        for (parameter, size) in [("min", min), ("normal", normal), ("max", max)] {
            if size % 2 != 0 && form == Form::Crate {
                return Err(SpecError::new(NAME, parameter, size, "must be even"));
            }
        }
        Ok(())
    }

    /// Returns parameters whose mean chunk size on random data is `mean` bytes.
    ///
    /// The minimum size is a quarter of the mean, or as near to that as the masks allow, which come
    /// in powers of two; the maximum is four times the mean. The seed is 0. Without a `level`, the
    /// level is the one of 2 (recommended by the paper), 3 and 1 that brings the minimum size
    /// nearest to a quarter, which is then between 0.15 and 0.4 of the mean.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] unless `mean` is from [`Params::AVERAGE_MIN`] to
    /// [`Params::AVERAGE_MAX`] and `level` from 1 to 3, or if no minimum size from 1/16 to 3/4
    /// gives the mean at that level. Each level has such a gap between two powers of two; without a
    /// level there is none.
    pub fn for_average(mean: usize, level: Option<u32>) -> Result<Params, SpecError> {
        Params::for_average_in(Form::Crate, mean, level)
    }

    fn for_average_in(form: Form, mean: usize, level: Option<u32>) -> Result<Params, SpecError> {
        check_range(NAME, "avg", mean, Params::AVERAGE_MIN, Params::AVERAGE_MAX)?;
        let (given, any) = (level.map(|level| [level]), [2, 3, 1]);
        if let Some(level) = level {
            check_range(NAME, "level", level as usize, 1, 3)?;
        }
        let levels = given.as_ref().map_or(&any[..], |given| &given[..]);
        // The distance from a quarter grows, in 256ths of the mean.
        for distance in 0..=128 {
            for share in [64 + distance, 64usize.saturating_sub(distance)] {
                for &level in levels.iter().filter(|_| share >= 16) {
                    let mut params = Params {
                        level,
                        chunk_size_min: mean * share / 512 * 2,
                        normal_size: 0,
                        chunk_size_max: mean * 4,
                        seed: 0,
                        form,
                    };
                    if params.solve_normal_size(mean) {
                        return Ok(params);
                    }
                }
            }
        }
        Err(SpecError::new(NAME, "avg", mean, "not possible at this level; omit the level"))
    }

    /// Returns the setting of Udayashankar et al., "SeqCDC", section 6, for an expected average of
    /// 4, 8 or 16 KiB, in the form of their code, dedup-bench; `None` for any other average.
    ///
    /// The mean is 11 to 16 % above the expected average; see [`Params::mean`].
    pub fn paper(nominal_size: usize) -> Option<Params> {
        let (chunk_size_min, chunk_size_max) = paper::sizes(nominal_size)?;
        Some(Params {
            level: 2,
            chunk_size_min,
            normal_size: nominal_size,
            chunk_size_max,
            seed: 0,
            form: Form::DedupBench,
        })
    }

    /// Returns the mean chunk size in bytes on endless random data.
    ///
    /// The mean is exact for a hash whose tested bits are independent from byte to byte: each byte
    /// up to the normal size then ends the chunk with a chance of 2^-(bits + level), each later one
    /// with a chance of 2^-(bits - level). With the masks of the crate, the gear hash comes within
    /// 0.3 % of that. With the lowest bits and the table of dedup-bench, where 113 entries are odd,
    /// more bits are zeros, which is accounted for. A key, or a seed whose lowest byte is not 0,
    /// changes that table, and its mean may differ by 4 %.
    pub fn mean(&self) -> f64 {
        let (mask_small, mask_large) = self.masks();
        let zeros = match self.form {
            Form::DedupBench if self.seed & 255 == 0 => DEDUP_BENCH_ZEROS,
            _ => 1.0,
        };
        let passes = |mask: u64| 1.0 - zeros * power(0.5, u64::from(mask.count_ones()));
        let (small, large) = (passes(mask_small), passes(mask_large));
        let small_count = (self.normal_size - self.chunk_size_min) as u64;
        let large_count = (self.chunk_size_max - self.normal_size) as u64;
        // The sum of the chances to be longer than min, min + 1, ... bytes.
        let geometric = |base: f64, count: u64| (base - base * power(base, count)) / (1.0 - base);
        let min = self.chunk_size_min as f64;
        min + geometric(small, small_count)
            + power(small, small_count) * geometric(large, large_count)
    }

    /// Sets the normal size that gives `mean`, the one nearest to `mean` if there are several.
    /// Returns `false` if there is none.
    fn solve_normal_size(&mut self, mean: usize) -> bool {
        let mut solution = None;
        // The mean grows with the normal size as long as the masks stay the same.
        for bits in rounded_log2(mean) - 2..=rounded_log2(mean) + 2 {
            let mut low = first_of_bits(bits).max(256).max(self.chunk_size_min);
            let mut high = (first_of_bits(bits + 1) - 2).min(4 << 20).min(self.chunk_size_max);
            if low > high {
                continue;
            }
            let target = mean as f64;
            while low < high {
                self.normal_size = (low + high) / 4 * 2;
                if self.mean() < target {
                    low = self.normal_size + 2;
                } else {
                    high = self.normal_size;
                }
            }
            self.normal_size = low;
            if (self.mean() / target - 1.0).abs() < 0.001 {
                let distance = low.abs_diff(mean);
                if solution.is_none_or(|(best, _)| distance < best) {
                    solution = Some((distance, low));
                }
            }
        }
        if let Some((_, normal_size)) = solution {
            self.normal_size = normal_size;
        }
        solution.is_some()
    }

    /// Returns the mask up to the normal size, and the mask after it.
    fn masks(&self) -> (u64, u64) {
        let bits = rounded_log2(self.normal_size);
        let mask = |count: u32| match self.form {
            Form::Crate => MASKS[count as usize],
            Form::DedupBench => (1 << count) - 1,
        };
        (mask(bits + self.level), mask(bits - self.level))
    }
}

/// The ratio by which the lowest k bits of dedup-bench's hash are all zeros more often than with a
/// chance of 2^-k, for any k from 8 on: the share of 0 among the sums of 2^i times an entry each,
/// over all entries, modulo 2^k, times 2^k.
const DEDUP_BENCH_ZEROS: f64 = 1.102_448_640_555_375;

/// Returns the smallest even size whose [`rounded_log2`] is `bits`, for `bits` above 1.
fn first_of_bits(bits: u32) -> usize {
    let exact = (1usize << (2 * bits - 1)).isqrt();
    (exact + 1).next_multiple_of(2)
}

impl Algorithm for Params {
    const ABOUT: &'static About = &ABOUT;

    fn parse(keys: &Keys<'_>) -> Result<Params, SpecError> {
        let seed = keys.bits("seed", 0)?;
        let form =
            keys.word("form", &[("crate", Form::Crate), ("dedup-bench", Form::DedupBench)])?;
        match keys.form() {
            "avg" => {
                let (mean, level) = (keys.size("avg")?, keys.optional_number("level")?);
                Ok(Params { seed, ..Params::for_average_in(form, mean, level)? })
            }
            "paper" => keys.setting(Params::paper),
            _ => Ok(Params {
                level: keys.number("level")?,
                chunk_size_min: keys.size("min")?,
                normal_size: keys.size("normal")?,
                chunk_size_max: keys.size("max")?,
                seed,
                form,
            }),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { level, chunk_size_min, normal_size, chunk_size_max, seed, form } = self;
        write!(f, "level={level},min={chunk_size_min},normal={normal_size},max={chunk_size_max}")?;
        write!(f, ",seed={seed}")?;
        match form {
            Form::Crate => Ok(()),
            Form::DedupBench => write!(f, ",form=dedup-bench"),
        }
    }

    fn chunk_size_min(&self) -> usize {
        self.chunk_size_min
    }

    fn chunk_size_max(&self) -> Option<usize> {
        Some(self.chunk_size_max)
    }

    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }
}

/// The chunker of FastCDC.
#[derive(Clone)]
pub struct FastCdc {
    params: Params,
    mask_small: u64,
    mask_large: u64,
    gear: Box<[u64; 256]>,
    stages: Stages<GearColumns>,
}

constructors!(FastCdc);

impl FastCdc {
    pub(crate) fn from_checked(
        params: Params,
        material: Option<&KeyMaterial>,
        level: Level,
    ) -> FastCdc {
        let mut gear = match (material, params.form) {
            (Some(material), _) => material.table(),
            (None, Form::Crate) => Box::new(GEAR),
            (None, Form::DedupBench) => Box::new(table_dedup_bench::GEAR),
        };
        gear.iter_mut().for_each(|entry| *entry ^= params.seed);
        let (mask_small, mask_large) = params.masks();
        let scalar = FastCdc {
            params,
            mask_small,
            mask_large,
            gear,
            stages: Stages::at(Level::SCALAR, |_| None),
        };
        scalar.at_level(level)
    }

    /// Returns the same chunker on another level than the best of this CPU. The cut-points are the
    /// same; only the speed differs.
    #[must_use]
    pub fn at_level(self, level: Level) -> FastCdc {
        let stages = Stages::at(level, |kind| self.columns(kind));
        FastCdc { stages, ..self }
    }

    /// Returns the columns that find the candidates of both masks.
    fn columns(&self, kind: ColumnsKind) -> Option<GearColumns> {
        // The crate's masks of few bits are not subsets of each other, and have few bits in common.
        let (min, mean) = (self.params.chunk_size_min, self.params.mean());
        GearColumns::new(&self.gear, self.mask_small & self.mask_large, min, mean, kind)
    }
}

impl Selection for FastCdc {
    fn first(&self) -> usize {
        self.params.chunk_size_min
    }

    fn told_from(&self) -> usize {
        // The hash begins at the minimum size, and its masks depend on this number of bytes.
        let known = (self.mask_small | self.mask_large).checked_ilog2().unwrap_or(0);
        self.params.chunk_size_min + known as usize
    }

    fn step(&self) -> usize {
        0
    }

    fn cut_from(&self, _: &[u8], data: &[u8], more: bool, from: usize) -> Option<usize> {
        let Params { chunk_size_min: min, normal_size: normal, chunk_size_max: max, .. } =
            self.params;
        let complete = !more || data.len() >= max;
        // The last of an odd number of bytes waits for its neighbour, which may not come.
        let end = match self.params.form {
            Form::Crate => data.len() / 2 * 2,
            Form::DedupBench => data.len(),
        }
        .min(max);
        if end > from {
            // The hash begins at the minimum size, and depends on 64 bytes.
            let hash = feed(&self.gear, 0, &data[from.saturating_sub(64).max(min)..from]);
            let switch = normal.clamp(from, end);
            let masks = [self.mask_small, self.mask_large];
            let found = scan_in_turn(&self.gear, hash, masks, &data[..end], [from, switch]);
            if found.is_some() {
                return found;
            }
        }
        (complete && !data.is_empty()).then_some(data.len().min(max))
    }

    fn accepts(
        &self,
        data: &[u8],
        start: usize,
        at: usize,
        hashed: &mut Option<(usize, u64)>,
    ) -> bool {
        let is_small = at < start + self.params.normal_size;
        let mask = if is_small { self.mask_small } else { self.mask_large };
        rehash(&self.gear, data, at, hashed) & mask == 0
    }
}

impl Chunker for FastCdc {
    forward_chunk_sizes!();
    forward_batches!();

    fn next_cut(&self, data: &[u8], more: bool) -> Option<usize> {
        self.cut_from(&[], data, more, self.params.chunk_size_min)
    }
}

debug_params!(FastCdc);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_bits_is_smallest_size_of_logarithm() {
        for bits in 2..=23 {
            let first = first_of_bits(bits);
            assert_eq!(first % 2, 0, "{bits} bits: {first} is even");
            let found = (rounded_log2(first - 2), rounded_log2(first));
            assert_eq!(found, (bits - 1, bits), "{bits} bits: {first} is the first");
        }
    }

    /// Computes the distribution of the hashes modulo 2^k, if each byte is equally likely.
    #[test]
    fn dedup_bench_zeros_match_distribution() {
        for bits in [8, 10] {
            let count = 1 << bits;
            let mut chances = alloc::vec![0.0; count];
            chances[0] = 1.0;
            for _ in 0..bits {
                let mut next = alloc::vec![0.0; count];
                for (hash, chance) in chances.iter().enumerate().filter(|each| *each.1 > 0.0) {
                    for entry in table_dedup_bench::GEAR {
                        let [low, high, ..] = entry.to_le_bytes();
                        let entry = usize::from(u16::from_le_bytes([low, high]));
                        next[(2 * hash + entry) % count] += chance / 256.0;
                    }
                }
                chances = next;
            }
            let zeros = chances[0] * count as f64;
            assert!((zeros - DEDUP_BENCH_ZEROS).abs() < 1e-6, "{bits} bits: {zeros}");
        }
    }
}
