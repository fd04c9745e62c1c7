//! TTTD: two thresholds and two divisors, with Rabin's fingerprint.

use crate::keys::Keys;
use crate::rabin::{Rolling, Tables, polynomial};
use crate::{chunk_by_chunk, modulo};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let number = |key: &str| keys.optional_size(key).map(|number| number as u64);
    let (divisor, window) = (keys.size("divisor") as u64, keys.size("window"));
    let backup_divisor = number("backup").unwrap_or(divisor / 2);
    let remainder = number("remainder").unwrap_or(divisor - 1);
    let backup_remainder = remainder % backup_divisor;
    let (of_main, of_backup) = (modulo(divisor), modulo(backup_divisor));
    let tables = Tables::new(polynomial(keys), window);
    let (min, max) = (keys.size("min"), keys.size("max"));
    let is_cold = keys.text("start") == Some("cold");
    let is_before = keys.text("cut") == Some("before");
    let cuts_rest = keys.text("end") == Some("backup");
    // The number of bytes between the cut-point and the end of the window.
    let behind = usize::from(is_before);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        let mut backup = None;
        let least = if is_cold { min } else { min.max(window) };
        if n < least + behind {
            return n;
        }
        // With a cold start, the first byte that is hashed is also the first that is tested.
        let first = least + behind - 1;
        let mut rolling = Rolling::new(&tables, 1);
        for &byte in &data[if is_cold { first } else { first + 1 - window }..first] {
            rolling.push(byte);
        }
        for size in least..=n - behind {
            let hash = rolling.push(data[size + behind - 1]);
            if of_backup(hash) == backup_remainder {
                backup = Some(size);
            }
            if of_main(hash) == remainder {
                return size;
            }
        }
        match backup {
            Some(size) if n == max || cuts_rest => size,
            _ => n,
        }
    })
}
