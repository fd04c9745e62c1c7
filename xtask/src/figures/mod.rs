//! Measured figures of pages for users, compared with the results pages that they come from.
//!
//! Below its figures, a page has a comment with a row for each of them:
//!
//! ```text
//! <!-- figures
//! | research/results/benchmark.md | First backup, CPU s | cutpoint / restic | max | 0.20 |
//! | docs/scale.md | "92 requests" | 92 |
//! | research/results/import.md | table Rates |
//! | given | 30 ms, 1 GiB |
//! -->
//! ```
//!
//! - A cell of a table, by the title of the table (a heading, or a line in bold), the row and the
//!   column. Two rows with ` / ` between them stand for their quotient; `min`, `max`, `median` and
//!   `sum` for all columns. The figure is the value, rounded to the digits that the figure has.
//! - A quotation of a page, which has the figure.
//! - `count "TEXT"`: the number of times that a page has a text.
//! - `table TITLE`: the rows of the table above are rows of that table.
//! - `given`: no results but settings, and conditions of a measurement.
//!
//! A comment speaks for the text above it, up to the heading or the comment before. The pages in
//! [`COVERED`] have no measured figure without a source.

mod measured;
mod source;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

use cutpoint_testing::markdown_below;
use source::Source;

use crate::root;

/// The pages in which each measured figure needs a source.
const COVERED: [&str; 6] = [
    "book/src/comparison.md",
    "book/src/howto/moving.md",
    "book/src/howto/mysql.md",
    "book/src/howto/postgresql.md",
    "book/src/howto/s3.md",
    "book/src/reference/modes.md",
];

/// The first line of a comment with sources.
const BEGIN: &str = "<!-- figures";

/// The line that ends a comment.
const END: &str = "-->";

/// Checks the pages of the book, of `docs/` and README.md.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(root());
    let mut paths = vec![root.join("README.md")];
    paths.extend(markdown_below(&root.join("book/src")));
    paths.extend(markdown_below(&root.join("docs")));
    let mut results = Results::default();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in paths {
        let page = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let name = path.strip_prefix(root).map_err(|error| error.to_string())?;
        let name = name.to_string_lossy();
        let is_covered = COVERED.contains(&name.as_ref());
        for part in parts(&page) {
            count += part.rows.len();
            wrong.extend(faults(&part, is_covered, &mut results, &name));
        }
    }
    println!("xtask: {count} figures of pages have a source");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A part of a page that has one comment with sources at most.
#[derive(Debug, Default)]
struct Part<'a> {
    /// The lines of text, with their numbers, without those in blocks of code.
    text: Vec<(usize, &'a str)>,
    /// The rows of the comment, with the numbers of their lines.
    rows: Vec<(usize, &'a str)>,
}

/// Divides a page at its headings, and below its comments with sources.
fn parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = vec![Part::default()];
    let (mut is_code, mut is_comment, mut is_source) = (false, false, false);
    for (number, line) in (1..).zip(page.lines()) {
        if is_comment {
            is_comment = line != END;
            if is_source && is_comment {
                parts.last_mut().expect("a part").rows.push((number, line));
            } else if is_source {
                parts.push(Part::default());
            }
            continue;
        }
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && line.starts_with("<!--") && !line.ends_with(END) {
            (is_comment, is_source) = (true, line == BEGIN);
        } else if !is_code {
            if line.starts_with('#') {
                parts.push(Part::default());
            }
            parts.last_mut().expect("a part").text.push((number, line));
        }
    }
    parts
}

/// Returns the figures of a part that differ from their sources, and those without a source.
fn faults(part: &Part, is_covered: bool, results: &mut Results, page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    let mut is_table_named = false;
    for (number, row) in &part.rows {
        let outcome = Source::of(row).and_then(|source| {
            named.extend(source.figures());
            is_table_named |= matches!(source, Source::Table { .. });
            source.check(&part.text, results)
        });
        wrong.extend(outcome.err().map(|error| format!("{page}:{number}: {error}")));
    }
    if is_covered {
        let is_exempt = |line: &str| is_table_named && line.starts_with('|');
        for (number, line) in part.text.iter().filter(|(_, line)| !is_exempt(line)) {
            let bare = measured::of_line(line).into_iter();
            let missing = bare.filter(|figure| !named.iter().any(|name| is_of(name, figure)));
            wrong.extend(missing.map(|it| format!("{page}:{number}: {it}: names no source")));
        }
    }
    wrong
}

/// Returns `true` if a figure of the text is the one that a comment names, perhaps with its unit.
fn is_of(name: &str, figure: &str) -> bool {
    name.split(' ').next() == Some(figure)
}

/// The pages of results, which are read once.
#[derive(Debug, Default)]
struct Results {
    pages: BTreeMap<String, String>,
}

impl Results {
    /// Returns the text of a page, by its path in the repository.
    fn page(&mut self, name: &str) -> Result<&str, String> {
        if !self.pages.contains_key(name) {
            let text = std::fs::read_to_string(Path::new(root()).join(name));
            let text = text.map_err(|error| format!("{name}: {error}"))?;
            self.pages.insert(name.to_owned(), text);
        }
        Ok(&self.pages[name])
    }
}

#[cfg(test)]
mod tests;
