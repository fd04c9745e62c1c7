//! Parsing and formatting of sizes, times and durations. All other code uses bytes and nanoseconds.

use std::ops::Range;

use chrono::{Local, NaiveDateTime, TimeDelta, TimeZone};
use cutpoint_repository::snapshots::calendar::{DAY_S, civil};
use cutpoint_repository::snapshots::retention::Span;
use cutpoint_repository::verify::check::Portion;
pub(crate) use cutpoint_terminal::units::{
    count, duration, number, parse_large_size, parse_threads_or_zero, size, size_in,
};

use crate::time_zone;

/// Parses the number of items to keep: a number from 1 on, or `all`.
pub(crate) fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        _ if text == "all" => Ok(u32::MAX),
        Ok(0) => Err("0 is out of range (expected a number from 1 on, or all)".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let problem = match is_number {
                true => format!("{text} is out of range"),
                false => format!("{text:?} is not a number"),
            };
            Err(format!("{problem} (expected a number from 1 on, or all)"))
        }
    }
}

/// The minimum limit of a rate, in bytes per second. A slower client could not keep its ticket alive
/// beside its other transfers.
const RATE_MIN: u64 = 16 * 1024;

/// Parses a rate in bytes per second: a size, which `/s` may follow. 0 means no limit.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_large_size(text.strip_suffix("/s").unwrap_or(text))? {
        rate if rate == 0 || rate >= RATE_MIN => Ok(rate),
        _ => Err(format!("{text} is out of range (expected at least 16KiB/s, or 0 for no limit)")),
    }
}

/// Parses a waiting time, in nanoseconds: a number with s, min, h or d, or 0.
pub(crate) fn parse_wait(text: &str) -> Result<i64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let wrong =
        || format!("{text:?} is not a duration (expected a form such as 90s, 10min, 24h or 2d)");
    let number: i64 = text[..digits].parse().map_err(|_| wrong())?;
    let second: i64 = 1_000_000_000;
    let unit = match &text[digits..] {
        "" if number == 0 => second,
        "s" => second,
        "min" => 60 * second,
        "h" => 3600 * second,
        "d" => 24 * 3600 * second,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Parses a share in percent, such as `5%` or `12.5%`.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        Some(percent) if percent.is_finite() => {
            Err(format!("{text} is out of range (expected 0% to 100%)"))
        }
        _ => Err(format!("{text:?} is not a percentage (expected a form such as 5% or 12.5%)")),
    }
}

/// Parses a whole percentage, such as 10%, from 0% to 100%.
pub(crate) fn parse_whole_percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(percent @ 0..=100) => Ok(percent),
        Some(_) => Err(format!("{text} is out of range (expected 0% to 100%)")),
        None => Err(format!("{text:?} is not a whole percentage (expected a form such as 10%)")),
    }
}

/// Parses a time span: numbers with the units y, m (months), w, d and h, such as `1y6m` or `3d12h`.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let too_long = || format!("{text:?} is too long");
    let mut span = Span::default();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits].parse::<u32>();
        let unit = rest[digits..].chars().next();
        let (Ok(number), Some(unit)) = (number, unit) else {
            return Err(format!(
                "{text:?} is not a duration (expected a form such as 1y6m, 2w or 3d12h)",
            ));
        };
        let (total, factor) = match unit {
            'y' => (&mut span.months, 12),
            'm' => (&mut span.months, 1),
            'w' => (&mut span.hours, 7 * 24),
            'd' => (&mut span.hours, 24),
            'h' => (&mut span.hours, 1),
            _ => return Err(format!("unknown unit \"{unit}\" (expected y, m, w, d or h)")),
        };
        let sum = number.checked_mul(factor).and_then(|more| total.checked_add(more));
        *total = sum.ok_or_else(too_long)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    if span == Span::default() {
        return Err(format!("{text:?} is an empty duration"));
    }
    Ok(span)
}

/// Parses the portion of the data to read: `all`, `5%`, `0.5%`, `10GiB`.
pub(crate) fn parse_portion(text: &str) -> Result<Portion, String> {
    if text == "all" {
        return Ok(Portion::All);
    }
    let Some(percent) = text.strip_suffix('%') else {
        return match parse_large_size(text) {
            Ok(number) if text.ends_with(|last: char| last.is_ascii_digit()) => Err(format!(
                "{number} has no unit (expected a percentage such as 5%, or a size such as 10GiB)"
            )),
            Ok(0) => Err("nothing would be read".to_owned()),
            Ok(bytes) => Ok(Portion::Bytes(bytes)),
            Err(error) => Err(format!("{error}, or a percentage such as 5%")),
        };
    };
    let bad = || format!("{text:?} is not a percentage (expected a form such as 5% or 0.5%)");
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 3
        || part.len() > 4
        || !is_number(whole)
        || !is_number(part)
    {
        return Err(bad());
    }
    // In millionths, which have four digits more than percents.
    match format!("{whole}{part:0<4}").parse().map_err(|_| bad())? {
        0 => Err("nothing would be read".to_owned()),
        1_000_000 => Ok(Portion::All),
        share if share < 1_000_000 => Ok(Portion::Share(share)),
        _ => Err(format!("{text} is out of range (expected at most 100%)")),
    }
}

/// The forms of a date, for messages.
const DATE_FORMS: &str = "expected a form such as 2026-11-20 or 2026-11-20T14:30";

/// Returns the length of the date at the beginning of `text`: a day, minute or second, with an
/// optional `Z`.
pub(crate) fn date_len(text: &[u8]) -> Option<usize> {
    let has_form = |at: usize, form: &[u8]| {
        let found = text.get(at..at + form.len());
        found.is_some_and(|found| {
            found.iter().zip(form).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == form,
            })
        })
    };
    if !has_form(0, b"0000-00-00") {
        return None;
    }
    let has_time = matches!(text.get(10), Some(b'T' | b' ')) && has_form(11, b"00:00");
    let has_seconds =
        has_time && has_form(16, b":00") && !matches!(text.get(19), Some(b'0'..=b'9'));
    let len = match (has_time, has_seconds) {
        (false, _) => 10,
        (true, false) => 16,
        (true, true) => 19,
    };
    Some(len + usize::from(text.get(len) == Some(&b'Z')))
}

/// Parses a day, minute or second, such as `2026-11-20`, `2026-11-20T14:30` or
/// `2026-11-20 14:30:59`, of local time, or of UTC with a `Z` at its end. Returns its start and its
/// end in seconds since 1970.
pub(crate) fn parse_period(text: &str) -> Result<Range<i64>, String> {
    let wrong = || format!("{text:?} is not a date ({DATE_FORMS})");
    if date_len(text.as_bytes()) != Some(text.len()) {
        return Err(wrong());
    }
    let (local, is_utc) =
        text.strip_suffix('Z').map_or((text, time_zone::is_utc()), |local| (local, true));
    let local = local.replace('T', " ");
    let (start, length) = match local.len() {
        10 => (format!("{local} 00:00:00"), TimeDelta::days(1)),
        16 => (format!("{local}:00"), TimeDelta::minutes(1)),
        _ => (local, TimeDelta::seconds(1)),
    };
    let start = NaiveDateTime::parse_from_str(&start, "%Y-%m-%d %H:%M:%S").map_err(|_| wrong())?;
    let end = start.checked_add_signed(length).ok_or_else(wrong)?;
    if is_utc {
        return Ok(start.and_utc().timestamp()..end.and_utc().timestamp());
    }
    let begin = local_time(start).ok_or_else(wrong)?.earliest;
    // A minute that the clocks repeat ends with its repetition, and a day with the first midnight.
    let end = match length == TimeDelta::days(1) {
        true => local_time(end).ok_or_else(wrong)?.earliest,
        false => local_time(start).ok_or_else(wrong)?.latest + length.num_seconds(),
    };
    Ok(begin..end)
}

/// A local time, which clocks that are put back show twice, in seconds since 1970.
struct LocalTime {
    earliest: i64,
    latest: i64,
}

/// Converts a local time. One that the clocks skip is taken for the time when they continue, at
/// most an hour later.
fn local_time(time: NaiveDateTime) -> Option<LocalTime> {
    let convert = |time: &NaiveDateTime| {
        let found = Local.from_local_datetime(time);
        let (earliest, latest) = (found.earliest()?, found.latest()?);
        Some(LocalTime { earliest: earliest.timestamp(), latest: latest.timestamp() })
    };
    convert(&time).or_else(|| convert(&time.checked_add_signed(TimeDelta::hours(1))?))
}

/// Parses a date as [`parse_period`] does. Returns its start.
pub(crate) fn parse_date(text: &str) -> Result<i64, String> {
    parse_period(text).map(|period| period.start)
}

/// The width of a text of [`date_time`], in columns.
pub(crate) const DATE_TIME_WIDTH: usize = 26;

/// Formats seconds since 1970 as `2026-01-31 23:59:59 +01:00`: the local time and its offset from
/// UTC.
pub(crate) fn date_time(seconds: i64) -> String {
    let offset_s = time_zone::offset_s(seconds);
    let (sign, minutes) = (if offset_s < 0 { '-' } else { '+' }, offset_s.abs() / 60);
    let wall = wall_time(seconds.saturating_add(offset_s));
    format!("{wall} {sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Formats seconds since 1970, in UTC, as `2026-01-31 23:59:59`.
fn wall_time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Formats a time since 1970 as RFC 3339 text in UTC, without loss.
pub(crate) fn rfc3339(seconds: i64, nanoseconds: u32) -> String {
    let time = wall_time(seconds).replace(' ', "T");
    format!("{time}.{nanoseconds:09}Z")
}

/// Formats nanoseconds since 1970 like [`rfc3339`].
pub(crate) fn rfc3339_ns(ns: i64) -> String {
    let nanoseconds = u32::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    rfc3339(ns.div_euclid(1_000_000_000), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_are_parsed() {
        assert_eq!(parse_count("7"), Ok(7), "a number");
        assert_eq!(parse_count("all"), Ok(u32::MAX), "all");
        for text in ["0", "-1", "", "some"] {
            assert!(parse_count(text).is_err(), "{text:?} was taken for a count");
        }
        for (text, months, hours) in
            [("1y6m", 18, 0), ("2w", 0, 336), ("3d12h", 0, 84), ("1d1m1d", 1, 48)]
        {
            assert_eq!(parse_span(text), Ok(Span { months, hours }), "{text}");
        }
        for text in ["", "7", "d", "0d", "1s", "1dd", "-1d", "1 d", "400000000y", "1\u{e9}"] {
            assert!(parse_span(text).is_err(), "{text:?} was taken for a time");
        }
    }

    #[test]
    fn rates_are_sizes_per_second() {
        for (text, rate) in [("5MiB/s", 5 << 20), ("5M", 5 << 20), ("16k/s", 16 << 10), ("0", 0)] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "/s", "5MiB/m", "5MiB /s", "16383", "1k", "-1"] {
            assert!(parse_rate(text).is_err(), "{text:?} was taken for a rate");
        }
    }

    #[test]
    fn dates_are_days_minutes_or_seconds() {
        assert_eq!(parse_date("2026-11-20Z"), Ok(1_795_132_800), "a day in UTC");
        assert_eq!(parse_date("2026-11-20T14:30Z"), Ok(1_795_185_000), "a minute in UTC");
        assert_eq!(parse_date("2026-11-20 14:30:01Z"), Ok(1_795_185_001), "a second in UTC");
        for (text, length) in
            [("2026-11-20Z", 86_400), ("2026-11-20 14:30Z", 60), ("2026-11-20T14:30:59Z", 1)]
        {
            let period = parse_period(text).expect(text);
            assert_eq!(period.end - period.start, length, "{text}");
        }
        let day = parse_date("2026-11-20").expect("a local day");
        assert!((day - 1_795_132_800).abs() <= 14 * 3600, "near the day in UTC: {day}");
        for text in [
            "",
            "2026",
            "2026-11",
            "2026-02-30",
            "2026-11-20T",
            "20261120",
            "2026-1-020",
            "2026-11-20T25:00",
            "2026-11-20  14:30",
            "2026-11-20T14:30:1",
            "2026-11-20T14:30:61",
            "2026-11-20T14:30:00Zulu",
            "+026-11-20",
            "latest",
            "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
        ] {
            assert!(parse_date(text).is_err(), "{text:?} was taken for a date");
        }
    }

    #[test]
    fn dates_end_before_other_text() {
        for (text, len) in [
            ("2026-11-20", Some(10)),
            ("2026-11-20:/x", Some(10)),
            ("2026-11-20Z:/x", Some(11)),
            ("2026-11-20T14:30:/x", Some(16)),
            ("2026-11-20 14:30:59", Some(19)),
            ("2026-11-20T14:30:59Z:x", Some(20)),
            ("2026-11-20T14:30:2024", Some(16)),
            ("2026-11-20T14", Some(10)),
            ("2026-11", None),
            ("latest", None),
        ] {
            assert_eq!(date_len(text.as_bytes()), len, "{text}");
        }
    }

    #[test]
    fn portions_are_parsed() {
        for (text, expected) in [
            ("all", Portion::All),
            ("100%", Portion::All),
            ("5%", Portion::Share(50_000)),
            ("0.5%", Portion::Share(5_000)),
            ("0.0001%", Portion::Share(1)),
            ("99.9999%", Portion::Share(999_999)),
            ("10GiB", Portion::Bytes(10 << 30)),
            ("2T", Portion::Bytes(2 << 40)),
        ] {
            assert_eq!(parse_portion(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "%",
            "0%",
            "0",
            "5",
            "0G",
            "101%",
            "-5%",
            "5.00001%",
            "1e1%",
            "five",
            "5 %",
            "99999999T",
        ] {
            assert!(parse_portion(text).is_err(), "{text:?} was taken for a portion");
        }
    }

    #[test]
    fn days_become_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-11_676_096_000, "1600-01-01 00:00:00"),
        ] {
            assert_eq!(wall_time(seconds), expected, "{seconds}");
        }
        assert_eq!(rfc3339_ns(-1), "1969-12-31T23:59:59.999999999Z", "before 1970");
        // The extreme values of a file do not overflow.
        for seconds in [i64::MIN, i64::MAX] {
            assert!(date_time(seconds).len() >= DATE_TIME_WIDTH, "{seconds}");
        }
    }
}
