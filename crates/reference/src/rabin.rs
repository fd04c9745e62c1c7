//! Rabin's fingerprint of a window, bit by bit and anew for each byte.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, window) = (keys.size("bits"), keys.size("window"));
    let polynomial = polynomial(keys);
    let is_one = keys.text("start") == Some("one");
    let min = keys.optional_size("min").unwrap_or(1);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        for size in min..n {
            let hash = if size >= window {
                fingerprint(polynomial, 0, &data[size - window..size])
            } else if is_one {
                fingerprint(polynomial, 1, &data[..size])
            } else {
                continue;
            };
            if hash % (1 << bits) == 0 {
                return size;
            }
        }
        n
    })
}

pub(crate) fn polynomial(keys: &Keys<'_>) -> u64 {
    let text = keys.text("poly").unwrap_or("0x3da3358b4dc173");
    u64::from_str_radix(&text[2..], 16).expect("hexadecimal")
}

/// `front` and the bytes behind it as one number, modulo the polynomial.
pub(crate) fn fingerprint(polynomial: u64, front: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(front, |mut hash, &byte| {
        for bit in (0..8).rev() {
            hash = hash << 1 | u64::from(byte >> bit & 1);
            if hash >> polynomial.ilog2() & 1 == 1 {
                hash ^= polynomial;
            }
        }
        hash
    })
}
