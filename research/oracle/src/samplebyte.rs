//! SampleByte: the loop of EndRE. The skip after a marker is here a skip at the start of each
//! chunk.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let period = keys.size("period");
    let max = keys.optional_size("max");
    let mut table = [false; 256];
    for marker in keys.hex_list("markers") {
        table[marker as usize] = true;
    }
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        let mut i = period / 2;
        while i < data.len() {
            if table[usize::from(data[i])] {
                return i + 1;
            }
            i += 1;
        }
        data.len()
    })
}
