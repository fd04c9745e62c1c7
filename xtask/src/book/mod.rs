//! The users' book: its pages are put together below the target directory, checked, and built.
//!
//! - The pages of `book/src`, and the pages of `docs/` that `SUMMARY.md` lists.
//! - The pages of commands and topics, which `cutpoint man --markdown` writes.
//! - The charts, which `research/bench/tool book-charts` draws from the benchmark's page.
//! - The list of commands that no test runs, at the end of `about.md`.
//!
//! Links to files of the repository that are no pages of the book lead to its web address.

mod files;
mod links;
mod summary;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use cutpoint_testing::markdown_below;
pub(crate) use files::GENERATED;
use files::{files_below, named, read, write};
use links::Chapters;

use crate::{root, target};

/// The line of `about.md` below which the list of commands that no test runs is written.
const NOT_RUN: &str = "<!-- not run -->";

/// Builds the program, and then the book.
pub(crate) fn build() -> Result<(), String> {
    crate::run(crate::cargo(&["build", "--quiet", "-p", "cutpoint"]))?;
    check()
}

/// Puts the pages together and checks them, and builds the book if mdbook is there. The program is
/// the one that was built with the tests.
pub(crate) fn check() -> Result<(), String> {
    let program = target().join("debug").join("cutpoint");
    let folder = target().join("book");
    assemble(&program, &folder)?;
    let mut command = Command::new("mdbook");
    if command.arg("--version").output().is_err() {
        println!("xtask: SKIPPED: mdbook is not there: the pages were checked, no book was built");
        return Ok(());
    }
    let mut command = Command::new("mdbook");
    command.arg("build").arg(&folder);
    crate::run(command)?;
    println!("xtask: the book is at {}", folder.join("html").join("index.html").display());
    Ok(())
}

/// Writes all pages and pictures into `folder`, and checks their links.
fn assemble(program: &Path, folder: &Path) -> Result<(), String> {
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|error| named(&source, error))?;
    }
    let ours = Path::new(root()).join("book");
    for name in ["book.toml", "book.css"] {
        write(&folder.join(name), &read(&ours.join(name))?)?;
    }
    let generated = source.join(GENERATED);
    let commands = generated.join("commands");
    fs::create_dir_all(&commands).map_err(|error| named(&commands, error))?;
    let mut man = Command::new(program);
    man.args(["man", "--markdown", "--quiet"]).arg(&commands);
    crate::output(man)?;
    draw_charts(&generated.join("charts"))?;
    let summary = read(&ours.join("src/SUMMARY.md"))?;
    let index = read(&commands.join("index.md"))?;
    let chapters = Chapters::new(&summary);
    let mut pages = pages_of(&ours.join("src"))?;
    for (original, _) in chapters.of_docs() {
        pages.insert(original.to_owned(), read(&Path::new(root()).join(original))?);
    }
    let not_run = not_run(&pages, &chapters);
    let mut wrong = summary::unlisted(&summary, &pages);
    for (original, text) in &pages {
        let place = chapters.place(original).unwrap_or_else(|| original.clone());
        let mut text = match original.ends_with("/SUMMARY.md") {
            true => summary::complete(text, &index),
            false => text.replace(NOT_RUN, &not_run),
        };
        text = links::rewritten(&summary::without_comments(&text), original, &chapters);
        write(&source.join(&place), &text)?;
    }
    copy_pictures(&ours.join("src"), &source)?;
    wrong.extend(links::broken(&source)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Draws the charts, if Python is there. Otherwise empty pictures take their places, so that links
/// can be checked.
fn draw_charts(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
    let mut command = Command::new("python3");
    command.args(["-B", "research/bench/tool", "book-charts"]).arg(folder).current_dir(root());
    if Command::new("python3").arg("--version").output().is_err() {
        println!("xtask: SKIPPED: python3 is not there: the charts of the book are empty");
        for name in ["sizes", "cpu", "memory", "small-files", "far"] {
            write(
                &folder.join(format!("{name}.svg")),
                "<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            )?;
        }
        return Ok(());
    }
    crate::output(command).map(|_| ())
}

/// Returns the Markdown files below a folder of the workspace, by their paths in it.
fn pages_of(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut pages = BTreeMap::new();
    for path in markdown_below(folder) {
        let name = path.strip_prefix(folder).map_err(|error| error.to_string())?;
        pages.insert(format!("book/src/{}", name.display()), read(&path)?);
    }
    Ok(pages)
}

fn copy_pictures(from: &Path, to: &Path) -> Result<(), String> {
    for path in files_below(from)? {
        if path.extension().is_some_and(|it| it == "svg") {
            let name = path.strip_prefix(from).map_err(|error| error.to_string())?;
            write(&to.join(name), &read(&path)?)?;
        }
    }
    Ok(())
}

/// Returns the list of the commands that no test runs: the first line of each `sh` block, by page.
fn not_run(pages: &BTreeMap<String, String>, chapters: &Chapters) -> String {
    let mut list = String::from("| page | needs | first line |\n| --- | --- | --- |\n");
    for (original, text) in pages {
        let Some(page) = chapters.place(original) else { continue };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(needs) = line.strip_prefix("```sh needs-") else { continue };
            let first = lines.next().unwrap_or_default().replace('|', "\\|");
            list += &format!("| [{page}]({page}) | {needs} | `{first}` |\n");
        }
    }
    list
}
