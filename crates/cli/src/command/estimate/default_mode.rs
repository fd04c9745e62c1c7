//! What the default mode would store: a backup into a scratch repository, or one for each version.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use cutpoint_backup::save::{BackupMonitor, BackupProgress};
use cutpoint_backup::source::resolve;
use cutpoint_estimate::{ScanCounts, ScratchBackup, ScratchOptions, ScratchRepository};
use cutpoint_page::space::{Space, measure};
use cutpoint_repository::MemoryLimit;
use cutpoint_storage::{Error as StoreError, Kind};
use cutpoint_terminal::Work;

use crate::args::{Estimate, Global};
use crate::command::stats::Monitor;
use crate::exit::Failure;
use crate::interrupt::{self, Interrupt};
use crate::report::Report;
use crate::temporary::temporary_folder;
use crate::units;

/// The backups that are made to learn what they would store.
pub(super) struct Plan {
    /// The paths of each backup.
    backups: Vec<Vec<PathBuf>>,
    /// The path that every version gets in its snapshot; `None` if all paths are saved in one run.
    as_path: Option<PathBuf>,
    options: ScratchOptions,
    /// Set if what takes the space is measured at the end.
    is_measured: bool,
}

/// A version, or all paths, and what its backup has stored.
pub(super) struct Version {
    /// The path of the version; `None` for all paths.
    pub(super) path: Option<PathBuf>,
    pub(super) backup: ScratchBackup,
}

/// The result of the backups that were complete.
#[derive(Default)]
pub(super) struct DefaultMode {
    pub(super) versions: Vec<Version>,
    /// Set if a signal has ended the run before the last backup was complete.
    pub(super) is_interrupted: bool,
    /// What takes the space, if the backups were kept until it was measured.
    pub(super) space: Option<Space>,
}

impl Plan {
    /// Plans the backups that the arguments ask for; `None` if they ask for none.
    ///
    /// # Errors
    ///
    /// Fails if the paths cannot be versions of one folder or file, or if there is no folder for the
    /// data of versions.
    pub(super) fn new(args: &Estimate, global: &Global) -> Result<Option<Plan>> {
        if args.no_default_mode {
            return Ok(None);
        }
        let paths = &args.data.paths;
        let as_path = if args.as_versions { Some(path_of_versions(paths)?) } else { None };
        let backups = match as_path {
            Some(_) => paths.iter().map(|path| vec![path.clone()]).collect(),
            None => vec![paths.clone()],
        };
        let temporary_folder = temporary_folder();
        let folder = match (&args.scratch, args.as_versions) {
            (Some(folder), _) => {
                let found = fs::metadata(folder);
                let found = found.with_context(|| format!("--scratch {}", folder.display()))?;
                if !found.is_dir() {
                    let message = format!("--scratch {}: not a folder", folder.display());
                    return Err(Failure::failed(message).into());
                }
                Some(folder.clone())
            }
            (None, true) => Some(temporary_folder.clone().ok_or_else(|| {
                let message = "--as-versions: there is no folder for temporary files on a disk";
                Failure::failed(message).with_remedy("name a folder by --scratch")
            })?),
            // The page shows what takes the space, which only kept data tells.
            (None, false) => args.html.as_ref().and(temporary_folder.clone()),
        };
        let memory = global.load.memory_max.map(MemoryLimit::new).unwrap_or_default();
        let options = ScratchOptions {
            folder,
            temporary_folder,
            memory,
            threads: args.data.choice.threads.count(),
            walk: args.data.choice.exclusion.walk_options()?,
        };
        Ok(Some(Plan { backups, as_path, options, is_measured: args.html.is_some() }))
    }

    /// Makes the backups of what was scanned, with `counts`. If one fails, also returns the results of
    /// those before it.
    pub(super) fn carry_out(
        &self,
        counts: &ScanCounts,
        report: &Report,
        interrupt: &Interrupt,
    ) -> (DefaultMode, Result<()>) {
        let mut done = DefaultMode::default();
        let observer = Observer {
            report,
            interrupt,
            complete: (AtomicU64::new(0), AtomicU64::new(0)),
            problem_count: AtomicU64::new(0),
        };
        report.begin_progress();
        report.expect(Work::of_files(counts.file_count, counts.size));
        let result = self.back_up_all(&mut done, &observer);
        report.end_progress();
        let problem_count = observer.problem_count.load(Ordering::Relaxed);
        if let Some(more) = problem_count.checked_sub(counts.problem_count).filter(|more| *more > 0)
        {
            report.warn(&format!(
                "default mode: {}: files changed meanwhile or could not be read again",
                units::count(more, "further problem")
            ));
        }
        let result = match result {
            Err(error) if error.kind() == Kind::Interrupted => {
                done.is_interrupted = true;
                Ok(())
            }
            // The scan has found the paths; what is missing now was removed meanwhile.
            result => result.map_err(|error| anyhow::Error::new(error).context("default mode")),
        };
        (done, result)
    }

    fn back_up_all(
        &self,
        done: &mut DefaultMode,
        observer: &Observer<'_>,
    ) -> Result<(), StoreError> {
        let environment = interrupt::environment();
        let mut repository = ScratchRepository::create(&self.options, environment)?;
        for paths in &self.backups {
            let backup = repository.back_up(paths, self.as_path.as_deref(), observer)?;
            observer.complete.0.fetch_add(backup.statistics.file_count, Ordering::Relaxed);
            observer.complete.1.fetch_add(backup.statistics.size, Ordering::Relaxed);
            let path = self.as_path.as_ref().and(paths.first()).cloned();
            done.versions.push(Version { path, backup });
        }
        if self.is_measured
            && let Some(reader) = repository.reader()?
        {
            let monitor = Monitor { report: observer.report, interrupt: observer.interrupt };
            done.space = Some(measure(&reader, &monitor)?);
        }
        Ok(())
    }
}

/// Returns the path that all versions get in their snapshots: that of the last one.
///
/// # Errors
///
/// Fails if there are fewer than two versions, if some are folders and others are not, or if one is
/// inside another.
fn path_of_versions(paths: &[PathBuf]) -> Result<PathBuf> {
    if paths.len() < 2 {
        let message = "--as-versions: only one path given (expected at least two versions)";
        let remedy = "give the paths of all versions, the oldest first";
        return Err(Failure::failed(message).with_remedy(remedy).into());
    }
    let mut resolved = Vec::new();
    for path in paths {
        resolved.push(resolve(path).with_context(|| path.display().to_string())?);
    }
    let is_folder = |path: &Path| -> Result<bool> {
        // A link that is named is itself the source of a backup.
        let found = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
        match (found.is_dir(), found.is_file()) {
            (false, false) => {
                let message =
                    format!("--as-versions: {}: neither a folder nor a file", path.display());
                Err(Failure::failed(message).into())
            }
            (is_folder, _) => Ok(is_folder),
        }
    };
    let first_is_folder = is_folder(&resolved[0])?;
    let noun = |is_folder| if is_folder { "a folder" } else { "a file" };
    for (path, resolved) in paths.iter().zip(&resolved).skip(1) {
        let is_folder = is_folder(resolved)?;
        if is_folder != first_is_folder {
            let message = format!(
                "--as-versions: {} is {}, but {} is {}",
                path.display(),
                noun(is_folder),
                paths[0].display(),
                noun(first_is_folder)
            );
            let remedy = "give successive versions of one folder, or of one file";
            return Err(Failure::failed(message).with_remedy(remedy).into());
        }
    }
    for (number, inner) in resolved.iter().enumerate() {
        let is_outer = |outer: &&PathBuf| *outer != inner && inner.starts_with(outer);
        if let Some(outer) = resolved.iter().find(is_outer) {
            let message = format!(
                "--as-versions: {} is inside {}, and cannot be another version of it",
                paths[number].display(),
                outer.display()
            );
            return Err(Failure::failed(message).into());
        }
    }
    resolved.pop().ok_or_else(|| Failure::failed("--as-versions: no path given").into())
}

/// Shows the progress of the backups, and ends them at a signal.
struct Observer<'a> {
    report: &'a Report,
    interrupt: &'a Interrupt,
    /// The number and the size of the files of the backups that are complete.
    complete: (AtomicU64, AtomicU64),
    problem_count: AtomicU64,
}

impl BackupMonitor for Observer<'_> {
    fn progress(&self, progress: &BackupProgress) {
        let file_count = self.complete.0.load(Ordering::Relaxed) + progress.statistics.file_count;
        let size = progress.statistics.size.max(progress.statistics.read_bytes);
        let size = self.complete.1.load(Ordering::Relaxed) + size;
        self.report.progress(&Work::of_files(file_count, size).into());
    }

    // The scan has reported what cannot be read.
    fn problem(&self, _path: &Path, _message: &str) {
        self.problem_count.fetch_add(1, Ordering::Relaxed);
    }

    fn reading(&self, path: &Path) {
        self.report.set_path(path);
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_get_the_path_of_the_last() {
        let folder = tempfile::tempdir().expect("made");
        let root = folder.path().canonicalize().expect("it is there");
        let paths = ["one", "two", "two/inner"].map(|name| root.join(name));
        paths.iter().for_each(|path| fs::create_dir(path).expect("made"));
        fs::write(root.join("file"), b"x").expect("written");
        std::os::unix::fs::symlink("two", root.join("link")).expect("made");
        let path = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
            path_of_versions(&paths).map_err(|error| error.to_string())
        };
        assert_eq!(path(&["one", "two"]), Ok(paths[1].clone()));
        assert_eq!(path(&["one", "link/"]), Ok(paths[1].clone()), "a folder behind a link");
        assert_eq!(path(&["one", "one"]), Ok(paths[0].clone()), "nothing has changed");
        assert_eq!(path(&["file", "file"]), Ok(root.join("file")), "versions of a file");
        for (names, text) in [
            (&["one"][..], "at least two"),
            (&["one", "file"], "file is a file, but"),
            (&["file", "one"], "one is a folder, but"),
            (&["two", "two/inner"], "is inside"),
            (&["two/inner", "one", "two"], "is inside"),
            (&["one", "/dev/null"], "neither a folder nor a file"),
            (&["one", "link"], "neither a folder nor a file"),
        ] {
            let error = path(names).expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }
}
