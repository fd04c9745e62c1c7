//! Buzhash with a ring of the bytes of the window, as in the original programs.

use crate::keys::Keys;
use crate::{chunk_by_chunk, modulo, table};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (divisor, window) = (keys.size("divisor") as u64, keys.size("window"));
    let remainder = keys.optional_size("remainder").unwrap_or(0) as u64;
    let min = keys.optional_size("min").unwrap_or(1).max(window);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let is_early = keys.text("runs") == Some("early");
    let name = keys.text("table").unwrap_or("cutpoint");
    let table = keys.table(|| match name {
        "bita" => table::bita_buzhash().map(|entry| entry ^ 0x1032_4195),
        "casync" => table::casync_buzhash(),
        _ => table::cutpoint_buzhash(),
    });
    let is_wide = name == "cutpoint";
    let turn = |value: u64, count: usize| {
        if is_wide {
            return value.rotate_left(u32::try_from(count % 64).expect("it is small"));
        }
        let low = (value & 0xffff_ffff) as u32;
        u64::from(low.rotate_left(u32::try_from(count % 32).expect("it is small")))
    };
    let table = table.map(|entry| turn(entry, 0));
    let leaving = table.map(|entry| turn(entry, window));
    let of_divisor = modulo(divisor);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        if n <= min {
            return n;
        }
        let mut ring = data[min - window..min].to_vec();
        let mut oldest = 0;
        let mut hash = 0;
        for (k, &byte) in ring.iter().enumerate() {
            hash ^= turn(table[usize::from(byte)], window - 1 - k);
        }
        let (mut last, mut repeated) = (0, 0);
        for (size, &byte) in data.iter().enumerate().take(n).skip(min) {
            if of_divisor(hash) == remainder {
                return size;
            }
            if is_early {
                repeated = if byte == last { repeated + 1 } else { 0 };
                last = byte;
                if repeated >= window {
                    continue;
                }
            }
            hash = turn(hash, 1) ^ leaving[usize::from(ring[oldest])] ^ table[usize::from(byte)];
            ring[oldest] = byte;
            oldest = if oldest + 1 == window { 0 } else { oldest + 1 };
        }
        n
    })
}
