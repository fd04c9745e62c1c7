//! Liveness: the evidence by which a writer that has not ended is presumed dead.
//!
//! Only three things are evidence (`docs/protocol.md`, "Interrupted runs"):
//!
//! 1. The writer ran on this machine since its last start, and the writer's process is gone.
//! 2. The writer ran on this machine before its last start: the writer's machine value and host
//!    name are those of this machine, its boot id is another, and its last renewal is older than
//!    this start. The age of the renewal is needed because clones of a machine share its value and
//!    name, and may run at the same time.
//! 3. The writer has not renewed its ticket for 24 hours.
//!
//! The age of a renewal is the difference between two stamps of the storage: that of the renewal,
//! and that of an object which this process has just put. The clock of another client decides
//! nothing. A writer that is wrongly presumed dead has to start again; its data stays.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use cutpoint_storage::{
    Environment, Error, Kind, ObjectKind, Process, Result, Stamped, Storage, scratch_name,
};

use crate::format::names::{ObjectName, TicketId};
use crate::format::repository_id::RepositoryId;
use crate::format::ticket::{MachineValue, Ticket};
use crate::repo::lagging_clients::delays_sweeps;
use crate::repo::repository::Repository;
use crate::rules;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// The age above which any writer is presumed dead, in nanoseconds without a renewal: 24 hours.
pub const STALE_NS: i64 = 24 * HOUR_NS;

/// The maximum age at which a writer that is not known to be dead counts as at work, for a client
/// that has to be alone, in nanoseconds without a renewal: two intervals between renewals (1 hour
/// each), and an hour for an object that is on its way.
pub const AT_WORK_NS: i64 = 3 * HOUR_NS;

/// The age below which a client that begins does not read the ticket of another writer, in
/// nanoseconds since the writer began. A writer that died so young is ended later; until then, what
/// it has stored is stored again, which is no more than a writer may lose in any case (W4). Clients
/// that begin together would otherwise read each other's tickets.
const YOUNG_NS: i64 = 60 * SECOND_NS;

/// The margin by which a renewal must precede the start of this machine, in nanoseconds: stamps are
/// rounded, by 2 s at most, and the servers of one storage differ a little.
const BOOT_MARGIN_NS: i64 = 5 * SECOND_NS;

/// The context that separates machine values from everything else derived from a repository's id.
const MACHINE_CONTEXT: &str = "cutpoint v1 machine of a ticket";

/// Returns the value of a machine in `repository`: the identity `id` of its installation
/// ([`Environment::machine_id`]), hashed with a key derived from the repository's id. The identity
/// cannot be computed from the value, and values of two repositories cannot be compared.
pub fn machine_value(id: &[u8; 16], repository: RepositoryId) -> MachineValue {
    let key = blake3::derive_key(MACHINE_CONTEXT, &repository.0);
    let hash = blake3::keyed_hash(&key, id);
    let mut value = [0; 16];
    value.copy_from_slice(&hash.as_bytes()[..16]);
    MachineValue(value)
}

/// Returns the value of this machine in `repository`; `None` if the machine has no identity.
pub(crate) fn own_machine(repository: &Repository) -> Option<MachineValue> {
    let id = repository.environment().machine_id()?;
    Some(machine_value(&id, repository.keys().repository()))
}

/// Returns the storage's own time, in nanoseconds since 1970: the stamp of an object that is put in
/// `tmp/` for this purpose, and removed again. `None` if the storage has no stamps.
///
/// # Errors
///
/// Returns any error of the storage, except one of deleting the object.
pub(crate) fn storage_now_ns(
    storage: &dyn Storage,
    environment: &dyn Environment,
) -> Result<Option<i64>> {
    let name = scratch_name(environment)?;
    storage.put_new(&name, Bytes::from_static(b"now"))?;
    let stamp_ns = storage.stamp_ns(&name);
    storage.delete(&name).ok();
    stamp_ns
}

/// Judges the writers that have not ended. The storage's time is read once, when the first age is
/// needed.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    repository: &'a Repository,
    /// The ticket that this process has just put, if any.
    own: Option<TicketId>,
    process: Process,
    machine: Option<MachineValue>,
    /// The storage's own time, not later than now; `None` inside if it cannot be determined.
    now_ns: OnceCell<Option<i64>>,
}

impl<'a> Judge<'a> {
    /// Creates a judge for a process that has put the ticket `own` a moment ago, or has no ticket.
    pub(crate) fn new(repository: &'a Repository, own: Option<TicketId>) -> Judge<'a> {
        let process = repository.environment().process();
        let machine = own_machine(repository);
        Judge { repository, own, process, machine, now_ns: OnceCell::new() }
    }

    /// Takes the storage's time from the stamp of this process's ticket in a listing, if there is
    /// one.
    pub(crate) fn at_listing(self, open: &OpenTickets) -> Judge<'a> {
        let own = self.own.and_then(|own| open.get(&own));
        if let Some(now_ns) = own.and_then(|own| own.stamp_ns) {
            self.now_ns.get_or_init(|| Some(now_ns));
        }
        self
    }

    /// Returns `true` if a writer is dead by the available evidence. `ticket` is the writer's
    /// newest renewal, and `open` its place in the listing.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn is_dead(&self, open: &OpenTicket, ticket: &Ticket) -> Result<bool> {
        let environment = self.repository.environment();
        let (this, other) = (&self.process, &ticket.process);
        let is_of_this_machine =
            self.machine.is_some() && ticket.machine == self.machine && other.host == this.host;
        let tells_boots = !this.boot_id.is_empty() && !other.boot_id.is_empty();
        let is_of_this_boot = is_of_this_machine && tells_boots && other.boot_id == this.boot_id;
        if is_of_this_boot && !environment.may_be_alive(other) {
            return Ok(true);
        }
        let Some(age_ns) = self.age_ns(open)? else { return Ok(false) };
        if age_ns > STALE_NS {
            return Ok(true);
        }
        if !is_of_this_machine || !tells_boots || is_of_this_boot {
            return Ok(false);
        }
        let since_boot_ns = environment.since_boot_ns().and_then(|ns| i64::try_from(ns).ok());
        let is_older = since_boot_ns.is_some_and(|ns| age_ns > ns.saturating_add(BOOT_MARGIN_NS));
        Ok(rules::counts_as_earlier_boot(is_older))
    }

    /// Returns a lower bound of the age of a ticket's newest renewal in nanoseconds, by the
    /// storage's own stamps. `None` if the storage has no stamps, or the object is gone.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn age_ns(&self, open: &OpenTicket) -> Result<Option<i64>> {
        if rules::may_compare_clocks() {
            let time_ns = self.repository.read(open.name, Ticket::decode)?.time_ns;
            return Ok(Some(self.repository.environment().now_ns().saturating_sub(time_ns)));
        }
        let stamp_ns = match open.stamp_ns {
            Some(stamp_ns) => Some(stamp_ns),
            None => self.repository.storage().stamp_ns(&open.name.to_string())?,
        };
        let Some(stamp_ns) = stamp_ns else { return Ok(None) };
        // The order matters: an object stamped before now is read cannot be younger than now.
        let Some(now_ns) = self.now_ns()? else { return Ok(None) };
        Ok(Some(now_ns.saturating_sub(stamp_ns)))
    }

    fn now_ns(&self) -> Result<Option<i64>> {
        if let Some(now_ns) = self.now_ns.get() {
            return Ok(*now_ns);
        }
        let storage = self.repository.storage();
        let now_ns = match self.own {
            Some(ticket) => {
                storage.stamp_ns(&ObjectName::Ticket { ticket, renewal: 0 }.to_string())?
            }
            None => {
                let ask = || storage_now_ns(&**storage, &**self.repository.environment());
                match ask() {
                    Err(error) if error.kind() == Kind::Full => {
                        self.repository.give_up_reserve();
                        // A client that frees space must be able to proceed; it then presumes no
                        // writer dead by age.
                        ask().or_else(|error| match error.kind() {
                            Kind::Full => Ok(None),
                            _ => Err(error),
                        })?
                    }
                    asked => asked?,
                }
            }
        };
        Ok(*self.now_ns.get_or_init(|| now_ns))
    }
}

/// The ticket of a writer that has not ended, in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenTicket {
    /// The name of the newest renewal.
    pub(crate) name: ObjectName,
    /// The number of the newest renewal.
    pub(crate) renewal: u32,
    /// The stamp of the newest renewal, if the listing shows it.
    stamp_ns: Option<i64>,
}

/// The writers that have not ended.
pub(crate) type OpenTickets = BTreeMap<TicketId, OpenTicket>;

/// One listing of tickets.
#[derive(Debug, Default)]
pub(crate) struct TicketListing {
    /// All tickets, including those of writers that have ended.
    pub(crate) tickets: OpenTickets,
    /// Set if listings of some client may lag ([`crate::repo::lagging_clients`]).
    pub(crate) has_lagging_clients: bool,
}

/// Returns the writers that have not ended. A writer that is not among them has ended, or began
/// after the listing.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn open_tickets(repository: &Repository) -> Result<OpenTickets> {
    without_ended(repository, listed_tickets(repository)?.tickets)
}

/// Removes the writers that have ended from `tickets`, which were listed before.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn without_ended(repository: &Repository, tickets: OpenTickets) -> Result<OpenTickets> {
    let mut open = tickets;
    for (name, _) in repository.list_objects(ObjectKind::Commit)? {
        if let ObjectName::Commit(ticket) = name {
            open.remove(&ticket);
        }
    }
    Ok(open)
}

/// Returns all tickets that have not been deleted, including those of writers that have ended. Only
/// a listing of commits that begins after this one tells which have ended.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn listed_tickets(repository: &Repository) -> Result<TicketListing> {
    let mut listing = TicketListing::default();
    let tickets = &mut listing.tickets;
    for Stamped { name, stamp_ns } in
        repository.storage().list_stamped(ObjectKind::Ticket.folder())?
    {
        listing.has_lagging_clients |= delays_sweeps(&name);
        let Ok(name @ ObjectName::Ticket { ticket, renewal }) = ObjectName::parse(&name) else {
            continue;
        };
        let newest = tickets.entry(ticket).or_insert(OpenTicket { name, renewal, stamp_ns });
        if renewal > newest.renewal {
            *newest = OpenTicket { name, renewal, stamp_ns };
        }
    }
    Ok(listing)
}

/// Removes the writers that began less than [`YOUNG_NS`] before `own`, by the stamps of the listing.
pub(crate) fn retain_old(open: &mut OpenTickets, own: TicketId) {
    let Some(now_ns) = open.get(&own).and_then(|own| own.stamp_ns) else { return };
    open.retain(|_, ticket| {
        let age_ns = ticket.stamp_ns.map(|stamp_ns| now_ns.saturating_sub(stamp_ns));
        ticket.renewal > 0 || age_ns.is_none_or(|age_ns| age_ns >= YOUNG_NS)
    });
}

/// Reads tickets, each at its newest renewal, several at a time.
///
/// # Errors
///
/// Returns no error of a ticket; each has its own result.
pub(crate) fn read_tickets(
    repository: &Repository,
    open: &OpenTickets,
) -> Result<BTreeMap<TicketId, Result<Ticket>>> {
    let len_max = ObjectKind::Ticket.len_max();
    let wanted: Vec<(ObjectName, u64)> =
        open.values().map(|ticket| (ticket.name, len_max)).collect();
    let mut tickets = BTreeMap::new();
    repository.get_many(&wanted, |name, bytes| {
        let open = |bytes| repository.open_bytes(name, &bytes, Ticket::decode);
        if let ObjectName::Ticket { ticket, .. } = name {
            tickets.insert(ticket, bytes.and_then(open).map(|(_, body)| body));
        }
        Ok(())
    })?;
    Ok(tickets)
}

/// A writer that may be at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtWork {
    /// The ticket of the writer.
    pub ticket: TicketId,
    /// The writer's process; `None` if the ticket cannot be read.
    pub process: Option<Process>,
    /// The time since the last renewal of the ticket, in nanoseconds, by the storage's own stamps;
    /// `None` if the storage has no stamps.
    pub age_ns: Option<i64>,
}

/// Returns the writers other than `own` that may be at work: those that have not ended, are not
/// known to be dead, and have renewed their tickets within [`AT_WORK_NS`], by the storage's own
/// stamps.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn others_at_work(repository: &Repository, own: Option<TicketId>) -> Result<Vec<AtWork>> {
    let mut open = open_tickets(repository)?;
    let judge = Judge::new(repository, own).at_listing(&open);
    open.retain(|ticket, _| Some(*ticket) != own);
    let mut found = Vec::new();
    for (ticket, body) in read_tickets(repository, &open)? {
        let Some(listed) = open.get(&ticket) else { continue };
        let process = match body {
            Ok(body) if judge.is_dead(listed, &body)? => continue,
            Ok(body) => Some(body.process),
            // A sweep may have deleted the ticket.
            Err(error) if error.kind() == Kind::Missing => continue,
            // A damaged ticket tells nothing about its writer.
            Err(error) if error.kind() == Kind::Corrupt => None,
            Err(error) => return Err(error),
        };
        let age_ns = judge.age_ns(listed)?;
        if age_ns.is_none_or(|age_ns| age_ns <= AT_WORK_NS) {
            found.push(AtWork { ticket, process, age_ns });
        }
    }
    Ok(found)
}

/// Requires that no other writer may be at work, for a client that has to be alone.
///
/// # Errors
///
/// Returns a `Conflict` error that names one of the other writers, or any error of
/// [`others_at_work`].
pub(crate) fn require_alone(repository: &Repository, own: Option<TicketId>) -> Result<()> {
    let Some(other) = others_at_work(repository, own)?.into_iter().next() else { return Ok(()) };
    let name = ObjectName::Ticket { ticket: other.ticket, renewal: 0 };
    let message = format!("another writer may be active: {other}");
    Err(Error::new(Kind::Conflict, name, message))
}

impl fmt::Display for AtWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(Process { host, process_id, .. }) => {
                write!(f, "process {process_id} of host {host:?}, ")?;
            }
            None => write!(f, "unreadable ticket, ")?,
        }
        match self.age_ns {
            Some(age_ns) => write!(f, "last renewed {} min ago", age_ns.max(0) / (60 * SECOND_NS)),
            None => write!(f, "last renewed at an unknown time"),
        }
    }
}
