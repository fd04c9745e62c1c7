//! AE: Gregoriadis et al., algorithm 2, and the AE paper's algorithms 1 and 3, whose positions count
//! from 1; values of several bytes, and dedup-bench's cut.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let rule = Rule {
        window: keys.size("window"),
        is_before: keys.text("cut") == Some("before"),
        lest: keys.optional_size("lest"),
        max: keys.optional_size("max"),
    };
    // The value of the bytes from an offset on: the first counts most.
    let of_bytes = |bytes: &[u8]| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    let bytes = keys.optional_size("bytes").unwrap_or(1);
    match (keys.text("mode"), bytes) {
        (Some("max"), 1) => rule.cuts(data, 1, |data, at| data[at], |here, extreme| here > extreme),
        (_, 1) => rule.cuts(data, 1, |data, at| data[at], |here, extreme| here < extreme),
        (Some("max"), _) => rule.cuts(
            data,
            bytes,
            |data, at| of_bytes(&data[at..at + bytes]),
            |here, extreme| here > extreme,
        ),
        _ => rule.cuts(
            data,
            bytes,
            |data, at| of_bytes(&data[at..at + bytes]),
            |here, extreme| here < extreme,
        ),
    }
}

struct Rule {
    window: usize,
    is_before: bool,
    lest: Option<usize>,
    max: Option<usize>,
}

impl Rule {
    fn cuts<V: Copy + PartialEq>(
        &self,
        data: &[u8],
        bytes: usize,
        value: impl Fn(&[u8], usize) -> V,
        is_more_extreme: impl Fn(V, V) -> bool,
    ) -> Vec<usize> {
        chunk_by_chunk(data, |rest| {
            let data = &rest[..self.max.map_or(rest.len(), |max| rest.len().min(max))];
            if data.len() < bytes {
                return data.len();
            }
            // Position i, from 1, has a value if all its bytes are there.
            let last = data.len() - bytes + 1;
            let value = |i: usize| value(data, i - 1);
            let first = value(1);
            // Values that are all equal reach either the threshold or the end of the window.
            if let Some(lest) = self.lest
                && lest <= (1 + self.window).min(last)
                && (2..=lest).all(|i| value(i) == first)
            {
                return lest;
            }
            let (mut extreme, mut position) = (first, 1);
            for i in 2..=last {
                let here = value(i);
                if is_more_extreme(here, extreme) {
                    (extreme, position) = (here, i);
                } else if i == position + self.window {
                    return if self.is_before { i - 1 } else { i };
                }
            }
            data.len()
        })
    }
}
