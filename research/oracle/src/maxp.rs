//! MAXP: the loop of dedup-bench, and the description in the papers, byte by byte.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let window = keys.size("window");
    let max = keys.optional_size("max");
    let is_strict = keys.text("form") == Some("strict");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        if is_strict { strict(window, data) } else { released(window, data) }
    })
}

/// Returns the index of the first byte that is strictly greater than all bytes of the window on
/// both sides.
fn strict(window: usize, data: &[u8]) -> usize {
    let is_maximum = |c: usize| {
        let around = data.get(c - window..=c + window);
        around.is_some_and(|around| {
            around.iter().enumerate().all(|(i, &byte)| i == window || byte < data[c])
        })
    };
    (window..data.len()).find(|&c| is_maximum(c)).unwrap_or(data.len())
}

/// Returns the first cut-point by the released code.
fn released(w: usize, data: &[u8]) -> usize {
    let n = data.len();
    if n < 2 * w + 1 {
        return n;
    }
    let mut c = w;
    while c + w < n - 1 {
        if let Some(j) = (c + 1..=c + w).find(|&j| data[j] >= data[c]) {
            c = j;
            continue;
        }
        if (c - w..c).all(|k| data[k] <= data[c]) {
            return c;
        }
        c = c + w + 1;
    }
    n
}
