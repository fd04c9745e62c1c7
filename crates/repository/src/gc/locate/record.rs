//! Sort records that assign a live chunk to a container.

use super::live_set::LIVE_CHUNK_LEN;

/// Length of a record in bytes: the number of a container, then a live chunk.
pub(super) const PLACED_LEN: usize = 4 + LIVE_CHUNK_LEN;
/// Takes the place of a container number if no usable place is known.
pub(super) const NO_CONTAINER: u32 = u32::MAX;

pub(super) fn encode_placed(container: u32, live: &[u8; LIVE_CHUNK_LEN]) -> [u8; PLACED_LEN] {
    let mut record = [0; PLACED_LEN];
    record[..4].copy_from_slice(&container.to_be_bytes());
    record[4..].copy_from_slice(live);
    record
}

pub(super) fn decode_placed(record: &[u8; PLACED_LEN]) -> (u32, [u8; LIVE_CHUNK_LEN]) {
    let (mut container, mut live) = ([0; 4], [0; LIVE_CHUNK_LEN]);
    container.copy_from_slice(&record[..4]);
    live.copy_from_slice(&record[4..]);
    (u32::from_be_bytes(container), live)
}
