//! FastCDC as in the crate fastcdc 5.0.0, and as in dedup-bench.

use crate::keys::Keys;
use crate::{chunk_by_chunk, table};

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (level, min, normal, max) =
        (keys.size("level"), keys.size("min"), keys.size("normal"), keys.size("max"));
    let is_crate = keys.text("form").is_none();
    let gear = keys.table(if is_crate { table::fastcdc } else { table::dedup_bench_fastcdc });
    let gear = gear.map(|entry| entry ^ keys.bits("seed"));
    let rule = Rule { level, min, normal, max, gear };
    chunk_by_chunk(data, |rest| if is_crate { rule.paired(rest) } else { rule.low_masks(rest) })
}

struct Rule {
    level: usize,
    min: usize,
    normal: usize,
    max: usize,
    gear: [u64; 256],
}

impl Rule {
    fn bits(&self) -> usize {
        let bits = (self.normal as f64).log2().round();
        (0..64).find(|&count| count as f64 == bits).expect("it is a small number")
    }

    /// Returns the first cut-point by the rule of the crate, with two bytes per step and doubled
    /// table entries for every other byte.
    fn paired(&self, data: &[u8]) -> usize {
        let mut remaining = data.len();
        if remaining <= self.min {
            return remaining;
        }
        let mut center = self.normal;
        if remaining > self.max {
            remaining = self.max;
        } else if remaining < center {
            center = remaining;
        }
        let mask_s = MASKS[self.bits() + self.level - 5];
        let mask_l = MASKS[self.bits() - self.level - 5];
        let mut index = self.min / 2;
        let mut hash = 0u64;
        while index < remaining / 2 {
            let mask = if index < center / 2 { mask_s } else { mask_l };
            let a = index * 2;
            hash = (hash << 2).wrapping_add(self.gear[usize::from(data[a])] << 1);
            if hash & (mask << 1) == 0 {
                return a;
            }
            hash = hash.wrapping_add(self.gear[usize::from(data[a + 1])]);
            if hash & mask == 0 {
                return a + 1;
            }
            index += 1;
        }
        remaining
    }

    /// Returns the first cut-point by the rule of dedup-bench, which tests the lowest bits.
    fn low_masks(&self, data: &[u8]) -> usize {
        let n = data.len().min(self.max);
        let small = (1u64 << (self.bits() + self.level)) - 1;
        let large = (1u64 << (self.bits() - self.level)) - 1;
        let mut hash = 0u64;
        let normal = self.normal.clamp(self.min, n.max(self.min));
        for (begin, end, mask) in [(self.min, normal, small), (normal, n, large)] {
            for (i, &byte) in data.get(begin..end).unwrap_or(&[]).iter().enumerate() {
                hash = (hash << 1).wrapping_add(self.gear[usize::from(byte)]);
                if hash & mask == 0 {
                    return begin + i;
                }
            }
        }
        n
    }
}

/// The masks of the crate, from 5 bits on.
const MASKS: [u64; 21] = [
    0x1804110,
    0x1803110,
    0x18035100,
    0x1800035300,
    0x19000353000,
    0x590003530000,
    0xd90003530000,
    0xd90103530000,
    0xd90303530000,
    0xd90313530000,
    0xd90f03530000,
    0xd90303537000,
    0xd90703537000,
    0xd90707537000,
    0xd91707537000,
    0xd91747537000,
    0xd91767537000,
    0xd93767537000,
    0xd93777537000,
    0xd93777577000,
    0xdb3777577000,
];
