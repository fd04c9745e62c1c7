//! UltraCDC, with the distance computed from scratch for each byte.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (min, normal, max) = (keys.size("min"), keys.size("normal"), keys.size("max"));
    let lest = keys.optional_size("lest").unwrap_or(64);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        let mut equal = 0;
        let mut i = min + 8;
        while i + 8 <= n {
            if data[i..i + 8] == data[i - 8..i] {
                equal += 1;
                if equal == lest {
                    return i + 8;
                }
            } else {
                equal = 0;
                let mask = if i < normal { 0b10_1111 } else { 0b10_1100 };
                if (i..i + 8).any(|j| distance(&data[j - 8..j]) & mask == 0) {
                    return i + 8;
                }
            }
            i += 8;
        }
        n
    })
}

/// Returns the number of bits in which the bytes differ from 0xaa.
fn distance(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| (byte ^ 0xaa).count_ones()).sum()
}
