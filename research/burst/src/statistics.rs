//! Statistics of a deduplicator.

/// The minimum allocation of ZFS in bytes. The paper pads a burst to a multiple of it.
pub const SECTOR_SIZE: usize = 512;

/// The number and the total size of a set of chunks or bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// The number of chunks or bursts.
    pub count: u64,
    /// The sum of the lengths in bytes.
    pub bytes: u64,
    /// The sum of the lengths in sectors, each length padded to a multiple of [`SECTOR_SIZE`]. An
    /// empty payload takes no sector.
    pub sectors: u64,
}

impl Payloads {
    pub(crate) fn of(len: usize) -> Payloads {
        Payloads { count: 1, bytes: len as u64, sectors: len.div_ceil(SECTOR_SIZE) as u64 }
    }

    pub(crate) fn add(&mut self, len: usize) {
        let added = Payloads::of(len);
        self.count += added.count;
        self.bytes += added.bytes;
        self.sectors += added.sectors;
    }

    pub(crate) fn remove(&mut self, len: usize) {
        let removed = Payloads::of(len);
        self.count -= removed.count;
        self.bytes -= removed.bytes;
        self.sectors -= removed.sectors;
    }
}

/// The size of a table, without chunks and bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// The current number of entries.
    pub entry_count: u64,
    /// The size of keys and values in this implementation in bytes, without free slots of the hash
    /// table.
    pub entry_bytes: u64,
}

/// The statistics of HeadDT or TailDT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideStatistics {
    /// The current size of the table.
    pub table: TableStatistics,
    /// The number of hits: bursts written so far whose reference chunk the table found.
    pub burst_count: u64,
    /// The number of rejects: lookups that found an entry which already had `c_max` bursts.
    pub exhausted_count: u64,
}

/// The current contents of a [`Deduplicator`](crate::Deduplicator), and the outcomes of its writes
/// so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The chunks written and not deleted.
    pub logical: Payloads,
    /// The chunks stored as they are, in DT.
    pub full_chunks: Payloads,
    /// The bursts stored, in BT.
    pub bursts: Payloads,
    /// The histogram of the lengths of the stored bursts (`post_len`), in sixteenths of their
    /// chunks, rounded up. Place 0 counts the bursts that only delete, and place 4 counts those of
    /// more than 3 and at most 4 sixteenths.
    pub burst_len_sixteenths: [u64; 17],
    /// The table of chunks by fingerprint.
    pub dt: TableStatistics,
    /// The table of bursts by the fingerprint of their chunk.
    pub bt: TableStatistics,
    /// The table of reference chunks by head.
    pub head_dt: SideStatistics,
    /// The table of reference chunks by tail.
    pub tail_dt: SideStatistics,
    /// The number of writes that found their chunk in DT.
    pub duplicate_count: u64,
    /// The number of writes that found their chunk in BT.
    pub burst_duplicate_count: u64,
    /// The number of writes that stored a chunk as it is.
    pub unique_count: u64,
}

impl Statistics {
    /// Returns the number of bytes of chunks and bursts, without tables.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.full_chunks.bytes + self.bursts.bytes
    }

    /// Returns the bytes written divided by the bytes stored, or 1 if nothing is stored. Tables are
    /// not counted, as in the paper.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.logical.bytes, self.stored_bytes())
    }

    /// Returns the ratio in sectors, which the code of the paper reports.
    #[must_use]
    pub fn dedup_ratio_of_sectors(&self) -> f64 {
        ratio(self.logical.sectors, self.full_chunks.sectors + self.bursts.sectors)
    }
}

fn ratio(logical: u64, stored: u64) -> f64 {
    if stored == 0 { 1.0 } else { logical as f64 / stored as f64 }
}
