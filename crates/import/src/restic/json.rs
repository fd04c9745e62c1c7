//! JSON documents of restic.

use cutpoint_storage::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Decodes a document.
///
/// # Errors
///
/// Returns `Corrupt` if the document is not of the form `T`.
pub(super) fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| Error::corrupt("", format!("malformed: {error}")))
}

/// Bytes in base64.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Base64(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Base64, D::Error> {
        use base64::Engine;
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.map(Base64).map_err(serde::de::Error::custom)
    }
}

/// The identifier of an object: the SHA-256 of its bytes, as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub(super) [u8; 32]);

impl Id {
    /// Parses 64 hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Id> {
        cutpoint_storage::hex::parse(text).map(Id)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        cutpoint_storage::hex::write(f, &self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let expected = || serde::de::Error::custom("expected 64 hexadecimal digits");
        Id::parse(&text).ok_or_else(expected)
    }
}
