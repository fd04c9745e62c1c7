//! The ticket of a writer: put, renewed, and given up in time (rules W1, W5 and W8).

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::format::names::{ObjectName, TicketId};
use crate::format::ticket::{Purpose, Ticket};
use crate::repo::liveness::own_machine;
use crate::repo::repository::Repository;

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;
/// Interval between renewals of a ticket, in nanoseconds.
const RENEW_NS: u64 = HOUR_NS;
/// Maximum time between renewals, and from the last one to the commit, in nanoseconds (W5).
const FRESH_NS: u64 = 12 * HOUR_NS;
/// Age at which a writer begins to end, in nanoseconds. A ticket lives for at most a day (W8), and
/// ending takes time.
const LIFE_NS: u64 = 20 * HOUR_NS;
/// Maximum number of tickets that are drawn before the storage is considered faulty.
const TICKET_TRIES: usize = 16;

/// A ticket that was put, with the times of its renewals.
#[derive(Debug)]
pub(super) struct OwnTicket {
    pub(super) id: TicketId,
    pub(super) purpose: Purpose,
    began_ns: u64,
    renewed_ns: u64,
    renewals: u32,
    /// Set if too much time has once passed between two renewals, so that others may have taken the
    /// writer for dead.
    was_stale: bool,
}

impl OwnTicket {
    /// Begins to renew a ticket that was put just now.
    pub(super) fn new(repository: &Repository, id: TicketId, purpose: Purpose) -> OwnTicket {
        let now_ns = repository.environment().elapsed_ns();
        OwnTicket {
            id,
            purpose,
            began_ns: now_ns,
            renewed_ns: now_ns,
            renewals: 0,
            was_stale: false,
        }
    }

    /// Renews the ticket if an hour has passed.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(super) fn renew(&mut self, repository: &Repository) -> Result<()> {
        let now_ns = repository.environment().elapsed_ns();
        let since_ns = now_ns.saturating_sub(self.renewed_ns);
        if since_ns < RENEW_NS {
            return Ok(());
        }
        self.was_stale |= since_ns > FRESH_NS;
        self.renewals += 1;
        let name = ObjectName::Ticket { ticket: self.id, renewal: self.renewals };
        repository.seal_and_put(name, &ticket_body(repository, self.purpose))?;
        self.renewed_ns = now_ns;
        Ok(())
    }

    /// W5: returns `true` if the ticket was renewed in time.
    pub(super) fn is_fresh(&self, repository: &Repository) -> bool {
        let now_ns = repository.environment().elapsed_ns();
        !self.was_stale && now_ns.saturating_sub(self.renewed_ns) <= FRESH_NS
    }

    /// W8: returns `true` if the writer should end.
    pub(super) fn is_old(&self, repository: &Repository) -> bool {
        let now_ns = repository.environment().elapsed_ns();
        now_ns.saturating_sub(self.began_ns) > LIFE_NS
    }
}

fn ticket_body(repository: &Repository, purpose: Purpose) -> Vec<u8> {
    let environment = repository.environment();
    let ticket = Ticket {
        purpose,
        process: environment.process(),
        machine: own_machine(repository),
        time_ns: environment.now_ns(),
        extra: Vec::new(),
    };
    ticket.encode()
}

/// Puts a new ticket.
///
/// # Errors
///
/// Returns any error of the storage.
pub(super) fn put_ticket(repository: &Repository, purpose: Purpose) -> Result<TicketId> {
    let body = ticket_body(repository, purpose);
    for _ in 0..TICKET_TRIES {
        let mut ticket = TicketId([0; 12]);
        repository.environment().random(&mut ticket.0)?;
        let name = ObjectName::Ticket { ticket, renewal: 0 };
        match repository.seal_and_put(name, &body) {
            Ok(()) => return Ok(ticket),
            // Two writers drew the same 96 bits, or a test made them do so: draw again.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    let message = "the storage reports every new ticket as existing with other content";
    Err(Error::new(Kind::Storage, ObjectKind::Ticket.folder(), message))
}
