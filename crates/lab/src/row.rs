//! A result: one number, with all that is needed to know what it says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One measurement of one thing.
///
/// What does not apply is empty, or 0 for `target`. Units stand in `unit`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What names the cell of the run that this row came from; rows of one cell are written together.
    pub cell: String,
    /// The kind of measurement: `cut`, `throughput`, `pipeline`.
    pub measure: String,
    /// The data set.
    pub data: String,
    /// The first 16 hexadecimal digits of BLAKE3 over the names and bytes of its files.
    pub data_hash: String,
    /// Its Shannon entropy, order 0: bits a byte.
    pub entropy: f64,
    /// How many bytes were cut.
    pub input_bytes: u64,
    /// The algorithm, as the definition calls it.
    pub algorithm: String,
    /// How its parameters were found: `paper`, or `equal` for an equal measured mean.
    pub selection: String,
    /// The target size in bytes; 0 where there is none.
    pub target: u64,
    /// The parameters written out.
    pub spec: String,
    /// The level of instructions, or the form of a paper, or a fingerprint.
    pub level: String,
    /// What was measured.
    pub metric: String,
    /// What else tells this row from others of its metric: an edit, a version, a table.
    pub variant: String,
    /// The value; of several repeats the median.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
    /// What a quarter of the repeats do not reach; the value where there is one.
    pub lower_quartile: f64,
    /// What a quarter of the repeats exceed.
    pub upper_quartile: f64,
    /// How many repeats there are.
    pub count: u64,
    /// The repeats themselves, or the points of a curve, in order, with spaces between.
    pub samples: String,
    /// What has to be said about it.
    pub note: String,
    /// The commit that the program was built at.
    pub commit: String,
    /// The processor, how many of them, and the system.
    pub machine: String,
    /// When the cell was finished: seconds since 1970, UTC.
    pub time_s: u64,
}

/// The metric that ends a cell: how long it took. Rows of a cell without one are not complete.
pub(crate) const ELAPSED: &str = "elapsed";

/// The level of what comes before chunking, and is not a level of it.
pub(crate) const LEARNING: &str = "learning";

/// The metric that says whether a contender cut like the others of its comparison: 1 or 0.
pub(crate) const SAME_CHUNKS: &str = "same_chunks";

impl Row {
    /// A row of this metric with one value.
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

    /// A row of this metric with the median of `samples`, its quartiles and all of them.
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

    /// The same with this variant.
    #[must_use]
    pub fn variant(self, variant: impl fmt::Display) -> Row {
        Row { variant: variant.to_string(), ..self }
    }

    /// The same with this level.
    #[must_use]
    pub fn level(self, level: &str) -> Row {
        Row { level: level.to_owned(), ..self }
    }

    /// The same with the points of a curve.
    #[must_use]
    pub fn samples(self, samples: &[f64]) -> Row {
        Row { samples: list(samples), ..self }
    }

    /// The same with a remark.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    /// Returns the numbers of `samples`.
    pub fn numbers(&self) -> Vec<f64> {
        self.samples.split(' ').filter_map(|text| text.parse().ok()).collect()
    }
}

/// Numbers as text; six digits are more than any of them is worth.
fn list(samples: &[f64]) -> String {
    let texts: Vec<String> = samples.iter().map(|sample| short(*sample)).collect();
    texts.join(" ")
}

/// A number with six significant digits at most.
fn short(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number}");
    }
    let text = format!("{number:.5e}");
    let parsed: f64 = text.parse().unwrap_or(number);
    format!("{parsed}")
}

/// A median and the quartiles beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// What a quarter does not reach.
    pub lower: f64,
    /// What a quarter exceeds.
    pub upper: f64,
}

impl Spread {
    /// Returns it of `samples`; zeros where there are none.
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
