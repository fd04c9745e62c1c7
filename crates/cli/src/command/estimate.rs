//! `estimate`: estimates the savings of deduplication before anything is stored.

mod page;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cutpoint_chunking::Spec;
use cutpoint_estimate::{
    Configured, EstimateOptions, Estimated, Monitor, Progress, SampleOptions, ScanOptions, estimate,
};

use crate::args::{Choice, Data, Estimate};
use crate::command::backup::walk_options;
use crate::defaults::{DEFAULT, DEFAULT_CUT};
use crate::event::{self, Event, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::units;

/// The specifications estimated without `--algorithm`: the default of new repositories, smaller
/// chunks by the same rule, chunks by the fastest rule, and fixed sizes as a lower bound.
const SPECS: [&str; 5] =
    [DEFAULT_CUT, "fastcdc:avg=16k", "fastcdc:avg=8k", "seqcdc:avg=16k", "fixed:size=16k"];

/// The memory for each chunk of a sample, in bytes: a place in the table and the data beside it.
const SAMPLE_ENTRY_BYTES: u64 = 60;
/// The minimum memory of a sample, in bytes. A smaller sample would be meaningless.
const SAMPLE_MEMORY_MIN: u64 = 1 << 20;

/// A configuration as it was requested, and its result.
struct Row<'a> {
    label: &'a str,
    found: &'a Configured,
}

pub(crate) fn run(args: &Estimate, report: &Report) -> Result<Exit> {
    let labels: Vec<&str> = match args.algorithms.is_empty() {
        true => SPECS.to_vec(),
        false => args.algorithms.iter().map(String::as_str).collect(),
    };
    let specs: Result<Vec<Spec>> = labels
        .iter()
        .map(|text| text.parse::<Spec>().and_then(Spec::bounded).context("--algorithm"))
        .collect();
    let options = EstimateOptions {
        scan: scan_options(&args.data)?,
        specs: specs?,
        bursts: !args.no_bursts,
        compression: !args.no_compression,
        compression_level: args.compression_level.unwrap_or(DEFAULT.compression_level),
        region_size: DEFAULT.region_size as usize,
        container_size: DEFAULT.container_size.into(),
        sample: args.sample.then(|| sample_options(args)).transpose()?,
    };
    if args.sample && !args.no_bursts {
        report.detail(|| "bursts cannot be estimated from a sample, and are omitted".to_owned());
    }
    let watch = Watch { report, interrupt: Interrupt::listen_without_limit() };
    report.begin_progress();
    let estimated = estimate(&options, &watch);
    report.end_progress();
    let estimated = estimated?;
    check_data(&estimated.counts, report)?;
    let rows: Vec<Row<'_>> = labels
        .iter()
        .zip(&estimated.configurations)
        .map(|(label, found)| Row { label, found })
        .collect();
    tell(&estimated, &rows, report)?;
    report.flush()?;
    if let Some(path) = &args.html {
        fs::write(path, page::html(&estimated, &rows, report.elapsed())?)
            .with_context(|| path.display().to_string())?;
    }
    Ok(ended(&estimated.counts, report))
}

/// Returns the options of a scan of `data`.
pub(crate) fn scan_options(data: &Data) -> Result<ScanOptions> {
    scan_options_of(&data.paths, &data.choice)
}

/// Returns the options of a scan of `paths`, which may be empty.
pub(crate) fn scan_options_of(paths: &[PathBuf], choice: &Choice) -> Result<ScanOptions> {
    for path in paths {
        fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    }
    Ok(ScanOptions {
        paths: paths.to_vec(),
        walk: walk_options(&choice.exclusion)?,
        threads: choice.threads,
        ..ScanOptions::default()
    })
}

fn sample_options(args: &Estimate) -> Result<SampleOptions> {
    if args.sample_memory < SAMPLE_MEMORY_MIN {
        return Err(Failure::failed(format!(
            "--sample-memory: {} is too small for a sample",
            units::size(args.sample_memory)
        ))
        .with_remedy(format!("use {} or more", units::size(SAMPLE_MEMORY_MIN)))
        .into());
    }
    let defaults = SampleOptions::default();
    // Tables double in size, and one is full at seven eighths of a power of two.
    let places = (args.sample_memory / SAMPLE_ENTRY_BYTES + 1).next_power_of_two() / 2;
    let entry_count_max = usize::try_from(places / 8 * 7).unwrap_or(usize::MAX);
    Ok(SampleOptions {
        entry_count_max,
        window_count: entry_count_max / 8,
        salt: args.sample_seed,
        ..defaults
    })
}

/// Refuses data without any bytes, because it cannot be measured.
pub(crate) fn check_data(counts: &cutpoint_estimate::ScanCounts, report: &Report) -> Result<()> {
    let has_data = counts.size > counts.hole_bytes;
    if has_data || counts.is_partial || report.problem_count() > 0 {
        return Ok(());
    }
    let files = units::count(counts.file_count, "file");
    Err(Failure::failed(format!("no data found: {files} without a byte"))
        .with_remedy("name files or folders that contain data")
        .into())
}

/// Returns the exit code after a scan.
pub(crate) fn ended(counts: &cutpoint_estimate::ScanCounts, report: &Report) -> Exit {
    match counts.is_partial {
        true => Exit::Interrupted,
        false => Exit::of_problems(report.problem_count()),
    }
}

/// Shows the progress of a scan.
pub(crate) struct Watch<'a> {
    pub(crate) report: &'a Report,
    pub(crate) interrupt: Interrupt,
}

impl Monitor for Watch<'_> {
    fn progress(&self, progress: &Progress) {
        let Progress { file_count, size } = *progress;
        self.report.progress(event::Progress { file_count, size, ..event::Progress::default() });
    }

    fn expected(&self, file_count: u64, size: u64) {
        self.report.expect(file_count, size);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.report.problem(path, message);
    }

    fn reading(&self, path: &Path) {
        self.report.detail_path("reading", path);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// Warns that the results cover a part of the data only.
pub(crate) fn warn_of_part(counts: &cutpoint_estimate::ScanCounts, report: &Report) {
    if counts.is_partial {
        report.warn(&format!(
            "interrupted: the results cover only the first {}",
            units::size(counts.size)
        ));
    }
}

fn tell(estimated: &Estimated, rows: &[Row<'_>], report: &Report) -> Result<()> {
    let counts = &estimated.counts;
    warn_of_part(counts, report);
    if !report.is_json() {
        return table::print(estimated, rows, report);
    }
    for row in rows {
        report.event(&Event::Estimate(Box::new(event::Estimate::of(row.found))))?;
    }
    report.event(&Event::Summary(Summary::Estimate {
        counts: event::Counted::of(counts),
        elapsed_ns: report.elapsed_ns(),
    }))
}

/// Computes the speed of one thread in GB (10^9 bytes) per second of CPU time; `None` if the time
/// was too short.
fn gigabytes_per_second(found: &Configured) -> Option<f64> {
    let seconds = (found.times.chunking + found.times.fingerprinting).as_secs_f64();
    (seconds > 0.0).then(|| found.dedup.read_bytes as f64 / seconds / 1e9)
}

/// Formats a share as a percentage.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}
