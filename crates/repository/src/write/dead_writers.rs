//! The end of other writers, which are dead or in the way.

use std::collections::{BTreeMap, BTreeSet};

use cutpoint_storage::{ObjectKind, Result};

use super::commit::{CommitResult, put_commit, void_commit};
use crate::format::commit::ViewRecord;
use crate::format::names::{ObjectName, TicketId};
use crate::format::ticket::Ticket;
use crate::repo::liveness::{Judge, OpenTickets, read_tickets, retain_old};
use crate::repo::repository::Repository;
use crate::repo::view::View;

/// Age in seconds after which a staged put is removed, whichever client staged it.
const STAGED_S_MAX: u64 = 24 * 3600;

/// Ends every dead writer ([`crate::repo::liveness`]) except `own`, by putting the `void` that the
/// dead writer can no longer put, with the segments that it had put. This is how an interrupted
/// backup is found and used. Returns the tickets that were ended.
///
/// `tickets` was listed before `view` ([`listed_tickets`]). With `leaves_young`, writers that began
/// a moment ago are not examined ([`retain_old`]).
///
/// # Errors
///
/// Returns any error of the storage.
///
/// [`listed_tickets`]: crate::repo::liveness::listed_tickets
pub(super) fn end_dead_writers(
    repository: &Repository,
    own: TicketId,
    tickets: OpenTickets,
    view: &View,
    leaves_young: bool,
) -> Result<Vec<TicketId>> {
    let judge = Judge::new(repository, Some(own)).at_listing(&tickets);
    let mut open = tickets;
    if leaves_young {
        retain_old(&mut open, own);
    }
    open.retain(|ticket, _| *ticket != own && !view.lists(*ticket));
    let tickets = read_tickets(repository, &open)?;
    end_dead_among(repository, &judge, &open, &tickets, Some(view))
}

/// Ends the dead writers among those that `open` lists, whose `tickets` were read. Returns the ended
/// ones. `view` was listed after `open`, or is listed here when it is needed.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn end_dead_among(
    repository: &Repository,
    judge: &Judge<'_>,
    open: &OpenTickets,
    tickets: &BTreeMap<TicketId, Result<Ticket>>,
    view: Option<&View>,
) -> Result<Vec<TicketId>> {
    let mut ended = Vec::new();
    let mut seen = None;
    for (ticket, body) in tickets {
        // A sweep may have deleted the ticket. One that cannot be read says nothing about its
        // writer, and is left to `check`.
        let (Ok(body), Some(listed)) = (body, open.get(ticket)) else { continue };
        if !judge.is_dead(listed, body)? {
            continue;
        }
        // Such a writer had a commit: a void in its place would hide that the commit was deleted.
        let (seen, taken) = match (&mut seen, view) {
            (Some(seen), _) => seen,
            (none, Some(view)) => none.insert((view.seen(), view.taken())),
            (none, None) => {
                let view = View::list(repository)?;
                none.insert((view.seen(), view.taken()))
            }
        };
        // The commit of a taken ticket may be deleted, but the writer has ended (P6): a late request
        // has put the ticket, or the commit was given up.
        if !taken.contains(ticket) {
            if seen.contains(ticket) {
                continue;
            }
            end_writer(repository, *ticket)?;
        }
        ended.push(*ticket);
    }
    if !ended.is_empty() {
        clean_up(repository)?;
    }
    Ok(ended)
}

/// Removes what interrupted puts have staged: that of ended writers, and everything that is a day
/// old.
fn clean_up(repository: &Repository) -> Result<()> {
    let storage = repository.storage();
    let mut ended = BTreeSet::new();
    for (path, _) in storage.list(ObjectKind::Commit.folder())? {
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(&path) {
            ended.insert(ticket);
        }
    }
    let is_stale = |name: &str, age_s: u64| {
        let writer = match ObjectName::parse(name) {
            Ok(ObjectName::Ticket { ticket, .. } | ObjectName::Commit(ticket)) => Some(ticket),
            Ok(
                ObjectName::Segment(part)
                | ObjectName::Container(_, part)
                | ObjectName::Similarity(part),
            ) => Some(part.ticket),
            Ok(ObjectName::Parity { writer, .. }) => Some(writer),
            _ => None,
        };
        age_s > STAGED_S_MAX || writer.is_some_and(|ticket| ended.contains(&ticket))
    };
    // Files that cannot be removed now can be removed later, and do no harm.
    storage.clean(&is_stale).ok();
    Ok(())
}

/// Ends the ticket of another writer with a void that names the segments which that writer had put.
/// The storage accepts either the void or the other's commit, so this can be done at any time. On
/// storage that does not create atomically (`Config::creates_atomically`), it must be done only by
/// a client that is alone.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn end_writer(repository: &Repository, ticket: TicketId) -> Result<CommitResult> {
    let mut segments = Vec::new();
    for (path, _) in repository.storage().list(ObjectKind::Segment.folder())? {
        match ObjectName::parse(&path) {
            Ok(ObjectName::Segment(part)) if part.ticket == ticket => segments.push(part),
            _ => {}
        }
    }
    let mut readable = Vec::new();
    for part in segments {
        match repository.get(ObjectName::Segment(part)) {
            Ok(_) => readable.push(part),
            // A damaged segment is left out: every later view would report it as damage.
            Err(error) if error.is_loss() => {}
            Err(error) => return Err(error),
        }
    }
    put_commit(repository, ticket, &void_commit(repository, false, readable, ViewRecord::default()))
}
