//! RepMaxCDC in the simple form of buildbarn/go-cdc.

use std::sync::LazyLock;

use cutpoint_testing::stream::cshake128_of_nothing;

use crate::chunk_by_chunk;
use crate::keys::Keys;

/// The gear table from cSHAKE128, computed once.
static TABLE: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let stream = cshake128_of_nothing(b"c647d5de-0fff-40e6-963c-814bc404a64d", 2048);
    std::array::from_fn(|v| {
        u64::from_le_bytes(stream[8 * v..8 * v + 8].try_into().expect("8 bytes"))
    })
});

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (min, horizon) = (keys.size("min"), keys.size("horizon"));
    let gear = keys.table(|| *TABLE);
    chunk_by_chunk(data, |rest| {
        let size = rest.len().min(2 * min + horizon);
        if size < 2 * min {
            return size;
        }
        // The hash at each position from `min` on.
        let mut hash = 0u64;
        let mut hashes = Vec::new();
        for (i, &byte) in rest[..size - min].iter().enumerate() {
            hash = (hash << 1).wrapping_add(gear[usize::from(byte)]);
            if i + 1 >= min {
                hashes.push(hash);
            }
        }
        loop {
            let greatest = *hashes.iter().max().expect("there are some");
            let best = hashes.iter().position(|&hash| hash == greatest).expect("it is there");
            if best < min {
                return min + best;
            }
            hashes.truncate(best - min + 1);
        }
    })
}
