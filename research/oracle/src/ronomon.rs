//! The module `ronomon` of the crate fastcdc 5.0.0.

use std::sync::LazyLock;

use cutpoint_testing::stream::aes256_ctr_of_zeros;

use crate::chunk_by_chunk;
use crate::keys::Keys;

/// The gear table from the AES key stream, computed once.
static TABLE: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let stream = aes256_ctr_of_zeros(1024);
    std::array::from_fn(|v| {
        u64::from(u32::from_be_bytes(stream[4 * v..4 * v + 4].try_into().expect("4 bytes")))
    })
});

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (min, average, max) = (keys.size("min"), keys.size("average"), keys.size("max"));
    let table = keys.table(|| *TABLE);
    let log2 = (average as f64).log2().round();
    let bits = (0..64u32).find(|&count| f64::from(count) == log2).expect("it is a small number");
    let (mask_s, mask_l) = ((1 << (bits + 1)) - 1, (1 << (bits - 1)) - 1);
    let offset = (min + min.div_ceil(2)).min(average);
    chunk_by_chunk(data, |rest| {
        if rest.len() <= min {
            return rest.len();
        }
        let size = rest.len().min(max);
        let center = (average - offset).min(size);
        let mut hash = 0u64;
        for i in min..size {
            hash = (hash >> 1) + table[usize::from(rest[i])] % (1 << 31);
            if hash & (if i < center { mask_s } else { mask_l }) == 0 {
                return i + 1;
            }
        }
        size
    })
}
