//! AE: Gregoriadis et al., algorithm 2, and the AE paper's algorithms 1 and 3, whose positions count
//! from 1; values of several bytes, and dedup-bench's cut.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (window, bytes) = (keys.size("window"), keys.optional_size("bytes").unwrap_or(1));
    let is_maximum = keys.text("mode") == Some("max");
    let is_before = keys.text("cut") == Some("before");
    let lest = keys.optional_size("lest");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        // Position i, from 1, has a value if all its bytes are there.
        let value = |i: usize| data.get(i - 1..i - 1 + bytes);
        let Some(mut extreme) = value(1) else { return data.len() };
        let mut position = 1;
        let mut all_equal = true;
        let mut i = 2;
        while let Some(here) = value(i) {
            all_equal &= Some(here) == value(1);
            if if is_maximum { here > extreme } else { here < extreme } {
                (extreme, position) = (here, i);
            } else if all_equal && Some(i) == lest {
                return i;
            } else if i == position + window {
                return if is_before { i - 1 } else { i };
            }
            i += 1;
        }
        data.len()
    })
}
