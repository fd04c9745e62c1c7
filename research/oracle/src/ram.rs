//! RAM: algorithm 3 of Gregoriadis et al., with the cut of dedup-bench and the strict comparison.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let window = keys.size("window");
    let is_before = keys.text("cut") == Some("before");
    let passes_equal = keys.text("equal") == Some("pass");
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        // The maximum of the window, or one more if an equal byte is not enough.
        let mut enough = 0;
        for (i, &byte) in data.iter().enumerate() {
            if u16::from(byte) >= enough {
                if i >= window {
                    return if is_before { i } else { i + 1 };
                }
                enough = u16::from(byte) + u16::from(passes_equal);
            }
        }
        data.len()
    })
}
