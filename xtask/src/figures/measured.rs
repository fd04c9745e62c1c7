//! Figures in a line of text that look measured.

/// Words behind a number that make it a measured figure.
const UNITS: [&str; 19] = [
    "%", "B", "bytes", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB", "ns", "us", "ms", "s",
    "min", "times", "requests", "CPU",
];

/// Words between two numbers that have one unit.
const BETWEEN: [&str; 4] = ["to", "and", "or", "of"];

/// Returns the figures of a line that look measured: numbers with a decimal point, and numbers
/// before a unit. Code, the targets of links, dates and numbers of versions are none.
pub(super) fn of_line(line: &str) -> Vec<String> {
    let line = without_targets(line);
    let mut words: Vec<&str> = Vec::new();
    for (index, text) in line.split('`').enumerate() {
        // Text in code is one word that is no number.
        if index % 2 == 0 { words.extend(text.split_whitespace()) } else { words.push("`") }
    }
    let words: Vec<&str> = words.iter().map(|word| trimmed(word)).collect();
    let is_measured = |at: usize| {
        let Some(number) = number(words[at]) else { return false };
        number.contains('.') || has_unit(&words[at + 1..])
    };
    let found = (0..words.len()).filter(|at| is_measured(*at));
    found.filter_map(|at| number(words[at])).map(str::to_owned).collect()
}

/// Returns `true` if words behind a number begin with a unit, perhaps of further numbers.
fn has_unit(words: &[&str]) -> bool {
    match words {
        [unit, ..] if UNITS.contains(unit) => true,
        [between, next, rest @ ..] if BETWEEN.contains(between) => {
            number(next).is_some() && has_unit(rest)
        }
        [next, rest @ ..] => number(next).is_some() && has_unit(rest),
        [] => false,
    }
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|it: char| !it.is_alphanumeric() && !"%`".contains(it))
}

/// Returns a word that is a number with at most one decimal point.
fn number(word: &str) -> Option<&str> {
    let is_number = word.starts_with(|it: char| it.is_ascii_digit())
        && word.chars().all(|it| it.is_ascii_digit() || ".,".contains(it))
        && word.matches('.').count() <= 1;
    is_number.then_some(word)
}

/// Returns a line without the targets of its links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push(']');
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::of_line;

    #[test]
    fn numbers_with_units_or_points_look_measured() {
        assert_eq!(
            of_line("takes 1.5 times, 16 to 30 requests and **7 %**"),
            ["1.5", "16", "30", "7"]
        );
        assert_eq!(of_line("| 3.8, 1,024 MB |"), ["3.8", "1,024"]);
        assert_eq!(
            of_line("restic 0.14.0 of 2026-11-24, 200 clients, [a](b-1.5.md) `2 MB`"),
            [""; 0]
        );
    }
}
