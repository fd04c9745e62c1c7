//! The data of the page: claims with their answers, and the rows that its charts and tables show.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use serde::Serialize;
use serde_json::Value;

use super::frontier::Frontier;
use super::{AnsweredClaim, answered, name_and_question};
use crate::claims::Test;
use crate::{Results, Row};

/// The numbers that the papers print, with their places.
const PRINTED: &str = include_str!("printed.json");

/// The rows that the page has, by kind of measurement. All others are in the file of rows.
const SHOWN: [(&str, &[&str]); 12] = [
    ("data", &["size", "streams", "versions", "entropy", "gzip_ratio"]),
    ("cut", &["space_savings", "mean", "deviation", "longer_than", "quantiles", "absent"]),
    ("throughput", &["cpu_throughput", "absent"]),
    ("fingerprint", &["cpu_throughput"]),
    ("pipeline", &["slowest_stage_throughput", "wall_throughput", "busy", "bottleneck"]),
    ("low-entropy", &["constant", "constant_canonical", "periodic"]),
    ("shift", &["chunks_changed", "chunks_changed_max"]),
    ("burst", &["dedup_ratio_of_sectors", "table_bytes", "cpu_throughput"]),
    ("growth", &["growth"]),
    ("bursts", &["burst_shares", "equal", "burst_to_a_quarter"]),
    ("search", &["space_savings", "mean", "candidates"]),
    ("volume", &VOLUME),
];

/// The metrics of volumes that the page draws or lists, or that answer a claim.
const VOLUME: [&str; 11] = [
    "dedup_ratio",
    "write_throughput",
    "read_throughput",
    "write_wall_throughput",
    "read_wall_throughput",
    "checksum_share",
    "lock_share",
    "matching_share",
    "table_entries",
    "table_bytes",
    "growth",
];

/// Kinds of measurement that other programs add, and whose rows are all shown.
const ADDED: [&str; 2] = ["counters", "backup"];

/// The metrics whose samples are a curve that the page draws.
const CURVES: [&str; 4] = ["growth", "burst_shares", "longer_than", "quantiles"];

/// The data sets and targets whose distributions of sizes the page draws.
const DISTRIBUTIONS: [(&str, u64); 4] =
    [("TPCC", 8192), ("TPCC", 16_384), ("RAND", 1024), ("RAND", 2048)];

/// The data for the script of the page.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    /// The name and the question of the definition, and its text.
    name: String,
    question: String,
    definition: String,
    /// The machines and commits of the rows.
    machines: BTreeSet<&'a str>,
    commits: BTreeSet<&'a str>,
    /// The times of the first and the last row, in seconds since 1970.
    first_time_s: u64,
    last_time_s: u64,
    row_count: usize,
    claims: Vec<PageClaim>,
    /// The distinct passages, sentences and commits of the claims.
    passages: Vec<String>,
    frontier: Frontier,
    printed: Value,
    /// The distinct texts of the rows.
    texts: Vec<&'a str>,
    /// The rows, by what they share.
    groups: Vec<Group>,
}

/// A claim with its answer. `data.js` has the values of the fields that are left out.
#[derive(Serialize)]
struct PageClaim {
    id: String,
    paper: String,
    place: String,
    says: String,
    /// The indices of the passages of the paper.
    quotes: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper: Option<f64>,
    test: Test,
    #[serde(skip_serializing_if = "is_false")]
    headline: bool,
    verdict: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cause: &'static str,
    ours: String,
    /// The value and its spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    figure: Option<[Short; 3]>,
    /// The numbers of a table: metric, target, theirs, ours, verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cells: Vec<(String, u64, Short, Short, &'static str)>,
    /// The indices of the sentences of the reason.
    reason: Vec<usize>,
    /// The indices of the commits of the rows that answer it; none if all rows of the page have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commits: Vec<usize>,
    time_s: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Rows that share measure, data set, algorithm, selection, target and specification.
#[derive(Serialize)]
struct Group {
    /// The indices of the texts, and the target at the end.
    k: [u64; 6],
    /// The rows: metric, level, variant, note, value, and either nothing, or the quartiles, or
    /// the samples.
    r: Vec<Shown>,
}

/// A row on the page.
#[derive(Serialize)]
struct Shown(usize, usize, usize, usize, Short, Vec<Short>, Vec<Short>);

/// A number with as many digits as a chart shows.
struct Short(f64);

impl Serialize for Short {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded: f64 = format!("{:.4e}", self.0).parse().unwrap_or(self.0);
        if rounded == rounded.trunc() && rounded.abs() < 1e15 {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 10^15")]
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}

/// A list of distinct texts, and their indices.
struct Texts<T> {
    list: Vec<T>,
    places: HashMap<T, usize>,
}

impl<T> Default for Texts<T> {
    fn default() -> Texts<T> {
        Texts { list: Vec::new(), places: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Texts<T> {
    fn place(&mut self, text: T) -> usize {
        *self.places.entry(text).or_insert_with_key(|text| {
            self.list.push(text.clone());
            self.list.len() - 1
        })
    }
}

impl Texts<String> {
    /// Returns the indices of the sentences of a text, which a space joins.
    fn sentences(&mut self, text: &str) -> Vec<usize> {
        let ends = text.match_indices(". ").map(|(at, _)| at + 1);
        let mut start = 0;
        let mut places = Vec::new();
        for end in ends.chain([text.len()]) {
            places.push(self.place(text[start..end].to_owned()));
            start = end + 1;
        }
        places
    }
}

impl<'a> Data<'a> {
    /// Returns the data of the page of `results`.
    ///
    /// # Errors
    ///
    /// Returns an error if the list of printed numbers is not JSON.
    pub(super) fn of(results: &'a Results) -> Result<Data<'a>, serde_json::Error> {
        let rows = results.rows();
        let mut texts = Texts::default();
        let groups = groups(rows, &mut texts);
        let times = || rows.iter().map(|row| row.time_s);
        let (name, question) = name_and_question(results);
        let commits: BTreeSet<&str> = rows.iter().map(|row| row.commit.as_str()).collect();
        let has_one_commit = commits.len() == 1;
        let mut passages = Texts::default();
        let claims = answered(rows)
            .into_iter()
            .map(|answered| PageClaim::of(answered, has_one_commit, &mut passages))
            .collect();
        Ok(Data {
            name,
            question,
            definition: results.definition().unwrap_or_default(),
            machines: rows.iter().map(|row| row.machine.as_str()).collect(),
            commits,
            first_time_s: times().min().unwrap_or(0),
            last_time_s: times().max().unwrap_or(0),
            row_count: rows.len(),
            claims,
            passages: passages.list,
            frontier: Frontier::of(rows),
            printed: serde_json::from_str(PRINTED)?,
            texts: texts.list,
            groups,
        })
    }
}

impl PageClaim {
    fn of(
        answered: AnsweredClaim,
        has_one_commit: bool,
        passages: &mut Texts<String>,
    ) -> PageClaim {
        let AnsweredClaim { claim, answer, .. } = answered;
        PageClaim {
            id: claim.id,
            paper: claim.paper,
            place: claim.place,
            says: claim.says,
            quotes: claim.quotes.into_iter().map(|quote| passages.place(quote)).collect(),
            number: claim.number,
            upper: claim.upper,
            test: claim.test,
            headline: claim.headline,
            verdict: answer.verdict.name(),
            cause: answer.cause.map_or("", crate::claims::Cause::name),
            ours: answer.ours,
            figure: answer
                .figure
                .map(|figure| [figure.value, figure.lower, figure.upper].map(Short)),
            cells: answer
                .cells
                .into_iter()
                .map(|cell| {
                    let (theirs, ours) = (Short(cell.number), Short(cell.ours));
                    (cell.metric, cell.target, theirs, ours, cell.verdict.name())
                })
                .collect(),
            reason: passages.sentences(&answer.reason),
            commits: match has_one_commit {
                true => Vec::new(),
                false => answer.origin.commits.into_iter().map(|it| passages.place(it)).collect(),
            },
            time_s: answer.origin.time_s,
        }
    }
}

/// Returns the rows that the page shows, in groups.
fn groups<'a>(rows: &'a [Row], texts: &mut Texts<&'a str>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<[u64; 6], usize> = HashMap::new();
    for row in rows.iter().filter(|row| is_shown(row)) {
        let shared = [&row.measure, &row.data, &row.algorithm, &row.selection, &row.spec];
        let [measure, data, algorithm, selection, spec] =
            shared.map(|text| texts.place(text) as u64);
        let key = [measure, data, algorithm, selection, spec, row.target];
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Group { k: key, r: Vec::new() });
            groups.len() - 1
        });
        let spread = match row.lower_quartile == row.upper_quartile {
            true => Vec::new(),
            false => vec![Short(row.lower_quartile), Short(row.upper_quartile)],
        };
        let samples = match CURVES.contains(&row.metric.as_str()) {
            true => row.numbers().into_iter().map(Short).collect(),
            false => Vec::new(),
        };
        // The note of quantiles is the list of shares, which is the same everywhere.
        let note = texts.place(&row.note);
        groups[place].r.push(Shown(
            texts.place(&row.metric),
            texts.place(&row.level),
            texts.place(&row.variant),
            note,
            Short(row.value),
            spread,
            samples,
        ));
    }
    groups
}

fn is_shown(row: &Row) -> bool {
    if ADDED.contains(&row.measure.as_str()) {
        return true;
    }
    let is_listed = SHOWN.iter().any(|(measure, metrics)| {
        *measure == row.measure && metrics.contains(&row.metric.as_str())
    });
    let is_paper = row.selection == "paper";
    // The page draws some of these only, and they would be a tenth of it.
    let is_drawn = match row.metric.as_str() {
        "quantiles" => is_paper && DISTRIBUTIONS.contains(&(row.data.as_str(), row.target)),
        "longer_than" => row.data == "RAND",
        "deviation" => is_paper || row.data == "CODETAR",
        _ => true,
    };
    is_listed && is_drawn && (row.value.is_finite() || row.metric == "absent")
}
