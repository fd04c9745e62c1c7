//! The keyed hashes of a volume.

use cutpoint_fingerprint::{Blake3, Digest};

/// The fingerprint of a block: its keyed hash.
pub(crate) type Fingerprint = Digest;

/// The length of the checksum of a header in bytes.
pub(crate) const CHECKSUM_SIZE: usize = 16;

/// The keys of a volume, derived from its secret.
#[derive(Clone)]
pub(crate) struct Keys {
    blocks: Blake3,
    block_key: [u8; 32],
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
        Keys {
            blocks: Blake3::keyed(&block_key),
            block_key,
            edge_key: key("edge"),
            log_key: key("log"),
            checkpoint_key: key("checkpoint"),
            page_key: key("page"),
            payload_key: key("payload"),
        }
    }

    /// Returns the fingerprint of a block.
    pub(crate) fn fingerprint(&self, block: &[u8]) -> Fingerprint {
        *blake3::keyed_hash(&self.block_key, block).as_bytes()
    }

    /// Returns the fingerprints of blocks, in order.
    pub(crate) fn fingerprints(&self, blocks: &[&[u8]]) -> Vec<Fingerprint> {
        let mut digests = Vec::with_capacity(blocks.len());
        self.blocks.digests(blocks, &mut digests);
        digests
    }

    /// Returns the key of a head or a tail in its table.
    pub(crate) fn edge(&self, bytes: &[u8]) -> u64 {
        let hash = blake3::keyed_hash(&self.edge_key, bytes);
        let mut key = [0; 8];
        key.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(key)
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
