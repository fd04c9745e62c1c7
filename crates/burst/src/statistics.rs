//! What a deduplicator holds, and what it has done.

/// Bytes of what ZFS allocates at least: the paper pads a burst to a multiple of that.
pub const SECTOR_SIZE: usize = 512;

/// Chunks or bursts, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// How many there are.
    pub count: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// The same with each of them padded to sectors of [`SECTOR_SIZE`], counted in sectors. What is
    /// empty takes none.
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
    /// How many entries it has now.
    pub entry_count: u64,
    /// What keys and values take in this implementation, without free slots of the hash table.
    pub entry_bytes: u64,
}

/// HeadDT or TailDT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideStatistics {
    /// What it holds now.
    pub table: TableStatistics,
    /// Hits: how many bursts were ever written because of it.
    pub burst_count: u64,
    /// Rejects: how often it had an entry which had `c_max` bursts.
    pub exhausted_count: u64,
}

/// What a [`Deduplicator`](crate::Deduplicator) holds now, and what its writes have met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What was written and not deleted.
    pub logical: Payloads,
    /// What is stored as it is, in DT.
    pub wholes: Payloads,
    /// What is stored as bursts, in BT.
    pub bursts: Payloads,
    /// The lengths of the bursts that are stored (`post_len`), in sixteenths of their chunks, rounded
    /// up: place 0 counts those that only delete, place 4 those of more than 3 and at most 4 sixteenths.
    pub burst_len_sixteenths: [u64; 17],
    /// Chunks by fingerprint.
    pub dt: TableStatistics,
    /// Bursts by the fingerprint of their chunk.
    pub bt: TableStatistics,
    /// Reference chunks by head.
    pub head_dt: SideStatistics,
    /// Reference chunks by tail.
    pub tail_dt: SideStatistics,
    /// How many writes found their chunk in DT.
    pub duplicate_count: u64,
    /// How many writes found their chunk in BT.
    pub burst_duplicate_count: u64,
    /// How many writes stored a chunk as it is.
    pub unique_count: u64,
}

impl Statistics {
    /// Bytes of chunks and bursts, without tables.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.wholes.bytes + self.bursts.bytes
    }

    /// What was written divided by what is stored, 1 if nothing is stored. Tables are not counted, as
    /// in the paper.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.logical.bytes, self.stored_bytes())
    }

    /// The same in sectors: what the paper's code reports.
    #[must_use]
    pub fn dedup_ratio_of_sectors(&self) -> f64 {
        ratio(self.logical.sectors, self.wholes.sectors + self.bursts.sectors)
    }
}

fn ratio(logical: u64, stored: u64) -> f64 {
    if stored == 0 { 1.0 } else { logical as f64 / stored as f64 }
}
