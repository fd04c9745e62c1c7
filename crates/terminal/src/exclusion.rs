//! The options that exclude files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use cutpoint_backup::source::{self, FolderTag, WalkOptions};

use crate::exit::Failure;
use crate::report::Report;
use crate::units::parse_large_size;

/// The files that are excluded.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct Exclusion {
    /// Exclude files that match PATTERN; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Like --exclude, but ignore the case of letters; repeatable
    ///
    /// These patterns come after those of --exclude and --exclude-file.
    #[arg(long, value_name = "PATTERN", hide_short_help = true)]
    pub iexclude: Vec<String>,
    /// Read patterns to exclude from FILE; repeatable
    #[arg(long, value_name = "FILE")]
    pub exclude_file: Vec<PathBuf>,
    /// Exclude contents of folders with a CACHEDIR.TAG
    #[arg(long)]
    pub exclude_caches: bool,
    /// Exclude contents of folders that contain NAME; repeatable
    ///
    /// The folder and NAME itself are kept. With NAME:TEXT, NAME must be a file that begins with
    /// TEXT.
    #[arg(long, value_name = "NAME[:TEXT]", value_parser = parse_tag, hide_short_help = true)]
    pub exclude_if_present: Vec<FolderTag>,
    /// Exclude files of more than SIZE bytes
    ///
    /// The size of a file counts with its holes.
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size, hide_short_help = true)]
    pub exclude_larger_than: Option<u64>,
    /// Exclude what .gitignore files exclude
    ///
    /// Each .gitignore counts for its folder and everything below, also outside of repositories of
    /// git, and for files that git tracks all the same. Those above the given paths, and the
    /// settings of git, do not count.
    #[arg(long)]
    pub git_ignore: bool,
    /// Do not exclude what .cutpointignore files exclude
    ///
    /// Without this option, the patterns in a .cutpointignore count for its folder and everything
    /// below, by the rules of a .gitignore. Patterns of --exclude have precedence.
    #[arg(long, hide_short_help = true)]
    pub no_ignore_files: bool,
    /// Do not enter other file systems
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
}

impl Exclusion {
    /// Returns `true` if any of the options is given.
    pub fn is_given(&self) -> bool {
        *self != Exclusion::default()
    }

    /// Returns the options of the walk, with the exclusion patterns of all options.
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
        for pattern in &self.iexclude {
            check_pattern("--iexclude", pattern)?;
        }
        Ok(WalkOptions {
            one_file_system: self.one_file_system,
            exclude,
            exclude_any_case: self.iexclude.clone(),
            exclude_caches: self.exclude_caches,
            exclude_tagged: self.exclude_if_present.clone(),
            exclude_larger_than: self.exclude_larger_than,
            reads_ignore_files: !self.no_ignore_files,
            reads_git_ignore: self.git_ignore,
        })
    }

    /// Warns of patterns of --exclude and --iexclude that begin in the root folder without saying so,
    /// with a name that the root folder does not have: other programs look for such a pattern in
    /// every folder.
    pub fn warn_of_idle_patterns(&self, report: &Report) {
        let options = [("--exclude", &self.exclude), ("--iexclude", &self.iexclude)];
        let patterns =
            options.iter().flat_map(|(option, all)| all.iter().map(move |it| (option, it)));
        for (option, pattern) in patterns {
            let Some(name) = source::implied_root_name(pattern) else { continue };
            if name.contains(['*', '?', '[', '{', '\\']) || Path::new("/").join(name).exists() {
                continue;
            }
            let hint = source::every_folder_hint(pattern);
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            report.warn(&format!(
                "{option} {pattern}: matches nothing, because there is no /{name}{hint}"
            ));
        }
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

/// Parses the name of a file, with the text at its beginning after a colon.
fn parse_tag(text: &str) -> Result<FolderTag, String> {
    let (name, header) = text.split_once(':').unwrap_or((text, ""));
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(format!("{name:?} is not the name of a file"));
    }
    Ok(FolderTag { name: name.into(), header: header.into() })
}
