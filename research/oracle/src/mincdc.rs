//! MinCDC4 and MinCDCHash4 as described by the crate mincdc.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (min, max) = (keys.size("min"), keys.size("max"));
    let is_plain = keys.text("value") == Some("plain");
    chunk_by_chunk(data, |rest| {
        if rest.len() <= min {
            return rest.len();
        }
        let mut best = (u32::MAX, min);
        for i in min..=rest.len().min(max) {
            let four = rest[i - 4..i].try_into().expect("four bytes");
            let mut value = u32::from_le_bytes(four);
            if !is_plain {
                value = value.wrapping_mul(0x915f77f5).wrapping_add(0x34636463);
            }
            if value < best.0 {
                best = (value, i);
            }
        }
        best.1
    })
}
