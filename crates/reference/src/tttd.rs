//! Two thresholds, two divisors, with Rabin's fingerprint made anew for each byte.

use crate::chunk_by_chunk;
use crate::keys::Keys;
use crate::rabin::{fingerprint, polynomial};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (divisor, window) = (keys.size("divisor"), keys.size("window"));
    let backup_divisor = keys.optional_size("backup").unwrap_or(divisor / 2);
    let remainder = keys.optional_size("remainder").unwrap_or(divisor - 1);
    let polynomial = polynomial(keys);
    let (min, max) = (keys.size("min"), keys.size("max"));
    let is_cold = keys.text("start") == Some("cold");
    let is_before = keys.text("cut") == Some("before");
    let cuts_rest = keys.text("end") == Some("backup");
    // What is behind the byte that is found.
    let behind = usize::from(is_before);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        let mut backup = None;
        let least = if is_cold { min } else { min.max(window) };
        for size in least..=n - behind {
            let end = size + behind;
            // Where the byte stands that is hashed first.
            let begin = if is_cold { min + behind - 1 } else { 0 };
            let hash = if end >= begin + window {
                fingerprint(polynomial, 0, &data[end - window..end])
            } else {
                fingerprint(polynomial, 1, &data[begin..end])
            };
            if hash % backup_divisor as u64 == (remainder % backup_divisor) as u64 {
                backup = Some(size);
            }
            if hash % divisor as u64 == remainder as u64 {
                return size;
            }
        }
        match backup {
            Some(size) if n == max || cuts_rest => size,
            _ => n,
        }
    })
}
