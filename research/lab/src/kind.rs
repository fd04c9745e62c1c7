//! Kinds of measurement, and the fingerprint functions that are measured.

use serde::Deserialize;

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Sizes of chunks, and the savings of deduplication.
    Cut,
    /// The speed of chunking in memory.
    Throughput,
    /// The speed of fingerprinting chunks.
    Fingerprint,
    /// Chunking, fingerprinting, indexing and discarding, in one thread each.
    Pipeline,
    /// The part of the input in chunks of one repeated byte or of a short pattern.
    LowEntropy,
    /// The number of chunks that an edit changes.
    Shift,
    /// BURST: ratios and tables, by variant.
    Burst,
    /// BURST: the ratio after each version.
    Growth,
    /// BURST: the shortest burst to any other chunk.
    Bursts,
    /// SeqCDC: the parameters that save most, on this data set and on another.
    Search,
}

impl Kind {
    /// Returns the name in definitions and rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cut => "cut",
            Kind::Throughput => "throughput",
            Kind::Fingerprint => "fingerprint",
            Kind::Pipeline => "pipeline",
            Kind::LowEntropy => "low-entropy",
            Kind::Shift => "shift",
            Kind::Burst => "burst",
            Kind::Growth => "growth",
            Kind::Bursts => "bursts",
            Kind::Search => "search",
        }
    }

    pub(crate) fn needs_algorithms(self) -> bool {
        !matches!(
            self,
            Kind::Fingerprint | Kind::Burst | Kind::Growth | Kind::Bursts | Kind::Search
        )
    }

    /// Returns `true` if the machine and the number of repeats affect the rows that matter.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, Kind::Throughput | Kind::Fingerprint | Kind::Pipeline)
    }

    /// Returns `true` if all algorithms of a measure are one cell, because they take turns.
    pub(crate) fn is_race(self) -> bool {
        matches!(self, Kind::Throughput | Kind::Pipeline)
    }
}

/// The hash function for fingerprints of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// BLAKE3.
    Blake3,
    /// SHA-256.
    Sha256,
    /// SHA-1, as in the AE paper.
    Sha1,
}

impl Hash {
    /// Returns the hash of this name: `blake3`, `sha256` or `sha1`.
    pub fn named(name: &str) -> Option<Hash> {
        [Hash::Blake3, Hash::Sha256, Hash::Sha1].into_iter().find(|hash| hash.name() == name)
    }

    /// Returns the name of the hash.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Blake3 => "blake3",
            Hash::Sha256 => "sha256",
            Hash::Sha1 => "sha1",
        }
    }
}
