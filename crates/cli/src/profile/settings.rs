//! The settings in the text of a profile, each with its line.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, KEYS, Key, Kind, TABLES};
use crate::exit::Failure;

/// Words that users look for, which a profile does not have.
const SECRETS: [&str; 4] = ["passphrase", "password", "secret", "key"];

/// The minimum similarity of a name that is proposed in place of an unknown one.
const SIMILARITY_MIN: f64 = 0.7;

/// The setting of a key.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The key.
    pub(crate) key: &'static Key,
    /// The values. A switch that is on has the value `true`, and one that is off has none.
    pub(crate) values: Vec<String>,
    /// The line of the key, from 1 on.
    pub(crate) line: usize,
}

/// The settings of a profile, in the order of the file.
#[derive(Debug)]
pub(crate) struct Settings {
    file: PathBuf,
    settings: Vec<Setting>,
    /// The tables that the file has, some of which may be empty.
    tables: Vec<&'static str>,
}

impl Settings {
    /// Parses the text of the profile `file`. `layout` has the options with their forms.
    ///
    /// # Errors
    ///
    /// Fails if the text is not TOML, or has an unknown key or a value of the wrong type. The failure
    /// names the line.
    pub(crate) fn parse(text: &str, file: &Path, layout: &Command) -> Result<Settings, Failure> {
        let mut settings =
            Settings { file: file.to_path_buf(), settings: Vec::new(), tables: Vec::new() };
        let reader = Reader { text, layout };
        let top = DeTable::parse(text).map_err(|error| {
            let line = reader.line(error.span().map_or(0, |span| span.start));
            let message = format!("not valid TOML: {}", error.message().replace('\n', ", "));
            let remedy = "strings are in quotes; lists are in brackets: sources = [\"/home\"]";
            settings.failure(line, &message).with_remedy(remedy)
        })?;
        let mut entries = Vec::new();
        for (name, value) in top.get_ref() {
            let known = TABLES.into_iter().find(|table| table == name.get_ref());
            match (known, value.get_ref()) {
                (Some(table), DeValue::Table(inner)) => {
                    settings.tables.push(table);
                    entries.extend(inner.iter().map(|(name, value)| (table, name, value)));
                }
                _ => entries.push(("", name, value)),
            }
        }
        // In the order of the file, so that the first mistake is reported.
        entries.sort_by_key(|(_, name, _)| name.span().start);
        for (table, name, value) in entries {
            settings.add(&reader, table, name, value)?;
        }
        Ok(settings)
    }

    fn add(
        &mut self,
        reader: &Reader<'_>,
        table: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Failure> {
        let line = reader.line(name.span().start);
        let Some(key) = keys::find(table, name.get_ref()) else {
            return Err(self.unknown(line, table, name.get_ref()));
        };
        let values = reader.values(key, value.get_ref()).map_err(|problem| {
            self.failure(line, &format!("{}: {problem}", key.name))
                .with_remedy("`cutpoint help profiles` shows a profile")
        })?;
        self.settings.push(Setting { key, values, line });
        Ok(())
    }

    fn unknown(&self, line: usize, table: &str, name: &str) -> Failure {
        let place = if table.is_empty() { String::new() } else { format!("[{table}] ") };
        let failure = self.failure(line, &format!("{place}{name}: unknown key"));
        let help = "`cutpoint help profiles` and the page Profiles of the book explain the keys";
        if SECRETS.contains(&name) {
            return failure.with_remedy(
                "a profile holds no secret, so that it can be shown and copied: use key-file, \
                 passphrase-file or passphrase-command",
            );
        }
        if let Some(other) = KEYS.iter().find(|key| key.name == name) {
            let place = match other.table {
                "" => "in front of all tables".to_owned(),
                table => format!("in the table [{table}]"),
            };
            return failure.with_remedy(format!("{name} stands {place}"));
        }
        let names = KEYS.iter().filter(|key| key.table == table).map(|key| key.name);
        let tables = TABLES.into_iter().filter(|_| table.is_empty());
        failure.with_remedy(match nearest(name, names.chain(tables)) {
            Some(similar) => format!("use {similar} if that was meant; {help}"),
            None => help.to_owned(),
        })
    }

    /// Creates a failure that names a line of the file.
    pub(crate) fn failure(&self, line: usize, message: &str) -> Failure {
        Failure::failed(format!("{}: line {line}: {message}", self.file.display()))
    }

    /// Returns the setting of a key, if the file has it.
    pub(crate) fn get(&self, table: &str, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| (setting.key.table, setting.key.name) == (table, name))
    }

    /// Returns the values of a key.
    pub(crate) fn values(&self, table: &str, name: &str) -> &[String] {
        self.get(table, name).map_or(&[], |setting| &setting.values)
    }

    /// Returns `true` if the file has the table.
    pub(crate) fn has_table(&self, table: &str) -> bool {
        self.tables.contains(&table)
    }

    /// Returns the settings of a table that are options, as words of a command line.
    pub(crate) fn words(&self, table: &str, layout: &Command) -> Vec<String> {
        let mut words = Vec::new();
        for Setting { key, values, .. } in &self.settings {
            if key.table != table || !key.is_option() {
                continue;
            }
            let option = key.option();
            let is_switch = argument(key, layout).is_some_and(is_switch);
            words.extend(values.iter().map(|value| match is_switch {
                true => format!("--{option}"),
                false => format!("--{option}={value}"),
            }));
        }
        words
    }
}

/// The text of a profile, and the options that it may have.
struct Reader<'a> {
    text: &'a str,
    layout: &'a Command,
}

impl Reader<'_> {
    /// Returns the number of the line at this position of the text.
    fn line(&self, position: usize) -> usize {
        let before = &self.text.as_bytes()[..position.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Returns the values of a key, or the reason why the value cannot be used.
    fn values(&self, key: &'static Key, value: &DeValue<'_>) -> Result<Vec<String>, String> {
        let argument = argument(key, self.layout);
        if argument.is_some_and(is_switch) {
            return match value {
                DeValue::Boolean(true) => Ok(vec!["true".to_owned()]),
                DeValue::Boolean(false) => Ok(Vec::new()),
                other => Err(format!("{} (expected true or false)", described(other))),
            };
        }
        let is_list = match key.kind {
            Kind::OwnPath => key.name == "sources",
            Kind::Commands => true,
            _ => {
                argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::Append))
            }
        };
        match value {
            DeValue::Boolean(wanted) if key.kind == Kind::Portion => {
                Ok(if *wanted { vec![String::new()] } else { Vec::new() })
            }
            DeValue::Array(items) if is_list => {
                items.iter().map(|item| text_of(key, item.get_ref())).collect()
            }
            other => text_of(key, other).map(|text| vec![text]),
        }
    }
}

/// Returns the option of the same meaning; `None` if there is none.
pub(crate) fn argument<'a>(key: &Key, layout: &'a Command) -> Option<&'a Arg> {
    if !key.is_option() {
        return None;
    }
    let command = match key.table {
        "" => layout,
        table => layout.find_subcommand(table)?,
    };
    command.get_arguments().find(|argument| argument.get_long() == Some(key.option()))
}

/// Returns `true` for an option without a value.
pub(crate) fn is_switch(argument: &Arg) -> bool {
    !argument.get_action().takes_values()
}

/// Returns a single value as text.
fn text_of(key: &Key, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => expanded(key.kind, text),
        DeValue::Integer(number) if key.kind == Kind::Plain => Ok(number.to_string()),
        other => Err(format!("{} (expected a string)", described(other))),
    }
}

fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?} is a string"),
        DeValue::Integer(number) => format!("{number} is a number"),
        DeValue::Float(number) => format!("{number} is a number"),
        DeValue::Boolean(value) => format!("{value} is a truth value"),
        DeValue::Datetime(time) => format!("{time} is a date"),
        DeValue::Array(_) => "a list is not expected".to_owned(),
        DeValue::Table(_) => "a table is not expected".to_owned(),
    }
}

/// Replaces a leading `~/`, and refuses relative paths: what they start from would depend on who
/// runs the profile.
fn expanded(kind: Kind, text: &str) -> Result<String, String> {
    let is_address = || text.split('/').next().is_some_and(|word| word.contains(':'));
    match kind {
        Kind::Plain | Kind::Commands | Kind::Portion => Ok(text.to_owned()),
        Kind::Pattern => {
            let (sign, rest) = text.strip_prefix('!').map_or(("", text), |rest| ("!", rest));
            Ok(format!("{sign}{}", with_home(rest)?))
        }
        Kind::Place if is_address() => Ok(text.to_owned()),
        Kind::Path | Kind::OwnPath | Kind::Place => match with_home(text)? {
            path if path.starts_with('/') => Ok(path),
            _ => Err(format!(
                "{text:?} is relative (expected an absolute path, or one that begins with ~/)"
            )),
        },
    }
}

fn with_home(text: &str) -> Result<String, String> {
    let rest = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => return Ok(text.to_owned()),
    };
    match std::env::var("HOME") {
        Ok(home) if home.starts_with('/') => Ok(format!("{}{rest}", home.trim_end_matches('/'))),
        _ => Err(format!("{text:?} needs the home folder, and HOME is not set")),
    }
}

/// Returns the name that is most similar to `name`, if one is similar enough.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let rated = names.map(|other| (strsim::jaro(name, other), other));
    let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity > SIMILARITY_MIN).map(|(_, other)| other)
}
