//! The sizes of a volume and of its tables.

use cutpoint_delta::burst::Side;

use super::Volume;
use crate::error::Result;
use crate::mode::Mode;
use crate::tables::{Counters, Form};

/// The sizes of a volume and of its tables, and the counts of its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The size of the disk in bytes.
    pub size: u64,
    /// The size of a block in bytes.
    pub block_size: u64,
    /// The mode of writes.
    pub mode: Mode,
    /// The number of blocks of the disk that are not zeros.
    pub used_block_count: u64,
    /// The number of entries of DT, and of full blocks that are in no table.
    pub full_count: u64,
    /// The number of entries of BT.
    pub burst_count: u64,
    /// The number of full blocks that no block of the disk has, and that bursts need.
    pub pinned_count: u64,
    /// The bytes of live full blocks.
    pub full_bytes: u64,
    /// The bytes of live bursts, padded to 512 bytes each.
    pub burst_bytes: u64,
    /// The number of entries of HeadDT and TailDT.
    pub view_count: [u64; 2],
    /// The bytes of live records in the log, with headers.
    pub live_bytes: u64,
    /// The bytes of all files of the volume.
    pub physical_bytes: u64,
    /// The number of blocks whose last record is damaged.
    pub lost_block_count: u64,
    /// The counts of writes.
    pub counters: Counters,
}

impl Statistics {
    /// Returns the bytes of blocks that are not zeros, divided by the bytes of full blocks and padded
    /// bursts, as the paper counts. Returns `None` if nothing is stored.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let stored = self.full_bytes + self.burst_bytes;
        (stored > 0).then(|| (self.used_block_count * self.block_size) as f64 / stored as f64)
    }
}

impl Volume {
    /// Returns the sizes, which takes time in proportion to the size of the tables.
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
        let block_size = tables.block_size;
        let (mut full_count, mut burst_count, mut pinned_count, mut burst_bytes) = (0, 0, 0, 0);
        for stored in tables.stored.values() {
            match stored.form {
                Form::Full { .. } => {
                    full_count += 1;
                    pinned_count += u64::from(stored.use_count == 0);
                }
                Form::Burst { patch, .. } => {
                    burst_count += 1;
                    burst_bytes += patch.padded_len(block_size) as u64;
                }
            }
        }
        let lost = tables.map.iter().filter(|(_, seq)| *seq == crate::tables::LOST);
        Ok(Statistics {
            size: tables.settings.size,
            block_size: block_size as u64,
            mode: tables.settings.mode,
            used_block_count: tables.map.used_count(),
            full_count,
            burst_count,
            pinned_count,
            full_bytes: full_count * block_size as u64,
            burst_bytes,
            view_count: Side::ALL.map(|side| tables.views.statistics(side).entry_count),
            live_bytes: tables.live_bytes.values().sum(),
            physical_bytes,
            lost_block_count: lost.count() as u64,
            counters: tables.counters,
        })
    }
}
