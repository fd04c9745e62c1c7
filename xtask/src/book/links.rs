//! The links between pages, and from pages to files of the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files::{files_below, read};

/// The web address of files of the repository.
const WEB: &str = "https://github.com/cutpoint/cutpoint/blob/main";

/// The folder of the chapters that come from `docs/`.
const DEPTH: &str = "depth";

/// The places of the chapters.
pub(super) struct Chapters {
    /// The path of each page of `docs/` that is a chapter, and its place in the book.
    docs: BTreeMap<String, String>,
}

impl Chapters {
    /// Reads the list of chapters.
    pub(super) fn new(summary: &str) -> Chapters {
        let names =
            targets(summary).into_iter().filter_map(|link| link.strip_prefix("../../docs/"));
        let docs = names.map(|name| (format!("docs/{name}"), format!("{DEPTH}/{name}")));
        Chapters { docs: docs.collect() }
    }

    /// Returns the pages of `docs/` that are chapters, with their places.
    pub(super) fn of_docs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.docs.iter().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// Returns the place of a file of the repository in the book.
    pub(super) fn place(&self, file: &str) -> Option<String> {
        let ours = file.strip_prefix("book/src/").map(str::to_owned);
        ours.or_else(|| self.docs.get(file).cloned())
    }
}

/// Returns the targets of links and pictures of a page, outside of code.
fn targets(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    each_link(page, |target| found.push(target));
    found
}

/// Calls `found` for the target of each link.
fn each_link<'a>(page: &'a str, mut found: impl FnMut(&'a str)) {
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // The text of a link may have code, its target has none.
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains('`') {
                found(target);
            }
        }
    }
}

/// Returns a page with its links as they are in the book. `original` is its path in the repository.
pub(super) fn rewritten(page: &str, original: &str, chapters: &Chapters) -> String {
    let own = chapters.place(original).unwrap_or_else(|| original.to_owned());
    let mut page = page.to_owned();
    let links: BTreeSet<String> = targets(&page).into_iter().map(str::to_owned).collect();
    for link in links.iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
        let (path, anchor) =
            link.split_once('#').map_or((link.as_str(), None), |(p, a)| (p, Some(a)));
        let file = joined(folder_of(original), path);
        let mut new = match chapters.place(&file) {
            Some(place) => relative(folder_of(&own), &place),
            None => format!("{WEB}/{file}"),
        };
        if let Some(anchor) = anchor {
            new = format!("{new}#{anchor}");
        }
        page = page.replace(&format!("]({link})"), &format!("]({new})"));
    }
    page
}

/// Returns the broken links of the pages below `folder`: to files that are missing, and to headings.
pub(super) fn broken(folder: &Path) -> Result<Vec<String>, String> {
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    let mut files: BTreeSet<String> = BTreeSet::new();
    for path in files_below(folder)? {
        let name = path.strip_prefix(folder).map_err(|error| error.to_string())?;
        let name = name.to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.insert(name.clone(), read(&path)?);
        }
        files.insert(name);
    }
    let mut wrong = Vec::new();
    for (name, page) in &pages {
        for link in targets(page) {
            if let Some(file) = link.strip_prefix(WEB) {
                let file = file.split('#').next().unwrap_or_default();
                if !Path::new(crate::root()).join(file.trim_start_matches('/')).exists() {
                    wrong.push(format!("{name}: {link}: no such file in the repository"));
                }
                continue;
            }
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { name.clone() } else { joined(folder_of(name), path) };
            if !files.contains(&target) {
                wrong.push(format!("{name}: {link}: no such page"));
            } else if !anchor.is_empty()
                && !pages.get(&target).is_some_and(|page| anchors(page).contains(anchor))
            {
                wrong.push(format!("{name}: {link}: no such heading"));
            }
        }
    }
    Ok(wrong)
}

/// Returns the names of the headings of a page, as mdbook makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let mut name = String::new();
        for character in heading.trim().to_lowercase().chars() {
            if character.is_alphanumeric() || "_-".contains(character) {
                name.push(character);
            } else if character.is_whitespace() {
                name.push('-');
            }
        }
        let mut unique = name.clone();
        let mut number = 0;
        while !found.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}-{number}");
        }
    }
    found
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the path of `path`, which is relative to `folder`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the path of `to` relative to `folder`.
fn relative(folder: &str, to: &str) -> String {
    let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let to: Vec<&str> = to.split('/').collect();
    let common = folder.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = "../".repeat(folder.len() - common);
    format!("{up}{}", to[common..].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapters() -> Chapters {
        Chapters::new("- [Storages](../../docs/storage.md)\n- [Copies](howto/copies.md)\n")
    }

    #[test]
    fn links_lead_to_chapters_or_to_the_web() {
        let page = "[a](../../../docs/storage.md#s3) [b](../faq.md) [c](../../../crates/x.rs)\n";
        assert_eq!(
            rewritten(page, "book/src/howto/copies.md", &chapters()),
            format!("[a](../depth/storage.md#s3) [b](../faq.md) [c]({WEB}/crates/x.rs)\n")
        );
        let page = "[a](protocol.md) [b](storage.md) [c](../book/src/howto/copies.md) [d](#here)\n";
        assert_eq!(
            rewritten(page, "docs/storage.md", &chapters()),
            format!(
                "[a]({WEB}/docs/protocol.md) [b](storage.md) [c](../howto/copies.md) [d](#here)\n"
            )
        );
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(targets("[a](b)\n```text\n[e](f)\n```\n[`g`](h)"), ["b", "h"]);
    }

    #[test]
    fn headings_have_anchors() {
        let found = anchors("# A `b`-C\n```text\n# d\n```\n## Files & more\n## Files & more\n");
        let expected = ["a-b-c", "files--more", "files--more-1"];
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn missing_pages_and_headings_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "# A\n[x](#a) [x](#b) [x](c.md) [x](d.md#e) [x](https://f)\n";
        std::fs::write(folder.path().join("a.md"), text).expect("written");
        std::fs::write(folder.path().join("d.md"), "## E\n").expect("written");
        let expected = ["a.md: #b: no such heading", "a.md: c.md: no such page"];
        assert_eq!(broken(folder.path()).expect("readable"), expected);
    }
}
