//! Liveness: the evidence by which a writer that has not ended is presumed dead.
//!
//! Three things are evidence, and nothing else is (`docs/protocol.md`, "Interrupted runs"):
//!
//! 1. The writer ran on this machine since its last start, and its process is gone.
//! 2. It ran on this machine before its last start: its machine value and host name are this
//!    machine's, its boot id is another, and its last renewal is older than this start. Clones of a
//!    machine have its value and name, and may run at the same time: hence the renewal.
//! 3. It has not renewed its ticket for 24 hours.
//!
//! The age of a renewal is judged by the storage's own stamps: that of the renewal, compared with that
//! of an object which this process has just put. The clock of another client decides nothing.
//! A writer that is wrongly presumed dead begins anew; its data stays.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use crate::environment::{Environment, Process};
use crate::error::{Error, Kind, Result};
use crate::format::ticket::Ticket;
use crate::media::{Media, scratch_name};
use crate::name::{ObjectName, TicketId};
use crate::repository::Repository;
use crate::seal::RepositoryId;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// The age from which on any writer is presumed dead, in nanoseconds without a renewal: 24 hours.
pub const STALE_NS: i64 = 24 * HOUR_NS;

/// The age up to which a writer that is not known to be dead counts as at work for a client that wants to
/// be alone, in nanoseconds without a renewal: two intervals between renewals (1 hour each), and an
/// hour for an object that is on its way.
pub const AT_WORK_NS: i64 = 3 * HOUR_NS;

/// The time by which a renewal must precede the start of this machine, in nanoseconds: stamps are
/// rounded, to 2 s at most, and servers of one storage differ a little.
const BOOT_MARGIN_NS: i64 = 5 * SECOND_NS;

/// Separates machine values from whatever else is derived from a repository's id.
const MACHINE_CONTEXT: &str = "cutpoint v1 machine of a ticket";

/// The value of a machine in one repository: equal for all writers on that machine and its clones, of
/// no use elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MachineValue(pub [u8; 16]);

impl fmt::Debug for MachineValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns the value of a machine in the repository `repository`: the identity of its installation
/// ([`Environment::machine_id`]) hashed with a key derived from the repository's id. The identity
/// cannot be computed from it, and values of two repositories cannot be compared.
pub fn machine_value(id: &[u8; 16], repository: RepositoryId) -> MachineValue {
    let key = blake3::derive_key(MACHINE_CONTEXT, &repository.0);
    let hash = blake3::keyed_hash(&key, id);
    let mut value = [0; 16];
    value.copy_from_slice(&hash.as_bytes()[..16]);
    MachineValue(value)
}

/// Returns the value of this machine in `repository`; `None` where the machine does not tell its
/// identity.
pub(crate) fn own_machine(repository: &Repository) -> Option<MachineValue> {
    let id = repository.environment().machine_id()?;
    Some(machine_value(&id, repository.keys().repository()))
}

/// Returns the storage's own time, in nanoseconds since 1970: the stamp of an object that is put for
/// this in `tmp/`, and removed. `None` where the medium has no stamps.
///
/// # Errors
///
/// As the medium, but for deleting.
pub(crate) fn storage_now_ns(
    media: &dyn Media,
    environment: &dyn Environment,
) -> Result<Option<i64>> {
    let name = scratch_name(environment)?;
    media.put_new(&name, Bytes::from_static(b"now"))?;
    let stamp_ns = media.stamp_ns(&name);
    media.delete(&name).ok();
    stamp_ns
}

/// Judges the writers that have not ended. Its time is that of its first question for an age.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    repository: &'a Repository,
    /// The ticket that this process has just put, if it has.
    own: Option<TicketId>,
    process: Process,
    machine: Option<MachineValue>,
    /// The storage's own time, not later than now; `None` inside where it cannot be known.
    now_ns: OnceCell<Option<i64>>,
}

impl<'a> Judge<'a> {
    /// A judge for a process whose ticket `own` was put a moment ago, or that has none.
    pub(crate) fn new(repository: &'a Repository, own: Option<TicketId>) -> Judge<'a> {
        let process = repository.environment().process();
        let machine = own_machine(repository);
        Judge { repository, own, process, machine, now_ns: OnceCell::new() }
    }

    /// Tells a writer that is dead, by the evidence that there is: `ticket` is its newest renewal, and
    /// `name` that object's name.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub(crate) fn is_dead(&self, name: ObjectName, ticket: &Ticket) -> Result<bool> {
        let environment = self.repository.environment();
        let (this, other) = (&self.process, &ticket.process);
        let is_of_this_machine =
            self.machine.is_some() && ticket.machine == self.machine && other.host == this.host;
        let tells_boots = !this.boot_id.is_empty() && !other.boot_id.is_empty();
        let is_of_this_boot = is_of_this_machine && tells_boots && other.boot_id == this.boot_id;
        if is_of_this_boot && !environment.may_be_alive(other) {
            return Ok(true);
        }
        let Some(age_ns) = self.age_ns(name)? else { return Ok(false) };
        if age_ns > STALE_NS {
            return Ok(true);
        }
        if !is_of_this_machine || !tells_boots || is_of_this_boot {
            return Ok(false);
        }
        #[cfg(feature = "mutants")]
        if crate::writer::mutant::is_active(crate::writer::mutant::Mutant::TrustsBoots) {
            return Ok(true);
        }
        let since_boot_ns = environment.since_boot_ns().and_then(|ns| i64::try_from(ns).ok());
        Ok(since_boot_ns.is_some_and(|ns| age_ns > ns.saturating_add(BOOT_MARGIN_NS)))
    }

    /// Returns the time for which `name` has been lying there, in nanoseconds, by the storage's own
    /// stamps; never more than it is. `None` where the medium has no stamps, or the object is gone.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub(crate) fn age_ns(&self, name: ObjectName) -> Result<Option<i64>> {
        #[cfg(feature = "mutants")]
        if crate::writer::mutant::is_active(crate::writer::mutant::Mutant::TrustsClocks) {
            let time_ns = self.repository.read(name, Ticket::decode)?.time_ns;
            return Ok(Some(self.repository.environment().now_ns().saturating_sub(time_ns)));
        }
        let Some(stamp_ns) = self.repository.media().stamp_ns(&name.to_string())? else {
            return Ok(None);
        };
        // In this order: what was put before now is not younger than now.
        let Some(now_ns) = self.now_ns()? else { return Ok(None) };
        Ok(Some(now_ns.saturating_sub(stamp_ns)))
    }

    fn now_ns(&self) -> Result<Option<i64>> {
        if let Some(now_ns) = self.now_ns.get() {
            return Ok(*now_ns);
        }
        let media = self.repository.media();
        let now_ns = match self.own {
            Some(ticket) => {
                media.stamp_ns(&ObjectName::Ticket { ticket, renewal: 0 }.to_string())?
            }
            None => {
                let ask = || storage_now_ns(&**media, &**self.repository.environment());
                match ask() {
                    Err(error) if error.kind() == Kind::Full => {
                        self.repository.give_up_reserve();
                        // A client that frees room must be able to; by age it then presumes nobody dead.
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

/// A writer that may be at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtWork {
    /// Its ticket.
    pub ticket: TicketId,
    /// The process; `None` where the ticket cannot be read.
    pub process: Option<Process>,
    /// The time since it last said that it is at work, in nanoseconds, by the storage's own stamps;
    /// `None` where the medium has none.
    pub age_ns: Option<i64>,
}

/// Returns the writers that may be at work but `own`: those that have not ended, are not known to be
/// dead, and renewed their tickets within [`AT_WORK_NS`], by the storage's own stamps.
///
/// # Errors
///
/// As the medium.
pub fn others_at_work(repository: &Repository, own: Option<TicketId>) -> Result<Vec<AtWork>> {
    let mut open: BTreeMap<TicketId, u32> = crate::writer::open_tickets(repository)?;
    open.retain(|ticket, _| Some(*ticket) != own);
    let judge = Judge::new(repository, own);
    let mut found = Vec::new();
    for (ticket, renewal) in open {
        let name = ObjectName::Ticket { ticket, renewal };
        let process = match repository.read(name, Ticket::decode) {
            Ok(body) if judge.is_dead(name, &body)? => continue,
            Ok(body) => Some(body.process),
            // A sweep has taken it.
            Err(error) if error.kind() == Kind::Missing => continue,
            // It says nothing about its writer.
            Err(error) if error.kind() == Kind::Corrupt => None,
            Err(error) => return Err(error),
        };
        let age_ns = judge.age_ns(name)?;
        if age_ns.is_none_or(|age_ns| age_ns <= AT_WORK_NS) {
            found.push(AtWork { ticket, process, age_ns });
        }
    }
    Ok(found)
}

/// Refuses where another writer may be at work, for a client that has to be alone.
///
/// # Errors
///
/// `Conflict`, naming one; as [`others_at_work`].
pub(crate) fn require_alone(repository: &Repository, own: Option<TicketId>) -> Result<()> {
    let Some(other) = others_at_work(repository, own)?.into_iter().next() else { return Ok(()) };
    let name = ObjectName::Ticket { ticket: other.ticket, renewal: 0 };
    let message = format!("its writer may be at work (expected to be alone): {other}");
    Err(Error::new(Kind::Conflict, name, message))
}

impl fmt::Display for AtWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(Process { host, process_id, .. }) => {
                write!(f, "process {process_id} of host {host:?}, ")?;
            }
            None => write!(f, "its ticket cannot be read, ")?,
        }
        match self.age_ns {
            Some(age_ns) => write!(f, "last renewed {} min ago", age_ns.max(0) / (60 * SECOND_NS)),
            None => write!(f, "last renewed at an unknown time"),
        }
    }
}
