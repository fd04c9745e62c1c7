//! The claims of the papers, and their comparison with the rows.
//!
//! The list is `claims.toml` next to this file: an entry for each figure and table that the report
//! has to answer, for the headline figures, and for the contradictions within the papers.

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::row::LEARNING;

/// A claim of a paper.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name of the claim: `H15`, or paper and place.
    pub id: String,
    /// The number of the paper, `000` to `004`. The page lists the papers.
    pub paper: String,
    /// The figure, table or section.
    pub place: String,
    /// The statement, and the conditions of the measurement.
    pub says: String,
    /// The number in the statement, if any.
    pub number: Option<f64>,
    /// The test of the claim.
    #[serde(default)]
    pub test: Test,
    /// The rows that answer the claim: the first against the second for ratios, falling for orders.
    #[serde(default)]
    pub rows: Vec<Selector>,
    /// The maximum distance between our value and the number to count as reproduced. The distance
    /// is a share of the number. For orders, differences and a number of 0 it is in units of the
    /// value.
    #[serde(default)]
    pub tolerance: f64,
    /// The maximum distance to count as the same shape. If absent, the value must be on the same
    /// side of 1 or of 0.
    pub loose: Option<f64>,
    /// Set if our data replaces data that is not available. In that case no verdict is better than
    /// the same shape.
    #[serde(default)]
    pub stands_in: bool,
    /// The reason why the claim cannot be tested here, or a remark about the comparison.
    #[serde(default)]
    pub reason: String,
}

/// The test of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// The claim cannot be tested.
    #[default]
    None,
    /// The value of a row against the number.
    Value,
    /// The value of the first row divided by that of the second, against the number.
    Ratio,
    /// The value of the first row minus that of the second, against the number.
    Difference,
    /// The values of the rows fall or stay equal in their order.
    Order,
    /// The rows are pairs, and the quotients of the pairs fall or stay equal in their order.
    Factors,
    /// The paper contradicts itself or the facts, and our value is shown next to it.
    Contradiction,
}

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
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Our figure with its spread as text, or empty if there is none.
    pub ours: String,
    /// The reason of the verdict, or the rows that are missing.
    pub reason: String,
}

/// The result of comparing our measurement with the claim of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// The same number, or the same order.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// Another number that supports the same conclusion.
    #[serde(rename = "same shape")]
    SameShape,
    /// A result that contradicts the claim.
    #[serde(rename = "contradicts")]
    Contradicts,
    /// A claim that cannot be tested here.
    #[serde(rename = "not testable here")]
    NotTestable,
}

#[derive(Deserialize)]
struct List {
    claim: Vec<Claim>,
}

/// Returns all claims, in the order of the list.
///
/// # Panics
///
/// Panics if the built-in list is invalid, which a test rules out.
pub fn all() -> Vec<Claim> {
    let list: Result<List, _> = toml::from_str(include_str!("claims.toml"));
    list.unwrap_or_else(|error| panic!("claims.toml: {error}")).claim
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

    fn text(&self) -> String {
        let target = self.target.map(|target| target.to_string());
        let parts =
            [&self.algorithm, &self.data, &target, &self.selection, &self.level, &self.variant];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        format!("{} of {}", self.metric, parts.join(", "))
    }
}

impl Claim {
    /// Answers the claim by the rows.
    pub fn answer(&self, rows: &[Row]) -> Answer {
        if self.test == Test::None {
            return Answer {
                verdict: Verdict::NotTestable,
                ours: String::new(),
                reason: self.reason.clone(),
            };
        }
        let mut found = Vec::new();
        for selector in &self.rows {
            match selector.find(rows) {
                // A contradiction within the papers needs no row of ours.
                None if self.test == Test::Contradiction => {}
                Some(row) => found.push(row),
                None => {
                    let reason =
                        format!("not among these results: {}. {}", selector.text(), self.reason);
                    return Answer {
                        verdict: Verdict::NotTestable,
                        ours: String::new(),
                        reason: reason.trim().to_owned(),
                    };
                }
            }
        }
        let (verdict, ours) = self.compare(&found);
        let verdict = match verdict {
            Verdict::Reproduced if self.stands_in => Verdict::SameShape,
            verdict => verdict,
        };
        Answer { verdict, ours, reason: self.reason.clone() }
    }

    /// Compares the rows with the claim. Returns the verdict and our numbers.
    fn compare(&self, found: &[&Row]) -> (Verdict, String) {
        match (self.test, found) {
            (Test::Value, [row, ..]) => (self.near(row.value, row.value), shown(row)),
            (Test::Ratio, [one, other, ..]) => {
                let ratio = one.value / other.value;
                let same_side = self.number.is_some_and(|number| (number > 1.0) == (ratio > 1.0));
                (
                    self.near(ratio, if same_side { f64::NAN } else { ratio }),
                    format!("{} ({} / {})", short(ratio), shown(one), shown(other)),
                )
            }
            (Test::Difference, [one, other, ..]) => self.difference(one, other),
            (Test::Order, rows) => {
                let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
                (self.falls(&values), listed(rows))
            }
            (Test::Factors, rows) => self.factors(rows),
            (_, rows) => (Verdict::Contradicts, listed(rows)),
        }
    }

    /// Compares the difference of two rows with that of the claim.
    fn difference(&self, one: &Row, other: &Row) -> (Verdict, String) {
        let difference = one.value - other.value;
        let is_near =
            self.number.is_some_and(|number| (difference - number).abs() <= self.tolerance);
        let is_alike = self.number.is_some_and(|number| {
            self.loose.map_or((number > 0.0) == (difference > 0.0), |loose| {
                (difference - number).abs() <= loose
            })
        });
        let verdict = if is_near {
            Verdict::Reproduced
        } else if is_alike {
            Verdict::SameShape
        } else {
            Verdict::Contradicts
        };
        (verdict, format!("{} ({} - {})", short(difference), shown(one), shown(other)))
    }

    /// Compares the order of the factors between pairs of rows with that of the claim.
    fn factors(&self, rows: &[&Row]) -> (Verdict, String) {
        let pairs: Vec<(&Row, &Row)> =
            rows.as_chunks::<2>().0.iter().map(|[one, other]| (*one, *other)).collect();
        let factors: Vec<f64> = pairs.iter().map(|(one, other)| one.value / other.value).collect();
        let texts: Vec<String> = pairs
            .iter()
            .zip(&factors)
            .map(|((one, other), factor)| {
                format!("{} {} ({} / {})", named(one), short(*factor), shown(one), shown(other))
            })
            .collect();
        (self.falls(&factors), texts.join("; "))
    }

    /// Returns [`Verdict::Reproduced`] if the values fall or stay equal in their order, and
    /// [`Verdict::SameShape`] if at least the first is the greatest.
    fn falls(&self, values: &[f64]) -> Verdict {
        let is_less = |one: f64, other: f64| one + self.tolerance >= other;
        if values.windows(2).all(|pair| is_less(pair[0], pair[1])) {
            Verdict::Reproduced
        } else if values.iter().all(|value| is_less(values[0], *value)) {
            Verdict::SameShape
        } else {
            Verdict::Contradicts
        }
    }

    /// Compares our value with the number, by `tolerance` and then by `loose`. Without `loose`, the
    /// shape is the same if `sided` is NaN, which means that the value is on the same side.
    fn near(&self, ours: f64, sided: f64) -> Verdict {
        let Some(number) = self.number else { return Verdict::NotTestable };
        // A share of 0 is not defined.
        let off = if number == 0.0 { ours.abs() } else { (ours / number - 1.0).abs() };
        if off <= self.tolerance {
            Verdict::Reproduced
        } else if self.loose.map_or(sided.is_nan(), |loose| off <= loose) {
            Verdict::SameShape
        } else {
            Verdict::Contradicts
        }
    }
}

fn listed(rows: &[&Row]) -> String {
    let texts: Vec<String> =
        rows.iter().map(|row| format!("{} {}", named(row), shown(row))).collect();
    texts.join("; ")
}

fn named(row: &Row) -> String {
    let parts = [row.algorithm.as_str(), &row.variant, &row.data];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Formats a value with its quartiles, if there are any.
fn shown(row: &Row) -> String {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
    if row.lower_quartile == row.upper_quartile {
        return format!("{}{unit}", short(row.value));
    }
    format!(
        "{}{unit} [{} to {}]",
        short(row.value),
        short(row.lower_quartile),
        short(row.upper_quartile)
    )
}

/// Formats a value with about four digits, which suffice for a comparison.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1000.0 || value == value.trunc() => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn claim(test: Test, number: f64, selectors: &[&str]) -> Claim {
        let select = |name: &&str| Selector {
            metric: "mean".to_owned(),
            algorithm: Some((*name).to_owned()),
            ..Selector::default()
        };
        Claim {
            id: "x".to_owned(),
            paper: "000".to_owned(),
            place: String::new(),
            says: String::new(),
            number: Some(number),
            test,
            rows: selectors.iter().map(select).collect(),
            tolerance: 0.1,
            loose: None,
            stands_in: false,
            reason: String::new(),
        }
    }

    fn rows() -> Vec<Row> {
        [("a", 10.0), ("b", 5.0), ("c", 7.0)]
            .map(|(algorithm, value)| Row {
                algorithm: algorithm.to_owned(),
                ..Row::new("mean", value, "bytes")
            })
            .to_vec()
    }

    #[test]
    fn verdict_follows_from_the_distance() {
        let verdict = |claim: Claim| claim.answer(&rows()).verdict;
        assert_eq!(verdict(claim(Test::Value, 10.5, &["a"])), Verdict::Reproduced, "near");
        assert_eq!(verdict(claim(Test::Value, 20.0, &["a"])), Verdict::Contradicts, "far");
        let loose = Claim { loose: Some(0.6), ..claim(Test::Value, 20.0, &["a"]) };
        assert_eq!(verdict(loose), Verdict::SameShape, "not so far");
        assert_eq!(verdict(claim(Test::Ratio, 2.1, &["a", "b"])), Verdict::Reproduced, "a ratio");
        assert_eq!(
            verdict(claim(Test::Ratio, 4.0, &["a", "b"])),
            Verdict::SameShape,
            "the same side of 1"
        );
        assert_eq!(
            verdict(claim(Test::Ratio, 4.0, &["b", "a"])),
            Verdict::Contradicts,
            "the other side of 1"
        );
        assert_eq!(
            verdict(claim(Test::Difference, 5.05, &["a", "b"])),
            Verdict::Reproduced,
            "a difference"
        );
        assert_eq!(
            verdict(claim(Test::Difference, -1.0, &["a", "b"])),
            Verdict::Contradicts,
            "the other way"
        );
        assert_eq!(
            verdict(claim(Test::Order, 0.0, &["a", "c", "b"])),
            Verdict::Reproduced,
            "falling"
        );
        assert_eq!(
            verdict(claim(Test::Order, 0.0, &["a", "b", "c"])),
            Verdict::SameShape,
            "the first leads"
        );
        assert_eq!(
            verdict(claim(Test::Order, 0.0, &["b", "a"])),
            Verdict::Contradicts,
            "another leads"
        );
        assert_eq!(
            verdict(claim(Test::Factors, 0.0, &["a", "b", "c", "b"])),
            Verdict::Reproduced,
            "10 / 5 above 7 / 5"
        );
        assert_eq!(
            verdict(claim(Test::Factors, 0.0, &["b", "a", "c", "b"])),
            Verdict::Contradicts,
            "5 / 10 below 7 / 5"
        );
        assert_eq!(verdict(claim(Test::Difference, 0.0, &["b", "a"])), Verdict::SameShape, "below");
        let loose = Claim { loose: Some(1.0), ..claim(Test::Difference, 0.0, &["b", "a"]) };
        assert_eq!(verdict(loose), Verdict::Contradicts, "farther than it may");
        let none = Claim { tolerance: 6.0, ..claim(Test::Value, 0.0, &["b"]) };
        assert_eq!(verdict(none), Verdict::Reproduced, "5 is nearly nothing");
        let stands_in = Claim { stands_in: true, ..claim(Test::Value, 10.0, &["a"]) };
        assert_eq!(verdict(stands_in), Verdict::SameShape, "with other data");
    }

    #[test]
    fn missing_row_is_named() {
        let answer = claim(Test::Value, 1.0, &["d"]).answer(&rows());
        assert_eq!(answer.verdict, Verdict::NotTestable, "verdict");
        assert_eq!(answer.reason, "not among these results: mean of d.", "reason");
        let none = Claim { reason: "no such machine".to_owned(), ..claim(Test::None, 1.0, &[]) };
        assert_eq!(none.answer(&rows()).reason, "no such machine", "its own reason");
    }

    /// Every figure and table that the report must answer has a row, and every row an answer.
    #[test]
    fn list_of_claims_is_complete() {
        let all = all();
        let ids: HashSet<&str> = all.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids.len(), all.len(), "a name for each");
        for number in 1..=37 {
            let id = format!("H{number}");
            let is_there =
                all.iter().any(|claim| claim.id == id || claim.id.starts_with(&format!("{id}.")));
            assert!(is_there, "{id} is missing");
        }
        let has = |paper: &str, place: &str| {
            all.iter().any(|claim| {
                claim.paper == paper && claim.place.split(", ").any(|each| each == place)
            })
        };
        let places: [(&str, &str, &[u32]); 10] = [
            ("001", "figure", &[1, 3, 4, 5, 6]),
            ("001", "table", &[1, 2, 3]),
            ("000", "table", &[1, 2, 3]),
            ("000", "figure", &[1, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            ("002", "table", &[5, 6, 7, 8, 9, 10, 11]),
            ("002", "figure", &[5, 6, 7, 8, 9, 10, 11]),
            ("003", "table", &[2, 4, 5]),
            ("003", "figure", &[4, 5, 6, 7, 8]),
            ("004", "figure", &[1, 6, 7, 8]),
            ("004", "table", &[1, 2]),
        ];
        for (paper, kind, numbers) in places {
            for number in numbers {
                assert!(
                    has(paper, &format!("{kind} {number}")),
                    "{paper} {kind} {number} is missing"
                );
            }
        }
        for claim in &all {
            let is_answered = claim.test != Test::None || !claim.reason.is_empty();
            assert!(is_answered, "{}: neither a test nor a reason", claim.id);
            let count = match claim.test {
                Test::None | Test::Contradiction => 0,
                Test::Value => 1,
                Test::Ratio | Test::Difference | Test::Order => 2,
                Test::Factors => 4,
            };
            let is_paired = claim.test != Test::Factors || claim.rows.len().is_multiple_of(2);
            assert!(is_paired, "{}: rows in pairs are needed", claim.id);
            assert!(claim.rows.len() >= count, "{}: {count} rows are needed", claim.id);
            let needs_number = matches!(claim.test, Test::Value | Test::Ratio | Test::Difference);
            assert!(!needs_number || claim.number.is_some(), "{}: a number is needed", claim.id);
        }
    }
}
