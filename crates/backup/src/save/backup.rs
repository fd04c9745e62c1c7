//! A backup: attempts, repeated until one of them makes a snapshot.

use std::sync::Arc;

use cutpoint_repository::Repository;
use cutpoint_storage::{Error, Kind, Result};

use super::attempt::{Attempt, AttemptResult};
use super::context::BackupContext;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use super::report::BackupReport;
use super::source::Source;
use super::stream_saver::StreamState;

/// The maximum number of consecutive attempts that other clients may end before the backup fails.
const LOSSES_MAX: u64 = 8;

/// Saves `source` as a snapshot.
///
/// # Errors
///
/// Returns `Interrupted` if the monitor cancels the run. Nothing is committed then, but the next
/// run finds what was stored and published.
///
/// Returns `Invalid` if no source exists or none can be opened. If only some of them fail, each is
/// reported as a problem, and the snapshot names it as missing.
///
/// Returns `Missing` or `Invalid` if the snapshot named as the parent does not exist or may not be
/// used.
///
/// Returns `Storage` if the storage has lost acknowledged objects in two attempts, or in one attempt
/// of a stream.
///
/// Returns `Conflict` if other clients have ended the run too often. For a stream, once is enough,
/// because a stream cannot be read twice.
///
/// Returns any error of the store. Problems with single files are reported to the monitor instead.
pub fn backup(
    repository: &Arc<Repository>,
    mut source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    let context = BackupContext::new(repository, options, monitor)?;
    let mut restarts = 0;
    let mut losses = 0;
    let mut has_lost = false;
    let mut checkpoint = None;
    let mut stream = StreamState::default();
    let mut read_since_ns = None;
    loop {
        let mut attempt = Attempt::begin(&context, &source, checkpoint, restarts > 0)?;
        if attempt.parents.continues {
            attempt.read_since_ns = read_since_ns;
        } else {
            read_since_ns = Some(attempt.started_ns);
        }
        let result = attempt.run(&mut source, &mut stream)?;
        restarts += 1;
        match result {
            AttemptResult::Complete(mut report) => {
                report.restart_count = restarts - 1;
                return Ok(*report);
            }
            AttemptResult::Checkpoint(snapshot) => {
                checkpoint = Some(snapshot);
                losses = 0;
            }
            AttemptResult::Ended if source.is_stream() => {
                return Err(Error::new(
                    Kind::Conflict,
                    "standard input",
                    "another client ended this run, and a stream cannot be read twice; try again",
                ));
            }
            AttemptResult::Ended => losses += 1,
            AttemptResult::Lost if has_lost || source.is_stream() => {
                return Err(Error::new(
                    Kind::Storage,
                    repository.storage().describe(),
                    "the storage has lost objects that it had acknowledged, while it could not be \
                     reached; nothing was committed",
                ));
            }
            AttemptResult::Lost => {
                has_lost = true;
                monitor.lost();
            }
        }
        if losses > LOSSES_MAX {
            return Err(Error::new(
                Kind::Conflict,
                "backup",
                format!("other clients ended this run {losses} times; stored data is kept"),
            ));
        }
    }
}
