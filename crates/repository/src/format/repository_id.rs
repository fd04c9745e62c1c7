//! The identity of a repository.

use std::fmt;

use cutpoint_storage::hex;

/// The permanent identity of a repository: 16 random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RepositoryId(pub [u8; 16]);

impl RepositoryId {
    /// Parses 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<RepositoryId> {
        Some(RepositoryId(hex::parse(text)?))
    }
}

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
