//! The look-ahead: finds out how much a restore or an archive will write, for the display of its
//! progress.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use cutpoint_repository::{Content, EntryKind};

use super::monitor::RestoreMonitor;
use super::options::RestoreOptions;
use super::snapshot_reader::SnapshotReader;
use super::snapshot_walk::{SnapshotWalk, Step};

/// The time after which the trees are read ahead. Shorter runs show no expectation.
const DELAY: Duration = Duration::from_secs(2);

/// A second walk through the part of a snapshot that is restored, which reads no file.
pub(crate) struct Lookahead<'a> {
    pub(crate) reader: &'a dyn SnapshotReader,
    pub(crate) options: &'a RestoreOptions,
    pub(crate) root: &'a Content,
    pub(crate) monitor: &'a dyn RestoreMonitor,
}

impl Lookahead<'_> {
    /// Calls `work`. Meanwhile another thread reads the trees, if the monitor wants that, and reports
    /// what it has found unless `work` has ended by then. What cannot be read is left to `work`.
    pub(crate) fn beside<T>(self, work: impl FnOnce() -> T) -> T {
        if !self.monitor.looks_ahead() {
            return work();
        }
        let (running, ended) = crossbeam_channel::bounded::<()>(0);
        std::thread::scope(|scope| {
            scope.spawn(move || self.run(&ended));
            // Dropped at the end of the work, or when it panics.
            let _running = running;
            work()
        })
    }

    fn run(self, ended: &Receiver<()>) {
        if ended.recv_timeout(DELAY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Ok(mut walk) = SnapshotWalk::new(self.reader, self.options, self.root) else { return };
        let (mut file_count, mut size) = (0_u64, 0_u64);
        while let Some(step) = walk.next() {
            if ended.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            if let Step::Item(entry) = step
                && entry.kind == EntryKind::File
            {
                file_count += 1;
                size = size.saturating_add(entry.size);
            }
        }
        self.monitor.expected(file_count, size);
    }
}
