//! Parity tables: the description of a protected container in a parity object.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use super::map::{Extra, MapWriter, at_end, malformed, read_fixed, read_map, required};
use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// The length of a shard's checksum, in bytes.
pub const CHECKSUM_LEN: usize = 16;
/// The maximum length of a container that can have parity, in bytes.
pub const PROTECTED_LEN_MAX: u64 = 128 * 1024 * 1024;
/// The maximum length of a shard, in bytes.
pub const SHARD_LEN_MAX: u32 = 1024 * 1024;
/// The granularity of the length of a shard, in bytes: the block size of the code.
pub const SHARD_UNIT: u32 = 64;
/// Maximum number of shards of a container and of its parity, the latter rounded up to a power of
/// two. This is the number of elements of the field in which the code computes.
const SHARD_COUNT_MAX: usize = 1 << 16;

/// The last part of `parity/<xx>/...`. The parts before it are the parity shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityTable {
    /// The class of the container.
    pub class: Class,
    /// The name of the container.
    pub container: PartName,
    /// The length of the container in bytes.
    pub container_len: u64,
    /// The length of a shard in bytes. The container is divided into shards of this length, the
    /// last of which is padded with zeros.
    pub shard_len: u32,
    /// Number of parity shards.
    pub parity_count: u32,
    /// The first bytes of the BLAKE3 hash of each shard of the container.
    pub checksums: Vec<[u8; CHECKSUM_LEN]>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl ParityTable {
    /// Encodes the body of the part.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = MapWriter::new();
        map.uint(0, u64::from(self.class == Class::Meta)).bytes(1, &self.container.to_bytes());
        map.uint(2, self.container_len).uint(3, u64::from(self.shard_len));
        map.uint(4, u64::from(self.parity_count)).bytes(5, self.checksums.as_flattened());
        map.extra(&self.extra);
        map.finish()
    }

    /// Decodes the body of the part.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the numbers are inconsistent, or beyond the limits of the code.
    pub fn decode(bytes: &[u8]) -> Result<ParityTable> {
        let d = &mut Decoder::new(bytes);
        let (mut class, mut container) = (None, None);
        let (mut container_len, mut shard_len, mut parity_count) = (None, None, None);
        let mut checksums = None;
        let extra = read_map(d, |key, d| {
            match key {
                0 => class = Some(d.u8().map_err(malformed)?),
                1 => container = Some(PartName::from_bytes(read_fixed(d)?)),
                2 => container_len = Some(d.u64().map_err(malformed)?),
                3 => shard_len = Some(d.u32().map_err(malformed)?),
                4 => parity_count = Some(d.u32().map_err(malformed)?),
                5 => checksums = Some(d.bytes().map_err(malformed)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        let class = match required(class, "class in parity")? {
            0 => Class::Data,
            1 => Class::Meta,
            _ => return Err(bad("a container of unknown class")),
        };
        let (checksums, rest) = required(checksums, "checksums in parity")?.as_chunks();
        let table = ParityTable {
            class,
            container: required(container, "container in parity")?,
            container_len: required(container_len, "length in parity")?,
            shard_len: required(shard_len, "length of shards in parity")?,
            parity_count: required(parity_count, "number of shards in parity")?,
            checksums: checksums.to_vec(),
            extra,
        };
        if !rest.is_empty() {
            return Err(bad("half a checksum"));
        }
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<()> {
        let is_block = self.shard_len.is_multiple_of(SHARD_UNIT);
        if !is_block || !(SHARD_UNIT..=SHARD_LEN_MAX).contains(&self.shard_len) {
            return Err(bad(&format!("shards of {} bytes", self.shard_len)));
        }
        if !(1..=PROTECTED_LEN_MAX).contains(&self.container_len) {
            return Err(bad(&format!("a container of {} bytes", self.container_len)));
        }
        let count = self.container_len.div_ceil(u64::from(self.shard_len));
        if count != self.checksums.len() as u64 {
            return Err(bad(&format!("{} checksums, {count} shards", self.checksums.len())));
        }
        let parity_count = self.parity_count as usize;
        // Rounding up is only evaluated if it cannot overflow.
        let fits = (1..=SHARD_COUNT_MAX).contains(&parity_count)
            && self.checksums.len() + parity_count.next_power_of_two() <= SHARD_COUNT_MAX;
        if !fits {
            return Err(bad(&format!("{parity_count} shards of parity for {count}")));
        }
        Ok(())
    }
}

fn bad(what: &str) -> Error {
    Error::corrupt("", format!("malformed parity: {what}"))
}
