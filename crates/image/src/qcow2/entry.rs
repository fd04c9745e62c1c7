//! The entries of L1 and L2 tables.

use super::header::Header;

/// The bits of an entry that hold an offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// The bit that says that the reference count is 1, which no reader needs.
const COPIED: u64 = 1 << 63;
/// The bit of an L2 entry of a compressed cluster.
const COMPRESSED: u64 = 1 << 62;
/// The bit of an L2 entry of a cluster of zeros.
const ZEROS: u64 = 1;
/// The number of subclusters of a cluster.
const SUBCLUSTER_COUNT: u64 = 32;

/// The place of some bytes of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// In the backing file.
    Absent,
    /// Nowhere: they are zeros.
    Zeros,
    /// In the file at this offset.
    Plain(u64),
    /// In a compressed cluster, which begins at this offset and has at most this number of bytes.
    Compressed(u64, u64),
}

/// The entry of a cluster in an L2 table.
#[derive(Clone, Copy, Debug)]
pub(super) struct L2Entry {
    pub(super) entry: u64,
    /// The second half of an extended entry.
    pub(super) bitmap: u64,
}

/// Returns the offset of the L2 table, or `None` if there is none.
///
/// # Errors
///
/// Fails with the problem if the entry is invalid.
pub(super) fn l2_table(header: &Header, entry: u64) -> Result<Option<u64>, &'static str> {
    if entry & !(OFFSET | COPIED) != 0 {
        return Err("has reserved bits set in an entry of its L1 table");
    }
    let offset = entry & OFFSET;
    if !offset.is_multiple_of(header.cluster_size()) {
        return Err("has an L2 table at an offset that is not a multiple of the cluster size");
    }
    Ok((offset != 0).then_some(offset))
}

impl L2Entry {
    /// Returns the mapping of the byte at `offset` within the cluster, and the number of bytes from
    /// there on that the mapping holds for.
    ///
    /// # Errors
    ///
    /// Fails with the problem if the entry is invalid.
    pub(super) fn mapping(
        self,
        header: &Header,
        offset: u64,
    ) -> Result<(Mapping, u64), &'static str> {
        let size = header.cluster_size();
        if self.entry & COMPRESSED != 0 {
            if self.bitmap != 0 {
                return Err("has subclusters in a compressed cluster");
            }
            return Ok((self.compressed(header)?, size - offset));
        }
        let known = OFFSET | COPIED | if header.is_v3 { ZEROS } else { 0 };
        if self.entry & !known != 0 {
            return Err("has reserved bits set in an entry of an L2 table");
        }
        let host = self.entry & OFFSET;
        if !host.is_multiple_of(size) {
            return Err("has a cluster at an offset that is not a multiple of the cluster size");
        }
        if header.has_extended_l2 {
            return self.subcluster(size, host, offset);
        }
        let mapping = match (self.entry & ZEROS, host) {
            (ZEROS, _) => Mapping::Zeros,
            (_, 0) => Mapping::Absent,
            (_, host) => Mapping::Plain(host + offset),
        };
        Ok((mapping, size - offset))
    }

    fn compressed(self, header: &Header) -> Result<Mapping, &'static str> {
        if self.entry & COPIED != 0 {
            return Err("has reserved bits set in the entry of a compressed cluster");
        }
        let offset_bits = 62 - (header.cluster_bits - 8);
        let descriptor = self.entry & (COMPRESSED - 1);
        let host = descriptor & ((1 << offset_bits) - 1);
        let sector_count = (descriptor >> offset_bits) + 1;
        if host & !(OFFSET | 511) != 0 {
            return Err("has a compressed cluster at an offset that no file can have");
        }
        Ok(Mapping::Compressed(host, sector_count * 512 - host % 512))
    }

    fn subcluster(self, size: u64, host: u64, offset: u64) -> Result<(Mapping, u64), &'static str> {
        if self.entry & ZEROS != 0 {
            return Err("has reserved bits set in an entry of an L2 table");
        }
        let subcluster_size = size / SUBCLUSTER_COUNT;
        let number = offset / subcluster_size;
        let is_set = |bit: u64| self.bitmap >> bit & 1 != 0;
        let mapping = match (is_set(number), is_set(number + SUBCLUSTER_COUNT)) {
            (true, true) => return Err("has a subcluster that is both data and zeros"),
            (true, false) if host == 0 => return Err("has a subcluster without a cluster"),
            (true, false) => Mapping::Plain(host + offset),
            (false, true) => Mapping::Zeros,
            (false, false) => Mapping::Absent,
        };
        Ok((mapping, subcluster_size - offset % subcluster_size))
    }
}
