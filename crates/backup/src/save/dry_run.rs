//! A dry run: reads, cuts, fingerprints and looks up everything that a backup would, and stores
//! nothing.

use std::sync::Arc;

use cutpoint_repository::{Repository, View};
use cutpoint_storage::Result;

use super::context::BackupContext;
use super::monitor::BackupMonitor;
use super::options::BackupOptions;
use super::parent::Parents;
use super::report::BackupReport;
use super::source::Source;
use super::source_run::{SourceRun, names};
use super::stream_saver::StreamState;

/// Finds out what [`backup`](super::backup()) would save, and how much of it is new. Puts no object
/// into the repository, not even a ticket.
///
/// The fingerprints of all new chunks are in memory: about 100 bytes for each.
///
/// # Errors
///
/// Returns any error of [`backup`](super::backup()) except `Conflict`.
pub fn dry_run(
    repository: &Arc<Repository>,
    mut source: Source,
    options: &BackupOptions,
    monitor: &dyn BackupMonitor,
) -> Result<BackupReport> {
    let context = BackupContext::new(repository, options, monitor)?;
    let started_ns = repository.environment().now_ns();
    let sources = names(&source, options)?;
    let view = View::list(repository)?;
    let parents = Parents::choose(&view, options, &source, &sources, None)?;
    let run = SourceRun { context: &context, view, parents: &parents, started_ns };
    let (output, missing) = run.run(None, &mut source, &mut StreamState::default())?;
    BackupReport::of(&output, &parents, &sources, &missing)
}
