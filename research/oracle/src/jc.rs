//! JC, byte by byte.

use crate::keys::Keys;
use crate::{chunk_by_chunk, table};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, jump) = (keys.size("bits"), keys.size("jump"));
    let (min, max) = (keys.size("min"), keys.size("max"));
    let is_plakar = keys.text("form") == Some("plakar");
    let table =
        keys.table(|| if is_plakar { table::plakar_gear() } else { table::cutpoint_gear() });
    // The positions of the bits that must be zero, from the highest on.
    let places: Vec<usize> = if is_plakar {
        vec![46, 44, 43, 40, 25, 24, 22, 20, 18, 17, 16]
    } else {
        (0..bits).map(|k| 63 - k * (64 / bits)).collect()
    };
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        let (mut hash, mut i) = (0u64, min);
        while i < n {
            hash = (hash << 1).wrapping_add(table[usize::from(data[i])]);
            let zeros = places.iter().take_while(|&place| hash >> place & 1 == 0).count();
            if zeros == bits {
                return i;
            }
            if zeros == bits - 1 {
                (hash, i) = (0, i + jump);
            } else {
                i += 1;
            }
        }
        n
    })
}
