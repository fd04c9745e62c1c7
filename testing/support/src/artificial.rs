//! Backup-Artificial, a simulation of backups.

use crate::SplitMix64;

/// The simulation of backups of the BURST paper (section V-F), from a seed.
#[derive(Debug)]
pub struct Artificial {
    numbers: SplitMix64,
    data: Vec<u8>,
    size: usize,
}

impl Artificial {
    /// The number of versions in the paper.
    pub const VERSION_COUNT: usize = 17;
    const BLOCK_SIZE: usize = 4096;
    const REPLACED_SIZE: usize = 1024;

    /// Creates a simulation with versions of `size` bytes.
    #[must_use]
    pub fn new(seed: u64, size: usize) -> Artificial {
        Artificial { numbers: SplitMix64::new(seed), data: Vec::new(), size }
    }

    /// Returns the next version. The first version has random printable characters. Each later
    /// version replaces 1 KiB at a random place in a quarter of the blocks.
    pub fn next_version(&mut self) -> Vec<u8> {
        let numbers = &mut self.numbers;
        if self.data.is_empty() {
            self.data = (0..self.size).map(|_| printable(numbers)).collect();
            return self.data.clone();
        }
        let mut blocks: Vec<usize> = (0..self.size / Artificial::BLOCK_SIZE).collect();
        for place in 0..blocks.len() / 4 {
            let other = place + numbers.below(blocks.len() - place);
            blocks.swap(place, other);
            let offset = numbers.below(Artificial::BLOCK_SIZE - Artificial::REPLACED_SIZE + 1);
            let start = blocks[place] * Artificial::BLOCK_SIZE + offset;
            self.data[start..start + Artificial::REPLACED_SIZE].fill_with(|| printable(numbers));
        }
        self.data.clone()
    }

    /// Returns the expected ratio of exact matching. In each version a share of the blocks of
    /// `block_size` changes, and changed blocks never recur.
    #[must_use]
    pub fn legacy_ratio(version_count: usize, block_size: usize) -> f64 {
        let unchanged = 0.75_f64.powf((block_size / Artificial::BLOCK_SIZE) as f64);
        version_count as f64 / (1.0 + (version_count - 1) as f64 * (1.0 - unchanged))
    }
}

/// Returns one of the 95 printable characters of ASCII.
fn printable(numbers: &mut SplitMix64) -> u8 {
    b' ' + u8::try_from(numbers.below(95)).unwrap_or(0)
}
