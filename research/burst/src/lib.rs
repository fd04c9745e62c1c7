//! BURST as its paper intends it, in memory: a chunk that is similar to a stored one is stored as a
//! burst.
//!
//! A [`Burst`] replaces one interval of a *reference chunk*. A [`Deduplicator`] finds a reference
//! chunk by a fingerprint of the first or of the last bytes of a chunk, and stores the burst in the
//! place of the chunk. [`Options`] select among the variants of the paper.
//!
//! The store does not use this crate, which exists to repeat the figures of the paper. The rule
//! itself is in `cutpoint_delta::burst`, which the mode of the store uses, too. `docs/notes/burst.md`
//! lists the differences to the listings of the paper, which lose data, and to its code, and the
//! results of the figures.
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
pub use cutpoint_delta::burst::{Options, SubChunks, Tau};
pub use deduplicator::{Deduplicator, Unknown};
pub use fingerprint::Fingerprint;
pub use statistics::{Payloads, SECTOR_SIZE, SideStatistics, Statistics, TableStatistics};

/// The names and options of the variants that the figures of the paper compare.
pub const VARIANTS: [(&str, Options); 7] = [
    ("legacy", Options::LEGACY),
    ("BURST 1", Options { c_max: 1, ..Options::BURST }),
    ("BURST 3", Options { c_max: 3, ..Options::BURST }),
    ("BURST 255", Options::BURST),
    ("Head 255", Options::HEAD),
    ("Raw 255", Options::RAW),
    ("Head-Raw 255", Options::HEAD_RAW),
];
