//! The gear hash, byte by byte from the start of each chunk.

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
    let hash_bits = if table_name.ends_with("32") || table_name == "cdchunking" { 32 } else { 64 };

    let first = if is_before { min } else { min - 1 };
    let push = |hash: u64, byte: u8| {
        let hash = (hash << 1).wrapping_add(table[usize::from(byte)]);
        if hash_bits == 32 { hash & 0xffff_ffff } else { hash }
    };
    // The hash that is never reset, after each byte of the stream.
    let carried: Vec<u64> = data
        .iter()
        .scan(0, |hash, &byte| {
            *hash = push(*hash, byte);
            Some(*hash)
        })
        .collect();

    let mut ends = Vec::new();
    let mut begin = 0;
    while begin < data.len() {
        let size = max.min(data.len() - begin);
        let mut end = begin + size;
        let mut hash = 0;
        for i in 0..size {
            if start == "carry" {
                hash = carried[begin + i];
            } else if start == "warm" || i >= first {
                hash = push(hash, data[begin + i]);
            }
            let zeros = if i < normal { bits + level } else { bits - level };
            if i >= first && hash >> (hash_bits - zeros) == 0 {
                end = begin + if is_before { i } else { i + 1 };
                break;
            }
        }
        ends.push(end);
        begin = end;
    }
    ends
}
