//! Parsing and formatting of sizes, durations and counts. All other code uses bytes and nanoseconds.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The maximum number of threads of a command.
const THREAD_COUNT_MAX: usize = 1024;

/// Parses a number of threads.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    number(1..=THREAD_COUNT_MAX)(text)
}

/// Parses a number of threads, or 0 for the number of processors.
pub fn parse_threads_or_zero(text: &str) -> Result<usize, String> {
    number(0..=THREAD_COUNT_MAX)(text)
}

/// Returns a parser of whole numbers in `range`.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let expected = format!("expected {} to {}", range.start(), range.end());
        let digits = text.strip_prefix('-').unwrap_or(text);
        match text.parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(number),
            // A number beyond its type is out of range, too.
            _ if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(format!("{text} is out of range ({expected})"))
            }
            _ => Err(format!("{text:?} is not a whole number ({expected})")),
        }
    }
}

/// Returns a parser of sizes in `range`, in bytes.
pub fn size_in(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let size = parse_large_size(text)?;
        let valid = u32::try_from(size).ok().filter(|size| range.contains(size));
        valid.ok_or_else(|| {
            let (least, most) = (u64::from(*range.start()), u64::from(*range.end()));
            format!(
                "{} is out of range (expected {} to {})",
                short_size(size),
                short_size(least),
                short_size(most)
            )
        })
    }
}

/// Formats a size like [`size`], but a multiple of its unit without a fraction: `8 MiB`.
pub fn short_size(bytes: u64) -> String {
    size(bytes).replace(".0 ", " ")
}

/// Parses a size in bytes: `131072`, `128k`, `16M`, `16MiB`; at most 4 GiB.
pub fn parse_size(text: &str) -> Result<u32, String> {
    u32::try_from(parse_large_size(text)?)
        .map_err(|_| format!("{text} is out of range (expected less than 4 GiB)"))
}

/// Parses a size in bytes that may be larger: `10g`, `2TiB`.
pub fn parse_large_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        unit => return Err(format!("unknown unit {unit:?} (expected k, M, G or T)")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("{text:?} is not a size (expected a form such as 128k or 16MiB)"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is out of range"))
}

/// Formats a size for display: `0 B`, `17.3 KiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a duration for display: `0:07`, `1:02:03`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a number with a comma between each three digits: `2,357`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a share as a percentage, or as `-` if there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        for (text, expected) in
            [("131072", 131_072), ("128k", 131_072), ("16MiB", 16 << 20), ("1M", 1 << 20)]
        {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for text in ["", "k", "-1", "5000M", "1.5M", "12parsec"] {
            assert!(parse_size(text).is_err(), "{text:?} was taken for a size");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(parse_threads("1024"), Ok(1024), "the maximum");
        let told = |text: &str| parse_threads(text).expect_err("an error");
        assert_eq!(told("100000"), "100000 is out of range (expected 1 to 1024)");
        assert_eq!(
            told("99999999999999999999999"),
            told("100000").replace("100000", &"9".repeat(23))
        );
        assert_eq!(told("-1"), "-1 is out of range (expected 1 to 1024)");
        assert_eq!(told("x"), "\"x\" is not a whole number (expected 1 to 1024)");
        let size = size_in(16 << 10..=4 << 20);
        let told = size("8M").expect_err("an error");
        assert_eq!(told, "8 MiB is out of range (expected 16 KiB to 4 MiB)");
        assert_eq!(size("16k"), Ok(16 << 10), "the minimum");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected, "{number}");
        }
    }

    #[test]
    fn sizes_are_formatted() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }
}
