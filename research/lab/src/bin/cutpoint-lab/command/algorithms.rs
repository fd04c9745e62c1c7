//! `algorithms`: describes the chunking algorithms.

use anyhow::Result;
use cutpoint_chunking::{About, KeyUse, Parameter, algorithms};
use cutpoint_terminal::Report;
use cutpoint_terminal::exit::{Exit, Failure};

use crate::args::Algorithms;
use crate::event::Event;

/// The maximum number of columns in a line.
const WIDTH: usize = 80;

pub(crate) fn run(args: &Algorithms, report: &Report) -> Result<Exit> {
    let mut chosen: Vec<&About> = algorithms().to_vec();
    if let Some(name) = &args.name {
        chosen.retain(|about| about.name == name);
        if chosen.is_empty() {
            let names: Vec<&str> = algorithms().iter().map(|about| about.name).collect();
            return Err(Failure::failed(format!("algorithm `{name}`: not found"))
                .with_remedy(format!("choose one of {}", names.join(", ")))
                .into());
        }
    }
    for about in chosen {
        if report.is_json() {
            report.event(&Event::Algorithm(about.into()))?;
        } else if args.name.is_some() {
            explain(about, report)?;
        } else {
            list(about, report)?;
        }
    }
    Ok(Exit::Well)
}

/// Prints a short description, for the list of all algorithms.
fn list(about: &About, report: &Report) -> Result<()> {
    report.line(&format!("{}: {}", about.name, about.title))?;
    let parameters: Vec<String> = about.parameters.iter().map(key_and_default).collect();
    paragraph(report, 4, &format!("Parameters: {}.", parameters.join(", ")))?;
    paragraph(report, 4, &format!("Source: {}", about.source))
}

fn key_and_default(parameter: &Parameter) -> String {
    match parameter.default {
        Some(default) => format!("{} (default {default})", parameter.key),
        None => parameter.key.to_owned(),
    }
}

/// Prints a full description.
fn explain(about: &About, report: &Report) -> Result<()> {
    report.line(&format!("{}: {}", about.name, about.title))?;
    section(report, "Rule", &[about.rule.to_owned()])?;
    section(report, "Source", &[about.source.to_owned()])?;
    if !about.differences.is_empty() {
        section(report, "Differences", &[about.differences.to_owned()])?;
    }
    section(report, "Strengths", &[about.good_at.to_owned()])?;
    section(report, "Weaknesses", &[about.bad_at.to_owned()])?;
    let parameters: Vec<String> = about
        .parameters
        .iter()
        .map(|each| {
            let unit = match each.unit {
                "" => String::new(),
                unit => format!(" ({unit})"),
            };
            let default = each.default.map(|value| format!("; default {value}"));
            let default = default.unwrap_or_default();
            format!("{}: {} Allowed: {}{unit}{default}.", each.key, each.meaning, each.allowed)
        })
        .collect();
    section(report, "Parameters", &parameters)?;
    let short_forms: Vec<String> = about
        .short_forms
        .iter()
        .map(|each| {
            let beside = match each.beside {
                [] => String::new(),
                keys => format!(" Optional: {}.", keys.join(", ")),
            };
            format!("{}: {} Allowed: {}.{beside}", each.key, each.meaning, each.allowed)
        })
        .collect();
    if !short_forms.is_empty() {
        section(report, "Short forms", &short_forms)?;
    }
    let dialects: Vec<String> =
        about.dialects.iter().map(|each| format!("{}: {}", each.keys, each.meaning)).collect();
    if !dialects.is_empty() {
        section(report, "Dialects", &dialects)?;
    }
    let key = match about.key {
        KeyUse::Permutation => "Sees each byte value through a secret permutation.",
        KeyUse::Table => "Uses a secret table.",
        KeyUse::Cipher => "Uses a hash and a cipher with secret keys; the only rule with a proof.",
        KeyUse::Refused => "Refused, because its cut-points cannot be secret.",
        _ => "Has no use for a key.",
    };
    section(report, "In an encrypted repository", &[key.to_owned()])
}

fn section(report: &Report, title: &str, items: &[String]) -> Result<()> {
    report.line("")?;
    report.line(&format!("{title}:"))?;
    for item in items {
        paragraph(report, 2, item)?;
    }
    Ok(())
}

/// Prints `text` in lines of at most [`WIDTH`] columns. The first line is indented by `indent`, the
/// others by two more.
fn paragraph(report: &Report, indent: usize, text: &str) -> Result<()> {
    let mut line = " ".repeat(indent);
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.len() + 1 + word.len() > WIDTH {
            report.line(&line)?;
            line = " ".repeat(indent + 2);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    report.line(&line)
}
