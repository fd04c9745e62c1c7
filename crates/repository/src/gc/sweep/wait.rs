//! S1: waits for the writers that may commit a snapshot which refers to condemned containers.

use std::collections::BTreeSet;

use cutpoint_storage::{Kind, Result};

use super::options::SweepOptions;
use super::outcome::OpenWriter;
use crate::format::names::{ObjectName, TicketId};
use crate::format::ticket::{Purpose, Ticket};
use crate::repo::liveness::{Judge, OpenTickets, read_tickets, without_ended};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;
use crate::write::{end_dead_among, end_writer};

/// The result of the first look at other writers.
#[derive(Clone, Debug)]
struct FirstLook {
    /// The writers that were open at the first look.
    writers: BTreeSet<TicketId>,
    /// The records that were old enough at the first look. Writers that begin later have seen these
    /// records.
    seen: BTreeSet<u64>,
}

/// The records that may be swept, and the tickets that were listed after they were seen.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) records: BTreeSet<u64>,
    pub(super) tickets: OpenTickets,
}

/// The waiting of a sweep: the number of the record, and the result of the first look.
#[derive(Debug, Default)]
pub(super) struct Waiting(Option<(u64, FirstLook)>);

impl Waiting {
    /// Ends the waiting, so that the next look is a first one.
    pub(super) fn reset(&mut self) {
        self.0 = None;
    }

    /// S1: returns the open writers that may commit a snapshot which refers to condemned
    /// containers, and those of the `found` records that every other writer has seen. `view` was
    /// listed before.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(super) fn look(
        &mut self,
        repository: &Repository,
        options: &SweepOptions,
        view: &View,
        number: u64,
        found: Found,
    ) -> Result<(Vec<OpenWriter>, BTreeSet<u64>)> {
        if !rules::must_wait_for_writers() {
            return Ok((Vec::new(), found.records));
        }
        let mut open = without_ended(repository, found.tickets)?;
        // These writers have ended, and their commits were deleted (P6).
        let taken = view.taken();
        open.retain(|ticket, _| !taken.contains(ticket));
        let mut tickets = read_tickets(repository, &open)?;
        // No writer is ended on a storage where its `void` and its commit could both seem to be the
        // first.
        if options.end_others || repository.creates_atomically()? {
            let judge = Judge::new(repository, None);
            for ended in end_dead_among(repository, &judge, &open, &tickets, None)? {
                open.remove(&ended);
            }
        }
        let mut seen = found.records;
        if let Some((of, first)) = &self.0
            && *of == number
        {
            open.retain(|ticket, _| first.writers.contains(ticket));
            seen.clone_from(&first.seen);
        }
        let mut writers = Vec::new();
        for ticket in open.into_keys() {
            let Some(body) = tickets.remove(&ticket) else { continue };
            let Some(writer) = awaited(repository, ticket, body)? else { continue };
            if options.end_others {
                end_writer(repository, ticket)?;
            } else {
                writers.push(writer);
            }
        }
        let left: BTreeSet<TicketId> = writers.iter().map(|writer| writer.ticket).collect();
        let first = FirstLook { writers: left, seen: seen.clone() };
        // Cleared if no writer is left: if a later step of the sweep fails, the next look is a
        // first one.
        self.0 = (!writers.is_empty()).then_some((number, first));
        Ok((writers, seen))
    }
}

/// Returns the writer of an open ticket, or `None` if a sweep need not wait for it.
fn awaited(
    repository: &Repository,
    ticket: TicketId,
    body: Result<Ticket>,
) -> Result<Option<OpenWriter>> {
    let (process, time_ns) = match body {
        Ok(body) if body.purpose != Purpose::Backup => return Ok(None),
        Ok(body) => (Some(body.process), body.time_ns),
        // The ticket was deleted: its writer has ended if the commit exists.
        Err(error) if error.kind() == Kind::Missing => {
            let commit = ObjectName::Commit(ticket).to_string();
            if repository.storage().head(&commit)?.is_some() {
                return Ok(None);
            }
            (None, 0)
        }
        Err(error) if error.kind() == Kind::Corrupt => (None, 0),
        Err(error) => return Err(error),
    };
    Ok(Some(OpenWriter { ticket, process, time_ns }))
}
