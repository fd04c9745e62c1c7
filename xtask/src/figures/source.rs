//! The source of a figure.

use super::Results;
use super::tables::{Table, cells};

/// A row of a comment with sources.
#[derive(Debug)]
pub(super) enum Source<'a> {
    Cell { page: &'a str, title: &'a str, row: &'a str, column: &'a str, figure: &'a str },
    Quotation { page: &'a str, text: &'a str, figure: &'a str },
    Count { page: &'a str, text: &'a str, figure: &'a str },
    Table { page: &'a str, title: &'a str },
    Given { figures: &'a str },
}

impl<'a> Source<'a> {
    /// Reads a row.
    pub(super) fn of(row: &'a str) -> Result<Source<'a>, String> {
        let quoted = |text: &'a str| text.strip_prefix('"')?.strip_suffix('"');
        match cells(row).unwrap_or_default()[..] {
            ["given", figures] => Ok(Source::Given { figures }),
            [page, title] if title.starts_with("table ") => {
                Ok(Source::Table { page, title: &title["table ".len()..] })
            }
            [page, source, figure] => {
                let counted = source.strip_prefix("count ").and_then(quoted);
                match (quoted(source), counted) {
                    (Some(text), _) => Ok(Source::Quotation { page, text, figure }),
                    (_, Some(text)) => Ok(Source::Count { page, text, figure }),
                    _ => Err(format!("{source}: neither \"TEXT\" nor count \"TEXT\"")),
                }
            }
            [page, title, row, column, figure] => {
                Ok(Source::Cell { page, title, row, column, figure })
            }
            _ => Err(format!("{row}: no source of a figure")),
        }
    }

    /// Returns the figures that have this source.
    pub(super) fn figures(&self) -> Vec<&'a str> {
        match self {
            Source::Cell { figure, .. }
            | Source::Quotation { figure, .. }
            | Source::Count { figure, .. } => vec![figure],
            Source::Given { figures } => figures.split(", ").collect(),
            Source::Table { .. } => Vec::new(),
        }
    }

    /// Compares the source with the text, which must have all its figures, and with the page that it
    /// names.
    pub(super) fn check(
        &self,
        text: &[(usize, &str)],
        results: &mut Results,
    ) -> Result<(), String> {
        for figure in self.figures() {
            if !text.iter().any(|(_, line)| has_word(line, figure)) {
                return Err(format!("the text above has no {figure}"));
            }
        }
        match *self {
            Source::Given { .. } => Ok(()),
            Source::Quotation { page, text, figure } => {
                if !has_word(text, figure) {
                    return Err(format!("\"{text}\" has no {figure}"));
                }
                let is_there = results.page(page)?.contains(text);
                is_there.then_some(()).ok_or_else(|| format!("{page} has no \"{text}\""))
            }
            Source::Count { page, text, figure } => {
                let count = results.page(page)?.matches(text).count();
                let is_equal = count.to_string() == figure;
                is_equal
                    .then_some(())
                    .ok_or_else(|| format!("{page} has \"{text}\" {count} times, not {figure}"))
            }
            Source::Cell { page, title, row, column, figure } => {
                let tables = Table::titled(results.page(page)?, title);
                let value = tables.iter().find_map(|table| table.value(row, column));
                let value = value.ok_or_else(|| {
                    format!("{page} has no row \"{row}\" and column \"{column}\" below \"{title}\"")
                })?;
                let is_equal =
                    is_rounded(value, figure).ok_or_else(|| format!("{figure}: no number"))?;
                is_equal.then_some(()).ok_or_else(|| {
                    format!("{page}: {title}: {row}: {column}: {value:.3}, not {figure}")
                })
            }
            Source::Table { page, title } => {
                let lines = text.iter().map(|(_, line)| *line);
                let ours = Table::all(lines).pop().ok_or("the text above has no table")?;
                let tables = Table::titled(results.page(page)?, title);
                let whole = tables
                    .first()
                    .ok_or_else(|| format!("{page} has no table below \"{title}\""))?;
                let outside = ours.row_outside(whole);
                outside.map_or(Ok(()), |row| Err(format!("{page}: {title}: has no row {row}")))
            }
        }
    }
}

/// Returns `true` if a figure is a value, rounded to the digits that the figure has.
fn is_rounded(value: f64, figure: &str) -> Option<bool> {
    let number = figure.split(' ').next()?.replace(',', "");
    let digit_count = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    let unit = 10_f64.powi(-i32::try_from(digit_count).ok()?);
    let difference = (value - number.parse::<f64>().ok()?).abs();
    Some(difference <= unit / 2.0 + 1e-9)
}

/// Returns `true` if a text has a figure that is not part of a longer number.
fn has_word(text: &str, figure: &str) -> bool {
    let is_digit = |it: Option<char>| it.is_some_and(|it| it.is_ascii_digit());
    text.match_indices(figure).any(|(at, _)| {
        let (mut before, mut behind) =
            (text[..at].chars().rev(), text[at + figure.len()..].chars());
        let (last, first) = (before.next(), behind.next());
        let is_point = |it: Option<char>| matches!(it, Some('.' | ','));
        let is_longer = is_digit(last) || is_point(last) && is_digit(before.next());
        let goes_on = is_digit(first) || is_point(first) && is_digit(behind.next());
        !is_longer && !goes_on
    })
}
