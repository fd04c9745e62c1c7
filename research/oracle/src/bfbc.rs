//! BFBC: algorithm 6 of Gregoriadis et al., with the condition `position >= min` of the published
//! code.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    // A set of pairs in 8 KiB, as in the paper's program: a bit for each pair of bytes.
    let mut divisors = [0_u64; 1024];
    for pair in keys.hex_list("pairs") {
        divisors[pair as usize / 64] |= 1 << (pair % 64);
    }
    let min = keys.size("min");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        for position in min.max(2)..=data.len() {
            let pair = 256 * usize::from(data[position - 2]) + usize::from(data[position - 1]);
            if divisors[pair / 64] >> (pair % 64) & 1 == 1 {
                return position;
            }
        }
        data.len()
    })
}
