//! The pages of commands and topics in Markdown, as the book has them.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// The width at which every paragraph is one line.
const UNWRAPPED: usize = 100_000;

/// The width of a topic, in columns.
const TOPIC_WIDTH: usize = 90;

/// Characters that Markdown would take for markup.
const MARKUP: &str = "\\*_<>[]~#";

/// Returns the page of `command`, with its subcommands as sections.
pub(super) fn page(command: &Command) -> String {
    let mut text = String::new();
    push_command(&mut text, command, 1);
    text
}

/// Returns the page of a topic.
pub(super) fn topic(name: &str, mut command: Command) -> String {
    command.build();
    let mut text = format!("# cutpoint help {name}\n");
    if command.get_arguments().any(is_listed) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "\n{}.\n", escaped(&about));
        push_arguments(&mut text, &command);
        push_prose(&mut text, &styled(command.get_after_help()));
        return text;
    }
    let help = command.term_width(TOPIC_WIDTH).render_long_help().to_string();
    let (about, help) = help.split_once('\n').unwrap_or((&help, ""));
    let _ = write!(text, "\n{}.\n", escaped(about));
    push_prose(&mut text, help);
    text
}

/// Returns the list of all commands by group, and of all topics, with links to their pages.
pub(super) fn index<'a>(
    root: &Command,
    groups: &[(&str, &[&str])],
    topics: impl Iterator<Item = (&'a str, Command)>,
) -> String {
    let mut text = "# Commands and topics\n\nWritten by `cutpoint man --markdown`, from the texts \
                    of `cutpoint help`.\n"
        .to_owned();
    let mut push = |name: &str, file: &str, about: Option<&StyledStr>| {
        let about = escaped(&styled(about));
        let _ = writeln!(text, "- [cutpoint {name}]({file}.md): {about}");
    };
    let mut headings = Vec::new();
    for (heading, names) in groups {
        headings.push((names[0], *heading));
        for name in *names {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            push(name, name, about);
        }
    }
    let mut first_topic = None;
    for (name, command) in topics {
        first_topic.get_or_insert_with(|| name.to_owned());
        push(&format!("help {name}"), &file_of_topic(name), command.get_about());
    }
    for (name, heading) in headings {
        text = text.replacen(
            &format!("- [cutpoint {name}]("),
            &format!("\n## {heading}\n\n- [cutpoint {name}]("),
            1,
        );
    }
    if let Some(name) = first_topic {
        let first = format!("- [cutpoint help {name}](");
        text = text.replacen(&first, &format!("\n## Topics\n\n{first}"), 1);
    }
    text
}

/// Returns the name of the page of a topic, without its ending.
pub(super) fn file_of_topic(name: &str) -> String {
    format!("help-{name}")
}

fn push_command(text: &mut String, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let _ = writeln!(text, "{} {name}", "#".repeat(level));
    let about = styled(command.get_about());
    let long = command.get_long_about().map(ToString::to_string);
    let _ = write!(text, "\n{}.\n", escaped(&about));
    let usage = command.clone().term_width(UNWRAPPED).render_usage().to_string();
    push_code(text, usage.trim_start_matches("Usage:").trim());
    if let Some(rest) = long.as_deref().and_then(|long| long.strip_prefix(about.as_str())) {
        push_prose(text, rest);
    }
    let examples = command.get_before_long_help().or(command.get_before_help());
    let examples = styled(examples);
    let lines = examples.lines().filter(|line| *line != "Examples:" && !line.is_empty());
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    if !lines.is_empty() {
        text.push_str("\n**Examples**\n");
        push_code(text, &lines.join("\n"));
    }
    push_arguments(text, command);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        text.push('\n');
        push_command(text, inner, level + 1);
    }
}

fn is_listed(argument: &Arg) -> bool {
    !argument.is_hide_set() && argument.get_id() != "help"
}

/// Lists the arguments of `command`, by their headings.
fn push_arguments(text: &mut String, command: &Command) {
    let arguments: Vec<&Arg> = command.get_arguments().filter(|it| is_listed(it)).collect();
    let heading = |argument: &Arg| match argument.get_help_heading() {
        Some(heading) => heading.to_owned(),
        None if argument.is_positional() => "Arguments".to_owned(),
        None => "Options".to_owned(),
    };
    let mut headings: Vec<String> = Vec::new();
    for argument in &arguments {
        let heading = heading(argument);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.sort_by_key(|heading| heading != "Arguments");
    for each in headings {
        let _ = write!(text, "\n**{}**\n\n", escaped(&each));
        for argument in arguments.iter().filter(|argument| heading(argument) == each) {
            push_argument(text, argument);
        }
    }
}

fn push_argument(text: &mut String, argument: &Arg) {
    let mut name = argument.to_string();
    if let Some(short) = argument.get_short() {
        name = format!("-{short}, {name}");
    }
    let help = argument.get_long_help().or(argument.get_help());
    let help = styled(help);
    let _ = write!(text, "- `{name}`");
    for (number, paragraph) in help.split("\n\n").enumerate() {
        let words = escaped(&paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
        let before = if number == 0 { ": " } else { "\n\n  " };
        let _ = write!(text, "{before}{words}");
    }
    let defaults: Vec<String> = if argument.get_action().takes_values() {
        argument.get_default_values().iter().map(|it| it.to_string_lossy().into_owned()).collect()
    } else {
        Vec::new()
    };
    if !defaults.is_empty() {
        let _ = write!(text, " \\[default: `{}`\\]", defaults.join(" "));
    }
    text.push('\n');
    if argument.get_action().takes_values() {
        for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let gap = if help.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "  - `{}`{gap}{}", value.get_name(), escaped(&help));
        }
    }
}

fn styled(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

fn push_code(text: &mut String, code: &str) {
    let _ = write!(text, "\n```text\n{code}\n```\n");
}

/// Writes paragraphs. Lines that are indented are lists and examples, which stay as they are.
fn push_prose(text: &mut String, prose: &str) {
    for block in prose.trim_matches('\n').split("\n\n").filter(|block| !block.trim().is_empty()) {
        let is_code = |line: &str| line.starts_with("  ");
        if block.lines().any(is_code) {
            let (before, code): (Vec<&str>, Vec<&str>) =
                block.lines().partition(|line| !is_code(line));
            let before = before.join(" ");
            if !before.trim().is_empty() {
                let _ = write!(text, "\n{}\n", escaped(&before));
            }
            let code: Vec<&str> =
                code.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
            push_code(text, &code.join("\n"));
        } else {
            let _ = write!(text, "\n{}\n", escaped(&block.lines().collect::<Vec<_>>().join(" ")));
        }
    }
}

/// Returns text in which only `code` is markup.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    // An odd part stands between two marks of code.
    for (number, part) in text.split('`').enumerate() {
        if number > 0 {
            written.push('`');
        }
        for character in part.chars() {
            if number % 2 == 0 && MARKUP.contains(character) {
                written.push('\\');
            }
            written.push(character);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_outside_of_code_is_escaped() {
        assert_eq!(escaped("a *.o <b> `*.o`, ~1"), "a \\*.o \\<b\\> `*.o`, \\~1");
    }

    #[test]
    fn indented_lines_become_code() {
        let mut text = String::new();
        push_prose(&mut text, "One\ntwo:\n\n  a  b\n  c\n\nThree_");
        assert_eq!(text, "\nOne two:\n\n```text\na  b\nc\n```\n\nThree\\_\n");
    }
}
