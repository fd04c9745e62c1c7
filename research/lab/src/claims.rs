//! The claims of the papers, and their comparison with the rows.
//!
//! The list is `claims.toml` next to this file: an entry for each figure and table that the report
//! has to answer, for the headline figures, and for the contradictions within the papers.

mod judge;
mod quotation;
mod selector;

use serde::{Deserialize, Serialize};

pub use judge::{Cell, Figure};
pub use quotation::{QUOTATIONS, squeezed};
pub use selector::Selector;

use self::judge::Point;
use crate::Row;

/// A claim of a paper.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name of the claim: `H15`, or paper and place.
    pub id: String,
    /// The number of the paper, `000` to `004`. The page lists the papers.
    pub paper: String,
    /// The figure, table or section.
    pub place: String,
    /// The statement in our words, and the conditions of the measurement.
    pub says: String,
    /// Passages of the paper, word by word ([`squeezed`]).
    #[serde(default)]
    pub quotes: Vec<String>,
    /// The number in the statement, if any. With `upper` it is the lower end of a range.
    pub number: Option<f64>,
    /// The upper end of the range that the paper prints, which is the paper's own spread.
    pub upper: Option<f64>,
    /// The test of the claim.
    #[serde(default)]
    pub test: Test,
    /// The rows that answer the claim.
    #[serde(default)]
    pub rows: Vec<Selector>,
    /// The printed numbers of the rows, for [`Test::Cells`].
    #[serde(default)]
    pub numbers: Vec<f64>,
    /// The monotone pieces of a curve, for [`Test::Curve`].
    #[serde(default)]
    pub pieces: Vec<Piece>,
    /// The maximum distance from the number to count as reproduced, as a share of the number; 10 %
    /// if absent. It is never more. For a number of 0 it is in units of the value.
    pub tolerance: Option<f64>,
    /// The smallest difference that means something, in units of the value. Values that are nearer
    /// are equal.
    #[serde(default)]
    pub resolution: f64,
    /// Set if chance is all that the value depends on, such as sizes on random data. There is no
    /// shape then: a value beyond the tolerance contradicts.
    #[serde(default)]
    pub exact: bool,
    /// Set if our data replaces data that is not available. In that case no verdict is better than
    /// the same shape.
    #[serde(default)]
    pub stands_in: bool,
    /// The reason why a verdict would mean nothing: the claim is true by construction, or the
    /// number is not the paper's.
    #[serde(default)]
    pub not_counted: String,
    /// The cause of a contradiction, if there is one.
    pub cause: Option<Cause>,
    /// Set if the claim is one of the headline numbers of its paper.
    #[serde(default)]
    pub headline: bool,
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
    /// The value of the first row divided by that of the second, against the number. Of several
    /// pairs of rows, the mean of the quotients.
    Ratio,
    /// The quotient of the first two of four rows divided by that of the others, against the number.
    Quotients,
    /// The value of the first row minus that of the second, against the number.
    Difference,
    /// The number is the most by which the value of the first row is below the greatest of the
    /// others.
    Within,
    /// The number is the most by which the values of rows of one target differ. The target where
    /// they differ most decides.
    Spread,
    /// The values of the rows fall in their order.
    Order,
    /// The rows are pairs, and the quotients of the pairs fall in their order.
    Factors,
    /// Each row has its number: a row or column of a table.
    Cells,
    /// The values of the rows, or the samples of the only row, rise and fall in pieces.
    Curve,
    /// The paper contradicts itself or the facts, and our value is shown next to it.
    Contradiction,
}

/// The direction of a monotone piece of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Piece {
    /// The values rise.
    Rises,
    /// The values fall.
    Falls,
    /// The values stay within the resolution.
    Flat,
}

/// The cause of a contradiction. Only [`Cause::Paper`] counts against the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The claim of the paper does not hold.
    Paper,
    /// Our data differs from the paper's.
    Data,
    /// Our processor or compiler differs from the paper's.
    Machine,
    /// Our way to measure differs from the paper's.
    Method,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, if the verdict is [`Verdict::Contradicts`] and the cause is known.
    pub cause: Option<Cause>,
    /// Our figure with its spread as text, or empty if there is none.
    pub ours: String,
    /// The figure as a number, for tests that compare one number.
    pub figure: Option<Figure>,
    /// The cells of [`Test::Cells`].
    pub cells: Vec<Cell>,
    /// The reason of the verdict, or the rows that are missing.
    pub reason: String,
    /// Set if rows of the claim are missing.
    pub lacks_rows: bool,
    /// The commits, machines and last time of the rows behind the answer.
    pub origin: Origin,
}

/// The commits and machines that the rows of an answer name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The commits.
    pub commits: Vec<String>,
    /// The machines.
    pub machines: Vec<String>,
    /// The time of the last row, in seconds since 1970, UTC; 0 without rows.
    pub time_s: u64,
}

/// The result of comparing our measurement with the claim of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// The same number.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The same order, and within a factor of 1.5.
    #[serde(rename = "same shape")]
    SameShape,
    /// A difference in the paper that is none in our measurement.
    #[serde(rename = "tie")]
    Tie,
    /// A result that contradicts the claim.
    #[serde(rename = "contradicts")]
    Contradicts,
    /// A figure that is shown, and proves nothing.
    #[serde(rename = "not counted")]
    NotCounted,
    /// A claim that cannot be tested here.
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl Verdict {
    /// All verdicts, in the order of the report.
    pub const ALL: [Verdict; 6] = [
        Verdict::Reproduced,
        Verdict::SameShape,
        Verdict::Tie,
        Verdict::Contradicts,
        Verdict::NotCounted,
        Verdict::NotTestable,
    ];

    /// Returns the name of the verdict in reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::SameShape => "same shape",
            Verdict::Tie => "tie",
            Verdict::Contradicts => "contradicts",
            Verdict::NotCounted => "not counted",
            Verdict::NotTestable => "not testable here",
        }
    }
}

impl Cause {
    /// Returns the words of the cause in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Paper => "the paper",
            Cause::Data => "our data",
            Cause::Machine => "our machine",
            Cause::Method => "our method",
        }
    }
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

impl Claim {
    /// Answers the claim by the rows.
    pub fn answer(&self, rows: &[Row]) -> Answer {
        if self.test == Test::None {
            return Answer::without_figure(Verdict::NotTestable, self.reason.clone());
        }
        let mut found = Vec::new();
        for selector in &self.rows {
            match selector.find(rows).and_then(|row| Point::of(row, selector.sample)) {
                // A contradiction within the papers needs no row of ours.
                None if self.test == Test::Contradiction => {}
                Some(point) => found.push(point),
                None => {
                    let missing = if selector.lacks_avx512(rows) {
                        "needs AVX-512, which the processor of these results lacks".to_owned()
                    } else if selector.lacks_volume(rows) {
                        "no rows of a volume are in this record".to_owned()
                    } else {
                        format!("not among these results: {selector}")
                    };
                    let missing = format!("{missing}. {}", self.reason).trim().to_owned();
                    let answer = Answer::without_figure(Verdict::NotTestable, missing);
                    return Answer { lacks_rows: true, ..answer };
                }
            }
        }
        let judged = self.judge(&found);
        let verdict = match judged.verdict {
            _ if !self.not_counted.is_empty() => Verdict::NotCounted,
            Verdict::Reproduced if self.stands_in => Verdict::SameShape,
            verdict => verdict,
        };
        let cause = self.cause.or(self.stands_in.then_some(Cause::Data));
        let reasons = [self.not_counted.as_str(), &self.reason];
        let reasons: Vec<&str> = reasons.into_iter().filter(|text| !text.is_empty()).collect();
        Answer {
            verdict,
            cause: cause.filter(|_| verdict == Verdict::Contradicts),
            ours: judged.ours,
            figure: judged.figure,
            cells: judged.cells,
            reason: reasons.join(" "),
            lacks_rows: false,
            origin: Origin::of(&found),
        }
    }
}

impl Answer {
    fn without_figure(verdict: Verdict, reason: String) -> Answer {
        Answer {
            verdict,
            cause: None,
            ours: String::new(),
            figure: None,
            cells: Vec::new(),
            reason,
            lacks_rows: false,
            origin: Origin::default(),
        }
    }
}

impl Origin {
    fn of(points: &[Point<'_>]) -> Origin {
        let distinct = |text: &dyn Fn(&Row) -> &str| {
            let mut list: Vec<String> =
                points.iter().map(|point| text(point.row).to_owned()).collect();
            list.sort_unstable();
            list.dedup();
            list
        };
        Origin {
            commits: distinct(&|row| &row.commit),
            machines: distinct(&|row| &row.machine),
            time_s: points.iter().map(|point| point.row.time_s).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
