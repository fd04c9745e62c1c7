//! The keyed hashes of a volume.

use cutpoint_fingerprint::{Blake3, Digest};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The fingerprint of a block, of changes or of a summary: the beginning of its keyed hash, by which equal
/// blocks are found, and a checksum, by which reads of blocks are verified. With AVX2, blocks of 4 KiB are
/// hashed at 2.2 GB/s, about as fast as they are read and sent; the checksum takes a seventh of that time.
pub(crate) type Fingerprint = Digest;

/// The offset of the checksum in a fingerprint.
const CHECKSUM_OFFSET: usize = 24;

/// The length of the checksum of a header in bytes.
pub(crate) const CHECKSUM_SIZE: usize = 16;

/// The keys of a volume, derived from its secret.
#[derive(Clone)]
pub(crate) struct Keys {
    blocks: Blake3,
    block_key: [u8; 32],
    block_seed: u64,
    edge_key: [u8; 32],
    log_key: [u8; 32],
    checkpoint_key: [u8; 32],
    page_key: [u8; 32],
    payload_key: [u8; 32],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Derives the keys.
    pub(crate) fn derive(secret: &[u8; 32]) -> Keys {
        let key =
            |name: &str| blake3::derive_key(&format!("cutpoint volume 2026-11 {name}"), secret);
        let block_key = key("block");
        let seed_key = key("checksum");
        Keys {
            blocks: Blake3::keyed(&block_key),
            block_key,
            block_seed: first_number(&seed_key),
            edge_key: key("edge"),
            log_key: key("log"),
            checkpoint_key: key("checkpoint"),
            page_key: key("page"),
            payload_key: key("payload"),
        }
    }

    /// Returns the fingerprint of a block.
    pub(crate) fn fingerprint(&self, block: &[u8]) -> Fingerprint {
        let mut fingerprint = *blake3::keyed_hash(&self.block_key, block).as_bytes();
        self.put_checksum(&mut fingerprint, block);
        fingerprint
    }

    /// Returns the fingerprints of blocks, in order.
    pub(crate) fn fingerprints(&self, blocks: &[&[u8]]) -> Vec<Fingerprint> {
        let mut digests = Vec::with_capacity(blocks.len());
        self.blocks.digests(blocks, &mut digests);
        for (digest, block) in digests.iter_mut().zip(blocks) {
            self.put_checksum(digest, block);
        }
        digests
    }

    /// Returns `true` if the checksum in a fingerprint is that of a block.
    pub(crate) fn has_checksum(&self, fingerprint: &Fingerprint, block: &[u8]) -> bool {
        fingerprint[CHECKSUM_OFFSET..] == self.block_checksum(block)
    }

    fn put_checksum(&self, fingerprint: &mut Fingerprint, block: &[u8]) {
        fingerprint[CHECKSUM_OFFSET..].copy_from_slice(&self.block_checksum(block));
    }

    fn block_checksum(&self, block: &[u8]) -> [u8; 8] {
        xxh3_64_with_seed(block, self.block_seed).to_le_bytes()
    }

    /// Returns the key of a head or a tail in its table.
    pub(crate) fn edge(&self, bytes: &[u8]) -> u64 {
        first_number(blake3::keyed_hash(&self.edge_key, bytes).as_bytes())
    }

    /// Returns the checksum of `bytes` at a place of the log.
    pub(crate) fn log_checksum(&self, segment: u64, offset: u64, bytes: &[u8]) -> [u8; 16] {
        placed_checksum(&self.log_key, [segment, offset], bytes)
    }

    /// Returns the checksum of the content of a page of a run.
    pub(crate) fn page_checksum(&self, run: u64, page: u64, content: &[u8]) -> [u8; 16] {
        placed_checksum(&self.page_key, [run, page], content)
    }

    /// Returns the key of sealed payloads.
    pub(crate) fn payload_key(&self) -> [u8; 32] {
        self.payload_key
    }

    /// Returns the checksum of a checkpoint.
    pub(crate) fn checkpoint_checksum(&self, bytes: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.checkpoint_key, bytes).as_bytes()
    }
}

/// Returns the first 8 bytes of a hash as a number.
fn first_number(hash: &[u8; 32]) -> u64 {
    let (first, _) = hash.split_first_chunk().expect("a hash is longer");
    u64::from_le_bytes(*first)
}

/// Returns the checksum of bytes at a place: two numbers.
fn placed_checksum(key: &[u8; 32], place: [u64; 2], bytes: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for number in place {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    let mut checksum = [0; CHECKSUM_SIZE];
    checksum.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM_SIZE]);
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_has_the_hash_and_the_checksum_of_the_block() {
        let keys = Keys::derive(&[7; 32]);
        let blocks = [[1; 4096], [2; 4096], [3; 4096]];
        let fingerprints = keys.fingerprints(&blocks.each_ref().map(|block| &block[..]));
        assert_eq!(fingerprints, blocks.map(|block| keys.fingerprint(&block)));
        let mut damaged = blocks[0];
        for bit in 0..8 * damaged.len() {
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!keys.has_checksum(&fingerprints[0], &damaged));
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(keys.has_checksum(&fingerprints[0], &damaged));
        assert_ne!(fingerprints[0][..CHECKSUM_OFFSET], fingerprints[1][..CHECKSUM_OFFSET]);
        let text: String = fingerprints[0].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            text, "2583ddf4ea9c331042a144706f8c742aa70046c9bf9fc0a74e93f3e30cb7cdd7",
            "the format"
        );
        let other = Keys::derive(&[8; 32]);
        assert!(!other.has_checksum(&fingerprints[0], &blocks[0]));
    }
}
