//! The list of chapters.

use std::collections::BTreeMap;

use super::files::GENERATED;

/// The line of the list that stands for the pages of commands and topics.
const COMMANDS: &str = "<!-- commands -->";

/// The beginnings of comments that only tests and checks read.
const COMMENTS: [&str; 2] = ["<!-- setup", "<!-- figures"];

/// Returns the list of chapters with a chapter for each command and topic in `index`, one level
/// below the chapter before.
pub(super) fn complete(summary: &str, index: &str) -> String {
    let links = index.lines().filter_map(|line| {
        let (title, rest) = line.strip_prefix("- [")?.split_once("](")?;
        Some((title, rest.split_once(')')?.0))
    });
    let lines = links.map(|(title, file)| {
        format!("  - [{}]({GENERATED}/commands/{file})", title.trim_start_matches("cutpoint "))
    });
    summary.replace(COMMANDS, &lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the pages of the book that are no chapters.
pub(super) fn unlisted(summary: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let ours = pages.keys().filter_map(|name| name.strip_prefix("book/src/"));
    let missing = ours
        .filter(|name| *name != "SUMMARY.md")
        .filter(|name| !summary.contains(&format!("]({name})")));
    missing.map(|name| format!("book/src/{name} is not in SUMMARY.md")).collect()
}

/// Returns a page without the comments for tests and checks.
pub(super) fn without_comments(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut is_comment = false;
    for line in page.lines() {
        is_comment |= COMMENTS.iter().any(|start| line.starts_with(start));
        if !is_comment {
            text.push_str(line);
            text.push('\n');
        }
        is_comment &= line != "-->";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_chapters() {
        let index = "# Commands\n\n## Every day\n\n- [cutpoint init](init.md): Create\n";
        let summary = complete("- [All](a.md)\n<!-- commands -->\n- [B](b.md)\n", index);
        assert_eq!(summary, "- [All](a.md)\n  - [init](generated/commands/init.md)\n- [B](b.md)\n");
    }

    #[test]
    fn page_without_chapter_is_named() {
        let pages = ["book/src/SUMMARY.md", "book/src/a.md", "book/src/b/c.md", "docs/d.md"];
        let pages = pages.map(|name| (name.to_owned(), String::new())).into();
        assert_eq!(unlisted("- [A](a.md)", &pages), ["book/src/b/c.md is not in SUMMARY.md"]);
    }

    #[test]
    fn comments_for_checks_are_not_part_of_the_book() {
        let page = "a\n<!-- setup\nb\n-->\nc\n<!-- figures\nb\n-->\n<!-- d -->\n";
        assert_eq!(without_comments(page), "a\nc\n<!-- d -->\n");
    }
}
