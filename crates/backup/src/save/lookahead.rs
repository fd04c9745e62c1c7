//! The look-ahead: finds out how much a backup will read, for the display of its progress.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use cutpoint_repository::{Entry, EntryKind, Statistics};

use super::batch::SourceLinkKey;
use super::comparison::Comparison;
use super::monitor::BackupMonitor;
use super::previous_version::PreviousVersion;
use super::run_state::RunState;
use super::shutdown::{Result, WaitResult};
use crate::source::{FileExtent, FileSystems, Handle, Walk, WalkOptions, WalkStep, open_file};

/// The time after which the source is examined. Shorter backups show no expectation.
const DELAY: Duration = Duration::from_secs(2);
/// The minimum size of a file whose holes are looked for, in bytes. The holes of smaller files make
/// no difference to an expectation.
const SPARSE_SIZE_MIN: u64 = 1 << 20;

/// A second walk through the sources of a backup, ahead of the backup, which reads no file.
pub(super) struct Lookahead<'a> {
    /// The sources, of which some may not exist.
    pub(super) paths: Vec<PathBuf>,
    pub(super) options: WalkOptions,
    pub(super) file_systems: Arc<dyn FileSystems>,
    pub(super) previous_versions: Vec<PreviousVersion<'a>>,
    pub(super) monitor: &'a dyn BackupMonitor,
}

impl Lookahead<'_> {
    /// Examines the source after some time, unless the backup has ended by then, and reports the
    /// result. Problems are left to the backup itself.
    ///
    /// # Errors
    ///
    /// Returns an error only if the run is over.
    pub(super) fn run(self, ended: &Receiver<()>, state: &RunState) -> Result<()> {
        let WaitResult::Nothing = state.shutdown.receive_within(ended, DELAY)? else {
            return Ok(());
        };
        let Ok((walk, _)) = Walk::of_those_there(&self.paths, self.options.clone()) else {
            return Ok(());
        };
        let is_over = || {
            ended.try_recv() == Err(TryRecvError::Disconnected) || state.shutdown.check().is_err()
        };
        let monitor = self.monitor;
        if let Some(expected) = self.count(walk, is_over) {
            monitor.expected(&expected);
        }
        Ok(())
    }

    /// Counts the files that `walk` finds, and those that will be read. Returns `None` if the backup
    /// is over before.
    fn count(self, walk: Walk, is_over: impl Fn() -> bool) -> Option<Statistics> {
        let mut walk = walk.with_mounts(self.file_systems);
        let mut comparison = Comparison::new(self.previous_versions, &());
        comparison.open_root();
        let mut linked = HashSet::new();
        let mut expected = Statistics::default();
        while let Some(step) = walk.next() {
            if is_over() {
                return None;
            }
            comparison.add_file_systems(&walk);
            match step {
                WalkStep::Enter { path, entry, folder } => {
                    let before = comparison.begin_entry(&walk, &entry.name, &path);
                    let before = comparison.moved(before, &entry, &folder);
                    comparison.enter_folder(before);
                }
                WalkStep::Leave => comparison.leave_folder(),
                WalkStep::Item { path, entry, folder } => {
                    let before = comparison.begin_entry(&walk, &entry.name, &path);
                    let is_unchanged = || {
                        before
                            .is_some_and(|before| comparison.read_reason(&before, &entry).is_none())
                    };
                    if entry.kind == EntryKind::File {
                        expected.file_count += 1;
                        let is_link =
                            entry.is_hard_link() && !linked.insert(SourceLinkKey::of(&entry));
                        if !is_link {
                            expected.size += entry.size;
                        }
                        if !is_link && !is_unchanged() {
                            expected.read_file_count += 1;
                            expected.read_bytes += data_len(&folder, &entry);
                        }
                    }
                    comparison.leave_entry();
                }
                WalkStep::Excluded { .. } | WalkStep::Warning { .. } | WalkStep::Problem { .. } => {
                }
            }
        }
        Some(expected)
    }
}

/// Returns the number of bytes of a file that a backup reads, which are those outside of holes: the
/// size of the file if its holes cannot be found out.
fn data_len(folder: &Handle, entry: &Entry) -> u64 {
    if entry.size < SPARSE_SIZE_MIN {
        return entry.size;
    }
    let Ok(file) = open_file(folder, entry) else { return entry.size };
    let lens = file.extents(0).map(|extent| match extent {
        Ok(FileExtent::Data { len, .. }) => Ok(len),
        Ok(FileExtent::Hole { .. }) => Ok(0),
        Err(error) => Err(error),
    });
    lens.sum::<std::io::Result<u64>>().unwrap_or(entry.size)
}
