//! A monitor that can be told to stop a scan.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cutpoint_estimate::scan::{Monitor, Progress};

/// A monitor that also stops the scan when `broken` is set.
pub(crate) struct Until<'a> {
    pub(crate) monitor: &'a dyn Monitor,
    pub(crate) broken: Arc<AtomicBool>,
}

impl Monitor for Until<'_> {
    fn progress(&self, progress: &Progress) {
        self.monitor.progress(progress);
    }

    fn expected(&self, file_count: u64, size: u64) {
        self.monitor.expected(file_count, size);
    }

    fn problem(&self, path: &Path, message: &str) {
        self.monitor.problem(path, message);
    }

    fn reading(&self, path: &Path) {
        self.monitor.reading(path);
    }

    fn cancelled(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || self.monitor.cancelled()
    }
}
