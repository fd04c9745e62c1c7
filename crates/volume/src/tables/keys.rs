//! The keys of the tables in the tree: a tag, and what the table is looked up by. Numbers are
//! big-endian, so that their order is that of their bytes.

use cutpoint_delta::burst::Side;

use crate::format::edge::EdgeKey;
use crate::format::position::Seq;
use crate::format::span::{BlockId, LayerId};
use crate::keys::Fingerprint;
use crate::tree::Key;

/// The tags of the tables. Those from 3 on have hashes as keys.
mod tag {
    pub(super) const MAP: u8 = 1;
    pub(super) const STORED: u8 = 2;
    pub(super) const FINGERPRINT: u8 = 3;
    pub(super) const HEAD: u8 = 4;
    pub(super) const TAIL: u8 = 5;
    pub(super) const FEATURE: u8 = 6;
}

/// The number of bytes of a fingerprint in its key.
const FINGERPRINT_LEN: usize = 15;

pub(super) fn map(id: BlockId) -> Key {
    Key::new(&[&[tag::MAP], &id.layer.to_be_bytes(), &id.block.to_be_bytes()])
}

/// Returns the block of a key of the map.
pub(super) fn block_of(key: &Key) -> Option<BlockId> {
    let (&[tag, l0, l1, l2, l3], block) = key.bytes().split_first_chunk::<5>()?;
    let block = u64::from_be_bytes(block.try_into().ok()?);
    (tag == tag::MAP).then(|| BlockId { layer: LayerId::from_be_bytes([l0, l1, l2, l3]), block })
}

pub(super) fn stored(seq: Seq) -> Key {
    Key::new(&[&[tag::STORED], &seq.to_be_bytes()])
}

/// Returns the key behind those of all stored blocks.
pub(super) fn stored_end() -> Key {
    Key::new(&[&[tag::STORED + 1]])
}

/// Returns the number of the stored block with this key.
pub(super) fn seq_of(key: &Key) -> Option<Seq> {
    let (tag, seq) = key.bytes().split_first()?;
    let seq = Seq::from_be_bytes(seq.try_into().ok()?);
    (*tag == tag::STORED).then_some(seq)
}

pub(super) fn fingerprint(fingerprint: &Fingerprint) -> Key {
    Key::new(&[&[tag::FINGERPRINT], &fingerprint[..FINGERPRINT_LEN]])
}

pub(super) fn edge(side: Side, key: &EdgeKey) -> Key {
    let tag = match side {
        Side::Head => tag::HEAD,
        Side::Tail => tag::TAIL,
    };
    match key {
        EdgeKey::Hash(hash) => Key::new(&[&[tag], &hash.to_be_bytes()]),
        EdgeKey::Raw(raw) => Key::new(&[&[tag], raw]),
    }
}

/// Returns the key of the feature with an index.
pub(super) fn feature(index: usize, feature: u64) -> Key {
    let index = u8::try_from(index).expect("a block has few features");
    Key::new(&[&[tag::FEATURE, index], &feature.to_be_bytes()])
}

/// The number of tables.
pub(super) const TABLE_COUNT: usize = 6;

/// Returns the keys of all entries of each table: from, and up to.
pub(super) fn of_tables() -> [[Key; 2]; TABLE_COUNT] {
    use tag::{FEATURE, FINGERPRINT, HEAD, MAP, STORED, TAIL};
    [MAP, STORED, FINGERPRINT, HEAD, TAIL, FEATURE]
        .map(|tag| [Key::new(&[&[tag]]), Key::new(&[&[tag + 1]])])
}

/// Returns the keys of all entries of DT and BT, HeadDT, TailDT and the features: from, and up to.
pub(super) fn all_hashed() -> [Key; 2] {
    [Key::new(&[&[tag::FINGERPRINT]]), Key::new(&[&[tag::FEATURE + 1]])]
}

/// A table with hashes as keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashTable {
    Fingerprints,
    Edges(Side),
    Features,
}

/// Returns the table of a key.
pub(super) fn hash_table_of(key: &Key) -> Option<HashTable> {
    Some(match *key.bytes().first()? {
        tag::FINGERPRINT => HashTable::Fingerprints,
        tag::HEAD => HashTable::Edges(Side::Head),
        tag::TAIL => HashTable::Edges(Side::Tail),
        tag::FEATURE => HashTable::Features,
        _ => return None,
    })
}
