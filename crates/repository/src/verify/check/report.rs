//! The results of a check.

use std::collections::BTreeMap;

use super::coverage::CoverageTotals;
use crate::format::commit::Damage;

/// The results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of findings that are errors.
    pub error_count: u64,
    /// Number of findings that are not errors.
    pub note_count: u64,
    /// Number of snapshots whose chunks were examined.
    pub snapshot_count: u64,
    /// Number of references to chunks that were followed; each tree and recipe was read once.
    pub reference_count: u64,
    /// Number of containers that the index names, or may have named before parts of it became
    /// unreadable, without those that were condemned and are deleted.
    pub container_count: u64,
    /// Number of containers that nothing names and nothing unreadable can have named: remains of
    /// interrupted runs.
    pub unreferenced_count: u64,
    /// The total size of the unreferenced containers in bytes.
    pub unreferenced_bytes: u64,
    /// The total size of all existing containers in bytes.
    pub container_bytes: u64,
    /// Number of containers that have no usable parity, although the settings ask for it.
    pub unprotected_count: u64,
    /// The total size of the unprotected containers in bytes.
    pub unprotected_bytes: u64,
    /// Number of container bytes read, with `read_data`.
    pub read_bytes: u64,
    /// The part of the containers that this check and remembered earlier checks have read.
    pub covered: CoverageTotals,
    /// Number of chunks whose fingerprints were verified, with `read_data`.
    pub chunk_count: u64,
    /// Number of chunks that listed snapshots need and that cannot be read from any place.
    pub missing_count: u64,
    /// The key epochs that are over, each with the number of commits that are sealed with its key.
    /// A client that a newer epoch has locked out can have written such commits.
    pub old_epochs: BTreeMap<u32, u64>,
    /// The places from which chunks cannot be read, sorted, for [`record`](super::record). Places
    /// that were recorded earlier are omitted, unless a snapshot whose writer knew of the record
    /// needs such a chunk all the same.
    pub damages: Vec<Damage>,
}
