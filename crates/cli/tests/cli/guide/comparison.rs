//! The comparison of what a page shows with what a command prints.

use chrono::NaiveDate;

use super::names::is_number;

/// Returns text without the values that differ from run to run or from machine to machine.
pub(super) fn comparable(text: &str) -> String {
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
    lines.join("\n")
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
