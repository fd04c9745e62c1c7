//! Committed texts: no paths of a single machine, sources in ASCII, and no broken links.

use std::path::Path;
use std::process::Command;

use crate::{output, root};

/// The pages whose names of items and files are compared with the sources.
const PAGES: [&str; 3] = ["ARCHITECTURE.md", "docs/protocol.md", "docs/tolerated-errors.md"];

/// The folders of a storage, as far as no folder of the sources has their name.
const STORED: [&str; 9] =
    ["commits", "config", "data", "keys", "meta", "prunes", "similarity", "tmp", "views"];

/// The folders at the root of a file system that exist only on a single machine.
const MACHINE_FOLDERS: [&str; 4] = ["work", "farm", "root", "home/runner"];

/// The names that the sources of repository and storage must not use, but its tests may.
/// `crates/repository/clippy.toml` lists what neither may use.
const IMPURE: [&str; 3] = ["Instant::now", "thread::spawn", "thread::Builder"];

/// The folder whose sources may use these names, because it asks the system.
const SYSTEM: &str = "crates/storage/src/system/";

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
        let is_pure = !file.starts_with(SYSTEM)
            && ["crates/repository/src/", "crates/storage/src/"]
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
                // The step of the book checks links to pages that programs write.
                let is_there = |link: &str| {
                    link.split('/').any(|part| part == crate::book::GENERATED)
                        || folder.join(link).exists()
                };
                for link in links(line).filter(|link| !is_there(link)) {
                    wrong.push(format!("{}: {link} does not exist", at()));
                }
            }
        }
    }
    let files: Vec<&str> = files.split_terminator('\0').collect();
    wrong.extend(check_sources_named_by_docs(&files));
    let sources = files.iter().filter(|file| file.ends_with(".rs"));
    let sources: Vec<(&str, String)> =
        sources.filter_map(|file| Some((*file, read(file).ok()?))).collect();
    for page in PAGES {
        let text = read(page).map_err(|error| format!("{page}: {error}"))?;
        wrong.extend(check_names(page, &text, &files, &sources));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Checks that the other pages of `docs/` name only source files that exist. Notes are of their
/// time.
fn check_sources_named_by_docs(files: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_page = |file: &&&str| {
        file.starts_with("docs/")
            && file.ends_with(".md")
            && !file.starts_with("docs/notes/")
            && !PAGES.contains(file)
    };
    for file in files.iter().filter(is_page) {
        let text = read(file).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let named = line.split('`').skip(1).step_by(2).filter(|code| code.ends_with(".rs"));
            let gone = named.flat_map(expanded).filter(|path| !is_tracked(path, files));
            wrong.extend(gone.map(|path| format!("{file}:{number}: {path} does not exist")));
        }
    }
    wrong
}

/// Reads a file below the root.
fn read(file: &str) -> std::io::Result<String> {
    std::fs::read_to_string(Path::new(root()).join(file))
}

/// Checks that a page names only paths and items that exist.
fn check_names(page: &str, text: &str, files: &[&str], sources: &[(&str, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for code in line.split('`').skip(1).step_by(2) {
            let gone = match Named::of(code) {
                Some(Named::Paths(paths)) => {
                    paths.into_iter().filter(|path| !is_tracked(path, files)).collect()
                }
                Some(Named::Item(item)) if !item.exists(sources) => vec![code.to_owned()],
                _ => Vec::new(),
            };
            wrong.extend(gone.iter().map(|it| format!("{page}:{number}: {it} does not exist")));
        }
    }
    wrong
}

/// A piece of code in a page, by what can be checked of it.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// Paths of files or folders, or their ends.
    Paths(Vec<String>),
    Item(Item<'a>),
}

/// The last two parts of the path of an item.
#[derive(Debug, PartialEq, Eq)]
struct Item<'a> {
    /// The type or module, if it is named.
    owner: Option<&'a str>,
    name: &'a str,
}

impl Item<'_> {
    /// Returns `true` if a source has the name as a word. If a type is named, the same source must
    /// name the type, and if a module is named, the source must be a file of the module. In both
    /// cases, a lower-case name must be that of a function or field.
    fn exists(&self, sources: &[(&str, String)]) -> bool {
        let is_lower = |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase());
        let forms = match self.owner {
            Some(_) if is_lower(self.name) => {
                vec![format!("fn {}", self.name), format!("{}:", self.name)]
            }
            _ => vec![self.name.to_owned()],
        };
        sources.iter().any(|(file, source)| {
            let has_owner = self.owner.is_none_or(|owner| match is_lower(owner) {
                true => file.split('/').any(|it| it.strip_suffix(".rs").unwrap_or(it) == owner),
                false => has_word(source, owner),
            });
            has_owner && forms.iter().any(|form| has_word(source, form))
        })
    }
}

impl Named<'_> {
    fn of(code: &str) -> Option<Named<'_>> {
        let is_path = code.contains('/') || code.ends_with(".rs") || code.ends_with(".md");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
        let first = code.split('/').next().unwrap_or_default();
        if is_path && code.chars().all(is_plain) {
            // An absolute path is one of the system.
            let is_ours = code.ends_with(".rs") || !(first.is_empty() || STORED.contains(&first));
            return is_ours.then(|| Named::Paths(expanded(code)));
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut parts = code.rsplit("::");
        let item = Item { name: parts.next()?, owner: parts.next() };
        let are_words = code.split("::").all(|part| !part.is_empty() && part.chars().all(is_word));
        // Other words are commands, values or names of the system.
        let is_item = item.owner.is_some()
            || code.starts_with(|c: char| c.is_ascii_uppercase())
            || (code.contains('_') && code.starts_with(|c: char| c.is_ascii_lowercase()));
        (are_words && is_item).then_some(Named::Item(item))
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
            // Folders of programs in the home of root are those of any container.
            !line[at + path.len()..].starts_with('.')
                && !line[..at]
                    .ends_with(|c: char| c.is_ascii_alphanumeric() || "_.-/$})".contains(c))
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
        assert!(!names_machine(&format!("-v cache:/{folder}/.cache/cutpoint")));
    }

    #[test]
    fn paths_and_items_of_code_are_told_apart() {
        let paths = |code| match Named::of(code) {
            Some(Named::Paths(paths)) => paths,
            other => panic!("{other:?}"),
        };
        assert_eq!(paths("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
        let item = |owner, name| Some(Named::Item(Item { owner, name }));
        assert_eq!(Named::of("Writer::commit"), item(Some("Writer"), "commit"));
        assert_eq!(Named::of("Writer"), item(None, "Writer"));
        assert_eq!(Named::of("put_commit"), item(None, "put_commit"));
        for other in ["commits/<t>", "prunes/", "/etc/machine-id", "put", "16 MiB"] {
            assert_eq!(Named::of(other), None, "{other}");
        }
    }

    #[test]
    fn items_are_found_beside_their_types() {
        let log = "impl Log { fn append(&self) {} }\nenum End { Done }";
        let sources = [("a/log.rs", log.to_owned()), ("a/b.rs", "fn end() {}".to_owned())];
        let exists = |code| match Named::of(code) {
            Some(Named::Item(item)) => item.exists(&sources),
            other => panic!("{other:?}"),
        };
        for code in ["Log", "Log::append", "End::Done", "log::append"] {
            assert!(exists(code), "{code}");
        }
        for code in ["Lock", "Log::end", "Log::impl", "End::Gone", "b::append", "add_log"] {
            assert!(!exists(code), "{code}");
        }
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
