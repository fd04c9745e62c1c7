//! Fingerprints, which name chunks.

use std::fmt;

/// The length of a fingerprint in bytes.
pub const FINGERPRINT_LEN: usize = 32;

/// The identity of a chunk: keyed BLAKE3 of its plain bytes. Data and metadata have different keys,
/// so that a file can never pose as a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; FINGERPRINT_LEN]);

impl Fingerprint {
    /// Returns the first 8 bytes, the only part that an index segment keeps. They are read as
    /// big-endian, so that hints sort as fingerprints do.
    pub fn hint(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(first)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The class of a chunk. It decides the fingerprint key, the sealing key, and the kind of
/// container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Bytes of files.
    Data,
    /// Trees and recipes.
    Meta,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Data => "data",
            Class::Meta => "meta",
        })
    }
}
