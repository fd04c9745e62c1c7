//! Pages with commands and their output.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::comparison::agree;
use super::names::Names;
use super::shell::Shell;

/// The command that shows an exit code.
const SHOW_CODE: &str = "echo $?";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(super) fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares a page with the program, or writes the page.
#[track_caller]
pub(super) fn check(name: &str) {
    let followed = follow(name, &read(name));
    if std::env::var_os("CUTPOINT_WRITE_GUIDE").is_some_and(|value| value == "1") {
        fs::write(path(name), followed.text).unwrap_or_else(|error| panic!("{name}: {error}"));
    } else {
        assert!(
            followed.differences.is_empty(),
            "{}\n\nIf the program is right, `cargo xtask guide --write` writes the page.",
            followed.differences.join("\n\n")
        );
    }
    assert!(followed.failures.is_empty(), "{}", followed.failures.join("\n\n"));
}

/// A command of a page.
struct Step {
    /// The number of its line, from 1 on.
    line: usize,
    command: String,
    /// The lines that the page shows below the command, as indices.
    printed: Range<usize>,
}

/// Returns the commands in the `console` blocks of a page.
fn steps(name: &str, lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    let mut continues = false;
    for (index, line) in lines.iter().enumerate() {
        let end = index + 1;
        if line.starts_with("```") {
            is_console = !is_console && *line == "```console";
            continues = false;
            continue;
        }
        if !is_console {
            continue;
        }
        if let Some(rest) = line.strip_prefix("> ").filter(|_| continues) {
            let step = steps.last_mut().expect("a command continues");
            step.command.push('\n');
            step.command.push_str(rest);
            step.printed = end..end;
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: end, command: command.to_owned(), printed: end..end });
        } else {
            let step = steps.last_mut().filter(|step| step.printed.end == index);
            step.unwrap_or_else(|| panic!("{name}:{end}: a block begins with `$ `")).printed.end =
                end;
        }
        let is_command = steps.last().is_some_and(|step| step.printed.is_empty());
        continues = is_command && line.ends_with('\\');
    }
    steps
}

/// The result of running the commands of a page.
pub(super) struct PageRun {
    /// The page with what the program prints.
    pub(super) text: String,
    /// The commands that print something else than the page shows.
    pub(super) differences: Vec<String>,
    /// The commands that fail although the page shows no exit code.
    pub(super) failures: Vec<String>,
}

/// Runs the commands of a page and compares their output.
pub(super) fn follow(name: &str, text: &str) -> PageRun {
    let lines: Vec<&str> = text.lines().collect();
    let steps = steps(name, &lines);
    // Below `/tmp`, whatever TMPDIR is, so that the number of parents is that of `HOME`.
    let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
    let home = folder.path().canonicalize().expect("the folder is there");
    let mut shell = Shell::start(&home);
    let uname = rustix::system::uname();
    let mut names = Names::new(&home.to_string_lossy(), &uname.nodename().to_string_lossy());
    let mut written: Vec<String> = Vec::new();
    let (mut differences, mut failures) = (Vec::new(), Vec::new());
    let mut done = 0;
    for (number, step) in steps.iter().enumerate() {
        let (output, code) = shell.run(&names.real(&step.command));
        let output = names.shown(&output);
        let page = lines[step.printed.clone()].join("\n");
        let at = format!("{name}:{}: `{}`", step.line, step.command);
        written.extend(lines[done..step.printed.start].iter().map(|line| (*line).to_owned()));
        done = step.printed.end;
        if agree(&page, &output) {
            written.extend(lines[step.printed.clone()].iter().map(|line| (*line).to_owned()));
        } else {
            let output = output.trim_end_matches('\n');
            differences.push(format!(
                "{at} prints something else\n--- the page\n{page}\n--- the program\n{output}\n---"
            ));
            written.extend(output.lines().map(|line| line.trim_end().to_owned()));
        }
        let is_shown = steps.get(number + 1).is_some_and(|next| next.command == SHOW_CODE);
        if code != "0" && !is_shown {
            failures.push(format!(
                "{at} ends with {code}, which the next line, `$ {SHOW_CODE}`, should show"
            ));
        }
    }
    written.extend(lines[done..].iter().map(|line| (*line).to_owned()));
    PageRun { text: written.join("\n") + "\n", differences, failures }
}
