//! A filter: tells for most keys that a part of a run does not have that it has them not.

/// The length of a block of a filter in bytes.
const BLOCK: usize = 64;
/// The bits of a filter for each key.
const BITS_PER_KEY: u64 = 6;
/// The number of bits that a key sets.
const PROBES: u32 = 4;

/// A blocked Bloom filter: a key sets four bits of one block of 64 bytes.
#[derive(Debug)]
pub(crate) struct Filter(Vec<u8>);

impl Filter {
    /// Creates a filter for up to `key_count` keys.
    fn new(key_count: u64) -> Filter {
        let bits = key_count.saturating_mul(BITS_PER_KEY).div_ceil(BLOCK as u64 * 8) * 8;
        Filter(vec![0; usize::try_from(bits).expect("filters fit into memory") * BLOCK / 8])
    }

    /// Creates the filter of the keys with these hashes.
    pub(crate) fn of_hashes(hashes: &[u64]) -> Filter {
        let mut filter = Filter::new(hashes.len() as u64);
        hashes.iter().for_each(|hash| filter.insert(*hash));
        filter
    }

    /// Takes the bytes of a filter. Returns `None` if these are no whole blocks.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Option<Filter> {
        bytes.len().is_multiple_of(BLOCK).then_some(Filter(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn insert(&mut self, filter_hash: u64) {
        if let Some((start, bits)) = self.place(filter_hash) {
            for bit in bits {
                self.0[start + bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// Returns `false` if the key with this hash is not in the set.
    pub(crate) fn may_have(&self, filter_hash: u64) -> bool {
        self.place(filter_hash).is_none_or(|(start, mut bits)| {
            bits.all(|bit| self.0[start + bit / 8] & 1 << (bit % 8) != 0)
        })
    }

    /// Returns the offset of the block of the key with this hash, and its bits in the block.
    fn place(&self, hash: u64) -> Option<(usize, impl Iterator<Item = usize> + use<>)> {
        let block_count = (self.0.len() / BLOCK) as u64;
        // The upper bits choose the block, the lower ones the bits in it.
        let block = (hash >> 36).checked_rem(block_count)?;
        let bits = (0..PROBES).map(move |probe| (hash >> (9 * probe) & 511) as usize);
        Some((usize::try_from(block).ok()? * BLOCK, bits))
    }
}
