//! One page of results that needs no other file and no network.
//!
//! The page is plain HTML with scripts that draw charts and sort tables; the numbers are in it as
//! JSON.

mod data;
mod frontier;
mod markdown;
mod table;
mod volume;

use crate::claims::{self, Answer, Claim, Test};
use crate::{Results, Row};

use self::data::Data;
pub use self::markdown::{Which, markdown};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The scripts, in the order of their use.
const SCRIPTS: [&str; 6] = [
    include_str!("data.js"),
    include_str!("chart.js"),
    include_str!("findings.js"),
    include_str!("frontier.js"),
    include_str!("papers.js"),
    include_str!("page.js"),
];

/// A claim with its answer.
struct AnsweredClaim {
    claim: Claim,
    answer: Answer,
    is_contradiction: bool,
}

/// Returns the page of `results`.
///
/// # Errors
///
/// Returns an error if the data cannot be serialized as JSON.
pub fn html(results: &Results) -> Result<String, serde_json::Error> {
    let data = Data::of(results)?;
    let (name, _) = name_and_question(results);
    // HTML may end a script at any `</`, so the JSON must not contain it.
    let json = serde_json::to_string(&data)?.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let parts = [
        ("{{title}}", escaped(&name)),
        ("{{style}}", STYLE.to_owned()),
        ("{{script}}", SCRIPTS.concat()),
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
