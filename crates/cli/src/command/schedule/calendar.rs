//! The times at which a profile is to run.

use crate::exit::Failure;

/// The days of the week, in the order of cron.
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The time of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    hour: u8,
    minute: u8,
}

/// The times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Calendar {
    /// Every hour, at this minute.
    Hourly(u8),
    /// Every day.
    Daily(Clock),
    /// On these days of the week, by their numbers in [`DAYS`].
    Weekly(Vec<usize>, Clock),
    /// On this day of each month.
    Monthly(u8, Clock),
    /// An expression of systemd.
    Expression(String),
}

impl Calendar {
    /// Parses the value of `--at`. Anything that does not begin like one of the simple forms is an
    /// expression of systemd.
    ///
    /// # Errors
    ///
    /// Fails if a simple form is wrong.
    pub(super) fn parse(text: &str) -> Result<Calendar, Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || {
            Failure::failed(format!("--at: {text:?} is not a time")).with_remedy(
                "use a form such as `hourly`, `daily 02:30`, `sun 03:00` or `monthly 1 04:00`",
            )
        };
        let parsed = match words.as_slice() {
            [] => None,
            ["hourly"] => Some(Calendar::Hourly(0)),
            ["hourly", minute] => {
                let minute = minute.strip_prefix(':').and_then(|minute| number(minute, 59));
                minute.map(Calendar::Hourly)
            }
            ["daily"] => Some(Calendar::Daily(Clock { hour: 2, minute: 30 })),
            ["daily", clock] => clock_of(clock).map(Calendar::Daily),
            ["weekly", days, clock] => weekly(days, clock),
            ["monthly", day, clock] => number(day, 28)
                .filter(|day| *day > 0)
                .zip(clock_of(clock))
                .map(|(day, clock)| Calendar::Monthly(day, clock)),
            ["hourly" | "daily" | "weekly" | "monthly", ..] => None,
            [clock] if is_like_clock(clock) => clock_of(clock).map(Calendar::Daily),
            [days, clock] if weekly(days, clock).is_some() => weekly(days, clock),
            // Specifiers of systemd have no meaning in a time.
            _ if text.contains(['%', '\n', '\\']) => None,
            _ if !is_expression(&words) => None,
            _ => Some(Calendar::Expression(text.trim().to_owned())),
        };
        parsed.ok_or_else(wrong)
    }

    /// Returns the times as an expression of systemd.
    pub(super) fn on_calendar(&self) -> String {
        let time = |Clock { hour, minute }: &Clock| format!("{hour:02}:{minute:02}:00");
        match self {
            Calendar::Hourly(minute) => format!("*-*-* *:{minute:02}:00"),
            Calendar::Daily(clock) => format!("*-*-* {}", time(clock)),
            Calendar::Weekly(days, clock) => {
                let names: Vec<String> = days.iter().map(|day| capital(DAYS[*day])).collect();
                format!("{} *-*-* {}", names.join(","), time(clock))
            }
            Calendar::Monthly(day, clock) => format!("*-*-{day:02} {}", time(clock)),
            Calendar::Expression(text) => text.clone(),
        }
    }

    /// Returns the times as the five fields of cron; `None` for an expression of systemd.
    pub(super) fn cron_fields(&self) -> Option<String> {
        match self {
            Calendar::Hourly(minute) => Some(format!("{minute} * * * *")),
            Calendar::Daily(Clock { hour, minute }) => Some(format!("{minute} {hour} * * *")),
            Calendar::Weekly(days, Clock { hour, minute }) => {
                let days: Vec<String> = days.iter().map(ToString::to_string).collect();
                Some(format!("{minute} {hour} * * {}", days.join(",")))
            }
            Calendar::Monthly(day, Clock { hour, minute }) => {
                Some(format!("{minute} {hour} {day} * *"))
            }
            Calendar::Expression(_) => None,
        }
    }

    /// Returns the age of the last backup, in hours, from which on a run was missed: an hour more
    /// than the longest time between two runs. `None` if the next run is as early as a look for
    /// missed runs.
    pub(super) fn missed_after_hours(&self) -> Option<u32> {
        match self {
            Calendar::Hourly(_) | Calendar::Expression(_) => None,
            Calendar::Daily(_) => Some(24 + 1),
            Calendar::Weekly(days, _) => {
                let next = days.iter().cycle().skip(1);
                let gaps = days.iter().zip(next).map(|(day, next)| (next + 6 - day) % 7 + 1);
                let longest = u32::try_from(gaps.max().unwrap_or(7)).unwrap_or(7);
                Some(24 * longest + 1)
            }
            Calendar::Monthly(..) => Some(31 * 24 + 1),
        }
    }

    /// Returns a minute of the hour that is far from that of the runs.
    pub(super) fn other_minute(&self) -> u8 {
        let minute = match self {
            Calendar::Hourly(minute) => *minute,
            Calendar::Daily(clock) | Calendar::Weekly(_, clock) | Calendar::Monthly(_, clock) => {
                clock.minute
            }
            Calendar::Expression(_) => 0,
        };
        (minute + 30) % 60
    }
}

fn number(text: &str, max: u8) -> Option<u8> {
    text.parse().ok().filter(|number| *number <= max)
}

/// Returns `true` if a word is two numbers with a colon between them, which must be a time then.
fn is_like_clock(text: &str) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':').is_some_and(|(hour, minute)| is_number(hour) && is_number(minute))
}

fn clock_of(text: &str) -> Option<Clock> {
    let (hour, minute) = text.split_once(':')?;
    let minute = Some(minute).filter(|minute| minute.len() == 2)?;
    Some(Clock { hour: number(hour, 23)?, minute: number(minute, 59)? })
}

fn weekly(days: &str, clock: &str) -> Option<Calendar> {
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut days = days.split(',').map(day).collect::<Option<Vec<usize>>>()?;
    days.sort_unstable();
    days.dedup();
    Some(Calendar::Weekly(days, clock_of(clock)?))
}

fn capital(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

/// Returns `true` if these words can be an expression of systemd: weekdays, a date, a time and a time
/// zone, each of which may be missing except one of date and time; or the name of an expression.
fn is_expression(words: &[&str]) -> bool {
    const NAMES: [&str; 8] =
        ["minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly"];
    let is_part = |word: &str| {
        let has_only = word.bytes().all(|byte| byte.is_ascii_digit() || b"*:/.,~-".contains(&byte));
        has_only && word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'*')
    };
    let is_day = |name: &str| {
        let name = name.to_ascii_lowercase();
        DAYS.iter().any(|day| name.starts_with(day)) && name.bytes().all(|b| b.is_ascii_lowercase())
    };
    let are_days =
        |word: &str| word.split([',', '-', '.']).filter(|day| !day.is_empty()).all(is_day);
    let is_zone = |word: &str| {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        word == "UTC" || (word.contains('/') && word.bytes().all(is_usual))
    };
    let words = match words {
        [word] if NAMES.contains(word) || *word == "annually" => return true,
        [words @ .., zone] if !words.is_empty() && is_zone(zone) && !is_part(zone) => words,
        words => words,
    };
    let words = match words {
        [days] if are_days(days) => return true,
        [days, words @ ..] if are_days(days) => words,
        words => words,
    };
    matches!(words, [part] if is_part(part))
        || matches!(words, [date, time] if is_part(date) && is_part(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_forms_have_both_notations() {
        let forms = |text: &str| {
            let calendar = Calendar::parse(text).expect("a time");
            (calendar.on_calendar(), calendar.cron_fields(), calendar.missed_after_hours())
        };
        let expect = |text: &str, systemd: &str, cron: &str, missed| {
            assert_eq!(forms(text), (systemd.to_owned(), Some(cron.to_owned()), missed), "{text}");
        };
        expect("hourly", "*-*-* *:00:00", "0 * * * *", None);
        expect("hourly :15", "*-*-* *:15:00", "15 * * * *", None);
        expect("daily 02:30", "*-*-* 02:30:00", "30 2 * * *", Some(25));
        expect("23:05", "*-*-* 23:05:00", "5 23 * * *", Some(25));
        expect("sun 03:00", "Sun *-*-* 03:00:00", "0 3 * * 0", Some(169));
        expect("Thu,mon 22:15", "Mon,Thu *-*-* 22:15:00", "15 22 * * 1,4", Some(97));
        expect("weekly sat 7:00", "Sat *-*-* 07:00:00", "0 7 * * 6", Some(169));
        expect("monthly 1 04:00", "*-*-01 04:00:00", "0 4 1 * *", Some(745));
        for text in [
            "Mon..Fri 12:00",
            "Sat,Sun *-*-* 04:00",
            "*-*-01,15 03:00:00",
            "*:0/15",
            "2027-01-01 00:00 Europe/Berlin",
            "*-02~01 UTC",
            "quarterly",
            "Saturday",
        ] {
            assert_eq!(forms(text), (text.to_owned(), None, None));
        }
    }

    #[test]
    fn wrong_times_are_refused() {
        for text in [
            "",
            "daily 25:00",
            "25:00",
            "2:5",
            "daily 2:5",
            "hourly 15",
            "monthly 31 04:00",
            "weekly",
            "%i",
            "nonsense time",
            "every day",
            "02:30 daily",
            "- -",
            "12:00 12:00 12:00",
        ] {
            assert!(Calendar::parse(text).is_err(), "{text:?}");
        }
    }
}
