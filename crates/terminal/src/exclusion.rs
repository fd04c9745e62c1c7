//! The options that exclude files.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use cutpoint_backup::source::{self, WalkOptions};

use crate::exit::Failure;

/// The files that are excluded.
#[derive(Debug, Args)]
pub struct Exclusion {
    /// Exclude files that match PATTERN; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Read patterns to exclude from FILE; repeatable
    #[arg(long, value_name = "FILE")]
    pub exclude_file: Vec<PathBuf>,
    /// Exclude contents of folders with a CACHEDIR.TAG
    #[arg(long)]
    pub exclude_caches: bool,
    /// Do not enter other file systems
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
}

impl Exclusion {
    /// Returns the options of the walk, with the exclusion patterns of both options.
    ///
    /// # Errors
    ///
    /// Returns the error of the system if a file of patterns cannot be read. Returns a [`Failure`]
    /// that names the option, or the line of the file, of an invalid pattern.
    pub fn walk_options(&self) -> Result<WalkOptions> {
        let mut exclude = Vec::new();
        for pattern in &self.exclude {
            check_pattern("--exclude", pattern)?;
            exclude.push(pattern.clone());
        }
        for file in &self.exclude_file {
            let text = fs::read_to_string(file)
                .with_context(|| format!("exclude file {}", file.display()))?;
            for (index, pattern) in text.lines().enumerate() {
                check_pattern(
                    &format!("exclude file {}: line {}", file.display(), index + 1),
                    pattern,
                )?;
                exclude.push(pattern.to_owned());
            }
        }
        Ok(WalkOptions {
            one_file_system: self.one_file_system,
            exclude,
            exclude_caches: self.exclude_caches,
        })
    }
}

/// Checks a pattern that `place`, such as an option, contains.
///
/// # Errors
///
/// Returns a [`Failure`] that names the place if the pattern is invalid.
pub fn check_pattern(place: &str, pattern: &str) -> Result<(), Failure> {
    source::check_pattern(pattern).map_err(|problem| {
        Failure::failed(format!("{place}: {problem}"))
            .with_remedy("`cutpoint help patterns` explains the patterns")
    })
}
