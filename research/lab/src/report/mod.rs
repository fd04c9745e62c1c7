//! One page of results that needs no other file and no network.
//!
//! The page is plain HTML with a script that sorts tables and draws charts; the numbers are in it
//! as JSON. `vendor/` has the chart library.

mod markdown;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::claims::{self, Answer, Claim, Test};
use crate::row::{ELAPSED, SAME_CHUNKS};
use crate::{Results, Row};

pub use self::markdown::markdown;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const CHART_STYLE: &str = include_str!("vendor/uPlot.min.css");
const CHART_SCRIPT: &str = include_str!("vendor/uPlot.iife.min.js");
const CHART_LICENCE: &str = include_str!("vendor/uPlot.LICENSE");

/// The data for the script of the page.
#[derive(Serialize)]
struct Data<'a> {
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
    claims: Vec<AnsweredClaim>,
    /// The distinct texts of the rows.
    texts: Vec<&'a str>,
    /// The rows by column, as indices in `texts` or numbers.
    rows: Columns,
}

/// A claim with its answer.
#[derive(Serialize)]
struct AnsweredClaim {
    #[serde(flatten)]
    claim: Claim,
    #[serde(flatten)]
    answer: Answer,
    is_contradiction: bool,
}

#[derive(Default, Serialize)]
struct Columns {
    measure: Vec<usize>,
    data: Vec<usize>,
    data_hash: Vec<usize>,
    algorithm: Vec<usize>,
    selection: Vec<usize>,
    spec: Vec<usize>,
    level: Vec<usize>,
    metric: Vec<usize>,
    variant: Vec<usize>,
    unit: Vec<usize>,
    note: Vec<usize>,
    samples: Vec<usize>,
    target: Vec<u64>,
    /// The values, with `null` in JSON for those that are no number.
    value: Vec<f64>,
    lower_quartile: Vec<f64>,
    upper_quartile: Vec<f64>,
    count: Vec<u64>,
}

/// A list of distinct texts, and their indices.
#[derive(Default)]
struct Texts<'a> {
    list: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn place(&mut self, text: &'a str) -> usize {
        *self.places.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() - 1
        })
    }
}

/// Returns the page of `results`.
///
/// # Errors
///
/// Returns an error if the data cannot be serialized as JSON.
pub fn html(results: &Results) -> Result<String, serde_json::Error> {
    let rows = results.rows();
    let mut texts = Texts::default();
    let mut columns = Columns::default();
    // A contender with other cut-points has a note in the row of its speed.
    for row in rows.iter().filter(|row| ![ELAPSED, SAME_CHUNKS].contains(&row.metric.as_str())) {
        columns.push(row, &mut texts);
    }
    let times = || rows.iter().map(|row| row.time_s);
    let (name, question) = name_and_question(results);
    let data = Data {
        name,
        question,
        definition: results.definition().unwrap_or_default(),
        machines: rows.iter().map(|row| row.machine.as_str()).collect(),
        commits: rows.iter().map(|row| row.commit.as_str()).collect(),
        first_time_s: times().min().unwrap_or(0),
        last_time_s: times().max().unwrap_or(0),
        claims: answered(rows),
        texts: texts.list,
        rows: columns,
    };
    // HTML may end a script at any `</`, so the JSON must not contain it.
    let json = serde_json::to_string(&data)?.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let parts = [
        ("{{title}}", escaped(&data.name)),
        ("{{chart-style}}", CHART_STYLE.to_owned()),
        ("{{style}}", STYLE.to_owned()),
        ("{{chart-licence}}", CHART_LICENCE.to_owned()),
        ("{{chart-script}}", CHART_SCRIPT.to_owned()),
        ("{{script}}", SCRIPT.to_owned()),
        ("{{data}}", json),
    ];
    // The parts are inserted in the order of the page, so that inserted text is not searched again.
    let (mut page, mut rest) = (String::new(), PAGE);
    while let Some((before, place)) = rest.find("{{").map(|at| rest.split_at(at)) {
        page += before;
        match parts.iter().find(|(name, _)| place.starts_with(name)) {
            Some((name, text)) => {
                page += text;
                rest = &place[name.len()..];
            }
            None => {
                page += "{{";
                rest = &place[2..];
            }
        }
    }
    Ok(page + rest)
}

/// Returns the name and the question of the definition that was run last.
fn name_and_question(results: &Results) -> (String, String) {
    let text = results.definition().unwrap_or_default();
    let parsed = crate::Definition::parse(&text, "definition.toml");
    parsed.map_or_else(
        |_| ("results".to_owned(), String::new()),
        |parsed| (parsed.name, parsed.question),
    )
}

/// Returns all claims with their answers by the rows.
fn answered(rows: &[Row]) -> Vec<AnsweredClaim> {
    let claims = claims::all().into_iter();
    let answered = claims.map(|claim| {
        let answer = claim.answer(rows);
        let is_contradiction = claim.test == Test::Contradiction;
        AnsweredClaim { claim, answer, is_contradiction }
    });
    answered.collect()
}

impl Columns {
    fn push<'a>(&mut self, row: &'a Row, texts: &mut Texts<'a>) {
        self.measure.push(texts.place(&row.measure));
        self.data.push(texts.place(&row.data));
        self.data_hash.push(texts.place(&row.data_hash));
        self.algorithm.push(texts.place(&row.algorithm));
        self.selection.push(texts.place(&row.selection));
        self.spec.push(texts.place(&row.spec));
        self.level.push(texts.place(&row.level));
        self.metric.push(texts.place(&row.metric));
        self.variant.push(texts.place(&row.variant));
        self.unit.push(texts.place(&row.unit));
        self.note.push(texts.place(&row.note));
        // The samples of single edits are in the file of rows, and the page does not use them.
        let samples = if row.measure == "shift" { "" } else { &row.samples };
        self.samples.push(texts.place(samples));
        self.target.push(row.target);
        self.value.push(row.value);
        self.lower_quartile.push(row.lower_quartile);
        self.upper_quartile.push(row.upper_quartile);
        self.count.push(row.count);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
