//! `report`: reports results beside the figures of the papers.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cutpoint_lab::claims::{self, Answer, Cause, Test, Verdict};
use cutpoint_lab::{LabError, Results, report as page};
use cutpoint_terminal::exit::Exit;
use cutpoint_terminal::{Report, units};

use crate::args;
use crate::event::{Event, Summary};

pub(crate) fn run(args: &args::Report, report: &Report) -> Result<Exit> {
    let results = Results::read_all(&args.results)?;
    write(&args.html, &page::html(&results)?)?;
    if let Some(path) = &args.markdown {
        let which = if args.with_rows { page::Which::WithRows } else { page::Which::All };
        write(path, &page::markdown(&results, which))?;
    }
    let answers: Vec<Answer> = claims::all()
        .iter()
        .filter(|claim| claim.test != Test::Contradiction)
        .map(|claim| claim.answer(results.rows()))
        .collect();
    let count = |verdict| answers.iter().filter(|each| each.verdict == verdict).count() as u64;
    let [reproduced, same_shape, tied, contradicts, not_counted, not_testable] =
        Verdict::ALL.map(count);
    let against = answers.iter().filter(|each| each.cause == Some(Cause::Paper)).count() as u64;
    if report.is_json() {
        report.event(&Event::Summary(Summary::Report {
            html: &args.html.to_string_lossy(),
            markdown: args.markdown.as_deref().map(Path::to_string_lossy).as_deref(),
            row_count: results.rows().len() as u64,
            reproduced_count: reproduced,
            same_shape_count: same_shape,
            tied_count: tied,
            contradicted_count: contradicts,
            contradicted_by_paper_count: against,
            not_counted_count: not_counted,
            not_testable_count: not_testable,
        }))?;
    } else {
        report.line(&format!(
            "{}: {}; of {}, {reproduced} reproduced, {same_shape} of the same shape, {tied} tied, \
             {contradicts} contradicted ({against} because of the paper), {not_counted} not \
             counted, {not_testable} not testable here",
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
