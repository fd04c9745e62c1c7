//! The comparison of what a page shows with what a command prints.

use chrono::NaiveDate;

use super::names::is_number;

/// The units of sizes that may differ a little.
const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
/// The maximum difference of such sizes, as a part of the size.
const SIZE_DIFFERENCE_MAX: f64 = 0.01;
/// The difference that is always allowed: one in the last digit.
const LAST_DIGIT: f64 = 0.1;
/// Words before a number of unused bytes, which depends on the lengths of encoded times.
const UNUSED: [&str; 2] = ["leave", "leaving"];
/// The maximum difference of numbers of unused bytes.
const UNUSED_DIFFERENCE_MAX: u64 = 16;

/// The line of a page that stands for any number of lines.
const ELLIPSIS: &str = "...";

/// Returns `true` if a command prints what the page shows, where a line `...` stands for any lines.
pub(super) fn agree(page: &str, printed: &str) -> bool {
    let page: Vec<&str> = page.trim_end_matches('\n').lines().collect();
    if !page.contains(&ELLIPSIS) {
        return agree_without_ellipsis(&page.join("\n"), printed);
    }
    let printed: Vec<&str> = printed.trim_end_matches('\n').lines().collect();
    let parts: Vec<&[&str]> = page.split(|line| *line == ELLIPSIS).collect();
    let is_at = |part: &[&str], at: usize| {
        let lines = printed.get(at..at + part.len());
        lines.is_some_and(|lines| agree_without_ellipsis(&part.join("\n"), &lines.join("\n")))
    };
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let Some(end) = printed.len().checked_sub(last.len()) else { return false };
    let mut at = first.len();
    is_at(first, 0)
        && parts[1..parts.len() - 1].iter().all(|part| {
            let found = (at..=end).find(|start| is_at(part, *start));
            found.inspect(|start| at = start + part.len()).is_some()
        })
        && at <= end
        && is_at(last, end)
}

/// Returns `true` if a command prints what the page shows. Every word must be the same, except sizes
/// from 1 KiB on, which may differ by a hundredth: objects of a repository record the names of
/// machine and user, process numbers and times, and are padded.
fn agree_without_ellipsis(page: &str, printed: &str) -> bool {
    let (page, printed) = (comparable(page), comparable(printed));
    let (page, printed): (Vec<&str>, Vec<&str>) =
        (page.split(' ').collect(), printed.split(' ').collect());
    let is_size = |at: usize| page.get(at + 1).is_some_and(|unit| UNITS.contains(&bare(unit)));
    let is_unused = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| page.get(before));
        before.is_some_and(|word| UNUSED.contains(word)) && page.get(at + 1) == Some(&"B")
    };
    page.len() == printed.len()
        && (0..page.len()).all(|at| {
            page[at] == printed[at]
                || is_size(at) && are_close(page[at], printed[at])
                || is_unused(at) && are_few(page[at], printed[at])
        })
}

/// Returns `true` for two numbers of unused bytes that are nearly equal.
fn are_few(one: &str, other: &str) -> bool {
    let numbers = one.parse().ok().zip(other.parse().ok());
    numbers.is_some_and(|(one, other): (u64, u64)| one.abs_diff(other) <= UNUSED_DIFFERENCE_MAX)
}

/// Returns `true` for two numbers of which one may stand for the other as a size.
fn are_close(one: &str, other: &str) -> bool {
    let number = |word: &str| word.trim_start_matches('(').parse::<f64>().ok();
    let (Some(one), Some(other)) = (number(one), number(other)) else { return false };
    (one - other).abs() < (one * SIZE_DIFFERENCE_MAX).max(LAST_DIGIT) * 1.001
}

/// Returns text without the values that differ from run to run or from machine to machine. Words are
/// separated by one space, and lines by a word of their own.
fn comparable(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut has_speeds = false;
    for line in text.trim_end_matches('\n').lines() {
        // The width of a column depends on the values in it.
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // Seconds pass between two commands.
        for word in words.iter_mut().filter(|word| is_date(word) || is_time_of_day(word)) {
            *word = "TIME".to_owned();
        }
        // The table of `estimate` ends with a column of speeds.
        has_speeds = match words.last() {
            Some(last) if last == "GB/s" => true,
            last => has_speeds && last.is_some(),
        };
        if has_speeds && let Some(last) = words.last_mut().filter(|last| *last != "GB/s") {
            *last = "SPEED".to_owned();
        }
        // `init` takes the cipher that is faster on the machine.
        for word in &mut words {
            *word = word.replace("chacha20-poly1305", "aes256-gcm");
        }
        lines.push(words.join(" "));
    }
    lines.join(" \n ")
}

/// Returns `true` for `2026-01-31` and `2026-01-31T23:59:59.000000000Z`.
fn is_date(word: &str) -> bool {
    let date = word.split('T').next().unwrap_or_default();
    date.len() == 10 && NaiveDate::parse_from_str(date, "%Y-%m-%d").is_ok()
}

/// Returns `true` for `23:59:59`.
fn is_time_of_day(word: &str) -> bool {
    let mut parts = word.split(':');
    parts.clone().count() == 3 && parts.all(|part| is_number(bare(part)))
}

/// Returns a word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}
