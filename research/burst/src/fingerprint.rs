//! The fingerprint of a chunk, or of its head or tail.

use std::fmt;

/// The BLAKE3 hash of a chunk, or of its head or tail. In the raw variants, the bytes of the head
/// or tail themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; Fingerprint::LEN]);

impl Fingerprint {
    /// The length of a fingerprint in bytes, as in the paper.
    pub const LEN: usize = 32;

    /// Returns the fingerprint of `data`.
    #[must_use]
    pub fn of(data: &[u8]) -> Fingerprint {
        Fingerprint(*blake3::hash(data).as_bytes())
    }

    /// Returns `data` itself as a fingerprint, or `None` if it has another length.
    pub(crate) fn raw(data: &[u8]) -> Option<Fingerprint> {
        data.try_into().ok().map(Fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
