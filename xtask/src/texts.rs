//! Committed texts: no paths of a single machine, sources in ASCII, and no broken links.

use std::path::Path;
use std::process::Command;

use crate::{output, root};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The folders at the root of a file system that exist only on a single machine.
const MACHINE_FOLDERS: [&str; 4] = ["work", "farm", "root", "home/runner"];

/// The names that the sources of repository and storage must not use, but its tests may.
/// `crates/repository/clippy.toml` lists what neither may use.
const IMPURE: [&str; 3] = ["Instant::now", "thread::spawn", "thread::Builder"];

/// Checks every file that git tracks.
pub(crate) fn check() -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z"]).current_dir(root());
    let Ok(files) = output(command) else {
        println!("xtask: not a git checkout: texts were not checked");
        return Ok(());
    };
    let files = String::from_utf8_lossy(&files).into_owned();
    let mut wrong = Vec::new();
    for file in files.split_terminator('\0') {
        let path = Path::new(root()).join(file);
        // A tracked file may be removed without a commit yet.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let Ok(text) = String::from_utf8(bytes) else {
            if file.ends_with(".rs") {
                wrong.push(format!("{file}: is not ASCII"));
            }
            continue;
        };
        let is_pure = ["crates/repository/src/", "crates/storage/src/"]
            .iter()
            .any(|folder| file.starts_with(folder))
            && !file.ends_with("/environment.rs");
        for (number, line) in (1..).zip(text.lines()) {
            let at = || format!("{file}:{number}");
            if names_machine(line) {
                wrong.push(format!("{}: names a path of one machine", at()));
            }
            if file.ends_with(".rs") && !line.is_ascii() {
                wrong.push(format!("{}: is not ASCII", at()));
            }
            for word in IMPURE.iter().filter(|word| is_pure && line.contains(**word)) {
                wrong.push(format!("{}: {word}: not allowed here: see clippy.toml", at()));
            }
            if file.ends_with(".md") {
                let folder = path.parent().unwrap_or(Path::new("."));
                for link in links(line).filter(|link| !folder.join(link).exists()) {
                    wrong.push(format!("{}: {link} does not exist", at()));
                }
            }
        }
    }
    let files: Vec<&str> = files.split_terminator('\0').collect();
    wrong.extend(check_sources_named_by_docs(&files));
    wrong.extend(check_architecture(&files)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Checks that the pages of `docs/` name only source files that exist. Notes are of their time.
fn check_sources_named_by_docs(files: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_page = |file: &&&str| {
        file.starts_with("docs/") && file.ends_with(".md") && !file.starts_with("docs/notes/")
    };
    for file in files.iter().filter(is_page) {
        let text = std::fs::read_to_string(Path::new(root()).join(file)).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let named = line.split('`').skip(1).step_by(2).filter(|code| code.ends_with(".rs"));
            let gone = named.flat_map(expanded).filter(|path| !is_tracked(path, files));
            wrong.extend(gone.map(|path| format!("{file}:{number}: {path} does not exist")));
        }
    }
    wrong
}

/// Checks that `ARCHITECTURE.md` names only paths and items that exist.
fn check_architecture(files: &[&str]) -> Result<Vec<String>, String> {
    let read = |file: &str| std::fs::read_to_string(Path::new(root()).join(file));
    let text = read(ARCHITECTURE).map_err(|error| format!("{ARCHITECTURE}: {error}"))?;
    let sources = files.iter().filter(|file| file.ends_with(".rs"));
    let sources: Vec<String> = sources.filter_map(|file| read(file).ok()).collect();
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for code in line.split('`').skip(1).step_by(2) {
            let gone = match Named::of(code) {
                Some(Named::Paths(paths)) => {
                    paths.into_iter().filter(|path| !is_tracked(path, files)).collect()
                }
                Some(Named::Item(item)) if !sources.iter().any(|source| has_word(source, item)) => {
                    vec![item.to_owned()]
                }
                _ => Vec::new(),
            };
            let gone = gone.into_iter();
            wrong.extend(gone.map(|it| format!("{ARCHITECTURE}:{number}: {it} does not exist")));
        }
    }
    Ok(wrong)
}

/// A piece of code in `ARCHITECTURE.md`, by what can be checked of it.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// Paths of files or folders, or their ends.
    Paths(Vec<String>),
    /// The last part of the path of an item.
    Item(&'a str),
}

impl Named<'_> {
    fn of(code: &str) -> Option<Named<'_>> {
        let is_path = code.contains('/') || code.ends_with(".rs") || code.ends_with(".md");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
        if is_path && code.chars().all(is_plain) {
            return Some(Named::Paths(expanded(code)));
        }
        let is_item = code.starts_with(|c: char| c.is_ascii_uppercase())
            && code.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
        is_item.then(|| Named::Item(code.rsplit(':').next().unwrap_or(code)))
    }
}

/// Returns the paths that a path with braces stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    choices.split(',').flat_map(|it| expanded(&format!("{before}{it}{after}"))).collect()
}

/// Returns `true` if `path` is a tracked file or folder, or the last components of one.
fn is_tracked(path: &str, files: &[&str]) -> bool {
    let path = format!("/{}", path.trim_end_matches('/'));
    files.iter().any(|file| {
        let file = format!("/{file}");
        file.ends_with(&path) || file.contains(&format!("{path}/"))
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_inside) && !text[at + word.len()..].starts_with(is_inside)
    })
}

/// Returns `true` if a line has an absolute path that begins with one of these folders.
fn names_machine(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "_.-/$})".contains(c))
        })
    })
}

/// Returns the targets of Markdown links that are files, without the part from `#` on.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        let is_file = !target.is_empty() && !target.contains("://") && !target.contains('`');
        is_file.then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        let folder = MACHINE_FOLDERS[0];
        assert!(names_machine(&format!("see /{folder}/x")));
        assert!(names_machine(&format!("\"/{folder}/x\"")));
        assert!(!names_machine(&format!("a.path()/{folder}/x")));
        assert!(!names_machine("home/me/docs"));
    }

    #[test]
    fn paths_and_items_of_code_are_told_apart() {
        let paths = |code| match Named::of(code) {
            Some(Named::Paths(paths)) => paths,
            other => panic!("{other:?}"),
        };
        assert_eq!(paths("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
        assert_eq!(Named::of("Writer::commit"), Some(Named::Item("commit")));
        assert_eq!(Named::of("commits/<t>"), None);
        assert_eq!(Named::of("put"), None);
    }

    #[test]
    fn only_whole_components_and_words_are_found() {
        assert!(is_tracked("src/a.rs", &["crates/x/src/a.rs"]));
        assert!(is_tracked("x/src/", &["crates/x/src/a.rs"]));
        assert!(!is_tracked("rc/a.rs", &["crates/x/src/a.rs"]));
        assert!(has_word("fn commit(", "commit") && !has_word("fn commits(", "commit"));
    }

    #[test]
    fn file_targets_of_markdown_links_are_found() {
        let found: Vec<_> = links("[a](b.md#c) and [d](https://e) [f](g/h.md)").collect();
        assert_eq!(found, ["b.md", "g/h.md"]);
    }
}
