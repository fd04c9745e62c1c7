//! The layout of help: groups of commands, examples before options, and topics.
//!
//! Every text is wrapped by clap at the width of the terminal. A paragraph is therefore one line
//! of its constant; only lists and examples have lines of their own, which fit into 60 columns.

#[cfg(any(test, feature = "checks"))]
pub mod checks;

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Arg, ArgAction, Command};

use crate::exit::{Exit, Failure, StdoutClosed};

/// The styles of help.
pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold());

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

/// The text about the patterns of `--exclude`, for a topic.
pub const PATTERNS: &str = "\
Patterns follow the rules of a .gitignore file in the root folder. A pattern without a slash, or with \
a slash only at its end, matches anywhere; any other pattern matches in one place. A leading `!` \
takes back what earlier patterns match: with --exclude, such files are included again. A pattern \
that can match nothing, such as `[a` or `./a`, is an error.

A file .cutpointignore has such patterns, one on each line, for its own folder: they are relative to \
it. Those of inner folders have precedence over those of outer folders, and --exclude over all of \
them. A line that can match nothing is reported and skipped. --git-ignore reads .gitignore files, \
too.

Examples:
  --exclude '*.o'
      Excludes all files whose names end in .o.
  --exclude target/
      Excludes all folders with the name target.
  --exclude /home/me/tmp
      Excludes one folder.";

/// The help of a program.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// The name of the program.
    pub program: &'static str,
    /// The groups of commands, in the order of the overview. Every command is in exactly one of
    /// them.
    pub groups: &'static [(&'static str, &'static [&'static str])],
    /// The number of groups that the short overview shows with a line for each command. The
    /// commands of the others are named.
    pub groups_in_short_help: usize,
    /// The topics, in the order of the overview.
    pub topics: &'static [Topic],
    /// Returns the command line of the program without layout.
    pub parser: fn() -> Command,
    /// Adds the common options to a command.
    pub common_options: fn(Command) -> Command,
}

/// A page of help that is not about a command.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// The name of the topic.
    pub name: &'static str,
    /// The title of the page.
    pub about: &'static str,
    /// Set if the page lists the common options.
    pub has_options: bool,
    /// The paragraphs of the page.
    pub paragraphs: &'static [&'static str],
}

impl Manual {
    /// Returns the command line of the program, with the layout of its help.
    pub fn command(&self) -> Command {
        let root = (self.parser)()
            .max_term_width(WIDTH_MAX)
            .disable_help_flag(true)
            .arg(help_option())
            .mut_args(|option| option.hide(true))
            .mut_subcommands(|command| {
                let name = format!("{} {}", self.program, command.get_name());
                self.arranged(command, &name)
            });
        let examples = root.get_before_help().map(|text| styled(&text.to_string()));
        let (short, long) = (self.overview(&root, false), self.overview(&root, true));
        root.override_usage(format!("{} [OPTIONS] <COMMAND>", self.program))
            .help_template(TEMPLATE_WITHOUT_ARGS)
            .before_help(examples.unwrap_or_default())
            .after_help(styled(&short))
            .after_long_help(styled(&long))
    }

    /// Prints the page of a command with its subcommands, or of a topic.
    ///
    /// # Errors
    ///
    /// Fails if no command or topic has this name, or if standard output cannot be written.
    pub fn print(&self, names: &[String]) -> Result<Exit> {
        let mut page = self.page(names).ok_or_else(|| {
            Failure::failed(format!("help {}: no such command or topic", names.join(" ")))
                .with_remedy(format!("`{} --help` lists all commands and topics", self.program))
        })?;
        match page.print_long_help() {
            Ok(()) => Ok(Exit::Well),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
            Err(error) => Err(anyhow::Error::new(error).context("standard output")),
        }
    }

    /// Returns the command whose long help is the page of these names.
    pub fn page(&self, names: &[impl AsRef<str>]) -> Option<Command> {
        if let [name] = names
            && let Some(topic) = self.topics.iter().find(|topic| topic.name == name.as_ref())
        {
            return Some(self.page_of(topic));
        }
        let mut page = self.command();
        page.build();
        for name in names {
            page = page.find_subcommand(name.as_ref())?.clone();
        }
        Some(page)
    }

    /// Returns a command whose help is the page of the topic.
    fn page_of(&self, topic: &Topic) -> Command {
        let page = Command::new(self.program)
            .about(topic.about)
            .styles(STYLES)
            .max_term_width(WIDTH_MAX)
            .disable_help_flag(true)
            .disable_version_flag(true)
            .help_template(TEMPLATE_OF_TOPIC)
            .after_help(styled(&topic.paragraphs.join("\n\n")));
        if !topic.has_options {
            return page;
        }
        (self.common_options)(page).arg(help_option()).help_template(TEMPLATE_OF_OPTIONS)
    }

    /// Returns `command`, which is invoked as `name`, and its subcommands with the layout of help.
    fn arranged(&self, command: Command, name: &str) -> Command {
        let has_args = command.get_arguments().next().is_some() || command.has_subcommands();
        let program = self.program;
        let short = format!("Details: `{name} --help`. Common options: `{program} help options`.");
        let long = format!(
            "Common options: `{program} help options`. Exit codes: `{program} help exit-codes`."
        );
        let examples = command.get_before_help().map(|text| styled(&text.to_string()));
        let examples_long = command.get_before_long_help().map(|text| styled(&text.to_string()));
        let examples_long = examples_long.or_else(|| examples.clone());
        command
            .help_template(if has_args { TEMPLATE } else { TEMPLATE_WITHOUT_ARGS })
            .before_help(examples.unwrap_or_default())
            .before_long_help(examples_long.unwrap_or_default())
            .after_help(short)
            .after_long_help(long)
            // A negative number is a value, which its parser refuses, and not an option.
            .mut_args(|arg| match arg.get_action().takes_values() && !arg.is_positional() {
                true => arg.allow_negative_numbers(true),
                false => arg,
            })
            .mut_subcommands(|command| {
                let name = format!("{name} {}", command.get_name());
                self.arranged(command, &name)
            })
    }

    /// Returns the list of commands and topics for the help of the program.
    fn overview(&self, root: &Command, is_long: bool) -> String {
        let program = self.program;
        let mut text = String::new();
        let mut named = Vec::new();
        for (number, (heading, names)) in self.groups.iter().enumerate() {
            let commands = names.iter().filter_map(|name| root.find_subcommand(name));
            if is_long || number < self.groups_in_short_help {
                let rows = commands.map(|command| {
                    (
                        command.get_name(),
                        command.get_about().map(ToString::to_string).unwrap_or_default(),
                    )
                });
                push_table(&mut text, heading, rows);
            } else {
                let names: Vec<&str> = commands.map(Command::get_name).collect();
                named.push((*heading, names.join(", ")));
            }
        }
        if !named.is_empty() {
            push_table(&mut text, "More commands", named.into_iter());
        }
        if is_long {
            let rows = self.topics.iter().map(|topic| (topic.name, topic.about.to_owned()));
            push_table(&mut text, &format!("Topics of `{program} help`"), rows);
            push_line(
                &mut text,
                &format!(
                    "`{program} COMMAND -h` prints a summary of a command, `{program} COMMAND --help` \
                     all details, and `{program} --version` the version."
                ),
            );
        } else {
            let names: Vec<&str> = self.topics.iter().map(|topic| topic.name).collect();
            push_line(
                &mut text,
                &format!(
                    "Help: `{program} COMMAND -h`, or `{program} help TOPIC` ({}).",
                    names.join(", ")
                ),
            );
        }
        text
    }
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

/// Appends a heading, a row for each name with its text, and an empty line.
fn push_table<'a>(text: &mut String, heading: &str, rows: impl Iterator<Item = (&'a str, String)>) {
    push_line(text, &format!("{heading}:"));
    let rows: Vec<_> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(10);
    for (name, about) in rows {
        push_line(text, &format!("  {name:<width$}  {about}"));
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
