//! `lab`: runs chunking algorithms over data sets, and reports the results beside the figures of
//! the papers.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use cutpoint_lab::claims::{self, Test, Verdict};
use cutpoint_lab::{Definition, LabError, Progress, Results, Run, Setting, report as page};

use crate::args::{Lab, LabReport, LabRun, LabVerb};
use crate::event::{Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

pub(crate) fn run(lab: &Lab, report: &Report) -> Result<Exit> {
    match &lab.verb {
        LabVerb::Run(args) => measure(args, report),
        LabVerb::Report(args) => write_page(args, report),
    }
}

fn measure(args: &LabRun, report: &Report) -> Result<Exit> {
    let interrupt = Interrupt::listen_without_limit();
    let definition = Definition::read(&args.definition)?;
    if cfg!(debug_assertions) {
        report.note(
            "this program was built without optimization: a release build is many times faster",
        );
    }
    let name = args.definition.file_stem().unwrap_or_default().to_string_lossy();
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("lab-{name}")));
    let mut results = Results::open(&out)?;
    let row_count_before = results.rows().len();
    report.begin_progress();
    let mut cells = (0, 0);
    let outcome = Run::new(&definition, &args.data, Setting::here()).measure(
        &mut results,
        &|| !interrupt.is_asked(),
        &mut |progress| {
            cells = (progress.done, progress.total);
            report.show(|| shown(progress));
        },
    );
    report.end_progress();
    let left_out = outcome.map_err(explained)?;
    for name in &left_out {
        report.warn(&format!("data set {name}: not found, skipped"));
    }
    let new_row_count = results.rows().len() - row_count_before;
    if report.is_json() {
        report.event(&Event::Summary(Summary::LabRun {
            results: &out.to_string_lossy(),
            cell_count: cells.1 as u64,
            row_count: results.rows().len() as u64,
            new_row_count: new_row_count as u64,
            left_out: &left_out,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.line(&format!(
            "{} of {}: {}, {new_row_count} of them new, in {}",
            units::count(cells.1 as u64, "cell"),
            definition.name,
            units::count(results.rows().len() as u64, "row"),
            out.display()
        ))?;
        report.note(&format!(
            "`cutpoint lab report {} --html report.html` writes a page about it",
            out.display()
        ));
    }
    Ok(Exit::Well)
}

fn shown(progress: &Progress<'_>) -> String {
    let left = match progress.remaining {
        Some(left) if left > Duration::ZERO => format!(", {} left", units::duration(left)),
        _ => String::new(),
    };
    format!(
        "cell {} of {}{left}: {}",
        (progress.done + 1).min(progress.total),
        progress.total,
        progress.cell
    )
}

/// Adds a remedy to the error, if one is known.
fn explained(error: LabError) -> anyhow::Error {
    match &error {
        LabError::Interrupted => Failure::new(Exit::Interrupted, error.to_string()).into(),
        LabError::File { source, .. } if source.kind() == ErrorKind::NotFound => {
            let remedy = "name the folder of data sets with --data, build the set \
                 (research/datasets), or set `optional = true` there";
            Failure::failed(error.to_string()).with_remedy(remedy).into()
        }
        _ => error.into(),
    }
}

fn write_page(args: &LabReport, report: &Report) -> Result<Exit> {
    let results = Results::read(&args.results)?;
    write(&args.html, &page::html(&results)?)?;
    if let Some(path) = &args.markdown {
        write(path, &page::markdown(&results))?;
    }
    let answers: Vec<Verdict> = claims::all()
        .iter()
        .filter(|claim| claim.test != Test::Contradiction)
        .map(|claim| claim.answer(results.rows()).verdict)
        .collect();
    let count = |verdict| answers.iter().filter(|each| **each == verdict).count() as u64;
    let [reproduced, same_shape, contradicts, not_testable] =
        [Verdict::Reproduced, Verdict::SameShape, Verdict::Contradicts, Verdict::NotTestable]
            .map(count);
    if report.is_json() {
        report.event(&Event::Summary(Summary::LabReport {
            html: &args.html.to_string_lossy(),
            markdown: args.markdown.as_deref().map(Path::to_string_lossy).as_deref(),
            row_count: results.rows().len() as u64,
            reproduced_count: reproduced,
            same_shape_count: same_shape,
            contradicts_count: contradicts,
            not_testable_count: not_testable,
        }))?;
    } else {
        report.line(&format!(
            "{}: {}; of {} {reproduced} reproduced, {same_shape} same shape, {contradicts} contradicts, {not_testable} not testable here",
            args.html.display(),
            units::count(results.rows().len() as u64, "row"),
            units::count(answers.len() as u64, "claim"),
        ))?;
    }
    Ok(Exit::Well)
}

/// Replaces a file atomically.
fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    std::fs::File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&new, path))
        .inspect_err(|_| drop(std::fs::remove_file(&new)))
        .map_err(|source| LabError::File { path: path.to_owned(), source })
}
