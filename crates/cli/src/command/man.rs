//! `man`: writes the manual pages.

mod markdown;

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man as Page;
use roff::{Roff, roman};

use crate::args::{Args, Man};
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

/// The width of the text of a topic, in columns. Readers of pages indent it.
const TOPIC_WIDTH: usize = 72;

pub(crate) fn run(args: &Man, report: &Report) -> Result<Exit> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = Args::layout();
    command.build();
    let (count, noun) = match args.markdown {
        true => (write_markdown(&command, folder)?, "page"),
        false => (write_pages(&command, folder)? + write_topics(folder)?, "manual page"),
    };
    let pages = units::count(count, noun);
    report.note(&format!("Wrote {pages} to {}.", folder.display()));
    Ok(Exit::Well)
}

/// Writes a page in Markdown for each command and topic, and their list. Returns their number.
fn write_markdown(command: &Command, folder: &Path) -> Result<u64> {
    let mut pages =
        vec![("index".to_owned(), markdown::index(command, Args::groups(), Args::topics()))];
    let names: Vec<&str> = Args::groups().iter().flat_map(|(_, names)| *names).copied().collect();
    let commands = command.get_subcommands().filter(|inner| names.contains(&inner.get_name()));
    pages.extend(commands.map(|inner| (inner.get_name().to_owned(), markdown::page(inner))));
    pages.extend(
        Args::topics()
            .map(|(name, topic)| (markdown::file_of_topic(name), markdown::topic(name, topic))),
    );
    let mut count = 0;
    for (name, text) in pages {
        let path = folder.join(format!("{name}.md"));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        count += 1;
    }
    Ok(count)
}

/// Writes the page of `command` and those of its subcommands. Returns their number.
fn write_pages(command: &Command, folder: &Path) -> Result<u64> {
    let mut count = 1;
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    let page = page(command, name).and_then(|text| fs::write(&path, text));
    page.with_context(|| path.display().to_string())?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        count += write_pages(inner, folder)?;
    }
    Ok(count)
}

/// Writes a page for each topic of the help, among them the common options. Returns their number.
fn write_topics(folder: &Path) -> Result<u64> {
    let mut count = 0;
    for (topic, command) in Args::topics() {
        let name = page_of_topic(topic);
        let path = folder.join(format!("{name}.1"));
        let page = topic_page(command, &name).and_then(|text| fs::write(&path, text));
        page.with_context(|| path.display().to_string())?;
        count += 1;
    }
    Ok(count)
}

fn page_of_topic(topic: &str) -> String {
    format!("cutpoint-{topic}")
}

/// Returns the page of a topic, whose text is that of the help.
fn topic_page(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    titled(command.clone(), name).render_title(&mut text)?;
    let help = command.term_width(TOPIC_WIDTH).render_long_help().to_string();
    let (about, help) = help.split_once('\n').unwrap_or((&help, ""));
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    roff.control("SH", ["DESCRIPTION"]).control("nf", []);
    for line in help.trim().lines() {
        roff.text([roman(line.trim_end())]);
    }
    roff.control("fi", []).to_writer(&mut text)?;
    Ok(text)
}

/// Returns the section that names the pages of the topics: of all in the page of the program, and
/// elsewhere of those that concern every command.
fn see_also(is_program: bool) -> Roff {
    let names = Args::topics().map(|(name, _)| name);
    let names = names.filter(|name| is_program || ["options", "exit-codes"].contains(name));
    let pages: Vec<String> = names.map(|name| format!("{}(1)", page_of_topic(name))).collect();
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
    section
}

/// Returns a page with its title.
fn titled(command: Command, name: &str) -> Page {
    Page::new(command)
        .title(name.to_uppercase())
        .date(option_env!("CUTPOINT_DATE").unwrap_or_default())
        .source(concat!("cutpoint ", env!("CARGO_PKG_VERSION")))
        .manual("Cutpoint")
}

/// Returns the page of `command`. The examples, which stand in front of the options in the help, are
/// a section at the end.
fn page(command: &Command, name: &str) -> io::Result<String> {
    let page = titled(command.clone(), name);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(examples) = command.get_before_help() {
        examples_section(&examples.to_string()).to_writer(&mut text)?;
    }
    see_also(name == "cutpoint").to_writer(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    // A line break beside an empty line has no effect, and readers of pages warn of it.
    Ok(text.replace(".br\n\n.br\n", "\n"))
}

/// Returns the section with `examples`, line by line.
fn examples_section(examples: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines().filter(|line| *line != "Examples:" && !line.is_empty()) {
        section.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    section.control("fi", []);
    section
}
