//! AE: algorithm 2 of Gregoriadis et al., and algorithms 1 and 3 of the AE paper, whose positions
//! count from 1, with values of several bytes and the cut of dedup-bench.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let rule = Rule {
        window: keys.size("window"),
        is_before: keys.text("cut") == Some("before"),
        lest: keys.optional_size("lest"),
        max: keys.optional_size("max"),
    };
    // In a value of several bytes, the first byte is the most significant.
    let of_bytes = |bytes: &[u8]| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    let is_maximum = keys.text("mode") == Some("max");
    match keys.optional_size("bytes").unwrap_or(1) {
        1 if is_maximum => rule.cuts(data, |data| data.iter().copied(), |new, old| new > old),
        1 => rule.cuts(data, |data| data.iter().copied(), |new, old| new < old),
        bytes => rule.cuts(
            data,
            |data| data.windows(bytes).map(of_bytes),
            |new, old| if is_maximum { new > old } else { new < old },
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
    /// Returns the cut-points. `values` returns the values of all positions that have one, from
    /// position 1 on.
    fn cuts<'a, V: Copy + PartialEq, I: Iterator<Item = V>>(
        &self,
        data: &'a [u8],
        values: impl Fn(&'a [u8]) -> I,
        is_more_extreme: impl Fn(V, V) -> bool,
    ) -> Vec<usize> {
        chunk_by_chunk(data, |rest| {
            let data = &rest[..self.max.map_or(rest.len(), |max| rest.len().min(max))];
            let mut all = values(data);
            let Some(first) = all.next() else { return data.len() };
            // A run of equal values at the start reaches either the threshold `lest` or the end of
            // the window.
            if let Some(lest) = self.lest.filter(|&lest| lest <= 1 + self.window)
                && values(data).take(lest).take_while(|value| *value == first).count() == lest
            {
                return lest;
            }
            let (mut extreme, mut end) = (first, 1 + self.window);
            for (i, here) in (2..).zip(all) {
                if is_more_extreme(here, extreme) {
                    (extreme, end) = (here, i + self.window);
                } else if i == end {
                    return if self.is_before { i - 1 } else { i };
                }
            }
            data.len()
        })
    }
}
