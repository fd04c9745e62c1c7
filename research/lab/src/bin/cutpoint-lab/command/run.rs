//! `run`: runs chunking algorithms over data sets.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use cutpoint_lab::{Definition, LabError, Progress, Results, Run as Measurement, Setting};
use cutpoint_terminal::exit::{Exit, Failure};
use cutpoint_terminal::interrupt::Interrupt;
use cutpoint_terminal::{Report, units};

use crate::args::Run;
use crate::event::{Event, Summary};

pub(crate) fn run(args: &Run, report: &Report) -> Result<Exit> {
    let interrupt = Interrupt::listen_without_limit();
    let definition = Definition::read(&args.definition)?;
    if cfg!(debug_assertions) {
        report.note(
            "this program was built without optimization: a release build is many times faster",
        );
    }
    if definition.measures_plain_code() && !cfg!(aligned_loops) {
        report.note(
            "the speed of plain code depends on its place in this program, by up to 1.6 times: \
             RUSTFLAGS=\"-C llvm-args=-align-loops=64\" builds one that aligns its loops",
        );
    }
    let name = args.definition.file_stem().unwrap_or_default().to_string_lossy();
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("lab-{name}")));
    let mut results = Results::open(&out)?;
    let row_count_before = results.rows().len();
    report.begin_progress();
    let mut cells = (0, 0);
    let outcome = Measurement::new(&definition, &args.data, Setting::here()).measure(
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
        report.event(&Event::Summary(Summary::Run {
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
            "`cutpoint-lab report {} --html report.html` writes a page about it",
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
