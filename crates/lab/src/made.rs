//! Data sets that are made from a seed.

use cutpoint_testing::{Artificial, SplitMix64, input};

/// Data that is made from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Random bytes: the papers' RAND.
    Random,
    /// Words and punctuation.
    Text,
    /// Zeros.
    Zeros,
    /// The BURST paper's simulation of backups (section V-F): printable characters at random, and in each
    /// next version a KiB of others anywhere in a quarter of the 4-KiB blocks.
    BackupArtificial,
    /// Runs of one byte and short patterns over and over, with random bytes between.
    LowEntropy,
}

/// What makes one version after the other.
pub(crate) type Maker = Box<dyn FnMut() -> Vec<u8>>;

impl Made {
    /// The names that [`Made::named`] knows.
    pub const NAMES: [&str; 5] = ["random", "text", "zeros", "backup-artificial", "low-entropy"];

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Made> {
        let all = [Made::Random, Made::Text, Made::Zeros, Made::BackupArtificial, Made::LowEntropy];
        Made::NAMES.iter().zip(all).find(|(each, _)| **each == name).map(|(_, made)| made)
    }

    /// How many versions there are unless fewer are asked for.
    pub(crate) fn version_count(self) -> usize {
        if self == Made::BackupArtificial { Artificial::VERSION_COUNT } else { 1 }
    }

    pub(crate) fn maker(self, seed: u64, size: usize) -> Maker {
        match self {
            Made::Random => Box::new(move || SplitMix64::bytes(seed, size)),
            Made::Text => Box::new(move || input::text(size)),
            Made::Zeros => Box::new(move || vec![0; size]),
            Made::BackupArtificial => {
                let mut artificial = Artificial::new(seed, size);
                Box::new(move || artificial.next_version())
            }
            Made::LowEntropy => Box::new(move || low_entropy(seed, size)),
        }
    }
}

/// Stretches of 1 KiB to 256 KiB: a third of them one byte, a third a pattern of 2 to 64 bytes, a third
/// random.
fn low_entropy(seed: u64, size: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(seed);
    let mut data = Vec::with_capacity(size);
    while data.len() < size {
        let length = (1024 << numbers.below(9)).min(size - data.len());
        match numbers.below(3) {
            0 => {
                // Zeros are by far the most frequent in files.
                let byte = if numbers.below(2) == 0 { 0 } else { numbers.byte() };
                data.resize(data.len() + length, byte);
            }
            1 => {
                let period = 2 + numbers.below(63);
                data.extend(input::repeated(&numbers.take(period), length));
            }
            _ => data.extend(numbers.take(length)),
        }
    }
    data
}
