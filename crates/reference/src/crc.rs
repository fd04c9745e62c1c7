//! The CRC-32 of a window, bit by bit and anew for each byte.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, window) = (keys.size("bits"), keys.size("window"));
    let min = keys.optional_size("min").unwrap_or(1).max(window);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let is_before = keys.text("cut") == Some("before");
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        for size in min..n {
            let end = if is_before { size + 1 } else { size };
            if register(&data[end - window..end]).is_multiple_of(1 << bits) {
                return size;
            }
        }
        n
    })
}

/// The register after the bytes; it begins as 0 and is not inverted.
fn register(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |register, &byte| {
        (0..8).fold(register ^ u32::from(byte), |register, _| {
            if register & 1 == 1 { register >> 1 ^ 0xedb8_8320 } else { register >> 1 }
        })
    })
}
