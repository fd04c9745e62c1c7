//! Cipher suites, as the header of every object names them.

use std::fmt;

use cutpoint_storage::{Error, Kind, Result};

/// The cipher suite by which objects are sealed. Its code is part of every header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// No encryption: the tag is a keyed BLAKE3 hash, and the keyring is stored beside the data.
    None,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Suite {
    /// Returns the code of the suite in headers.
    pub fn code(self) -> u8 {
        match self {
            Suite::None => 0,
            Suite::Aes256Gcm => 1,
            Suite::ChaCha20Poly1305 => 2,
        }
    }

    /// Returns the suite with a code; the inverse of [`Suite::code`].
    pub fn from_code(code: u8) -> Result<Suite> {
        match code {
            0 => Ok(Suite::None),
            1 => Ok(Suite::Aes256Gcm),
            2 => Ok(Suite::ChaCha20Poly1305),
            _ => Err(Error::new(
                Kind::Unsupported,
                "",
                format!("sealed with suite {code}, which requires a newer cutpoint"),
            )),
        }
    }

    /// Returns the fastest suite on this CPU: AES-256-GCM if there are instructions for AES.
    pub fn fastest() -> Suite {
        #[cfg(target_arch = "x86_64")]
        let has_aes = std::arch::is_x86_feature_detected!("aes");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suite::None => "none",
            Suite::Aes256Gcm => "aes256-gcm",
            Suite::ChaCha20Poly1305 => "chacha20-poly1305",
        })
    }
}
