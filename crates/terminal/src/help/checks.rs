//! Checks of every help text at several widths: wrapped by clap, never by hand, short, and in a
//! fixed order. Each check returns the faults that it finds.

use clap::Command;

use super::Manual;

/// The widths at which help is rendered, in columns.
const WIDTHS: [usize; 4] = [60, 80, 100, 200];

/// A width at which nothing is wrapped, so that every line is a paragraph, a row or an example.
const UNWRAPPED: usize = 100_000;

/// The maximum number of lines of short help at 80 columns.
const SHORT_HELP_LINES_MAX: usize = 45;

/// The maximum width of the lines of examples, which must not be wrapped at any width.
const EXAMPLE_WIDTH_MAX: usize = 60;

/// The maximum width of usage, which is not wrapped at smaller widths.
const USAGE_WIDTH_MAX: usize = 80;

/// A page of help: a command or topic, in short or long form.
struct Page {
    name: String,
    command: Command,
    is_long: bool,
}

impl Page {
    fn at(&self, width: usize) -> String {
        let mut command = self.command.clone().term_width(width);
        let text = if self.is_long { command.render_long_help() } else { command.render_help() };
        text.to_string()
    }
}

fn push_command(pages: &mut Vec<Page>, name: &str, command: &Command) {
    for is_long in [false, true] {
        let flag = if is_long { "--help" } else { "-h" };
        pages.push(Page { name: format!("{name} {flag}"), command: command.clone(), is_long });
    }
    for subcommand in command.get_subcommands() {
        push_command(pages, &format!("{name} {}", subcommand.get_name()), subcommand);
    }
}

/// Returns the pages of the program.
fn pages(manual: &Manual) -> Vec<Page> {
    let mut root = manual.command();
    root.build();
    let mut pages = Vec::new();
    push_command(&mut pages, manual.program, &root);
    for topic in manual.topics {
        let name = format!("{} help {}", manual.program, topic.name);
        pages.push(Page { name, command: manual.page_of(topic), is_long: true });
    }
    pages
}

/// Returns the short pages of the commands, without that of the program.
fn short_pages_of_commands(manual: &Manual) -> Vec<Page> {
    let mut pages = pages(manual);
    let root = format!("{} -h", manual.program);
    pages.retain(|page| !page.is_long && page.name != root);
    pages
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the column at which the second column of a row begins.
fn second_column(line: &str) -> Option<usize> {
    let gap = indent(line) + line.trim_start().find("  ")?;
    Some(gap + indent(&line[gap..]))
}

fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the lines of `text` that are parts of commands in lists of examples.
fn example_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut is_example = false;
    for line in text.lines() {
        match indent(line) {
            0 => is_example = line == "Examples:",
            2 | 4 if is_example => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// Returns the example commands in `text`, each as one line.
fn example_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    for line in example_lines(text) {
        command.push_str(line.trim_start());
        if command.ends_with('\\') {
            command.pop();
        } else {
            commands.push(std::mem::take(&mut command));
        }
    }
    commands
}

/// Returns the places of an unwrapped page at which a paragraph has more than one line.
fn faults_unwrapped(text: &str) -> Vec<String> {
    let examples = example_lines(text);
    let is_row = |line: &str| {
        let is_listed = line.trim_start().starts_with(['-', '<', '[']);
        let is_heading = indent(line) == 0 && line.ends_with(':');
        is_listed || is_heading || second_column(line).is_some() || examples.contains(&line)
    };
    let mut faults = Vec::new();
    for (first, second) in text.lines().zip(text.lines().skip(1)) {
        if first.trim().is_empty() || second.trim().is_empty() {
            continue;
        }
        let is_paragraph = indent(first) == indent(second) && !is_row(second);
        let is_cell = second_column(first) == Some(indent(second));
        if is_paragraph || is_cell {
            faults.push(format!("wrapped by hand: {first:?}, {second:?}"));
        }
    }
    for line in examples.iter().filter(|line| line.len() > EXAMPLE_WIDTH_MAX) {
        faults.push(format!("example wider than {EXAMPLE_WIDTH_MAX} columns: {line:?}"));
    }
    faults
}

/// Returns the lines of a page of `width` columns that are too wide, or shorter than they could be.
/// `unwrapped` is the same page with a line for each paragraph.
fn faults_wrapped(text: &str, unwrapped: &str, width: usize) -> Vec<String> {
    let paragraphs: Vec<String> = unwrapped.lines().map(normalized).collect();
    let mut faults = Vec::new();
    for line in text.lines() {
        // Usage is a command, and is not wrapped.
        let width = if line.starts_with("Usage: ") { width.max(USAGE_WIDTH_MAX) } else { width };
        let is_breakable = line.trim().contains(' ');
        if line.chars().count() > width && is_breakable {
            faults.push(format!("wider than {width} columns: {line:?}"));
        }
    }
    for (first, second) in text.lines().zip(text.lines().skip(1)) {
        let Some(word) = second.split_whitespace().next() else { continue };
        let joined = normalized(&format!("{first} {second}"));
        let is_one_paragraph =
            !first.trim().is_empty() && paragraphs.iter().any(|text| text.contains(&joined));
        // The text of an option may begin below the option.
        let is_below = indent(second) > indent(first) && second_column(first).is_none();
        let fits = first.chars().count() + 1 + word.chars().count() <= width;
        if is_one_paragraph && !is_below && fits {
            faults.push(format!("torn at {width} columns: {first:?}, {second:?}"));
        }
    }
    faults
}

/// Returns all faults of `page`.
fn faults(page: &Page) -> Vec<String> {
    let unwrapped = page.at(UNWRAPPED);
    let mut faults = faults_unwrapped(&unwrapped);
    for width in WIDTHS {
        faults.extend(faults_wrapped(&page.at(width), &unwrapped, width));
    }
    faults.iter().map(|fault| format!("{}: {fault}", page.name)).collect()
}

/// Returns the sentences that are torn, at every width.
pub fn torn_sentences(manual: &Manual) -> Vec<String> {
    pages(manual).iter().flat_map(faults).collect()
}

/// Returns the short pages with more than 45 lines at 80 columns.
pub fn long_short_pages(manual: &Manual) -> Vec<String> {
    let pages = pages(manual);
    let counts = pages
        .iter()
        .filter(|page| !page.is_long)
        .map(|page| (page, page.at(80).lines().count()))
        .filter(|(_, count)| *count > SHORT_HELP_LINES_MAX);
    counts.map(|(page, count)| format!("{}: {count} lines", page.name)).collect()
}

/// Returns the short pages that do not begin with examples.
pub fn pages_without_examples_first(manual: &Manual) -> Vec<String> {
    let has_no_examples = |page: &Page| page.at(80).lines().nth(2) != Some("Examples:");
    let pages = short_pages_of_commands(manual).into_iter().filter(has_no_examples);
    pages.map(|page| page.name).collect()
}

/// Returns the examples that the program would refuse. Examples of other programs are not checked.
pub fn invalid_examples(manual: &Manual) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages(manual) {
        for example in example_commands(&page.at(UNWRAPPED)) {
            let Some(start) = example.find(&format!("{} ", manual.program)) else { continue };
            let words = shell_words(&example[start..]);
            if let Err(error) = manual.command().try_get_matches_from(&words) {
                faults.push(format!("{}: {example}\n{error}", page.name));
            }
        }
    }
    faults
}

/// Returns the number of commands of the program in the `sh` blocks of a Markdown page, which no test
/// executes, and those that the program would refuse.
pub fn invalid_commands(manual: &Manual, page: &str) -> (usize, Vec<String>) {
    let (mut count, mut faults) = (0, Vec::new());
    let mut is_shell = false;
    let mut command = String::new();
    for line in page.lines() {
        if let Some(info) = line.strip_prefix("```") {
            is_shell = info == "sh" || info.starts_with("sh ");
            continue;
        }
        if !is_shell {
            continue;
        }
        command.push_str(line.trim_start());
        if command.ends_with('\\') {
            command.pop();
            continue;
        }
        let line = std::mem::take(&mut command);
        let line = line.split(" #").next().unwrap_or_default();
        for part in line.split([';', '&', '|']).map(str::trim_start) {
            let words = shell_words(part);
            // A variable for this command alone may come first.
            let start = words.iter().position(|word| !word.contains('='));
            let words = &words[start.unwrap_or(words.len())..];
            if words.first().is_some_and(|word| word == manual.program) {
                count += 1;
                if let Err(error) = manual.command().try_get_matches_from(words) {
                    faults.push(format!("{part}\n{error}"));
                }
            }
        }
    }
    (count, faults)
}

/// Splits a command at spaces outside of quotes, up to a pipe or redirection.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in command.chars() {
        let Some(word) = words.last_mut() else { break };
        match (character, quote) {
            (' ', None) => words.push(String::new()),
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            _ => word.push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    let end = words.iter().position(|word| word == "|" || word == ">");
    words.truncate(end.unwrap_or(words.len()));
    words
}

/// Returns the faults of the topic of options: common options that are missing there, and pages of
/// commands that list them or do not name the topic. The pages of `topics` may list them, too.
pub fn scattered_common_options(manual: &Manual, topics: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(options) = manual.page(&["options"]) else { return vec!["no topic".to_owned()] };
    let text = options.clone().render_long_help().to_string();
    let names: Vec<String> = options
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .map(|name| format!("--{name}"))
        .collect();
    for name in &names {
        // An option that counts its occurrences ends in dots.
        let is_there = |end: &str| text.contains(&format!("{name}{end}"));
        if !["\n", " ", "...\n"].into_iter().any(is_there) {
            faults.push(format!("{name} is missing"));
        }
    }
    let topic = format!("`{} help options`", manual.program);
    for page in short_pages_of_commands(manual) {
        if !page.at(UNWRAPPED).contains(&topic) {
            faults.push(format!("{}: does not name the topic", page.name));
        }
    }
    let topics: Vec<String> =
        topics.iter().map(|topic| format!("{} help {topic}", manual.program)).collect();
    for page in pages(manual).iter().filter(|page| !topics.contains(&page.name)) {
        let text = page.at(UNWRAPPED);
        // The second line of an example may begin with an option.
        let text = text.replace("\\\n", "");
        for line in text.lines().filter(|line| line.trim_start().starts_with('-')) {
            // The long name of an option is the first word of its row, or follows the short name.
            let row: Vec<&str> = line.split_whitespace().take(2).collect();
            if names.iter().any(|name| row.contains(&name.as_str())) {
                faults.push(format!("{}: {line}", page.name));
            }
        }
    }
    faults
}

/// Returns the commands that are not in exactly one group, and the names in groups that are no
/// commands.
pub fn ungrouped_commands(manual: &Manual) -> Vec<String> {
    let root = manual.command();
    let grouped: Vec<&str> =
        manual.groups.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let commands = root.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
    let is_in_one = |name: &&str| grouped.iter().filter(|each| *each == name).count() == 1;
    let mut faults: Vec<String> =
        commands.filter(|name| !is_in_one(name)).map(str::to_owned).collect();
    let unknown = grouped.iter().filter(|name| root.find_subcommand(name).is_none());
    faults.extend(unknown.map(|name| format!("{name} is no command")));
    faults
}

/// Returns the commands and topics that the overviews do not name.
pub fn unnamed_commands(manual: &Manual) -> Vec<String> {
    let mut root = manual.command();
    let (short, long) = (root.render_help().to_string(), root.render_long_help().to_string());
    let commands = root.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
    let is_word = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == name)
    };
    let names = commands.chain(manual.topics.iter().map(|topic| topic.name));
    let unnamed = names.filter(|name| !is_word(&short, name) || !is_word(&long, name));
    unnamed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: Manual = Manual {
        program: "cutpoint",
        groups: &[],
        groups_in_short_help: 0,
        topics: &[],
        parser: || Command::new("cutpoint"),
        common_options: |command| command,
    };

    fn planted(text: &'static str) -> Vec<String> {
        let command = MANUAL.arranged(Command::new("planted").before_help(text), "planted");
        faults(&Page { name: "planted".to_owned(), command, is_long: false })
    }

    #[test]
    fn help_with_planted_fault_is_found() {
        assert_eq!(
            planted("Examples:\n  cutpoint ls\n      Lists."),
            Vec::<String>::new(),
            "no fault"
        );
        for text in [
            "A paragraph that goes on\nin a second line.",
            "Examples:\n  cutpoint ls\n      Lists what is in\n      the snapshot.",
            "Table:\n  10  a row that goes on\n      in a second line",
            "Examples:\n  cutpoint a long example that does not fit into sixty columns",
        ] {
            assert!(!planted(text).is_empty(), "not found: {text:?}");
        }
        let sentence = "A sentence that was torn at some other width.";
        let torn = faults_wrapped("A sentence that was\ntorn at some other width.", sentence, 60);
        assert_eq!(torn.len(), 1, "torn: {torn:?}");
        let wide = faults_wrapped(sentence, sentence, 20);
        assert_eq!(wide.len(), 1, "too wide: {wide:?}");
    }
}
