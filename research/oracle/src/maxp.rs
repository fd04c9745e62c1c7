//! MAXP: the loop of dedup-bench, and the description in the papers, value by value. Values of
//! several bytes are those of the AE paper.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let window = keys.size("window");
    let max = keys.optional_size("max");
    let is_strict = keys.text("form") == Some("strict");
    let bytes = keys.optional_size("bytes").unwrap_or(1);
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        let count = (data.len() + 1).saturating_sub(bytes);
        let found = match (is_strict, bytes) {
            (true, 1) => strict(window, count, |i| data[i]),
            (false, 1) => released(window, count, |i| data[i]),
            // The first byte of a value is the most significant one.
            (true, _) => strict(window, count, |i| &data[i..i + bytes]),
            (false, _) => released(window, count, |i| &data[i..i + bytes]),
        };
        found.unwrap_or(data.len())
    })
}

/// Returns the index of the first of `count` values that is strictly greater than all values of the
/// window on both sides.
fn strict<V: Ord>(window: usize, count: usize, value: impl Fn(usize) -> V) -> Option<usize> {
    let is_maximum = |c: usize| {
        c + window < count && (c - window..=c + window).all(|i| i == c || value(i) < value(c))
    };
    (window..count).find(|&c| is_maximum(c))
}

/// Returns the first cut-point by the released code.
fn released<V: Ord>(w: usize, n: usize, value: impl Fn(usize) -> V) -> Option<usize> {
    if n < 2 * w + 1 {
        return None;
    }
    let mut c = w;
    while c + w < n - 1 {
        if let Some(j) = (c + 1..=c + w).find(|&j| value(j) >= value(c)) {
            c = j;
            continue;
        }
        if (c - w..c).all(|k| value(k) <= value(c)) {
            return Some(c);
        }
        c = c + w + 1;
    }
    None
}
