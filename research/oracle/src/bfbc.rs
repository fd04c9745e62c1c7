//! BFBC: algorithm 6 of Gregoriadis et al., with the condition `position >= min` of the published
//! code.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    // The paper searches the list for each byte, which is slow for long lists.
    let mut is_divisor = vec![false; 65536];
    for pair in keys.hex_list("pairs") {
        is_divisor[pair as usize] = true;
    }
    let min = keys.size("min");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        for position in min.max(2)..=data.len() {
            let pair = 256 * usize::from(data[position - 2]) + usize::from(data[position - 1]);
            if is_divisor[pair] {
                return position;
            }
        }
        data.len()
    })
}
