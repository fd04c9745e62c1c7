//! The result of one step of a sweep.

use cutpoint_storage::Process;

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
}
