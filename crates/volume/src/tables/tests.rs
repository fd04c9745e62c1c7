//! Tables of a checkpoint that was not written by this program.

use super::Tables;
use crate::format::checkpoint::Checkpoint;
use crate::format::tests::{checkpoint, keys};

#[test]
fn tables_survive_a_checkpoint() {
    let saved = checkpoint();
    let tables = Tables::of_checkpoint(&saved, 4096).expect("tables");
    assert_eq!(tables.audit(), Ok(()));
    assert_eq!(tables.to_checkpoint(saved.volume, saved.number, saved.position), saved);
}

/// Checkpoints with a valid checksum and other contents: no count makes the decoder reserve more
/// memory than there are bytes.
#[test]
fn checkpoint_with_a_field_out_of_range_does_not_panic() {
    let keys = keys();
    let bytes = checkpoint().encode(&keys);
    let end = bytes.len() - 32;
    for place in 0..end {
        for value in [1_u8, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[place] ^= value;
            let checksum = keys.checkpoint_checksum(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum);
            if let Some(decoded) = Checkpoint::decode(&bytes, &keys) {
                // Tables that contradict each other are refused, and others make no panic.
                Tables::of_checkpoint(&decoded, 4096);
            }
        }
    }
}
