//! Selection of the rows that answer a claim.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::row::{LEARNING, VOLUME};

/// A selector of a row. Fields that are absent match any value.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The kind of measurement.
    pub measure: Option<String>,
    /// The metric.
    pub metric: String,
    /// The data set.
    pub data: Option<String>,
    /// The algorithm.
    pub algorithm: Option<String>,
    /// The selection, `paper` or `equal`. If absent, `paper` is preferred.
    pub selection: Option<String>,
    /// The target in bytes.
    pub target: Option<u64>,
    /// The level. If absent, the fastest level is selected.
    pub level: Option<String>,
    /// The variant of the row.
    pub variant: Option<String>,
    /// The index of the sample that is the value, in place of the value of the row.
    pub sample: Option<usize>,
}

impl Selector {
    /// Returns the matching row. Of several rows, returns the one of the fastest level, or the last
    /// that was measured.
    pub fn find<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        let matching = rows.iter().filter(|row| {
            row.metric == self.metric
                && is(&self.measure, &row.measure)
                && is(&self.data, &row.data)
                && is(&self.algorithm, &row.algorithm)
                && is(&self.level, &row.level)
                && (self.level.is_some() || row.level != LEARNING)
                && is(&self.variant, &row.variant)
                && self.target.is_none_or(|target| target == row.target)
                && (row.selection.is_empty()
                    || row.selection == self.selection.as_deref().unwrap_or("paper"))
                && row.value.is_finite()
        });
        if self.metric.ends_with("throughput") && self.level.is_none() {
            return matching.max_by(|one, other| one.value.total_cmp(&other.value));
        }
        let mut matching = matching;
        matching.next_back()
    }

    /// Returns `true` if the level is a form of 512 bits, and the rows have such forms of 256 bits
    /// only: the lab measures all widths that the processor has.
    pub(crate) fn lacks_avx512(&self, rows: &[Row]) -> bool {
        let is_there = |bits: &str| rows.iter().any(|row| row.level.ends_with(bits));
        self.level.as_ref().is_some_and(|level| level.ends_with("-512"))
            && is_there("-256")
            && !is_there("-512")
    }

    /// Returns `true` if the row is one of a volume, and the rows have none of any volume: a script
    /// adds them, often to a record of their own.
    pub(crate) fn lacks_volume(&self, rows: &[Row]) -> bool {
        let is_of_volume = |measure: &str| measure == VOLUME;
        self.measure.as_deref().is_some_and(is_of_volume)
            && !rows.iter().any(|row| is_of_volume(&row.measure))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.map(|target| target.to_string());
        let parts =
            [&self.algorithm, &self.data, &target, &self.selection, &self.level, &self.variant];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        write!(f, "{} of {}", self.metric, parts.join(", "))
    }
}
