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
        // The first byte of a value is the most significant one.
        let found = match bytes {
            1 => first_cut(is_strict, window, count, |i| data[i]),
            2 => first_cut(is_strict, window, count, |i| u16::from_be_bytes(of(&data[i..]))),
            4 => first_cut(is_strict, window, count, |i| u32::from_be_bytes(of(&data[i..]))),
            8 => first_cut(is_strict, window, count, |i| u64::from_be_bytes(of(&data[i..]))),
            bytes => panic!("values of {bytes} bytes"),
        };
        found.unwrap_or(data.len())
    })
}

/// Returns the first bytes of `data`.
fn of<const N: usize>(data: &[u8]) -> [u8; N] {
    *data.first_chunk().expect("a value begins here")
}

fn first_cut<V: Ord>(
    is_strict: bool,
    window: usize,
    count: usize,
    value: impl Fn(usize) -> V,
) -> Option<usize> {
    if is_strict { strict(window, count, value) } else { released(window, count, value) }
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
