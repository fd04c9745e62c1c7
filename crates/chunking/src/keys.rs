//! The keys of a spec's text and their values.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

use crate::description::Description;
use crate::error::SpecError;

/// The keys of a text and their values, until they are taken.
pub(crate) struct Keys<'a> {
    description: &'static Description,
    /// The key of the short form that the text has; empty for the full one.
    form: &'static str,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    /// Splits `list`; each key must be of the form that the text has, and given once.
    pub(crate) fn parse(
        description: &'static Description,
        list: &'a str,
    ) -> Result<Keys<'a>, SpecError> {
        let items = || list.split(',').filter(|_| !list.is_empty());
        let has = |key: &str| items().any(|item| item.split('=').next() == Some(key));
        let short = description.short_forms.iter().find(|form| has(form.key));
        let allowed: Vec<&str> = match short {
            Some(form) => core::iter::once(form.key).chain(form.others.iter().copied()).collect(),
            None => description.parameters.iter().map(|parameter| parameter.key).collect(),
        };
        let name = description.name;
        let mut values: Vec<(&str, &str)> = Vec::new();
        for item in items() {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            if !allowed.contains(&key) {
                let allowed = format!("unknown here; allowed: {}", allowed.join(", "));
                return Err(SpecError::new(name, key, value, allowed));
            }
            if values.iter().any(|&(other, _)| other == key) {
                return Err(SpecError::new(name, key, value, "given twice"));
            }
            values.push((key, value));
        }
        Ok(Keys { description, form: short.map_or("", |form| form.key), values })
    }

    /// Which short form the text has, by its key; empty for the full one.
    pub(crate) fn form(&self) -> &'static str {
        self.form
    }

    /// The value of `key` as it stands, if it does.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|&&(name, _)| name == key).map(|&(_, value)| value)
    }

    fn required(&self, key: &str) -> Result<&'a str, SpecError> {
        self.text(key).ok_or_else(|| {
            let parameters = self.description.parameters.iter();
            let needed: Vec<&str> = match self.form {
                "" => parameters.filter(|p| p.default.is_none()).map(|p| p.key).collect(),
                form => [form].to_vec(),
            };
            let needed = format!("missing; needed: {}", needed.join(", "));
            SpecError::new(self.description.name, key, "", needed)
        })
    }

    /// The size in bytes at `key`: digits, then perhaps `k` or `m`.
    pub(crate) fn size(&self, key: &str) -> Result<usize, SpecError> {
        self.parse_size(key, self.required(key)?)
    }

    fn parse_size(&self, key: &str, value: &str) -> Result<usize, SpecError> {
        let (digits, unit) = match value.as_bytes().last() {
            Some(b'k') => (&value[..value.len() - 1], 1024),
            Some(b'm') => (&value[..value.len() - 1], 1024 * 1024),
            _ => (value, 1),
        };
        parse_digits::<usize>(digits)
            .and_then(|number| number.checked_mul(unit))
            .ok_or_else(|| self.wrong(key, "must be a number of bytes, or of k or m"))
    }

    /// The whole number at `key`.
    pub(crate) fn number(&self, key: &str) -> Result<u32, SpecError> {
        self.parse_number(key, self.required(key)?)
    }

    /// As [`Keys::number`], where the key may be absent.
    pub(crate) fn optional_number(&self, key: &str) -> Result<Option<u32>, SpecError> {
        self.text(key).map(|value| self.parse_number(key, value)).transpose()
    }

    fn parse_number(&self, key: &str, value: &str) -> Result<u32, SpecError> {
        parse_digits(value).ok_or_else(|| self.wrong(key, "must be a whole number"))
    }

    /// The 64-bit number at `key`, decimal or hexadecimal after `0x`; `default` where it is absent.
    pub(crate) fn wide_number(&self, key: &str, default: u64) -> Result<u64, SpecError> {
        let Some(value) = self.text(key) else { return Ok(default) };
        let parsed = match value.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None => parse_digits(value),
        };
        parsed.ok_or_else(|| self.wrong(key, "must be a 64-bit number, decimal or 0x..."))
    }

    /// Which of `words` stands at `key`; `default` where it is absent and there is one.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
        default: Option<T>,
    ) -> Result<T, SpecError> {
        let value = match (self.text(key), default) {
            (None, Some(default)) => return Ok(default),
            (None, None) => self.required(key)?,
            (Some(value), _) => value,
        };
        let found = words.iter().find(|(word, _)| *word == value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(key, format!("must be {}", alternatives(&all)))
        })
    }

    /// The error that the value at `key` is not what was expected.
    pub(crate) fn wrong(&self, key: &str, expected: impl Into<String>) -> SpecError {
        SpecError::new(self.description.name, key, self.text(key).unwrap_or(""), expected)
    }
}

/// `a, b or c`.
pub(crate) fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => String::from(*only),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Parses digits only: no sign, which `from_str` would take.
fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
