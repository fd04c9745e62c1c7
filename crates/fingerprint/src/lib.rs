//! Fingerprints of many chunks at once.
//!
//! BLAKE3 splits its input into leaves of 1 KiB and combines the results of the leaves in pairs, up
//! to a root. A vector register can work on as many leaves at once as it has lanes of 32 bits. The
//! crate `blake3` fills the lanes with leaves of one input, and a chunk of a few KiB has too few
//! leaves. [`Blake3`] fills the lanes with leaves of all chunks of a batch. The digests are
//! bit-identical to those of the crate.
//!
//! SHA-256 and SHA-1 have no leaves: each block of a chunk depends on the previous one. [`Sha256`]
//! and [`Sha1`] interleave blocks of several chunks, and return the digests of the crates `sha2`
//! and `sha1`.
//!
//! ```
//! use cutpoint_fingerprint::{Blake3, Digest};
//!
//! let hash = Blake3::plain();
//! let mut digests: Vec<Digest> = Vec::new();
//! hash.digests(&[b"one".as_slice(), b"two"], &mut digests);
//! assert_eq!(digests[1], *blake3::hash(b"two").as_bytes());
//! ```
//!
//! Chunks should come in batches of about 1 MiB, because a batch of one chunk has no other leaves
//! to fill the lanes with. A hash keeps the fastest instruction set of this CPU, its level;
//! `at_level` chooses another one, which changes the speed but never a digest.

#![deny(unsafe_code)]

mod blake3;
mod chain;
mod lanes;
mod sha;
mod tree;

pub use self::blake3::Blake3;
pub use sha::{Sha1, Sha256};

/// The length of a digest of [`Blake3`] and [`Sha256`], in bytes.
pub const DIGEST_SIZE: usize = 32;

/// A digest of [`Blake3`] and [`Sha256`].
pub type Digest = [u8; DIGEST_SIZE];

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
