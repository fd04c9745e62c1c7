//! xet-core's chunker.

use crate::keys::Keys;
use crate::{chunk_by_chunk, table};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (min, target, max) = (keys.size("min"), keys.size("target"), keys.size("max"));
    let gear = keys.table(table::gearhash);
    let low = target as u64 - 1;
    let mask = low << low.leading_zeros();
    chunk_by_chunk(data, |rest| {
        let mut hash = 0u64;
        for (i, &byte) in rest.iter().enumerate() {
            let size = i + 1;
            if size + 65 > min {
                hash = (hash << 1).wrapping_add(gear[usize::from(byte)]);
                if size >= min && hash & mask == 0 {
                    return size;
                }
            }
            if size == max {
                return size;
            }
        }
        rest.len()
    })
}
