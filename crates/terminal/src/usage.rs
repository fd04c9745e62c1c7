//! Arguments that cannot be used. They are reported in the form of every other failure.

use std::error::Error as _;
use std::io::Write;
use std::process;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, FromArgMatches};

use crate::Report;
use crate::exit::{Exit, Failure, StdoutClosed};
use crate::help::Manual;
use crate::report::{Output, Program};

/// Reads the arguments of this process. Also returns the name of the command. Prints help, the version, or an error of usage (exit code
/// 2), and ends the process where these are the answer.
pub fn parse<A: FromArgMatches>(manual: &Manual, program: Program) -> (A, String) {
    let mut command = manual.command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| {
        let names = std::iter::successors(matches.subcommand(), |(_, inner)| inner.subcommand());
        let name = names.map(|(name, _)| name).collect::<Vec<_>>().join(" ");
        let args = A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok((args, name))
    });
    parsed.unwrap_or_else(|error| end(&error, &command, program))
}

/// Returns `true` if the process was given the option `option`, a word without a value. For what
/// must be known before the arguments are parsed, or if they are wrong.
pub fn is_given(option: &str) -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == option)
}

/// Prints the text of `error`, and ends the process.
fn end(error: &Error, command: &Command, program: Program) -> ! {
    // The options of output are not known, because the arguments are wrong.
    let json = is_given("--json");
    let report = Report::new(program, &Output { json, quiet: false, verbose: 0 });
    let result = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => print(error).map(|()| Exit::Well),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print(error).map(|()| Exit::Failed),
        _ => Err(failure(error, &invoked(command)).into()),
    };
    let exit = result.unwrap_or_else(|error| report.fail(&error));
    process::exit(exit.code().into())
}

/// Prints a text that was asked for.
fn print(text: &Error) -> Result<()> {
    let printed = text.print().and_then(|()| std::io::stdout().flush());
    printed.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => StdoutClosed.into(),
        _ => anyhow::Error::new(error).context("standard output"),
    })
}

/// Returns the argument that an error of usage is about, without its value.
pub fn argument(error: &Error) -> Option<String> {
    words(error, ContextKind::InvalidArg).first().map(|text| name_of(text))
}

/// Returns the failure for an error of usage of `command`: the argument, the problem, and the next
/// step.
pub fn failure(error: &Error, command: &str) -> Failure {
    let argument = |kind| words(error, kind).first().map(|text| name_of(text));
    let object = argument(ContextKind::InvalidArg).unwrap_or_else(|| command.to_owned());
    let value = || words(error, ContextKind::InvalidValue).first().cloned().unwrap_or_default();
    let mut similar = None;
    let message = match error.kind() {
        ErrorKind::ValueValidation => match error.source() {
            Some(cause) => format!("{object}: {cause}"),
            None => format!("{object}: {:?} is not valid", value()),
        },
        ErrorKind::InvalidValue => {
            similar = words(error, ContextKind::SuggestedValue).first().cloned();
            let expected = words(error, ContextKind::ValidValue);
            let expected = match expected.as_slice() {
                [] => String::new(),
                values => format!(" (expected {})", alternatives(values)),
            };
            match value().as_str() {
                "" => format!("{object}: no value given{expected}"),
                value => format!("{object}: unknown value {value:?}{expected}"),
            }
        }
        ErrorKind::UnknownArgument => {
            similar = argument(ContextKind::SuggestedArg);
            match object.starts_with('-') {
                true => format!("{object}: unknown option"),
                false if object.is_empty() => "an empty argument is not expected".to_owned(),
                false => format!("{object}: unexpected argument"),
            }
        }
        ErrorKind::InvalidSubcommand => {
            similar = words(error, ContextKind::SuggestedSubcommand).first().cloned();
            let word = words(error, ContextKind::InvalidSubcommand);
            format!("{}: unknown command", word.first().map_or("", String::as_str))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = words(error, ContextKind::InvalidArg);
            let missing: Vec<_> = missing.iter().map(|text| one_of_group(text)).collect();
            format!("{}: missing", missing.join(" and "))
        }
        // A command with commands of its own prints its help instead.
        ErrorKind::MissingSubcommand => "no command given".to_owned(),
        ErrorKind::ArgumentConflict => match words(error, ContextKind::PriorArg).as_slice() {
            [] => format!("{object}: cannot be used with other arguments"),
            others => {
                let others: Vec<String> = others.iter().map(|text| name_of(text)).collect();
                match others.contains(&object) {
                    true => format!("{object}: cannot be given twice"),
                    false => format!("{object}: cannot be used with {}", alternatives(&others)),
                }
            }
        },
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            format!("{command}: {}", line.strip_prefix("error: ").unwrap_or(line))
        }
    };
    let help = format!("`{command} --help` explains the arguments");
    Failure::failed(message).with_remedy(match similar {
        Some(similar) => format!("use {similar} if that was meant; {help}"),
        None => help,
    })
}

/// Returns the names of the options of a group, `<--one|--two>`, of which one is missing; any other
/// argument as it is.
fn one_of_group(text: &str) -> String {
    match text.strip_prefix("<--").and_then(|text| text.strip_suffix('>')) {
        Some(names) => format!("--{}", names.replace('|', " or ")),
        None => text.to_owned(),
    }
}

/// Returns the texts that an error has about `kind`.
fn words(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// Returns the name of an argument without its value: `--threads` for `--threads <N>`, and `PATH`
/// for `<PATH>...`.
fn name_of(argument: &str) -> String {
    let name = argument.split([' ', '=']).next().unwrap_or_default();
    match name.starts_with('-') {
        true => name.trim_end_matches("[").to_owned(),
        false => argument.trim_matches(['<', '>', '[', ']', '.']).to_owned(),
    }
}

/// Returns the command that the arguments of this process invoke, with its subcommand. The value of
/// an option in front of the command may be taken for it.
fn invoked(mut command: &Command) -> String {
    let mut name = command.get_name().to_owned();
    for word in std::env::args_os().skip(1) {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner;
            name = format!("{name} {}", inner.get_name());
        }
    }
    name
}

fn alternatives(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}
