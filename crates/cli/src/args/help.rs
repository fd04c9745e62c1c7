//! The layout of help: groups of commands, examples before options, and topics.
//!
//! Every text is wrapped by clap at the width of the terminal. A paragraph is therefore one line
//! here; only lists and examples have lines of their own, which fit into 60 columns.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Args as _, Command, CommandFactory};

use super::{Args, Global, STYLES};
use crate::exit::{self, Exit, Failure, StdoutClosed};

/// The maximum width of help, in columns: longer lines are hard to read.
const WIDTH_MAX: usize = 100;

/// The layout of a command with arguments or subcommands.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// The layout of a command without them.
const TEMPLATE_WITHOUT_ARGS: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}{after-help}";

/// The layout of a topic.
const TEMPLATE_OF_TOPIC: &str = "{about}{after-help}";

/// The layout of the topic that lists options.
const TEMPLATE_OF_OPTIONS: &str = "\
{about-with-newline}
{all-args}{after-help}";

/// The groups of commands, in the order of `cutpoint --help`. Every command is in exactly one of
/// them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Every day", &["init", "backup", "snapshots", "ls", "cat", "restore"]),
    ("Care", &["check", "repair", "forget", "hold", "tag", "prune", "optimize", "config"]),
    ("Access", &["key", "doctor"]),
    ("Look inside", &["stats", "debug", "estimate", "cut"]),
    ("Research", &["algorithms", "bench", "trace", "tune", "lab"]),
];

/// The number of groups that `cutpoint -h` shows with a line for each command. The commands of the
/// others are named.
const GROUPS_IN_SHORT_HELP: usize = 4;

/// A page of `cutpoint help`.
struct Topic {
    name: &'static str,
    about: &'static str,
    /// The text below `about`.
    text: &'static str,
}

/// The topics, in the order of `cutpoint --help`.
const TOPICS: [Topic; 5] = [
    Topic { name: "options", about: "Options common to all commands", text: OPTIONS },
    Topic { name: "secrets", about: "Passphrases and keys", text: SECRETS },
    Topic { name: "s3", about: "Repositories in an object storage", text: S3 },
    Topic { name: "patterns", about: "Patterns that exclude files", text: PATTERNS },
    Topic { name: "exit-codes", about: "Exit codes and their meanings", text: EXIT_CODES },
];

const OPTIONS: &str = "\
SIZE is a number of bytes, with an optional unit: k, M, G or T (powers of 1024), for example 128k \
or 16MiB.

The passphrase can come from several sources: see `cutpoint help secrets`.";

const SECRETS: &str = "\
The passphrase or key comes from the first of these that is given:

  --key-file FILE             a key file or a recovery kit
  --passphrase-file FILE      a file with the passphrase
  --passphrase-command CMD    the output of a command
  CUTPOINT_PASSPHRASE         an environment variable

If none is given, the program asks for the passphrase on the terminal.

`cutpoint help options` describes these options. A new passphrase of `cutpoint key` comes from its \
own options, else from CUTPOINT_NEW_PASSPHRASE, else from the terminal.";

const S3: &str = "\
--repo s3://BUCKET/PREFIX names a repository in a bucket, which must exist.

Credentials are never given on the command line. They come from AWS_ACCESS_KEY_ID and \
AWS_SECRET_ACCESS_KEY, from a profile (AWS_PROFILE, ~/.aws), from a web identity, or from the \
container or machine.

AWS needs only the region. --s3-endpoint names another server.

`cutpoint doctor` tests a location before it holds a repository.

Examples:
  cutpoint doctor -r s3://bucket/backup
  cutpoint init -r s3://bucket/backup --s3-region eu-north-1
  cutpoint backup ~ -r s3://bucket/backup \\
    --s3-endpoint https://s3.example.org";

const PATTERNS: &str = "\
Patterns follow the rules of a .gitignore file in the root folder. A pattern without a slash, or with \
a slash only at its end, matches anywhere; any other pattern matches in one place. A leading `!` \
includes again what earlier patterns exclude.

Examples:
  --exclude '*.o'
      Excludes all files whose names end in .o.
  --exclude target/
      Excludes all folders with the name target.
  --exclude /home/me/tmp
      Excludes one folder.";

const EXIT_CODES: &str = "\
Code 1 stands for files that could not be read, that changed while they were read, or that could not \
be restored, and for the findings of a check. Everything else was done.";

/// Print help for a command or a topic
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  cutpoint help backup
  cutpoint help key add
  cutpoint help options")]
pub(crate) struct Help {
    /// Command with its subcommand, or topic [default: an overview]
    #[arg(value_name = "COMMAND|TOPIC")]
    names: Vec<String>,
}

impl Help {
    /// Prints the page.
    ///
    /// # Errors
    ///
    /// Fails if no command or topic has this name, or if standard output cannot be written.
    pub(crate) fn print(&self) -> Result<Exit> {
        let mut page = self.page().ok_or_else(|| {
            Failure::failed(format!("help {}: no such command or topic", self.names.join(" ")))
                .with_remedy("`cutpoint --help` lists all commands and topics")
        })?;
        match page.print_long_help() {
            Ok(()) => Ok(Exit::Well),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
            Err(error) => Err(anyhow::Error::new(error).context("standard output")),
        }
    }

    /// Returns the command whose long help is the page.
    fn page(&self) -> Option<Command> {
        if let [name] = self.names.as_slice()
            && let Some(topic) = TOPICS.iter().find(|topic| topic.name == name)
        {
            return Some(topic.page());
        }
        let mut page = command();
        page.build();
        for name in &self.names {
            page = page.find_subcommand(name)?.clone();
        }
        Some(page)
    }
}

impl Topic {
    /// Returns a command whose help is the page of the topic.
    fn page(&self) -> Command {
        let page = Command::new("cutpoint")
            .about(self.about)
            .styles(STYLES)
            .max_term_width(WIDTH_MAX)
            .disable_help_flag(true)
            .disable_version_flag(true)
            .help_template(TEMPLATE_OF_TOPIC);
        match self.name {
            "options" => Global::augment_args(page)
                .arg(help_option())
                .help_template(TEMPLATE_OF_OPTIONS)
                .after_help(styled(self.text)),
            "exit-codes" => page.after_help(styled(&format!("{}\n\n{}", exit::TABLE, self.text))),
            _ => page.after_help(styled(self.text)),
        }
    }
}

/// Returns the command line of the program, with the layout of its help.
pub(super) fn command() -> Command {
    let root = Args::command()
        .max_term_width(WIDTH_MAX)
        .disable_help_flag(true)
        .arg(help_option())
        .mut_args(|option| option.hide(true))
        .mut_subcommands(|command| {
            let name = format!("cutpoint {}", command.get_name());
            arranged(command, &name)
        });
    let examples = root.get_before_help().map(|text| styled(&text.to_string()));
    let (short, long) = (overview(&root, false), overview(&root, true));
    root.override_usage("cutpoint [OPTIONS] <COMMAND>")
        .help_template(TEMPLATE_WITHOUT_ARGS)
        .before_help(examples.unwrap_or_default())
        .after_help(styled(&short))
        .after_long_help(styled(&long))
}

/// Returns the option that prints help.
fn help_option() -> Arg {
    Arg::new("help")
        .long("help")
        .short('h')
        .global(true)
        .action(ArgAction::Help)
        .help_heading("Common options")
        .help("Print help: a summary with -h, all details with --help")
}

/// Returns `command`, which is invoked as `name`, and its subcommands with the layout of help.
fn arranged(command: Command, name: &str) -> Command {
    let has_args = command.get_arguments().next().is_some() || command.has_subcommands();
    let short = format!("Details: `{name} --help`. Common options: `cutpoint help options`.");
    let long = "Common options: `cutpoint help options`. Exit codes: `cutpoint help exit-codes`.";
    let examples = command.get_before_help().map(|text| styled(&text.to_string()));
    let examples_long = command.get_before_long_help().map(|text| styled(&text.to_string()));
    let examples_long = examples_long.or_else(|| examples.clone());
    command
        .help_template(if has_args { TEMPLATE } else { TEMPLATE_WITHOUT_ARGS })
        .before_help(examples.unwrap_or_default())
        .before_long_help(examples_long.unwrap_or_default())
        .after_help(short)
        .after_long_help(long)
        .mut_subcommands(|command| {
            let name = format!("{name} {}", command.get_name());
            arranged(command, &name)
        })
}

/// Returns the list of commands and topics for the help of the program.
fn overview(root: &Command, is_long: bool) -> String {
    let mut text = String::new();
    for (number, (heading, names)) in GROUPS.into_iter().enumerate() {
        let commands = names.iter().filter_map(|name| root.find_subcommand(name));
        if is_long || number < GROUPS_IN_SHORT_HELP {
            let rows = commands.map(|command| {
                (
                    command.get_name(),
                    command.get_about().map(ToString::to_string).unwrap_or_default(),
                )
            });
            push_table(&mut text, heading, rows);
        } else {
            let names: Vec<&str> = commands.map(Command::get_name).collect();
            push_line(&mut text, &format!("{heading}: {}\n", names.join(", ")));
        }
    }
    if is_long {
        let rows = TOPICS.iter().map(|topic| (topic.name, topic.about.to_owned()));
        push_table(&mut text, "Topics of `cutpoint help`", rows);
        push_line(
            &mut text,
            "`cutpoint COMMAND -h` prints a summary of a command, `cutpoint COMMAND --help` all \
             details, and `cutpoint --version` the version.",
        );
    } else {
        let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        push_line(
            &mut text,
            &format!(
                "Help: `cutpoint COMMAND -h`, or `cutpoint help TOPIC` ({}).",
                names.join(", ")
            ),
        );
    }
    text
}

/// Appends a heading, a row for each name with its text, and an empty line.
fn push_table<'a>(text: &mut String, heading: &str, rows: impl Iterator<Item = (&'a str, String)>) {
    push_line(text, &format!("{heading}:"));
    for (name, about) in rows {
        push_line(text, &format!("  {name:<10}  {about}"));
    }
    text.push('\n');
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Returns `text` with its headings styled: the lines that are not indented and end in a colon.
fn styled(text: &str) -> StyledStr {
    let header = STYLES.get_header();
    let mut styled = String::new();
    for line in text.split_inclusive('\n') {
        let heading = line.trim_end();
        let is_heading = heading.ends_with(':') && !heading.starts_with(' ') && heading.len() < 40;
        match is_heading {
            // Writing to a string does not fail.
            true => write!(styled, "{header}{heading}{header:#}{}", &line[heading.len()..]).ok(),
            false => write!(styled, "{line}").ok(),
        };
    }
    styled.into()
}
