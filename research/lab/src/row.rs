//! A result: one number, with all that is needed to interpret it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One measurement of one quantity.
///
/// A field that does not apply is empty, or 0 for `target`. The unit of the value is in `unit`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The key of the cell of the run that the row came from. The rows of a cell are written
    /// together.
    pub cell: String,
    /// The kind of measurement, such as `cut`, `throughput` or `pipeline`.
    pub measure: String,
    /// The data set.
    pub data: String,
    /// The first 16 hexadecimal digits of BLAKE3 over the names and bytes of the files of the data
    /// set.
    pub data_hash: String,
    /// The Shannon entropy of the data set, of order 0, in bits per byte.
    pub entropy: f64,
    /// The number of bytes that were cut.
    pub input_bytes: u64,
    /// The name of the algorithm in the definition.
    pub algorithm: String,
    /// The selection of the parameters: `paper`, or `equal` for an equal measured mean.
    pub selection: String,
    /// The target size in bytes; 0 if there is none.
    pub target: u64,
    /// The parameters in full.
    pub spec: String,
    /// The level of instructions, the form of a paper, or a fingerprint.
    pub level: String,
    /// The metric that was measured.
    pub metric: String,
    /// The distinction of this row from others of its metric: an edit, a version, a table.
    pub variant: String,
    /// The value, or the median of several repeats.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
    /// The lower quartile of the repeats, or the value if there is only one.
    pub lower_quartile: f64,
    /// The upper quartile of the repeats, or the value if there is only one.
    pub upper_quartile: f64,
    /// The number of repeats.
    pub count: u64,
    /// The repeats themselves, or the points of a curve, in order, separated by spaces.
    pub samples: String,
    /// A remark about the row.
    pub note: String,
    /// The commit at which the program was built.
    pub commit: String,
    /// The processor, the number of processors, and the system.
    pub machine: String,
    /// The time at which the cell was finished, in seconds since 1970, UTC.
    pub time_s: u64,
}

/// The metric that ends a cell: the duration of its measurement. A cell without this row is
/// incomplete.
pub(crate) const ELAPSED: &str = "elapsed";
/// The metric of a row whose note is the reason why there are no figures.
pub(crate) const ABSENT: &str = "absent";

/// The kind of measurement of volumes that are served, whose rows `research/runs/volume.py` adds.
pub(crate) const VOLUME: &str = "volume";

/// The level of work that comes before chunking, which is no level of chunking.
pub(crate) const LEARNING: &str = "learning";

/// The metric of the agreement of a contender with its comparison: 1 for the same cut-points, 0 for
/// others.
pub(crate) const SAME_CHUNKS: &str = "same_chunks";

impl Row {
    /// Returns a row of this metric with one value.
    pub fn new(metric: &str, value: f64, unit: &str) -> Row {
        Row {
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            lower_quartile: value,
            upper_quartile: value,
            count: 1,
            ..Row::default()
        }
    }

    /// Returns a row of this metric with the median of `samples`, the quartiles and all samples.
    pub fn of(metric: &str, samples: &[f64], unit: &str) -> Row {
        let spread = Spread::of(samples);
        Row {
            lower_quartile: spread.lower,
            upper_quartile: spread.upper,
            count: samples.len() as u64,
            samples: list(samples),
            ..Row::new(metric, spread.median, unit)
        }
    }

    /// Returns the row with this variant.
    #[must_use]
    pub fn variant(self, variant: impl fmt::Display) -> Row {
        Row { variant: variant.to_string(), ..self }
    }

    /// Returns the row with this level.
    #[must_use]
    pub fn level(self, level: &str) -> Row {
        Row { level: level.to_owned(), ..self }
    }

    /// Returns the row with the points of a curve.
    #[must_use]
    pub fn samples(self, samples: &[f64]) -> Row {
        Row { samples: list(samples), ..self }
    }

    /// Returns the row with a remark.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    /// Returns `samples` as numbers.
    pub fn numbers(&self) -> Vec<f64> {
        self.samples.split(' ').filter_map(|text| text.parse().ok()).collect()
    }
}

/// Formats numbers with six significant digits, which exceeds the accuracy of all of them.
fn list(samples: &[f64]) -> String {
    let texts: Vec<String> = samples.iter().map(|sample| short(*sample)).collect();
    texts.join(" ")
}

/// Formats a number with at most six significant digits.
fn short(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number}");
    }
    let text = format!("{number:.5e}");
    let parsed: f64 = text.parse().unwrap_or(number);
    format!("{parsed}")
}

/// A median and its quartiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub lower: f64,
    /// The upper quartile.
    pub upper: f64,
}

impl Spread {
    /// Returns the spread of `samples`, or zeros if there are none.
    pub fn of(samples: &[f64]) -> Spread {
        let mut all = cutpoint_bench::Samples::default();
        samples.iter().for_each(|sample| all.push(*sample));
        Spread { median: all.median(), lower: all.lower_quartile(), upper: all.upper_quartile() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_become_a_median_with_quartiles() {
        let row = Row::of("wall", &[3.0, 1.0, 2.0, 5.0, 4.0], "GB/s").variant("x");
        assert_eq!((row.lower_quartile, row.value, row.upper_quartile), (2.0, 3.0, 4.0), "spread");
        assert_eq!((row.count, row.samples.as_str()), (5, "3 1 2 5 4"), "repeats in order");
        assert_eq!(row.numbers(), [3.0, 1.0, 2.0, 5.0, 4.0], "and back");
    }

    #[test]
    fn numbers_are_short_and_large_counts_whole() {
        let texts = [1.0 / 3.0, 1e-9 / 3.0, 123_456_789.0, 0.1].map(short);
        assert_eq!(texts, ["0.333333", "0.000000000333333", "123456789", "0.1"], "as text");
    }
}
