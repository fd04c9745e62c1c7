//! Counting chunks in bounded memory, by a sample of fingerprints and separate counts of heavy
//! hitters.
//!
//! # Method
//!
//! A chunk is in the sample if the hash of its fingerprint begins with a given number of zero bits,
//! so that either all of its copies are in the sample or none. When the table is full, one more
//! zero bit is required, and half of the sample is dropped. A chunk that is in the sample at the
//! end was there from its first copy on, so that its count is exact.
//!
//! The share of unique chunks in the sample alone is a poor estimate: a chunk with a million copies
//! is either in the sample or not, and biases the share either way. Two measures help.
//!
//! *Heavy hitters.* Frequent chunks are found by a rule that is independent of the sample
//! ([`Options::heavy_count`]), are removed from the sample, and are counted separately. Copies that
//! came before a chunk was found to be heavy are not in its count. The number of these copies is
//! known for the heavy chunks that are also in the sample, and is estimated from them for the
//! others.
//!
//! *Regression.* The unique bytes of the rest are estimated as `rate` times those of the sample,
//! which does not depend on the number of copies. The total size of the rest is known, and so is
//! the size that the sample stands for. The estimate is corrected by the difference of the two:
//!
//! ```text
//! stored = unique bytes of heavy hitters
//!        + rate * unique bytes of the sample without them
//!        + slope * (all bytes - bytes of heavy hitters - rate * bytes of the sample without them)
//! slope  = sum of len * (count * len) / sum of (count * len)^2, over the sample without them
//! ```
//!
//! The slope is the one of least variance if each chunk is in the sample independently. If every
//! chunk is unique, the slope is 1 and the estimate is exact. If some chunks have very many copies,
//! the slope is near 0.
//!
//! The interval comes from a jackknife: other bits of the hash divide the sample into 32 groups,
//! and the estimate is repeated without each group in turn.

use std::mem;

use crate::Savings;
use crate::counter::{Fingerprint, Key, KeyMap, table_bytes};

/// The number of groups of the jackknife.
const GROUP_COUNT: usize = 32;
/// The 97.5 % quantile of Student's distribution with 31 degrees of freedom.
const STUDENT_T: f64 = 2.0395;

/// The memory for each chunk of a sample, in bytes: a place in the table and the data beside it.
const ENTRY_BYTES: u64 = 60;

/// The limits of a [`Sampler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The maximum number of chunks in the sample. A place takes 33 bytes, and the table has up to
    /// two places for each chunk.
    pub entry_count_max: usize,
    /// The number of copies among `window_count` different chunks that makes a chunk a heavy
    /// hitter.
    pub heavy_count: u32,
    /// The number of different chunks among which copies are counted, and the maximum number of
    /// heavy hitters. If there are more heavy hitters, the required number of copies is doubled
    /// from then on.
    pub window_count: usize,
    /// The seed that selects one of the possible samples.
    pub salt: u64,
}

impl Options {
    /// The minimum memory of a sample in bytes. A smaller sample would be meaningless.
    pub const MEMORY_MIN: u64 = 1 << 20;

    /// Returns limits of about `memory` bytes, for the sample that `salt` selects.
    pub fn in_memory(memory: u64, salt: u64) -> Options {
        // Tables double in size, and one is full at seven eighths of a power of two.
        let places = (memory / ENTRY_BYTES + 1).next_power_of_two() / 2;
        let entry_count_max = usize::try_from(places / 8 * 7).unwrap_or(usize::MAX);
        let window_count = entry_count_max / 8;
        Options { entry_count_max, window_count, salt, ..Options::default() }
    }
}

impl Default for Options {
    /// Returns limits of about 50 MiB, with a typical error of a tenth of a percentage point.
    fn default() -> Options {
        // A table of the standard library is full at seven eighths of a power of two.
        Options { entry_count_max: 7 << 17, heavy_count: 8, window_count: 7 << 14, salt: 0 }
    }
}

/// Counts chunks in bounded memory.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: Options,
    read_bytes: u64,
    chunk_count: u64,
    /// The number of zero bits required for the sample.
    level: u32,
    sample: KeyMap<Copies>,
    /// The counts of chunks in the current window that are not heavy yet.
    window: KeyMap<u32>,
    heavy: KeyMap<Copies>,
    heavy_count: u32,
}

/// The number of copies of a chunk, and its length.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    count: u64,
    len: u64,
}

/// The estimate of a [`Sampler`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimated savings. The number of bytes read and of chunks is exact.
    pub savings: Savings,
    /// The 95 % confidence interval of the stored bytes. Both ends are equal if all chunks are in
    /// the sample.
    pub stored_bytes_interval: (u64, u64),
    /// The sampling rate: one in this number of chunks is in the sample.
    pub rate: u64,
    /// The number of chunks in the sample.
    pub sampled_count: u64,
    /// The number of heavy hitters, which are counted separately.
    pub heavy_count: u64,
}

impl Estimate {
    /// Returns the space savings at the ends of the interval, the lower first, or `None` if nothing
    /// was read.
    pub fn space_savings_interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.stored_bytes_interval;
        let savings = |stored| self.savings.with_stored_bytes(stored).space_savings();
        Some((savings(high)?, savings(low)?))
    }
}

/// Sums over chunks.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    bytes: f64,
    unique_bytes: f64,
    count: f64,
    unique_count: f64,
    /// The bytes and the copies of heavy hitters in the sample that came before the hitters were
    /// found.
    missed_bytes: f64,
    missed_count: f64,
    /// The terms of the slopes of bytes and of counts: products of unique and all, and squares of
    /// all.
    byte_products: f64,
    byte_squares: f64,
    count_products: f64,
    count_squares: f64,
}

impl Sums {
    fn combined(&self, other: &Sums, sign: f64) -> Sums {
        Sums {
            bytes: self.bytes + sign * other.bytes,
            unique_bytes: self.unique_bytes + sign * other.unique_bytes,
            count: self.count + sign * other.count,
            unique_count: self.unique_count + sign * other.unique_count,
            missed_bytes: self.missed_bytes + sign * other.missed_bytes,
            missed_count: self.missed_count + sign * other.missed_count,
            byte_products: self.byte_products + sign * other.byte_products,
            byte_squares: self.byte_squares + sign * other.byte_squares,
            count_products: self.count_products + sign * other.count_products,
            count_squares: self.count_squares + sign * other.count_squares,
        }
    }
}

impl Sampler {
    /// Creates a sampler without chunks.
    ///
    /// # Panics
    ///
    /// Panics if a number of `options` other than the salt is 0.
    pub fn new(options: Options) -> Sampler {
        assert!(options.entry_count_max > 0, "a sample of nothing says nothing");
        assert!(options.heavy_count > 0 && options.window_count > 0, "a rule for heavy hitters");
        Sampler {
            options,
            read_bytes: 0,
            chunk_count: 0,
            level: 0,
            sample: KeyMap::default(),
            window: KeyMap::default(),
            heavy: KeyMap::default(),
            heavy_count: options.heavy_count,
        }
    }

    /// Counts a chunk of `len` bytes. If the chunk is new and in the sample, returns the number of
    /// chunks that it stands for.
    pub fn add(&mut self, fingerprint: &Fingerprint, len: u64) -> Option<u64> {
        let key = Key::new(fingerprint, len);
        self.read_bytes += len;
        self.chunk_count += 1;
        self.watch(key, len);
        let level = self.level;
        if key.mixed(self.options.salt).leading_zeros() < level {
            return None;
        }
        let copies = self.sample.entry(key).or_default();
        *copies = Copies { count: copies.count + 1, len };
        let is_new = copies.count == 1;
        while self.sample.len() > self.options.entry_count_max && self.level < 56 {
            self.level += 1;
            let (salt, level) = (self.options.salt, self.level);
            self.sample.retain(|key, _| key.mixed(salt).leading_zeros() >= level);
        }
        is_new.then_some(1 << level)
    }

    /// Detects heavy hitters, independently of the sample.
    fn watch(&mut self, key: Key, len: u64) {
        if let Some(copies) = self.heavy.get_mut(&key) {
            copies.count += 1;
            return;
        }
        let count = self.window.entry(key).or_default();
        *count += 1;
        if *count >= self.heavy_count {
            let count = u64::from(*count);
            self.window.remove(&key);
            self.heavy.insert(key, Copies { count, len });
            if self.heavy.len() > self.options.window_count {
                self.heavy_count = self.heavy_count.saturating_mul(2);
                let least = u64::from(self.heavy_count);
                self.heavy.retain(|_, copies| copies.count >= least);
            }
        } else if self.window.len() > self.options.window_count {
            self.window.clear();
        }
    }

    /// Returns the estimate for the chunks counted so far.
    pub fn estimate(&self) -> Estimate {
        let mut groups = [Sums::default(); GROUP_COUNT];
        for (key, copies) in &self.sample {
            let group = key.mixed(self.options.salt) % GROUP_COUNT as u64;
            #[expect(clippy::cast_possible_truncation, reason = "below the number of groups")]
            let group = &mut groups[group as usize];
            let (count, len) = (copies.count as f64, copies.len as f64);
            match self.heavy.get(key) {
                Some(heavy) => {
                    let missed = count - heavy.count as f64;
                    group.missed_count += missed;
                    group.missed_bytes += missed * len;
                }
                None => {
                    group.bytes += count * len;
                    group.unique_bytes += len;
                    group.count += count;
                    group.unique_count += 1.0;
                    group.byte_products += count * len * len;
                    group.byte_squares += (count * len).powi(2);
                    group.count_products += count;
                    group.count_squares += count * count;
                }
            }
        }
        let all = groups.iter().fold(Sums::default(), |sum, group| sum.combined(group, 1.0));
        let mut heavy = Sums::default();
        for copies in self.heavy.values() {
            heavy.bytes += copies.count as f64 * copies.len as f64;
            heavy.unique_bytes += copies.len as f64;
            heavy.count += copies.count as f64;
            heavy.unique_count += 1.0;
        }
        let rate = 1_u64 << self.level;
        let (stored, unique) = self.totals(&heavy, &all, rate as f64);
        let mut spread = 0.0;
        if rate > 1 {
            // Each estimate treats the remaining groups as all groups, so the rate is scaled up.
            let scale = GROUP_COUNT as f64 / (GROUP_COUNT - 1) as f64;
            let without = groups.map(|group| {
                self.totals(&heavy, &all.combined(&group, -1.0), rate as f64 * scale).0
            });
            let mean = without.iter().sum::<f64>() / GROUP_COUNT as f64;
            let squares: f64 = without.iter().map(|each| (each - mean).powi(2)).sum();
            // Only the chunks outside the sample contribute to the variance.
            let variance = squares / scale * (1.0 - 1.0 / rate as f64);
            spread = STUDENT_T * variance.sqrt();
        }
        let read = self.read_bytes as f64;
        let bounded = |bytes: f64| rounded(bytes.clamp(0.0, read));
        let savings = Savings {
            read_bytes: self.read_bytes,
            stored_bytes: bounded(stored),
            chunk_count: self.chunk_count,
            unique_chunk_count: rounded(unique.clamp(0.0, self.chunk_count as f64)),
        };
        Estimate {
            savings,
            stored_bytes_interval: (bounded(stored - spread), bounded(stored + spread)),
            rate,
            sampled_count: self.sample.len() as u64,
            heavy_count: self.heavy.len() as u64,
        }
    }

    /// Returns the stored bytes and the number of unique chunks that follow from a sample.
    fn totals(&self, heavy: &Sums, sample: &Sums, rate: f64) -> (f64, f64) {
        let slope = |products: f64, squares: f64| {
            // If the sample has none of the rest, nothing is known of the rest.
            if squares > 0.0 { products / squares } else { 1.0 }
        };
        let rest = self.read_bytes as f64 - heavy.bytes - rate * sample.missed_bytes;
        let bytes = heavy.unique_bytes
            + rate * sample.unique_bytes
            + slope(sample.byte_products, sample.byte_squares) * (rest - rate * sample.bytes);
        let rest = self.chunk_count as f64 - heavy.count - rate * sample.missed_count;
        let count = heavy.unique_count
            + rate * sample.unique_count
            + slope(sample.count_products, sample.count_squares) * (rest - rate * sample.count);
        (bytes, count)
    }

    /// Returns the memory that the tables take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let entry_len = size_of::<(Key, Copies)>();
        table_bytes(self.sample.capacity(), entry_len)
            + table_bytes(self.heavy.capacity(), entry_len)
            + table_bytes(self.window.capacity(), mem::size_of::<(Key, u32)>())
    }
}

/// Rounds a number of bytes or chunks.
fn rounded(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "it was clamped")]
    #[expect(clippy::cast_sign_loss, reason = "it was clamped")]
    {
        value.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::Counter;

    /// Returns chunks as in archives: most occur once, many a few times, and a few very often, in
    /// an order in which copies are both near and far.
    fn chunks(seed: u64) -> Vec<(Fingerprint, u64)> {
        let mut random = SplitMix64::new(seed);
        let mut chunks = Vec::new();
        for number in 0..10_000_u64 {
            let mut fingerprint = [0; 16];
            fingerprint[..8].copy_from_slice(&random.next().to_le_bytes());
            fingerprint[8..].copy_from_slice(&random.next().to_le_bytes());
            let len = 2048 + random.below(30_000) as u64;
            let copies = match number {
                0..3 => 8_000,
                3..100 => 60 + random.below(200),
                100..3000 => 2 + random.below(6),
                _ => 1,
            };
            for _ in 0..copies {
                chunks.push((fingerprint, len));
            }
        }
        for index in (1..chunks.len()).rev() {
            chunks.swap(index, random.below(index + 1));
        }
        chunks
    }

    fn options(salt: u64) -> Options {
        Options { entry_count_max: 600, heavy_count: 8, window_count: 2000, salt }
    }

    fn sampled(chunks: &[(Fingerprint, u64)], salt: u64) -> Sampler {
        let mut sampler = Sampler::new(options(salt));
        for (fingerprint, len) in chunks {
            sampler.add(fingerprint, *len);
        }
        sampler
    }

    #[test]
    fn sample_that_holds_all_chunks_is_exact() {
        let chunks = chunks(1);
        let mut counter = Counter::new();
        let mut sampler = Sampler::new(Options::default());
        for (fingerprint, len) in &chunks {
            let is_new = counter.add(fingerprint, *len);
            assert_eq!(sampler.add(fingerprint, *len), is_new.then_some(1), "a new chunk");
        }
        let estimate = sampler.estimate();
        assert_eq!(estimate.savings, counter.savings(), "savings");
        let stored = counter.savings().stored_bytes;
        assert_eq!(estimate.stored_bytes_interval, (stored, stored), "no doubt");
        assert_eq!((estimate.rate, estimate.sampled_count), (1, 10_000), "the sample is all");
    }

    #[test]
    fn interval_contains_the_truth_in_95_percent() {
        let chunks = chunks(2);
        let mut counter = Counter::new();
        chunks.iter().for_each(|(fingerprint, len)| {
            counter.add(fingerprint, *len);
        });
        let truth = counter.savings();
        let (mut held, mut bias, mut square) = (0, 0.0, 0.0);
        const SEEDS: u64 = 200;
        for salt in 0..SEEDS {
            let estimate = sampled(&chunks, salt).estimate();
            assert!(estimate.rate >= 16, "a sample of 1 in {}", estimate.rate);
            assert_eq!(estimate.savings.read_bytes, truth.read_bytes, "what was read is exact");
            let (low, high) = estimate.stored_bytes_interval;
            held += u64::from((low..=high).contains(&truth.stored_bytes));
            let error = estimate.savings.space_savings().expect("data")
                - truth.space_savings().expect("data");
            bias += error / SEEDS as f64;
            square += error * error / SEEDS as f64;
        }
        println!("held {held} of {SEEDS}, bias {bias:.5}, deviation {:.5}", square.sqrt());
        // The expectation is 95 % of 200, which is 190, with a binomial standard deviation of 3.
        assert!((181..=199).contains(&held), "the truth was inside {held} times of {SEEDS}");
        assert!(bias.abs() < 0.002, "a bias of {bias}");
        assert!(square.sqrt() < 0.015, "a deviation of {}", square.sqrt());
    }

    /// The reason for the corrections: the share of a plain sample is far off.
    #[test]
    fn plain_sample_is_biased() {
        let chunks = chunks(2);
        let (mut plain_error, mut error) = (0.0, 0.0);
        let mut counter = Counter::new();
        chunks.iter().for_each(|(fingerprint, len)| {
            counter.add(fingerprint, *len);
        });
        let truth = counter.savings().space_savings().expect("data");
        for salt in 0..20 {
            let sampler = sampled(&chunks, salt);
            let (mut bytes, mut unique) = (0, 0);
            for copies in sampler.sample.values() {
                bytes += copies.count * copies.len;
                unique += copies.len;
            }
            plain_error += (1.0 - unique as f64 / bytes as f64 - truth).abs() / 20.0;
            let found = sampler.estimate().savings.space_savings().expect("data");
            error += (found - truth).abs() / 20.0;
        }
        assert!(plain_error > 0.1, "a plain sample is off by {plain_error} only");
        assert!(error < plain_error / 10.0, "{error} is no better than {plain_error}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut random = SplitMix64::new(3);
        let mut sampler = Sampler::new(options(0));
        let mut most = 0;
        for number in 0..300_000_u64 {
            // New chunks all the time, one in 50 of them 40 times in a row.
            let mut fingerprint = [0; 16];
            fingerprint[..8].copy_from_slice(&random.next().to_le_bytes());
            let copies = if number.is_multiple_of(50) { 40 } else { 1 };
            for _ in 0..copies {
                sampler.add(&fingerprint, 8192);
            }
            most = most.max(sampler.memory_bytes());
        }
        assert!(sampler.sample.len() <= 600, "the sample");
        assert!(sampler.heavy.len() <= 2000, "heavy hitters");
        assert!(most < 1 << 20, "{most} bytes");
        let estimate = sampler.estimate();
        let truth = 1.0 - 300_000.0 / (294_000.0 + 6000.0 * 40.0);
        let found = estimate.savings.space_savings().expect("data");
        assert!((found - truth).abs() < 0.05, "{found}, not {truth}");
    }

    #[test]
    fn estimate_of_nothing_is_empty() {
        let estimate = Sampler::new(options(0)).estimate();
        assert_eq!(estimate.savings, Savings::default(), "nothing");
        assert_eq!(estimate.space_savings_interval(), None, "no figure");
    }
}
