//! The gear hash, byte by byte.

use crate::keys::Keys;
use crate::table;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, level) = (keys.size("bits"), keys.optional_size("level").unwrap_or(0));
    let normal = keys.optional_size("normal").unwrap_or(0);
    let min = keys.optional_size("min").unwrap_or(1);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let is_before = keys.text("cut") == Some("before");
    let start = keys.text("start").unwrap_or("warm");
    let table_name = keys.text("table").unwrap_or("cutpoint");
    let table = keys.table(|| match table_name {
        "cdchunking" => table::cdchunking_gear(),
        "gearhash" => table::gearhash(),
        "dedup-bench" => table::dedup_bench_gear(),
        _ => table::cutpoint_gear(),
    });
    // A hash of 32 bits is the upper half of one of 64 bits.
    let is_narrow = table_name.ends_with("32") || table_name == "cdchunking";
    let table = table.map(|entry| if is_narrow { entry << 32 } else { entry });
    let push = |hash: u64, byte: u8| (hash << 1).wrapping_add(table[usize::from(byte)]);
    // A hash begins with this number of zeros if it is less than the limit.
    let limit = |zeros: usize| 1_u64 << (64 - zeros);
    let (limit_before, limit_behind) = (limit(bits + level), limit(bits - level));

    let is_carried = start == "carry";
    let first = if is_before { min } else { min - 1 };
    let from = match start {
        "carry" => 0,
        // A hash depends on the last 64 bytes only.
        "warm" => first.saturating_sub(63),
        _ => first,
    };
    let mut hash = 0;
    let mut ends = Vec::new();
    let mut begin = 0;
    while begin < data.len() {
        let chunk = &data[begin..begin + max.min(data.len() - begin)];
        let mut size = chunk.len();
        for &byte in &chunk[from.min(size)..first.min(size)] {
            hash = push(hash, byte);
        }
        let change = normal.clamp(first, size.max(first));
        'found: for (from, to, limit) in
            [(first, change, limit_before), (change, size, limit_behind)]
        {
            for (i, &byte) in chunk.get(from..to).unwrap_or(&[]).iter().enumerate() {
                let next = push(hash, byte);
                if next < limit {
                    size = if is_before { from + i } else { from + i + 1 };
                    // A byte that begins the next chunk is hashed with that chunk.
                    hash = if is_before { hash } else { next };
                    break 'found;
                }
                hash = next;
            }
        }
        if !is_carried {
            hash = 0;
        }
        begin += size;
        ends.push(begin);
    }
    ends
}
