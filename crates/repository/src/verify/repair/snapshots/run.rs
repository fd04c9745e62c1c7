//! The run of a repair: which snapshots have lost data, their repaired copies, and what is
//! forgotten.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::copies::{is_repair_of, started_ns};
use super::report::{
    RepairMonitor, RepairOutcome, SnapshotOptions, SnapshotRepair, SnapshotsRepair,
};
use super::rewriter::Rewriter;
use crate::format::commit::{Outcome, Snapshot};
use crate::format::fingerprint::Fingerprint;
use crate::format::names::{ObjectName, TicketId};
use crate::format::ticket::Purpose;
use crate::gc::locate::list_containers;
use crate::index::ContainerToc;
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::verify::check::{CheckMonitor, CheckOptions, MissingData, find_missing, record};
use crate::verify::original::is_newer;
use crate::verify::repair::attempts::{is_missing_or_damaged, persist, restart_if_ended};
use crate::verify::repair::index::{IndexOptions, repair_index};
use crate::write::{CommitResult, Inline, Verify, Writer};

/// Writes a second snapshot for each listed one that has lost data. The damage is recorded first,
/// so that backups store the data again if they can: a snapshot that such a backup has healed needs
/// no repair.
///
/// # Errors
///
/// Returns any error of [`check`](crate::verify::check::check), [`Writer::begin`] and [`Inline`].
/// Returns `Storage` if the storage returns a snapshot that it refused at first.
pub fn repair_snapshots(
    repository: &Arc<Repository>,
    options: &SnapshotOptions,
    monitor: &dyn RepairMonitor,
) -> Result<SnapshotsRepair> {
    let check_options = CheckOptions {
        read_data: options.read_data,
        threads: options.threads,
        ..CheckOptions::default()
    };
    let (report, mut missing) = find_missing(repository, &check_options, &Quiet(monitor))?;
    if !options.dry_run {
        record(repository, &report.damages, |_, _| {})?;
    }
    let view = View::list(repository)?;
    let reader = Reader::open(repository.clone(), view.clone())?;
    look_beside_index(&reader, &view, &mut missing)?;
    let suspects: HashSet<Fingerprint> =
        view.damaged().iter().map(|damage| damage.fingerprint).collect();
    let mut survey = Rewriter::new(&reader, &missing, &suspects, monitor);
    let mut done = SnapshotsRepair {
        missing_commits: missing_commits(repository, &missing, &view),
        ..SnapshotsRepair::default()
    };
    for (id, snapshot) in view.snapshots() {
        if missing.unreadable_commits.contains(&id) {
            let message = "unreadable at first, and readable now; try again";
            return Err(Error::new(Kind::Storage, ObjectName::Commit(id), message));
        }
        if !missing.checked_snapshots.contains(&id) {
            // The snapshot was put after the check.
            continue;
        }
        survey.begin(id, snapshot);
        survey.rewrite(&snapshot.root, None)?;
        let counts = survey.losses.counts;
        if counts.loss == 0 {
            continue;
        }
        let copies = |is_makeshift| {
            let snapshots = view.snapshots().into_iter();
            snapshots
                .filter(move |(_, copy)| is_repair_of(copy, id, snapshot, is_makeshift))
                .map(|(copy, _)| copy)
        };
        let may_be_makeshift = copies(true).filter(|_| survey.chunks.is_refused);
        let outcome = match copies(false).chain(may_be_makeshift).next() {
            _ if counts.kept == 0 => RepairOutcome::NothingLeft,
            Some(copy) => RepairOutcome::RepairedBefore(copy),
            None if options.dry_run => RepairOutcome::WouldBeRepaired,
            None => persist("the repaired snapshot", || write(id, &survey))?,
        };
        if !survey.chunks.is_refused
            && matches!(outcome, RepairOutcome::Repaired(_) | RepairOutcome::RepairedBefore(_))
        {
            done.makeshift.extend(copies(true));
        }
        done.snapshots.push(SnapshotRepair {
            snapshot: id,
            outcome,
            loss_count: counts.loss,
            unnamed_count: survey.losses.unnamed_count,
            is_refused: survey.chunks.is_refused,
        });
    }
    if options.forget && !options.dry_run {
        forget(repository, &view, monitor, &mut done)?;
    }
    Ok(done)
}

/// Marks missing chunks as refused if the index has no place of them, but a container that no index
/// names has them, or the storage refuses to read such a container. A repair of the index adds such
/// containers.
fn look_beside_index(reader: &Reader, view: &View, missing: &mut MissingData) -> Result<()> {
    let index = reader.index();
    let mut nowhere = HashSet::new();
    for (class, fingerprint) in &missing.chunks {
        if index.hinted_containers(*class, fingerprint)?.is_empty() {
            nowhere.insert((*class, *fingerprint));
        }
    }
    if nowhere.is_empty() {
        return Ok(());
    }
    let mut passed_over = view.condemned();
    passed_over.extend(index.containers().iter().map(|each| (each.class, each.name)));
    for (&(class, part), &stored_len) in list_containers(reader.repository())?.iter() {
        if passed_over.contains(&(class, part)) {
            continue;
        }
        let found: HashSet<Fingerprint> =
            match ContainerToc::read(reader.repository(), class, part, stored_len) {
                Ok(loaded) => loaded.toc.chunks.iter().map(|it| it.fingerprint).collect(),
                Err(error) if error.kind() == Kind::Storage => {
                    nowhere.iter().filter(|(of, _)| *of == class).map(|(_, it)| *it).collect()
                }
                Err(_) => continue,
            };
        missing.refused.extend(found.into_iter().filter(|it| nowhere.contains(&(class, *it))));
    }
    Ok(())
}

/// Returns the commits that others have seen and that are missing, and those that are damaged.
fn missing_commits(
    repository: &Repository,
    missing: &MissingData,
    view: &View,
) -> BTreeSet<TicketId> {
    let taken = view.taken();
    let unreadable = view.unresolved().filter_map(|(name, error)| match name {
        ObjectName::Commit(ticket)
            if is_missing_or_damaged(error) && !is_newer(repository, *name) =>
        {
            Some(*ticket)
        }
        _ => None,
    });
    let all = missing.commits.iter().copied().chain(unreadable);
    all.filter(|ticket| !taken.contains(ticket) && !view.commits.contains_key(ticket)).collect()
}

/// Writes the rest of a snapshot that `survey` has just traversed. Returns `None` if another client
/// had ended the ticket.
fn write(id: TicketId, survey: &Rewriter<'_>) -> Result<Option<RepairOutcome>> {
    let repository = survey.chunks.reader.repository();
    let mut writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    // W3: the contents of the snapshot can be reused as long as no prune has taken it.
    let view = writer.view();
    let old = view.commits.get(&id).filter(|_| view.may_take_over(id));
    let Some(old) = old.and_then(|commit| commit.snapshot()).cloned() else {
        writer.void(Vec::new())?;
        return Ok(Some(RepairOutcome::Taken));
    };
    let note = writer.view().note(id).cloned();
    let ticket = writer.ticket();
    let reader = Reader::open(repository.clone(), writer.view().clone())?;
    let mut inline = Inline::new(writer, Verify::All)?;
    // The survey has reported the losses.
    let mut rewriter = survey.silent_copy(&reader);
    rewriter.begin(id, &old);
    let rewritten = rewriter.rewrite(&old.root, Some(&mut inline));
    let root = match rewritten.and_then(|root| inline.publish().map(|()| root)) {
        Ok(root) => root,
        Err(error) => return restart_if_ended(inline.writer().fail(error)),
    };
    let mut statistics = old.statistics;
    let counts = rewriter.losses.counts;
    // The statistics of a snapshot are the writer's claim, and may be less than what is left out.
    statistics.file_count = statistics.file_count.saturating_sub(counts.left_out);
    statistics.size = statistics.size.saturating_sub(counts.left_out_bytes);
    statistics.problem_count = counts.loss;
    let read = [&mut statistics.read_file_count, &mut statistics.read_bytes];
    let new = [&mut statistics.new_chunk_count, &mut statistics.new_bytes];
    read.into_iter().chain(new).for_each(|count| *count = 0);
    statistics.stored_bytes = 0;
    let (tags, description) = note.map_or_else(
        || (old.tags.clone(), old.description.clone()),
        |note| (note.tags, note.description),
    );
    let snapshot = Snapshot {
        root,
        started_ns: started_ns(&old, survey.chunks.is_refused),
        parent: Some(id),
        tags,
        description: match description.as_str() {
            "" => format!("repaired from {}", id.short()),
            description => format!("{description} (repaired from {})", id.short()),
        },
        statistics,
        // A copy that lacks something must be made again.
        origin: None,
        ..old
    };
    let committed = inline.commit(Outcome::Snapshot(Box::new(snapshot)))?;
    Ok((committed == CommitResult::Done).then_some(RepairOutcome::Repaired(ticket)))
}

/// Forgets snapshots that were repaired or of which nothing is left, and gives up missing commits.
fn forget(
    repository: &Arc<Repository>,
    view: &View,
    monitor: &dyn CheckMonitor,
    done: &mut SnapshotsRepair,
) -> Result<()> {
    let held = view.held();
    let ids = done
        .snapshots
        .iter()
        .filter(|each| !each.is_refused && each.outcome != RepairOutcome::Taken);
    let makeshift = done.makeshift.iter().copied();
    let (held, ids): (Vec<_>, Vec<_>) =
        ids.map(|each| each.snapshot).chain(makeshift).partition(|id| held.contains(id));
    done.held = held;
    if !ids.is_empty() {
        persist("record of forgotten snapshots", || {
            let mut writer = Writer::begin(repository.clone(), Purpose::Other)?;
            let outcome = Outcome::Forget(ids.clone());
            let committed = writer.commit(outcome, Vec::new(), &BTreeSet::new())?;
            Ok((committed == CommitResult::Done).then_some(()))
        })?;
        done.forgotten = ids;
    }
    if !done.missing_commits.is_empty() {
        // The index segments that these commits named are given up with them.
        let given_up = done.missing_commits.clone();
        let options = IndexOptions { given_up, ..IndexOptions::default() };
        done.record = repair_index(repository, &options, monitor)?.record;
    }
    Ok(())
}

/// Forwards progress and the request to stop, but no findings.
struct Quiet<'a>(&'a dyn RepairMonitor);

impl CheckMonitor for Quiet<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.0.expected(containers, bytes);
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.0.progress(containers, bytes);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}
