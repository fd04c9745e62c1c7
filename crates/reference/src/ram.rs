//! RAM: Gregoriadis et al., algorithm 3; dedup-bench's cut; the strict comparison.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let window = keys.size("window");
    let is_before = keys.text("cut") == Some("before");
    let passes_equal = keys.text("equal") == Some("pass");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        let mut greatest = 0;
        for (i, &byte) in data.iter().enumerate() {
            if i < window {
                greatest = greatest.max(byte);
            } else if byte > greatest || byte == greatest && !passes_equal {
                return if is_before { i } else { i + 1 };
            }
        }
        data.len()
    })
}
