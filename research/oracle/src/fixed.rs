//! Fixed-size chunks.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let size = keys.size("size");
    chunk_by_chunk(data, |rest| rest.len().min(size))
}
