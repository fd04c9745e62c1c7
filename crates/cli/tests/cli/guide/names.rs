//! Names that differ from run to run, and those that stand for them in a page.

use chrono::{DateTime, NaiveDateTime};
use cutpoint_testing::SplitMix64;

/// The home folder of the pages. It has as many parents as the real one, because the program counts
/// them as folders of a snapshot.
const HOME: &str = "/home/me";
/// The name of the machine in the pages.
const HOST: &str = "laptop";
/// The first time in each page. Later times keep their distance to it.
pub(super) const FIRST_TIME: &str = "2026-11-22 07:30:00";
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S";
/// The lengths of ids, in hexadecimal digits: short ids, ids of snapshots, ids of repositories. A
/// word of decimal digits alone is a number, except behind [`ID_WORDS`].
const ID_LENS: [usize; 3] = [8, 24, 32];
/// Words behind which a number is an id. Those of other programs differ from run to run, and some have
/// decimal digits alone.
const ID_WORDS: [&str; 2] = ["snapshot ", "restic "];

/// The names of one run, and those that stand for them in a page: home folder, host, ids in the
/// order in which they appear, and times. A page therefore changes only where the program does.
pub(super) struct Names {
    home: String,
    host: String,
    /// The first eight digits of each id, of this run and in the page.
    ids: Vec<(String, String)>,
    /// Other texts, such as addresses of servers, of this run and in the page.
    texts: Vec<(String, String)>,
    /// The first time that was printed, in seconds since 1970.
    first_s: Option<i64>,
}

impl Names {
    pub(super) fn new(home: &str, host: &str) -> Names {
        let (home, host) = (home.to_owned(), host.to_owned());
        Names { home, host, ids: Vec::new(), texts: Vec::new(), first_s: None }
    }

    /// Lets `shown` stand in the page for `real`.
    pub(super) fn replace(&mut self, real: &str, shown: &str) {
        self.texts.push((real.to_owned(), shown.to_owned()));
    }

    /// Returns a command of the page with the ids and texts of this run.
    pub(super) fn real(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (real, shown) in &self.texts {
            command = command.replace(shown, real);
        }
        let command = &command;
        let known = |word: &str| self.ids.iter().find(|(_, shown)| shown == word);
        words(command).map(|word| known(word).map_or(word, |(real, _)| real.as_str())).collect()
    }

    /// Returns output of this run as a page shows it.
    pub(super) fn shown(&mut self, output: &str) -> String {
        let mut output = output.replace(&self.home, HOME);
        for (real, shown) in &self.texts {
            output = output.replace(real, shown);
        }
        let mut shown = String::with_capacity(output.len());
        let mut rest = output.as_str();
        while !rest.is_empty() {
            let at_start = !shown.ends_with(|c: char| c.is_ascii_alphanumeric());
            if let Some(time) = rest.get(..TIME_LEN).filter(|_| at_start).and_then(parse_time) {
                let first_s = *self.first_s.get_or_insert(time);
                let separator = &rest[10..11];
                rest = &rest[TIME_LEN..];
                shown.push_str(&time_text(time - first_s).replace(' ', separator));
                if let Some(after) = fraction(rest) {
                    shown.push_str(".000000000Z");
                    rest = after;
                }
                continue;
            }
            if let Some(after) = rest.strip_prefix(&self.host).filter(|_| at_start)
                && !after.starts_with(|c: char| c.is_ascii_alphanumeric())
            {
                shown.push_str(HOST);
                rest = after;
                continue;
            }
            let word = words(rest).next().expect("the rest is not empty");
            rest = &rest[word.len()..];
            // A duration is `0:00`; a time of day has three parts, and an offset from UTC a sign.
            if is_number(word) && !shown.ends_with([':', '+']) {
                let minutes = rest.strip_prefix(':').and_then(|rest| words(rest).next());
                let after = minutes.filter(|m| m.len() == 2 && is_number(m)).map(|_| &rest[3..]);
                if let Some(after) = after.filter(|after| !is_time_part(after)) {
                    shown.push_str("0:00");
                    rest = after;
                    continue;
                }
            }
            let is_id = !is_number(word) || ID_WORDS.iter().any(|before| shown.ends_with(before));
            if ID_LENS.contains(&word.len()) && is_hex(word) && is_id {
                let id = self.id(word);
                // Containers are in folders named by two digits of their hashes.
                if let Some(folder) = shown.strip_suffix('/')
                    && let Some(start) = folder.len().checked_sub(2)
                    && shown.get(start..start + 2).is_some_and(is_hex)
                    && shown[..start].ends_with('/')
                {
                    shown.replace_range(start..start + 2, &id[2..4]);
                }
                shown.push_str(&id);
            } else {
                shown.push_str(word);
            }
        }
        shown
    }

    /// Returns the id that stands for an id of this run in the page.
    fn id(&mut self, real: &str) -> String {
        let known = self.ids.iter().find(|(known, _)| real.starts_with(known));
        let shown = known.map(|(_, shown)| shown.clone()).unwrap_or_else(|| {
            let shown = digits(self.ids.len() as u64 + 1, 8);
            self.ids.push((real[..8].to_owned(), shown.clone()));
            shown
        });
        let seed = u64::from_str_radix(&shown, 16).expect("digits");
        let rest = digits(seed, real.len() - 8);
        let id = shown + &rest;
        // The name of a container is an id and a number.
        match real.get(24..).filter(|number| number.starts_with("000000")) {
            Some(number) => id[..24].to_owned() + number,
            None => id,
        }
    }
}

/// Returns hexadecimal digits that depend on `seed` only.
fn digits(seed: u64, count: usize) -> String {
    let bytes = SplitMix64::bytes(seed, count / 2);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Splits text into words of letters and digits, and single other characters.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let len = match rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(len);
        rest = after;
        Some(word)
    })
}

pub(super) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns `true` if `text` begins with `:00`.
fn is_time_part(text: &str) -> bool {
    text.strip_prefix(':').and_then(|rest| words(rest).next()).is_some_and(is_number)
}

/// The length of `2026-01-31 23:59:59`.
const TIME_LEN: usize = 19;

/// Parses such a time, or one with `T` between date and time. Returns seconds since 1970.
fn parse_time(text: &str) -> Option<i64> {
    let text = text.replace('T', " ");
    let time = NaiveDateTime::parse_from_str(&text, TIME_FORMAT).ok()?;
    // Parsing also accepts numbers without leading zeros.
    let time = time.and_utc();
    (time.format(TIME_FORMAT).to_string() == text).then(|| time.timestamp())
}

/// Formats the time that is `seconds` after [`FIRST_TIME`].
fn time_text(seconds: i64) -> String {
    let first = parse_time(FIRST_TIME).expect("a time");
    let time = DateTime::from_timestamp(first + seconds, 0).expect("a time");
    time.format(TIME_FORMAT).to_string()
}

/// Returns the text behind `.123456789Z`.
fn fraction(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('.')?;
    let rest = rest.get(9..).filter(|_| rest.as_bytes()[..9].iter().all(u8::is_ascii_digit))?;
    rest.strip_prefix('Z')
}
