//! Cipher suites, as the header of every object names them.

use std::fmt;

use cutpoint_storage::{Error, Kind, Result};

/// The cipher suite by which objects are sealed. Its code is part of every header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherSuite {
    /// No encryption: the tag is a keyed BLAKE3 hash, and the keyring is stored beside the data.
    None,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl CipherSuite {
    /// Returns the code of the cipher suite in headers.
    pub fn code(self) -> u8 {
        match self {
            CipherSuite::None => 0,
            CipherSuite::Aes256Gcm => 1,
            CipherSuite::ChaCha20Poly1305 => 2,
        }
    }

    /// Returns the cipher suite with a code; the inverse of [`CipherSuite::code`].
    pub fn from_code(code: u8) -> Result<CipherSuite> {
        match code {
            0 => Ok(CipherSuite::None),
            1 => Ok(CipherSuite::Aes256Gcm),
            2 => Ok(CipherSuite::ChaCha20Poly1305),
            _ => Err(Error::new(
                Kind::Unsupported,
                "",
                format!("sealed with suite {code}, which requires a newer cutpoint"),
            )),
        }
    }

    /// Returns the fastest cipher suite on this CPU: AES-256-GCM if there are instructions for AES.
    pub fn fastest() -> CipherSuite {
        #[cfg(target_arch = "x86_64")]
        let has_aes = std::arch::is_x86_feature_detected!("aes");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { CipherSuite::Aes256Gcm } else { CipherSuite::ChaCha20Poly1305 }
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CipherSuite::None => "none",
            CipherSuite::Aes256Gcm => "aes256-gcm",
            CipherSuite::ChaCha20Poly1305 => "chacha20-poly1305",
        })
    }
}
