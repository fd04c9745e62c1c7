//! The result of one step of a sweep.

use cutpoint_storage::{Lock, Process};

use crate::format::names::TicketId;

/// The result of one step of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// No prune has condemned anything that is not yet deleted.
    Nothing,
    /// The prune's record is too young.
    Settling {
        /// The number of the record.
        number: u64,
        /// The time at which the record will be old enough, in nanoseconds since 1970.
        until_ns: i64,
    },
    /// Open writers may still refer to what the record condemned.
    Waiting {
        /// The number of the record.
        number: u64,
        /// The open writers.
        writers: Vec<OpenWriter>,
    },
    /// Everything that the record condemned is deleted.
    Done(SweepReport),
    /// The storage keeps some of what the record condemned, and the rest is deleted. The record
    /// stays open, so that a later sweep deletes what is left. The next step sweeps the next record.
    Locked(SweepReport),
}

/// A writer for which a sweep waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWriter {
    /// The ticket of the writer.
    pub ticket: TicketId,
    /// The process that wrote the ticket; `None` if the ticket cannot be read.
    pub process: Option<Process>,
    /// The time of the last renewal by the writer's own clock, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// Counts of a finished sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// The number of the record.
    pub number: u64,
    /// Number of chunks that late snapshots needed, and that were stored again.
    pub rescued_count: u64,
    /// Number of deleted containers.
    pub container_count: u64,
    /// Total size of the deleted containers in bytes.
    pub container_bytes: u64,
    /// Number of deleted parity objects: those of the deleted containers, and leftovers of earlier
    /// ones.
    pub parity_count: u64,
    /// Number of deleted index segments.
    pub segment_count: u64,
    /// Number of deleted ticket objects, including renewals.
    pub ticket_count: u64,
    /// Number of objects that no record condemns, such as tickets of ended writers, and that the
    /// storage keeps. A later sweep deletes them.
    pub spared_count: u64,
}

/// Condemned objects that the storage keeps from being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedObjects {
    /// The number of objects.
    pub count: u64,
    /// The names of the first few objects.
    pub first: Vec<String>,
    /// The lock that ends last; `None` if there are no objects.
    pub last_lock: Option<Lock>,
}

/// Maximum number of locked objects that are named.
const NAMED_MAX: usize = 3;

impl LockedObjects {
    /// Adds an object.
    pub(super) fn add(&mut self, name: String, lock: Lock) {
        self.count += 1;
        self.last_lock = self.last_lock.max(Some(lock));
        if self.first.len() < NAMED_MAX {
            self.first.push(name);
        }
    }

    /// Adds the objects of `other`.
    pub(super) fn extend(&mut self, other: &LockedObjects) {
        self.count += other.count;
        self.last_lock = self.last_lock.max(other.last_lock);
        let named = NAMED_MAX.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(named).cloned());
    }
}
