//! The sizes of a volume and of its tables.

use super::Volume;
use crate::error::Result;
use crate::mode::{Compression, Mode};
use crate::tables::{Counters, TableBytes};

/// The sizes of a volume and of its tables, and the counts of its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The sizes of all disks in bytes, without snapshots.
    pub size: u64,
    /// The size of a block in bytes.
    pub block_size: u64,
    /// The mode of writes.
    pub mode: Mode,
    /// The compression of writes.
    pub compression: Compression,
    /// Set if a block is compared with the stored one before it counts as a duplicate.
    pub verifies_duplicates: bool,
    /// The number of blocks of all disks and snapshots that are not zeros. What a disk and its
    /// snapshots have in common counts once.
    pub used_block_count: u64,
    /// The number of entries of DT, and of full blocks that are in no table.
    pub full_count: u64,
    /// The number of bursts in BT.
    pub burst_count: u64,
    /// The number of deltas.
    pub delta_count: u64,
    /// The number of full blocks that no disk and no snapshot has, and that bursts or deltas need.
    pub pinned_count: u64,
    /// The bytes of live full blocks, in sectors of 512 bytes.
    pub full_bytes: u64,
    /// The bytes of live bursts, in sectors.
    pub burst_bytes: u64,
    /// The bytes of live deltas, in sectors.
    pub delta_bytes: u64,
    /// The number of entries of DT and BT together.
    pub fingerprint_count: u64,
    /// The number of entries of HeadDT and TailDT.
    pub view_count: [u64; 2],
    /// The number of bursts whose reference block HeadDT and TailDT have found.
    pub burst_count_by_side: [u64; 2],
    /// The number of entries of the table of features.
    pub feature_count: u64,
    /// The bytes of live records in the log, with headers.
    pub live_bytes: u64,
    /// The bytes of all files of the volume.
    pub physical_bytes: u64,
    /// The bytes that the storage has free, if it tells.
    pub free_bytes: Option<u64>,
    /// The bytes that all files may have at most, if there is a limit.
    pub limit: Option<u64>,
    /// The free bytes that writes leave.
    pub reserve: u64,
    /// The bytes of the files of the tables, with parity, fences and filters.
    pub table_bytes: u64,
    /// The bytes of each table.
    pub bytes_by_table: TableBytes,
    /// The bytes of memory of the tables: changes that no checkpoint has, fences and filters.
    pub table_memory_bytes: u64,
    /// The number of blocks whose last record is damaged.
    pub lost_block_count: u64,
    /// The number of layers of all disks and snapshots, those to be folded included.
    pub layer_count: u64,
    /// The counts of writes.
    pub counters: Counters,
}

impl Statistics {
    /// Returns the bytes of blocks that are not zeros, divided by the bytes of full blocks, bursts and
    /// deltas in sectors, as the paper counts. Returns `None` if nothing is stored.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let stored = self.full_bytes + self.burst_bytes + self.delta_bytes;
        (stored > 0).then(|| (self.used_block_count * self.block_size) as f64 / stored as f64)
    }
}

impl Volume {
    /// Returns the sizes.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be listed.
    pub fn statistics(&self) -> Result<Statistics> {
        let folder = &self.core.folder;
        let listed = self.core.names()?;
        // A file may be deleted meanwhile.
        let physical_bytes = listed.iter().filter_map(|name| folder.size(name).ok()).sum();
        let state = self.read_state();
        let tables = &state.tables;
        let totals = &tables.totals;
        let parts = tables.tree.runs().iter().flat_map(|run| run.parts());
        Ok(Statistics {
            size: tables.catalog.disks.values().map(|disk| disk.size).sum(),
            block_size: self.block_size() as u64,
            mode: tables.catalog.settings.mode,
            compression: tables.catalog.settings.compression,
            verifies_duplicates: tables.catalog.settings.verifies_duplicates,
            used_block_count: tables.catalog.layers.values().map(|layer| layer.used_count).sum(),
            full_count: totals.form_counts[0],
            burst_count: totals.form_counts[1],
            delta_count: totals.form_counts[2],
            pinned_count: totals.pinned_count,
            full_bytes: totals.form_bytes[0],
            burst_bytes: totals.form_bytes[1],
            delta_bytes: totals.form_bytes[2],
            fingerprint_count: totals.fingerprint_count,
            view_count: totals.edge_counts,
            burst_count_by_side: totals.side_counts,
            feature_count: totals.feature_count,
            live_bytes: tables.live_bytes.values().sum(),
            physical_bytes,
            free_bytes: folder.free_bytes(),
            limit: self.space.limit(),
            reserve: self.space.reserve(),
            table_bytes: parts.map(|part| part.pages().file_len()).sum(),
            bytes_by_table: tables.bytes(),
            table_memory_bytes: tables.tree.active_bytes() + tables.tree.index_bytes(),
            lost_block_count: totals.lost_count,
            layer_count: tables.catalog.layers.len() as u64,
            counters: tables.counters,
        })
    }
}
