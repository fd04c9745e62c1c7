//! The commands that read files without storing them: options, progress, failures and results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use cutpoint_estimate::Savings;
use cutpoint_estimate::scan::{Monitor, Progress, ScanCounts, ScanOptions};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{Exclusion, Report, Threads, Work, units};

/// The data to read.
#[derive(Debug, Args)]
pub struct Data {
    /// Files and folders to read
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The files that are excluded, and the number of threads.
    #[command(flatten)]
    pub choice: Choice,
}

/// The files that are excluded, as by a backup, and the number of threads.
#[derive(Debug, Args)]
pub struct Choice {
    /// The files that are excluded.
    #[command(flatten)]
    pub exclusion: Exclusion,
    /// The number of threads.
    #[command(flatten)]
    pub threads: Threads,
}

impl Data {
    /// Returns the options of a scan of this data.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Choice::scan_options`].
    pub fn scan_options(&self) -> Result<ScanOptions> {
        self.choice.scan_options(&self.paths)
    }
}

impl Choice {
    /// Returns the options of a scan of `paths`, which may be empty.
    ///
    /// # Errors
    ///
    /// Returns the error of the system if a path or a file of patterns cannot be reached.
    pub fn scan_options(&self, paths: &[PathBuf]) -> Result<ScanOptions> {
        for path in paths {
            fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
        }
        Ok(ScanOptions {
            paths: paths.to_vec(),
            walk: self.exclusion.walk_options()?,
            threads: self.threads.count(),
            ..ScanOptions::default()
        })
    }
}

/// Refuses data without any bytes, because it cannot be measured.
///
/// # Errors
///
/// Returns a [`Failure`] if nothing was read, although the scan is complete.
pub fn check_data(counts: &ScanCounts, report: &Report) -> Result<()> {
    let has_data = counts.size > counts.hole_bytes;
    if has_data || counts.is_partial || report.problem_count() > 0 {
        return Ok(());
    }
    let files = units::count(counts.file_count, "file");
    Err(Failure::failed(format!("no data found in {files}"))
        .with_remedy("name files or folders that contain data")
        .into())
}

/// Returns the exit code after a scan.
pub fn ended(counts: &ScanCounts, report: &Report) -> Exit {
    match counts.is_partial {
        true => Exit::Interrupted,
        false => Exit::of_problems(report.problem_count()),
    }
}

/// Warns that the results cover a part of the data only.
pub fn warn_of_part(counts: &ScanCounts, report: &Report) {
    if counts.is_partial {
        report.warn(&format!(
            "interrupted: the results cover only the first {}",
            units::size(counts.size)
        ));
    }
}

/// Shows the progress of a scan, and ends it at a signal.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The output.
    pub report: &'a Report,
    /// The signals.
    pub interrupt: Interrupt,
}

impl Monitor for Watch<'_> {
    fn progress(&self, progress: &Progress) {
        let Progress { file_count, size } = *progress;
        self.report.progress(&Work::of_files(file_count, size).into());
    }

    fn expected(&self, file_count: u64, size: u64) {
        self.report.expect(Work::of_files(file_count, size));
    }

    fn problem(&self, path: &Path, message: &str) {
        self.report.problem(path, message);
    }

    fn reading(&self, path: &Path) {
        self.report.set_path(path);
        self.report.detail_path("reading", path);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// The counts of a scan.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScanTotals {
    file_count: u64,
    folder_count: u64,
    #[serde(rename = "size_bytes")]
    size: u64,
    hole_bytes: u64,
    excluded_count: u64,
    problem_count: u64,
    #[serde(rename = "partial")]
    is_partial: bool,
}

impl ScanTotals {
    /// Creates the fields of a summary.
    pub fn of(counts: &ScanCounts) -> ScanTotals {
        let ScanCounts { file_count, folder_count, size, hole_bytes, .. } = *counts;
        let ScanCounts { excluded_count, problem_count, is_partial, .. } = *counts;
        ScanTotals {
            file_count,
            folder_count,
            size,
            hole_bytes,
            excluded_count,
            problem_count,
            is_partial,
        }
    }
}

/// The two common figures of deduplication.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// 1 - stored / read.
    #[serde(rename = "dedup_space_savings")]
    pub space_savings: Option<f64>,
    /// Read / stored.
    pub dedup_ratio: Option<f64>,
}

impl Figures {
    /// Returns the figures of `savings`.
    pub fn of(savings: &Savings) -> Figures {
        Figures { space_savings: savings.space_savings(), dedup_ratio: savings.dedup_ratio() }
    }
}
