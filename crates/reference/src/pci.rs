//! PCI: Gregoriadis et al., algorithm 5, counting every window anew.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (window, threshold) = (keys.size("window"), keys.size("threshold"));
    let max = keys.optional_size("max");
    chunk_by_chunk(data, |rest| {
        let data = &rest[..max.map_or(rest.len(), |max| rest.len().min(max))];
        for end in window..=data.len() {
            let bits: u32 = data[end - window..end].iter().map(|byte| byte.count_ones()).sum();
            if bits as usize >= threshold {
                return end;
            }
        }
        data.len()
    })
}
