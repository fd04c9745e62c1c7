//! The restore that is running, or the last one.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cutpoint_backup::RestoreMonitor;

use super::lock;
use super::text::shown;

/// The maximum number of problems that are shown.
const PROBLEMS_MAX: usize = 100;

/// A restore that runs or has ended.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) target: PathBuf,
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
    is_cancelled: AtomicBool,
    pub(super) problem_count: AtomicU64,
    pub(super) problems: Mutex<Vec<String>>,
    /// Set at the end; the message is that of an error that has ended the restore.
    pub(super) end: Mutex<Option<Result<(), String>>>,
}

/// The last restore.
#[derive(Debug, Default)]
pub(super) struct Restores(pub(super) Mutex<Option<Arc<Run>>>);

impl Run {
    pub(super) fn new(target: PathBuf) -> Run {
        Run { target, ..Run::default() }
    }
}

impl Restores {
    /// Stops a restore that runs.
    pub(super) fn cancel(&self) {
        if let Some(run) = &*lock(&self.0) {
            run.is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}

impl RestoreMonitor for Run {
    fn progress(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.problem_count.fetch_add(1, Ordering::Relaxed);
        let mut problems = lock(&self.problems);
        if problems.len() < PROBLEMS_MAX {
            problems.push(format!("{}: {message}", shown(path.as_os_str().as_bytes())));
        }
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}
