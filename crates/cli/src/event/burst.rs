//! The numbers of bursts.

use cutpoint_repository::write::BurstStatistics;
use serde::Serialize;

/// The delta chunks that are bursts, which the paper keeps in its table BT.
#[derive(Default, Serialize)]
pub(crate) struct BurstStats {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) reference_count: u64,
    /// The number of bursts by the number of bits of their data length.
    pub(crate) data_len_counts: Vec<u64>,
}

/// The statistics of BURST on new chunks, under the same names as in the store.
#[derive(Serialize)]
pub(crate) struct BurstCounts {
    head: TableCounts,
    tail: TableCounts,
    short_count: u64,
    missing_count: u64,
    refused_count: u64,
}

#[derive(Serialize)]
struct TableCounts {
    entry_count: u64,
    entry_bytes: u64,
    hit_count: u64,
    exhausted_count: u64,
    replaced_count: u64,
}

impl From<&BurstStatistics> for BurstCounts {
    fn from(statistics: &BurstStatistics) -> BurstCounts {
        let [head, tail] = [statistics.head, statistics.tail].map(|table| TableCounts {
            entry_count: table.entry_count,
            entry_bytes: table.entry_bytes,
            hit_count: table.hit_count,
            exhausted_count: table.exhausted_count,
            replaced_count: table.replaced_count,
        });
        BurstCounts {
            head,
            tail,
            short_count: statistics.short_count,
            missing_count: statistics.missing_count,
            refused_count: statistics.refused_count,
        }
    }
}
