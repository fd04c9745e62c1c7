//! BURST as its paper means it, in memory: chunks that are nearly known are stored as one burst.
//!
//! A [`Burst`] replaces one interval of a *reference chunk*. A [`Deduplicator`] finds a reference
//! chunk by a fingerprint of the first or of the last bytes of a chunk, and stores the burst in the
//! place of the chunk. [`Options`] choose between the variants of the paper.
//!
//! Nothing of the store uses this crate: it is here so that the paper's figures can be repeated. The rule itself
//! is in `cutpoint_matching::burst`; the store's mode uses that, too.
//! `docs/notes/burst.md` says where it differs from the paper's listings, which lose data, and from the
//! paper's code; what the figures give here is there, too.
//!
//! Source: Peng, Wu, Zhang, Yao and Liu, "BURST: A Chunk-Based Data Deduplication System with
//! Burst-Encoded Fingerprint Matching", section III.
//!
//! ```
//! use cutpoint_burst::{Deduplicator, Options, Tau};
//!
//! let mut deduplicator = Deduplicator::new(Options { tau: Tau::Bytes(2), ..Options::BURST });
//! deduplicator.write(b"bandage");
//! let badge = deduplicator.write(b"badge");
//! assert_eq!(deduplicator.burst(&badge).map(|burst| burst.data()), Some(&b"d"[..]));
//! assert_eq!(deduplicator.statistics().stored_bytes(), 8);
//! assert_eq!(deduplicator.read(&badge)?, b"badge");
//! # Ok::<(), cutpoint_burst::Unknown>(())
//! ```

#![forbid(unsafe_code)]

mod burst;
mod deduplicator;
mod fingerprint;
mod statistics;

pub use burst::Burst;
pub use cutpoint_matching::burst::{Options, SubChunks, Tau};
pub use deduplicator::{Deduplicator, Unknown};
pub use fingerprint::Fingerprint;
pub use statistics::{Payloads, SECTOR_SIZE, SideStatistics, Statistics, TableStatistics};

/// The variants that the paper's figures compare, and their names there.
pub const VARIANTS: [(&str, Options); 7] = [
    ("legacy", Options::LEGACY),
    ("BURST 1", Options { c_max: 1, ..Options::BURST }),
    ("BURST 3", Options { c_max: 3, ..Options::BURST }),
    ("BURST 255", Options::BURST),
    ("Head 255", Options::HEAD),
    ("Raw 255", Options::RAW),
    ("Head-Raw 255", Options::HEAD_RAW),
];
