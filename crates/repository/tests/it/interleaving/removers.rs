//! Actors that forget, hold, prune, sweep, repair, and end other writers.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::gc::prune::{self as pruning, OptimizeOptions, PruneOptions};
use cutpoint_repository::gc::sweep::{Sweep, SweepOptions, Sweeper};
use cutpoint_repository::verify::repair::{IndexOptions, repair_index};
use cutpoint_repository::write::end_writer;
use cutpoint_repository::write::prune_log::{AppendResult, append};
use cutpoint_repository::{ObjectName, Purpose, Repository, TicketId, View, Writer};
use cutpoint_storage::{ObjectKind, Result};

use super::actor::Actor;

/// Ends open writers, and removes what they have staged: disruptive, but safe.
pub(super) fn end_random_writer(actor: &mut Actor) -> Result<()> {
    let mut live = tickets_without_commit(&actor.repository)?;
    // The commits of these tickets were deleted.
    let taken = View::list(&actor.repository)?.taken();
    live.retain(|ticket| !taken.contains(ticket));
    if !live.is_empty() {
        let victim = live[actor.random.below(live.len())];
        end_writer(&actor.repository, victim)?;
        let is_stale = |name: &str, _| match ObjectName::parse(name) {
            Ok(ObjectName::Container(_, part)) => part.ticket == victim,
            _ => false,
        };
        actor.repository.storage().clean(&is_stale)?;
    }
    Ok(())
}

/// Rebuilds the index.
pub(super) fn repair(actor: &mut Actor) -> Result<()> {
    repair_index(&actor.repository, &IndexOptions::default(), &()).map(drop)
}

fn tickets_without_commit(repository: &Repository) -> Result<Vec<TicketId>> {
    let storage = repository.storage();
    let mut tickets = BTreeSet::new();
    for (path, _) in storage.list(ObjectKind::Ticket.folder())? {
        if let Ok(ObjectName::Ticket { ticket, renewal: 0 }) = ObjectName::parse(&path) {
            tickets.insert(ticket);
        }
    }
    for (path, _) in storage.list(ObjectKind::Commit.folder())? {
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(&path) {
            tickets.remove(&ticket);
        }
    }
    Ok(tickets.into_iter().collect())
}

/// Forgets some snapshots.
fn forget(actor: &mut Actor) -> Result<()> {
    let share = 2 + actor.random.below(3);
    let mut random = actor.random.clone();
    forget_where(actor, |_, _| random.below(share) == 0)
}

pub(super) fn forget_where(
    actor: &mut Actor,
    mut is_it: impl FnMut(&View, TicketId) -> bool,
) -> Result<()> {
    let mut writer = Writer::begin(actor.repository.clone(), Purpose::Other)?;
    let snapshots = writer.view().snapshots();
    let chosen: Vec<TicketId> =
        snapshots.into_iter().map(|(id, _)| id).filter(|id| is_it(writer.view(), *id)).collect();
    writer.commit(Outcome::Forget(chosen), Vec::new(), &BTreeSet::new())?;
    Ok(())
}

/// Holds a snapshot, or releases one.
pub(super) fn hold(actor: &mut Actor) -> Result<()> {
    let mut writer = Writer::begin(actor.repository.clone(), Purpose::Other)?;
    let view = writer.view().clone();
    let known: Vec<TicketId> = view.forgotten().difference(&view.taken()).copied().collect();
    let mut known: Vec<TicketId> =
        known.into_iter().chain(view.snapshots().into_iter().map(|(id, _)| id)).collect();
    known.sort_unstable();
    if known.is_empty() {
        return writer.void(Vec::new());
    }
    let chosen = known[actor.random.below(known.len())];
    let mut record = Prune::default();
    if actor.chance(3) { &mut record.released } else { &mut record.held }.push(chosen);
    let judge = |view: &View, _: &[Arc<Prune>], record: Prune| {
        Ok((!view.taken().contains(&chosen)).then_some(record))
    };
    match append(&mut writer, &view, record, &BTreeSet::new(), judge)? {
        AppendResult::Stopped(_) => writer.void(Vec::new()),
        _ => Ok(()),
    }
}

pub(super) fn prune(actor: &mut Actor) -> Result<()> {
    if actor.chance(2) {
        forget(actor)?;
    }
    let options = PruneOptions {
        unused_max: [0.0, 0.3, 1.0][actor.random.below(3)],
        segment_count_max: [2, 500][actor.random.below(2)],
        // With the lower number, few segments are small.
        merged_hints_max: [40, 1 << 20][actor.random.below(2)],
        small_count_max: [2, 64, 64][actor.random.below(3)],
        // With 0, no delta chunk is inlined for being cheaper than its references.
        rewrite_bytes_max: [0, u64::MAX, u64::MAX][actor.random.below(3)],
        ..PruneOptions::default()
    };
    pruning::prune(&actor.repository, &options, &(), |_| true).map(drop)
}

/// Stores again what stays, in another order and compressed more.
pub(super) fn optimize(actor: &mut Actor) -> Result<()> {
    if actor.chance(3) {
        forget(actor)?;
    }
    let options = OptimizeOptions {
        region_size: [16 * 1024, 64 * 1024][actor.random.below(2)],
        compression_level: [1, 3][actor.random.below(2)],
        rewrite_bytes_max: [70_000, u64::MAX, u64::MAX][actor.random.below(3)],
        spares_incompressible: false,
        ..OptimizeOptions::default()
    };
    pruning::optimize(&actor.repository, &options, &(), |_| true).map(drop)
}

/// Forgets every snapshot, and condemns every container.
pub(super) fn prune_all(actor: &mut Actor) -> Result<()> {
    forget_where(actor, |_, _| true)?;
    pruning::prune(&actor.repository, &PruneOptions::default(), &(), |_| true).map(drop)
}

/// Prunes as a sole user: sweeps the new record as soon as it is put.
pub(super) fn prune_and_sweep(actor: &mut Actor) -> Result<()> {
    prune(actor)?;
    let options = SweepOptions { commit_ns: i64::MIN, ..actor.world.sweeping() };
    let mut sweeper = Sweeper::new(actor.repository.clone(), options);
    while let Sweep::Done(_) | Sweep::Locked(_) = sweeper.step(&())? {}
    Ok(())
}

pub(super) fn sweep(actor: &mut Actor) -> Result<()> {
    let end_others = actor.chance(4);
    // Commits may be deleted at once, although requests come late in this world.
    let commit_ns = if actor.chance(2) { i64::MIN } else { SweepOptions::default().commit_ns };
    let options = SweepOptions { commit_ns, end_others, ..actor.world.sweeping() };
    let mut sweeper = Sweeper::new(actor.repository.clone(), options);
    for _ in 0..1 + actor.random.below(15) {
        match sweeper.step(&())? {
            Sweep::Waiting { .. } => actor.pause(20)?,
            // The next record may be swept before one of which something is locked. The look at
            // other writers may serve it, too.
            Sweep::Locked(_) | Sweep::Done(_) => {}
            Sweep::Nothing | Sweep::Settling { .. } => return Ok(()),
        }
    }
    // The sweep has waited long enough.
    let options = SweepOptions { end_others: true, ..options };
    Sweeper::new(actor.repository.clone(), options).step(&()).map(drop)
}
