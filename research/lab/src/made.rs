//! Data sets that are made from a seed.

use cutpoint_testing::{Artificial, SplitMix64, input};

/// A kind of data that is generated from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Random bytes: RAND of the papers.
    Random,
    /// Words and punctuation.
    Text,
    /// Zeros.
    Zeros,
    /// The simulation of backups of the BURST paper (section V-F): random printable characters.
    /// Each version replaces a KiB at a random place in a quarter of the 4-KiB blocks.
    BackupArtificial,
    /// Runs of one byte and repeated short patterns, with random bytes between them.
    LowEntropy,
}

/// A generator of versions, one per call.
pub(crate) type Maker = Box<dyn FnMut() -> Vec<u8>>;

impl Made {
    /// The names for [`Made::named`].
    pub const NAMES: [&str; 5] = ["random", "text", "zeros", "backup-artificial", "low-entropy"];

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Made> {
        let all = [Made::Random, Made::Text, Made::Zeros, Made::BackupArtificial, Made::LowEntropy];
        Made::NAMES.iter().zip(all).find(|(each, _)| **each == name).map(|(_, made)| made)
    }

    /// Returns the default number of versions, which is also the maximum.
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

/// Returns runs of 1 KiB to 256 KiB: a third of one byte, a third of a repeated pattern of 2 to 64
/// bytes, and a third random.
fn low_entropy(seed: u64, size: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(seed);
    let mut data = Vec::with_capacity(size);
    while data.len() < size {
        let length = (1024 << numbers.below(9)).min(size - data.len());
        match numbers.below(3) {
            0 => {
                // Zeros are by far the most frequent runs in files.
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
