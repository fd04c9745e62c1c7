//! The claims of the papers next to the rows, as a text for the repository.

use std::collections::BTreeSet;

use super::frontier::Frontier;
use super::table::row;
use super::volume::volume_table;
use super::{AnsweredClaim, answered, name_and_question};
use crate::claims::{Cause, Verdict};
use crate::{Results, Row};

/// The claims of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All claims.
    All,
    /// The claims whose rows are among the results, without contradictions of the papers.
    WithRows,
}

/// The papers, by their number in claims.
const PAPERS: [(&str, &str); 5] = [
    (
        "000",
        "Udayashankar, Baba, Al-Kiswany: Vectorized Sequence-Based Chunking for Data Deduplication",
    ),
    (
        "001",
        "Udayashankar, Baba, Al-Kiswany: SeqCDC: Hashless Content-Defined Chunking for Data Deduplication (Middleware 2024)",
    ),
    (
        "002",
        "Gregoriadis, Balduf, Scheuermann, Pouwelse: A Thorough Investigation of Content-Defined Chunking Algorithms",
    ),
    (
        "003",
        "Zhang, Feng, Jiang, Xia, Fu, Huang, Zhou: A Fast Asymmetric Extremum Content Defined Chunking Algorithm",
    ),
    (
        "004",
        "Peng, Wu, Zhang, Yao, Liu: BURST: A Chunk-Based Data Deduplication System with Burst-Encoded Fingerprint Matching",
    ),
];

/// Returns the claims, verdicts and contradictions of `results` as Markdown: of all claims, or of
/// those whose rows are among the results.
pub fn markdown(results: &Results, which: Which) -> String {
    let rows = results.rows();
    let (name, question) = name_and_question(results);
    let mut claims = answered(rows);
    if which == Which::WithRows {
        claims.retain(|claim| {
            let has_rows = !claim.claim.rows.is_empty() && !claim.answer.lacks_rows;
            has_rows && !claim.is_contradiction
        });
    }
    let claims = claims;
    // Rows of scripts alone have no definition.
    let has_definition = results.definition().is_some();
    let mut text =
        "# The papers, and what we find\n\nMade by `cutpoint-lab report`; not to be edited."
            .to_owned();
    if has_definition {
        text += &format!(" Definition: `{name}`. {question}");
    }
    text += "\n\n";
    text += "Ratios and orders compare, speeds as such do not: the papers' processors are others. A number is the median of its repeats, with its \
             quartiles in brackets where there are any. A contradiction names its cause, and counts against a paper only if that is the paper. \
             `docs/lab.md` has the method, the verdicts, and what speaks against both.\n\n";
    let run = if has_definition {
        format!(
            "then `cutpoint-lab run {name}.toml --data FOLDER --out RESULTS` and `cutpoint-lab report RESULTS --html FILE --markdown FILE`"
        )
    } else {
        "then the scripts that `docs/lab.md` names under \"A whole record\", and `cutpoint-lab report RESULTS --html FILE --markdown FILE`".to_owned()
    };
    text +=
        &format!("To do it again: build the data sets (`research/datasets/build.py`), {run}.\n\n");
    for (title, values) in [
        ("Machine", rows.iter().map(|row| &row.machine).collect::<BTreeSet<_>>()),
        ("Commit", rows.iter().map(|row| &row.commit).collect()),
    ] {
        let values: Vec<&str> = values.into_iter().map(String::as_str).collect();
        text += &format!("{title}: {}.\n\n", values.join("; "));
    }
    let advice = Frontier::of(rows).sentences().join(" ");
    if !advice.is_empty() {
        text += &format!("## Which algorithm for whom\n\n{advice}\n\n");
    }
    if rows.iter().any(|row| row.measure == "data") {
        data_table(&mut text, rows);
    }
    count_table(&mut text, &claims);
    for (paper, title) in PAPERS {
        let of_paper = of_paper(&claims, Some(paper));
        if of_paper.is_empty() {
            continue;
        }
        text += &format!("\n## {paper}: {title}\n\n");
        text += "| claim | place | says | ours | verdict | why |\n| --- | --- | --- | --- | --- | --- |\n";
        for AnsweredClaim { claim, answer, .. } in of_paper {
            let verdict = verdict_text(answer.verdict, answer.cause);
            row(
                &mut text,
                &[&claim.id, &claim.place, &claim.says, &answer.ours, &verdict, &answer.reason],
            );
        }
    }
    volume_table(&mut text, rows);
    if which == Which::WithRows {
        return text;
    }
    text += "\n## Where the papers contradict themselves, each other or the truth\n\n";
    text += "| | paper | place | says | but | ours |\n| --- | --- | --- | --- | --- | --- |\n";
    for AnsweredClaim { claim, answer, .. } in claims.iter().filter(|claim| claim.is_contradiction)
    {
        row(
            &mut text,
            &[&claim.id, &claim.paper, &claim.place, &claim.says, &answer.reason, &answer.ours],
        );
    }
    text
}

/// Appends the table of the data sets.
fn data_table(text: &mut String, rows: &[Row]) {
    *text += "## Data sets\n\nEntropy is of order 0. Gzip: what level 6 leaves. Saved: by SeqCDC and by fixed sizes of 8 KB, with the parameters of \
              the papers; the page has the papers' numbers beside these.\n\n\
              | data set | bytes | streams | versions | entropy | gzip | saved, % | BLAKE3 |\n\
              | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for size in rows.iter().filter(|row| row.measure == "data" && row.metric == "size") {
        let of = |metric: &str| {
            let mut found = rows.iter().filter(|row| row.cell == size.cell && row.metric == metric);
            found.next().map_or(0.0, |row| row.value)
        };
        let saved = |algorithm: &str| {
            let mut found = rows.iter().filter(|row| {
                row.metric == "space_savings"
                    && row.data == size.data
                    && row.algorithm == algorithm
                    && (row.target, row.selection.as_str()) == (8192, "paper")
            });
            found.next_back().map_or_else(|| "-".to_owned(), |row| format!("{:.1}", row.value))
        };
        let numbers = [
            format!("{:.0}", size.value),
            format!("{:.0}", of("streams")),
            format!("{:.0}", of("versions")),
            format!("{:.2}", of("entropy")),
            format!("{:.1} %", of("gzip_ratio")),
            format!("{} / {}", saved("SeqCDC"), saved("Fixed")),
        ];
        let [bytes, streams, versions, entropy, gzip, saved] =
            numbers.each_ref().map(String::as_str);
        let hash = &size.data_hash;
        row(text, &[&size.data, bytes, streams, versions, entropy, gzip, saved, hash]);
    }
}

/// Returns the claims of a paper, or of all papers, without contradictions of the papers.
fn of_paper<'a>(claims: &'a [AnsweredClaim], paper: Option<&str>) -> Vec<&'a AnsweredClaim> {
    let is_of = |claim: &&AnsweredClaim| {
        paper.is_none_or(|paper| claim.claim.paper == paper) && !claim.is_contradiction
    };
    claims.iter().filter(is_of).collect()
}

/// Appends the table of the number of claims by paper and verdict.
fn count_table(text: &mut String, claims: &[AnsweredClaim]) {
    let names = Verdict::ALL.map(Verdict::name).join(" | ");
    let rule = "--- | ".repeat(Verdict::ALL.len() + 2);
    *text += &format!("\n## Verdicts\n\n| paper | {names} | of these by the paper |\n| {rule}\n");
    for paper in PAPERS.iter().map(|(paper, _)| Some(*paper)).chain([None]) {
        let claims = of_paper(claims, paper);
        if claims.is_empty() {
            continue;
        }
        let count = |verdict| claims.iter().filter(|it| it.answer.verdict == verdict).count();
        let by_paper = claims.iter().filter(|it| it.answer.cause == Some(Cause::Paper));
        let by_paper = by_paper.count().to_string();
        let counts = Verdict::ALL.map(|verdict| count(verdict).to_string());
        let mut cells = vec![paper.unwrap_or("all")];
        cells.extend(counts.iter().map(String::as_str));
        cells.push(&by_paper);
        row(text, &cells);
    }
}

/// Returns the verdict with the cause of a contradiction.
fn verdict_text(verdict: Verdict, cause: Option<Cause>) -> String {
    match (verdict, cause) {
        (Verdict::Contradicts, Some(cause)) => format!("{}: {}", verdict.name(), cause.name()),
        (Verdict::Contradicts, None) => format!("{}: cause not established", verdict.name()),
        _ => verdict.name().to_owned(),
    }
}
