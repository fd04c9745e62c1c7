//! MII: the code of Gregoriadis et al., whose run is 0 at the start of a stream and 1 after each cut.

use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let length = keys.size("length");
    let max = keys.optional_size("max");
    let mut run = keys.optional_size("first").unwrap_or(1);
    let mut ends = Vec::new();
    let mut start = 0;
    for (i, &byte) in data.iter().enumerate() {
        if i > start {
            run = if byte > data[i - 1] { run + 1 } else { 1 };
        }
        if (i > start && run == length) || Some(i + 1 - start) == max {
            ends.push(i + 1);
            (start, run) = (i + 1, 1);
        }
    }
    if start < data.len() {
        ends.push(data.len());
    }
    ends
}
