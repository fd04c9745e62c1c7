//! PCI: algorithm 5 of Gregoriadis et al.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (window, threshold) = (keys.size("window"), keys.size("threshold"));
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        let mut bits = 0;
        for (i, &byte) in data.iter().enumerate() {
            bits += byte.count_ones();
            if i >= window {
                bits -= data[i - window].count_ones();
            }
            if i + 1 >= window && bits as usize >= threshold {
                return i + 1;
            }
        }
        data.len()
    })
}
