//! BFBC: Gregoriadis et al., algorithm 6, with the `position >= min` of their code.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let divisors = keys.hex_list("pairs");
    let min = keys.size("min");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        for position in 2..=data.len() {
            let pair = 256 * u32::from(data[position - 2]) + u32::from(data[position - 1]);
            if position >= min && divisors.contains(&pair) {
                return position;
            }
        }
        data.len()
    })
}
