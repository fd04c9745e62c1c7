//! Committed texts: no paths of a single machine, sources in ASCII, and no broken links.

use std::path::Path;
use std::process::Command;

use crate::{output, root};

/// The folders at the root of a file system that exist only on a single machine.
const MACHINE_FOLDERS: [&str; 4] = ["work", "farm", "root", "home/runner"];

/// The names that the sources of the store must not use, but its tests may.
/// `crates/store/clippy.toml` lists what neither may use.
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
        let is_pure = file.starts_with("crates/store/src/") && !file.ends_with("/environment.rs");
        for (number, line) in (1..).zip(text.lines()) {
            let at = || format!("{file}:{number}");
            if names_machine(line) {
                wrong.push(format!("{}: names a path of one machine", at()));
            }
            if file.ends_with(".rs") && !line.is_ascii() {
                wrong.push(format!("{}: is not ASCII", at()));
            }
            for word in IMPURE.iter().filter(|word| is_pure && line.contains(**word)) {
                wrong.push(format!("{}: {word}: the store must not: see clippy.toml", at()));
            }
            if file.ends_with(".md") {
                let folder = path.parent().unwrap_or(Path::new("."));
                for link in links(line).filter(|link| !folder.join(link).exists()) {
                    wrong.push(format!("{}: {link} does not exist", at()));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
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
    fn file_targets_of_markdown_links_are_found() {
        let found: Vec<_> = links("[a](b.md#c) and [d](https://e) [f](g/h.md)").collect();
        assert_eq!(found, ["b.md", "g/h.md"]);
    }
}
