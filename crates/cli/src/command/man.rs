//! `man`: writes the manual pages.

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

pub(crate) fn run(args: &Man, report: &Report) -> Result<Exit> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = Args::layout();
    command.build();
    let count = write_pages(&command, folder)?;
    let pages = units::count(count, "manual page");
    report.note(&format!("Wrote {pages} to {}.", folder.display()));
    Ok(Exit::Well)
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

/// Returns the page of `command`. The examples, which stand in front of the options in the help, are
/// a section at the end.
fn page(command: &Command, name: &str) -> io::Result<String> {
    let page = Page::new(command.clone())
        .title(name.to_uppercase())
        .date(option_env!("CUTPOINT_DATE").unwrap_or_default())
        .source(concat!("cutpoint ", env!("CARGO_PKG_VERSION")))
        .manual("Cutpoint");
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
