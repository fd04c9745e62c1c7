//! The run of a check, and the record of its findings.

use std::sync::{Arc, Mutex};

use cutpoint_storage::{Error, Result};

use super::context::Check;
use super::finding::CheckMonitor;
use super::options::CheckOptions;
use super::report::CheckReport;
use super::snapshots::MissingData;
use super::{containers, data, inventory, parity, settings, snapshots, view};
use crate::format::commit::{Damage, Outcome};
use crate::format::names::TicketId;
use crate::index::Index;
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::snapshots::commit_alone;

/// Maximum number of chunks that are recorded in one commit: 5 MB.
const RECORDED_MAX: usize = 100_000;

/// Checks a repository.
///
/// # Errors
///
/// Returns a `Storage` error if the storage fails, and `Interrupted` if the monitor asks to stop.
/// Problems of the repository are not errors, but findings.
pub fn check(
    repository: &Arc<Repository>,
    options: &CheckOptions<'_>,
    monitor: &dyn CheckMonitor,
) -> Result<CheckReport> {
    Ok(find_missing(repository, options, monitor)?.0)
}

/// Performs a [`check`], and also returns the chunks that cannot be read.
pub(crate) fn find_missing(
    repository: &Arc<Repository>,
    options: &CheckOptions<'_>,
    monitor: &dyn CheckMonitor,
) -> Result<(CheckReport, MissingData)> {
    repository.view_cache().bypass();
    let listing = inventory::list(repository)?;
    let parity = crate::parity::sorted(listing.iter().map(|(path, len)| (path.clone(), *len)));
    let check = Check { repository, monitor, listing, parity, state: Mutex::default() };
    settings::check_names(&check);
    settings::check_configs(&check)?;
    settings::check_keys(&check)?;
    settings::check_similarity(&check)?;
    let mut inventory = view::check_view(&check)?;
    let containers = containers::check_segments(&check, &mut inventory)?;
    let records = containers.iter().filter_map(|task| task.record);
    check.lock().records = records.map(|record| ((record.class, record.name), record)).collect();
    let tasks = containers::check_containers(&check, &mut inventory, containers)?;
    parity::check_others(&check, &inventory, &tasks)?;
    // A damaged cache of this machine must not be taken for damage of the repository.
    let index = Arc::new(Index::open_without_cache(repository.clone(), &inventory.view)?);
    let reader = Reader::new(repository.clone(), index, inventory.view.clone());
    data::check(&check, &inventory, &reader, &tasks, options)?;
    let (damages, missing) = snapshots::check(&check, &mut inventory, &reader)?;
    let mut report = check.lock().report.clone();
    report.damages = damages.into_iter().collect();
    let mut state = check.lock();
    for (commit, epoch) in std::mem::take(&mut state.epochs) {
        if inventory.view.commits.contains_key(&commit) && epoch < repository.keys().epoch() {
            *report.old_epochs.entry(epoch).or_default() += 1;
        }
    }
    let protected = std::mem::take(&mut state.protected);
    let refused_containers = std::mem::take(&mut state.refused);
    Ok((report, MissingData { protected, refused_containers, ..missing }))
}

/// Records in `damage` commits that chunks cannot be read from their recorded places. From then on
/// no writer refers to them (W2), and files that need them are read again (W3). `recorded` is
/// called for each commit with the number of `damages` in it; commits made before a failure count.
///
/// # Errors
///
/// Returns any error of [`crate::write::Writer::commit`], and `Conflict` if other clients ended
/// the ticket in every attempt.
pub fn record(
    repository: &Arc<Repository>,
    damages: &[Damage],
    mut recorded: impl FnMut(TicketId, usize),
) -> Result<()> {
    for part in damages.chunks(RECORDED_MAX) {
        let commit = commit_alone(repository, "record of damage", |_| {
            Ok::<_, Error>(Some(Outcome::Damage(part.to_vec())))
        })?;
        commit.into_iter().for_each(|commit| recorded(commit, part.len()));
    }
    Ok(())
}
