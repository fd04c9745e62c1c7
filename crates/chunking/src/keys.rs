//! The part of a spec's text behind the colon: keys and values, and the parsing of values.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

use crate::SpecError;
use crate::about::{About, ShortForm};

/// The keys and values of a text, in one of the forms that an [`About`] allows.
pub(crate) struct Keys<'a> {
    about: &'static About,
    form: Option<&'static ShortForm>,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    /// Splits `list` into keys and values. Each key must be allowed in the form of `list`, and
    /// given once.
    ///
    /// The form is that of the first [`ShortForm`](crate::ShortForm) whose key is present, or else
    /// the written-out one. Every key without a default must be present.
    pub(crate) fn parse(about: &'static About, list: &'a str) -> Result<Keys<'a>, SpecError> {
        let has = |key: &str| {
            list.split(',').any(|item| item.split_once('=').is_some_and(|(name, _)| name == key))
        };
        let short = about.short_forms.iter().find(|form| has(form.key));
        let allowed: Vec<&str> = match short {
            Some(short) => [short.key].iter().chain(short.beside).copied().collect(),
            None => about.parameters.iter().map(|parameter| parameter.key).collect(),
        };
        let instead: Vec<&str> = match short {
            Some(_) => Vec::new(),
            None => about.short_forms.iter().map(|form| form.key).collect(),
        };
        let mut values: Vec<(&str, &str)> = Vec::new();
        for item in list.split(',').filter(|_| !list.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            if !allowed.contains(&key) {
                let mut allowed = format!("unknown; allowed: {}", allowed.join(", "));
                if let Some(short) = short.filter(|short| !short.instead.is_empty()) {
                    allowed += &format!("; {}", short.instead);
                }
                if !instead.is_empty() {
                    allowed += &format!("; short forms: {}", instead.join(", "));
                }
                return Err(SpecError::new(about.name, key, value, allowed));
            }
            if values.iter().any(|&(other, _)| other == key) {
                return Err(SpecError::new(about.name, key, value, "given twice"));
            }
            values.push((key, value));
        }
        let keys = Keys { about, form: short, values };
        if short.is_none() {
            let required = || about.parameters.iter().filter(|each| each.default.is_none());
            if let Some(missing) = required().find(|each| keys.given(each.key).is_none()) {
                let needed: Vec<&str> = required().map(|each| each.key).collect();
                return Err(
                    keys.error(missing.key, format!("missing; required: {}", needed.join(", ")))
                );
            }
        }
        Ok(keys)
    }

    /// Returns the key of the short form; empty for the written-out form.
    pub(crate) fn form(&self) -> &'static str {
        self.form.map_or("", |form| form.key)
    }

    /// Returns the text of the value of `key`, or `None` if the key is absent.
    pub(crate) fn given(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|&&(name, _)| name == key).map(|&(_, value)| value)
    }

    /// Returns the error for the value of `key`, with the text of what is `expected`.
    pub(crate) fn error(&self, key: &str, expected: impl Into<String>) -> SpecError {
        SpecError::new(self.about.name, key, self.given(key).unwrap_or(""), expected)
    }

    /// Parses a size in bytes: digits, optionally followed by `k` or `m`.
    pub(crate) fn size(&self, key: &'static str) -> Result<usize, SpecError> {
        let value = self.given(key).unwrap_or("");
        let (digits, unit) = match value.as_bytes().last() {
            Some(b'k') => (&value[..value.len() - 1], 1024),
            Some(b'm') => (&value[..value.len() - 1], 1024 * 1024),
            _ => (value, 1),
        };
        parse_digits::<usize>(digits)
            .and_then(|number| number.checked_mul(unit))
            .ok_or_else(|| self.error(key, "must be a number of bytes, or of k or m"))
    }

    /// Parses the size of the short form, the target of a paper, and returns the `setting` for it.
    /// The error lists the allowed targets.
    pub(crate) fn setting<P>(
        &self,
        setting: impl FnOnce(usize) -> Option<P>,
    ) -> Result<P, SpecError> {
        let (key, allowed) = self.form.map_or(("", ""), |form| (form.key, form.allowed));
        setting(self.size(key)?).ok_or_else(|| self.error(key, format!("must be {allowed}")))
    }

    /// Parses an optional size in bytes.
    pub(crate) fn optional_size(&self, key: &'static str) -> Result<Option<usize>, SpecError> {
        self.given(key).map(|_| self.size(key)).transpose()
    }

    /// Parses the optional size of a value, the key `bytes`; 1 if it is left out.
    pub(crate) fn value_size(&self) -> Result<usize, SpecError> {
        Ok(self.optional_number("bytes")?.map_or(1, |bytes| bytes as usize))
    }

    /// Parses a whole number.
    pub(crate) fn number(&self, key: &'static str) -> Result<u32, SpecError> {
        let number = parse_digits(self.given(key).unwrap_or(""));
        number.ok_or_else(|| self.error(key, "must be a whole number"))
    }

    /// Parses an optional whole number.
    pub(crate) fn optional_number(&self, key: &'static str) -> Result<Option<u32>, SpecError> {
        self.given(key).map(|_| self.number(key)).transpose()
    }

    /// Parses a 64-bit number, decimal, or hexadecimal after `0x`; `default` if it is left out.
    pub(crate) fn bits(&self, key: &'static str, default: u64) -> Result<u64, SpecError> {
        let Some(value) = self.given(key) else { return Ok(default) };
        let parsed = match value.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None => parse_digits(value),
        };
        parsed.ok_or_else(|| self.error(key, "must be a 64-bit number, decimal or 0x..."))
    }

    /// Parses a list of numbers of `digits` hexadecimal digits each, in lower case, separated by
    /// dots; `none` stands for the empty list. Returns `None` if the text is anything else.
    pub(crate) fn hex_list<N: TryFrom<u64>>(&self, key: &str, digits: usize) -> Option<Vec<N>> {
        let value = self.given(key)?;
        if value == "none" {
            return Some(Vec::new());
        }
        let parse = |text: &str| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let is_number = text.len() == digits && text.bytes().all(is_hex);
            is_number.then(|| u64::from_str_radix(text, 16).ok()?.try_into().ok())?
        };
        value.split('.').map(parse).collect()
    }

    /// Parses one of the `words`; the first of them if the key is left out.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<T, SpecError> {
        let value = self.given(key).unwrap_or(words[0].0);
        let found = words.iter().find(|&&(word, _)| word == value);
        found.map(|&(_, meaning)| meaning).ok_or_else(|| {
            let (last, others) = words.split_last().unwrap_or((&words[0], &[]));
            let others: Vec<&str> = others.iter().map(|&(word, _)| word).collect();
            self.error(key, format!("must be {} or {}", others.join(", "), last.0))
        })
    }
}

/// Parses digits only, without the sign that `from_str` accepts.
fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
