//! Claims of objects to be newer than the program or the available keys.

use std::fmt;

use cutpoint_storage::Error;

/// The source of an error about an object whose header claims to be newer than the program or the
/// available keys. Headers are not authenticated, so that anyone who can write to the storage can
/// plant such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewerClaim {
    /// The object is sealed with a key of this epoch, which is newer than those of the available
    /// keys.
    Epoch(u32),
    /// The object has this version of the format.
    Format(u8),
    /// The object is sealed with the cipher suite of this code.
    CipherSuite(u8),
}

impl fmt::Display for NewerClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NewerClaim::Epoch(epoch) => write!(f, "key epoch {epoch}"),
            NewerClaim::CipherSuite(code) => write!(f, "suite {code}"),
            NewerClaim::Format(version) => write!(f, "version {version} of the format"),
        }
    }
}

impl std::error::Error for NewerClaim {}

impl NewerClaim {
    /// Returns the claim in the object's header that is newer than the program or the available
    /// keys, if that is the cause of `error`.
    pub fn of(error: &Error) -> Option<NewerClaim> {
        std::error::Error::source(error)?.downcast_ref().copied()
    }

    /// Returns `true` if `error` is about an object that claims a key epoch newer than those of the
    /// available keys.
    pub fn is_epoch_of(error: &Error) -> bool {
        matches!(NewerClaim::of(error), Some(NewerClaim::Epoch(_)))
    }
}
