//! Pages with commands and their output.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cutpoint_testing::skipped;

use super::comparison::agree;
use super::names::Names;
use super::needs::Needs;
use super::shell::Shell;

/// The command that shows an exit code.
const SHOW_CODE: &str = "echo $?";

/// The line before commands that prepare a page and that readers do not see.
const SETUP: &str = "<!-- setup";
/// The beginning of a word behind `console` that names a program which the commands need.
const NEEDS: &str = "needs-";

pub(super) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(super) fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares pages with the program, or writes them. The pages are one story: each begins where the
/// one before has ended.
#[track_caller]
pub(super) fn check(names: &[&str]) {
    let is_written = std::env::var_os("CUTPOINT_WRITE_GUIDE").is_some_and(|value| value == "1");
    let mut story = Story::begin();
    let (mut differences, mut failures) = (Vec::new(), Vec::new());
    for name in names {
        let followed = story.follow(name, &read(name));
        if is_written {
            fs::write(path(name), followed.text).unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            differences.extend(followed.differences);
        }
        failures.extend(followed.failures);
    }
    assert!(
        differences.is_empty(),
        "{}\n\nIf the program is right, `cargo xtask guide --write` writes the page.",
        differences.join("\n\n")
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// A command of a page.
#[derive(Debug)]
pub(super) struct Step {
    /// The number of its line, from 1 on.
    pub(super) line: usize,
    pub(super) command: String,
    /// The lines that the page shows below the command, as indices.
    printed: Range<usize>,
    /// The names of the programs that the block needs.
    needs: Vec<String>,
    is_setup: bool,
}

/// Returns the commands of a page: those in its `console` blocks, and those that prepare it.
pub(super) fn steps(name: &str, lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block: Option<Block> = None;
    let mut continues = false;
    for (index, line) in lines.iter().enumerate() {
        let end = index + 1;
        let Some(inside) = &block else {
            block = Block::begun_by(line);
            continues = false;
            continue;
        };
        if inside.is_ended_by(line) {
            block = None;
            continue;
        }
        let Block::Console { needs, is_setup } = inside else { continue };
        let command = if *is_setup { Some(*line) } else { line.strip_prefix("$ ") };
        // An empty line has no space behind the mark.
        let more = line.strip_prefix("> ").or_else(|| line.strip_prefix('>'));
        let more = if *is_setup { Some(*line) } else { more };
        if let Some(rest) = more.filter(|_| continues) {
            let step = steps.last_mut().expect("a command continues");
            step.command.push('\n');
            step.command.push_str(rest);
            step.printed = end..end;
        } else if let Some(command) = command {
            steps.push(Step {
                line: end,
                command: command.to_owned(),
                printed: end..end,
                needs: needs.clone(),
                is_setup: *is_setup,
            });
        } else {
            let step = steps.last_mut().filter(|step| step.printed.end == index);
            step.unwrap_or_else(|| panic!("{name}:{end}: a block begins with `$ `")).printed.end =
                end;
        }
        let step = steps.last().filter(|step| step.printed.is_empty());
        continues = step.is_some_and(|step| line.ends_with('\\') || has_open_text(&step.command));
    }
    steps
}

/// Returns `true` for a command with a text behind `<< 'WORD'` that has not come to its end.
fn has_open_text(command: &str) -> bool {
    let mut lines = command.lines();
    let word = lines.next().and_then(|first| first.split("<< '").nth(1)?.split('\'').next());
    word.is_some_and(|word| lines.last() != Some(word))
}

/// A part of a page that is not text.
enum Block {
    /// Commands that are run.
    Console { needs: Vec<String>, is_setup: bool },
    /// Another fenced block.
    Other,
}

impl Block {
    fn begun_by(line: &str) -> Option<Block> {
        if let Some(needs) = line.strip_prefix(SETUP) {
            return Some(Block::Console { needs: named(needs), is_setup: true });
        }
        let words = line.strip_prefix("```")?;
        let is_console = words.split(' ').next() == Some("console");
        Some(match is_console {
            true => Block::Console { needs: named(words), is_setup: false },
            false => Block::Other,
        })
    }

    fn is_ended_by(&self, line: &str) -> bool {
        match self {
            Block::Console { is_setup: true, .. } => line == "-->",
            _ => line == "```",
        }
    }
}

/// Returns the names of needed programs among the words of a line.
fn named(words: &str) -> Vec<String> {
    words.split(' ').filter_map(|word| word.strip_prefix(NEEDS)).map(str::to_owned).collect()
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

/// A shell in which the commands of pages run.
pub(super) struct Story {
    // Ended before the servers and the folder.
    shell: Shell,
    names: Names,
    needs: Needs,
    folder: tempfile::TempDir,
}

impl Story {
    pub(super) fn begin() -> Story {
        // Below `/tmp`, whatever TMPDIR is, so that the number of parents is that of `HOME`.
        let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
        let home = folder.path().canonicalize().expect("the folder is there");
        let needs = Needs::new();
        let shell = Shell::start(&home, needs.tools());
        let uname = rustix::system::uname();
        let mut names = Names::new(&home.to_string_lossy(), &uname.nodename().to_string_lossy());
        names.replace(env!("CARGO_BIN_EXE_cutpoint"), "/usr/local/bin/cutpoint");
        Story { shell, names, needs, folder }
    }

    /// Runs the commands of a page and compares their output.
    pub(super) fn follow(&mut self, name: &str, text: &str) -> PageRun {
        let lines: Vec<&str> = text.lines().collect();
        let mut steps = steps(name, &lines);
        steps.retain(|step| self.can_run(name, step));
        let mut written: Vec<String> = Vec::new();
        let (mut differences, mut failures) = (Vec::new(), Vec::new());
        let mut done = 0;
        for (number, step) in steps.iter().enumerate() {
            let (output, code) = self.shell.run(&self.names.real(&step.command));
            let output = if step.is_setup { String::new() } else { self.names.shown(&output) };
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

    /// Starts what a command needs. Returns `false`, and reports it, if something is missing.
    fn can_run(&mut self, name: &str, step: &Step) -> bool {
        step.needs.iter().all(|need| {
            let home = self.folder.path();
            let started = self.needs.start(need, home, &mut self.shell, &mut self.names);
            started
                .map_err(|missing| {
                    skipped(&format!("commands of {name} that need {need} did not run: {missing}"));
                })
                .is_ok()
        })
    }
}

/// Runs the commands of one page.
pub(super) fn follow(name: &str, text: &str) -> PageRun {
    Story::begin().follow(name, text)
}
