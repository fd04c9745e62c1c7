//! `trace`: writes a row for each chunk, for other programs, and computes savings from such rows.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_chunking::Spec;
use cutpoint_estimate::scan::Shard;
use cutpoint_lab::trace::{Format, TraceOptions, TraceSavings, join, trace};
use cutpoint_terminal::Report;
use cutpoint_terminal::exit::{Exit, Failure};
use cutpoint_terminal::interrupt::Interrupt;
use cutpoint_terminal::scan::{ScanTotals, Watch, check_data, ended, warn_of_part};
use cutpoint_terminal::units::{self, percent};

use crate::args::Trace;
use crate::event::{self, Event, Summary};

/// The context of the key derivation.
const KEY_CONTEXT: &str = "cutpoint v1 trace fingerprints";

pub(crate) fn run(args: &Trace, report: &Report) -> Result<Exit> {
    let Some(output) = &args.output else { return read(args, report) };
    let format = Format::of(output).ok_or_else(|| {
        Failure::failed(format!(
            "--output: {}: unknown type of file (expected .parquet or .csv)",
            output.display()
        ))
    })?;
    let spec = args.algorithm.parse::<Spec>().and_then(Spec::bounded).context("--algorithm")?;
    let key = match &args.fingerprint_key {
        Some(file) => {
            let bytes = fs::read(file).with_context(|| file.display().to_string())?;
            if bytes.is_empty() {
                return Err(Failure::failed(format!("{}: empty key", file.display())).into());
            }
            Some(blake3::derive_key(KEY_CONTEXT, &bytes))
        }
        None => None,
    };
    let mut scan = args.choice.scan_options(&args.paths)?;
    scan.shard = match args.shard {
        Some((number, count)) => Some(Shard::new(number, count, &spec, args.range_size)?),
        None => None,
    };
    let options = TraceOptions { scan, spec, key, format };
    if !args.join.is_empty() {
        return join_parts(args, &options, output, report);
    }
    write(args, &options, output, report)
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| path.display().to_string())
}

/// Writes the chunks of files.
fn write(args: &Trace, options: &TraceOptions, output: &Path, report: &Report) -> Result<Exit> {
    let paths = args.paths_output.as_deref().map(create).transpose()?;
    let file = create(output)?;
    let watch = Watch { report, interrupt: Interrupt::listen_without_limit() };
    report.begin_progress();
    let traced = trace(options, file, paths, &watch);
    report.end_progress();
    let traced = traced.with_context(|| output.display().to_string())?;
    let counts = &traced.counts;
    if args.shard.is_none() {
        check_data(counts, report)?;
    }
    warn_of_part(counts, report);
    if report.is_json() {
        report.event(&Event::Summary(Summary::Trace {
            counts: ScanTotals::of(counts),
            algorithm: options.spec.to_string(),
            row_count: traced.row_count,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.note(&format!(
            "{}, {}: {} in {}; {}",
            units::count(counts.file_count, "file"),
            units::size(counts.size),
            units::count(traced.row_count, "row"),
            output.display(),
            units::duration(report.elapsed())
        ));
    }
    Ok(ended(counts, report))
}

/// Joins the parts of a trace.
fn join_parts(
    args: &Trace,
    options: &TraceOptions,
    output: &Path,
    report: &Report,
) -> Result<Exit> {
    // Creating the output must not empty a part.
    let existing = fs::canonicalize(output).ok();
    for part in &args.join {
        let part = fs::canonicalize(part).with_context(|| part.display().to_string())?;
        if Some(part) == existing {
            let message = format!("--output: {}: it is also to be joined", output.display());
            return Err(Failure::failed(message).into());
        }
    }
    let file = create(output)?;
    let watch = Watch { report, interrupt: Interrupt::listen_without_limit() };
    report.begin_progress();
    report.show(|| format!("joining {}", units::count(args.join.len() as u64, "trace")));
    let joined = join(options, &args.join, file, &watch);
    report.end_progress();
    if watch.interrupt.is_asked() {
        report.warn(&format!("interrupted: {} is incomplete", output.display()));
        return Ok(Exit::Interrupted);
    }
    let joined = joined?;
    if report.is_json() {
        report.event(&Event::Summary(Summary::TraceJoin {
            traces: event::names(&args.join),
            algorithm: options.spec.to_string(),
            row_count: joined.row_count,
            broken_seam_count: joined.broken_seam_count,
            broken_file_count: joined.broken_file_count,
            dropped_row_count: joined.dropped_row_count,
            new_row_count: joined.new_row_count,
            new_bytes: joined.new_bytes,
            elapsed_ns: report.elapsed_ns(),
        }))?;
    } else {
        report.note(&format!(
            "{} in {}; {} repaired in {}, {} ({}) cut again; {}",
            units::count(joined.row_count, "row"),
            output.display(),
            units::count(joined.broken_seam_count, "seam"),
            units::count(joined.broken_file_count, "file"),
            units::count(joined.new_row_count, "row"),
            units::size(joined.new_bytes),
            units::duration(report.elapsed())
        ));
    }
    Ok(Exit::Well)
}

/// Computes the savings from traces.
fn read(args: &Trace, report: &Report) -> Result<Exit> {
    let interrupt = Interrupt::listen_without_limit();
    let mut savings = TraceSavings::new();
    report.begin_progress();
    for path in &args.read {
        report.show(|| format!("reading {}", path.display()));
        let added = savings.add(path, &|| interrupt.is_asked());
        if interrupt.is_asked() {
            break;
        }
        added.with_context(|| path.display().to_string())?;
    }
    report.end_progress();
    let is_partial = interrupt.is_asked();
    if is_partial {
        report.warn("interrupted: the results cover only a part of the traces");
    }
    let broken_seam_count = savings.broken_seam_count();
    if broken_seam_count > 0 {
        report.warn(&format!(
            "{} between parts of files: the results are not exact, because parts are missing or \
             chunks do not fit together (--join repairs them)",
            units::count(broken_seam_count, "broken seam")
        ));
    }
    let found = savings.savings();
    if report.is_json() {
        report.event(&Event::Trace(event::Trace::of(&args.read, &savings)))?;
    } else {
        let ratio = found.dedup_ratio().map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
        let mean = found.read_bytes.checked_div(found.chunk_count).map(units::size);
        let lines = [
            ("files", savings.file_count().to_string()),
            ("read", units::size(found.read_bytes)),
            ("zeros", units::size(savings.zero_bytes())),
            ("chunks", found.chunk_count.to_string()),
            ("mean chunk", mean.unwrap_or_else(|| "-".to_owned())),
            ("unique chunks", found.unique_chunk_count.to_string()),
            ("unique", units::size(found.stored_bytes)),
            ("space savings", percent(found.space_savings())),
            ("dedup ratio", ratio),
        ];
        for (name, value) in lines {
            report.line(&format!("{name:<14} {value:>12}"))?;
        }
    }
    Ok(match is_partial {
        true => Exit::Interrupted,
        false => Exit::of_problems(broken_seam_count),
    })
}
