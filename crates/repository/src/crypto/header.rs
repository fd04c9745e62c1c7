//! The header of an object: its first 64 bytes, which are not encrypted.

use cutpoint_storage::{Error, Kind, ObjectKind, Result};
use zeroize::Zeroize;

use super::keys::Secret;
use crate::format::HEADER_LEN;
use crate::format::names::{ObjectName, PartName};
use crate::format::newer::NewerClaim;
use crate::format::suite::CipherSuite;

/// The length of an object's salt, in bytes.
pub const SALT_LEN: usize = 16;
/// The version of the format that this version of cutpoint writes, and the newest that it reads.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"CutP";
const OFFSET_KIND: usize = 4;
const OFFSET_VERSION: usize = OFFSET_KIND + 1;
const OFFSET_SUITE: usize = OFFSET_VERSION + 1;
const OFFSET_EPOCH: usize = OFFSET_SUITE + 2;
const OFFSET_NAME: usize = OFFSET_EPOCH + 8;
const OFFSET_SALT: usize = OFFSET_NAME + 16;
const OFFSET_COMMITMENT: usize = OFFSET_SALT + SALT_LEN;
const _: () = assert!(OFFSET_COMMITMENT + 16 == HEADER_LEN, "the header's fields fill it");

/// The first 64 bytes of an object, which are not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The code of the object's kind.
    pub kind: u8,
    /// The cipher suite by which the object is sealed.
    pub suite: CipherSuite,
    /// The epoch of the secret with which the object is sealed.
    pub epoch: u32,
    /// The 16 bytes of [`ObjectName::header_bytes`].
    pub name: [u8; 16],
    /// The random salt of the object.
    pub salt: [u8; SALT_LEN],
    /// A commitment to the key, which shows that a key is the right one before anything is opened.
    pub commitment: [u8; 16],
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..OFFSET_KIND].copy_from_slice(&MAGIC);
        bytes[OFFSET_KIND] = self.kind;
        bytes[OFFSET_VERSION] = VERSION;
        bytes[OFFSET_SUITE] = self.suite.code();
        bytes[OFFSET_EPOCH..OFFSET_EPOCH + 4].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[OFFSET_NAME..OFFSET_SALT].copy_from_slice(&self.name);
        bytes[OFFSET_SALT..OFFSET_COMMITMENT].copy_from_slice(&self.salt);
        bytes[OFFSET_COMMITMENT..].copy_from_slice(&self.commitment);
        bytes
    }

    /// Decodes the header of the object that was requested as `name`.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the bytes are another object, or none, and `Unsupported` if the
    /// object is newer than this version.
    pub fn decode(name: &ObjectName, bytes: &[u8]) -> Result<Header> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::corrupt(
                name,
                format!(
                    "too short for a header (expected {HEADER_LEN} bytes, found {})",
                    bytes.len()
                ),
            ));
        };
        let field = |offset: usize| {
            let mut field = [0; 16];
            field.copy_from_slice(&bytes[offset..offset + 16]);
            field
        };
        if bytes[..OFFSET_KIND] != MAGIC {
            return Err(Error::corrupt(name, "not an object of cutpoint"));
        }
        // The version is examined before any field whose meaning it could change.
        if bytes[OFFSET_VERSION] > VERSION {
            return Err(Error::new(
                Kind::Unsupported,
                name,
                format!(
                    "format {} is newer than this version of cutpoint, which reads up to \
                     {VERSION}; use a newer one",
                    bytes[OFFSET_VERSION]
                ),
            )
            .with_source(NewerClaim::Format(bytes[OFFSET_VERSION])));
        }
        if bytes[OFFSET_VERSION] == 0 {
            return Err(Error::corrupt(name, "format 0 does not exist"));
        }
        let header = Header {
            kind: bytes[OFFSET_KIND],
            suite: CipherSuite::from_code(bytes[OFFSET_SUITE]).map_err(|error| {
                error.of(name).with_source(NewerClaim::CipherSuite(bytes[OFFSET_SUITE]))
            })?,
            epoch: u32::from_le_bytes([
                bytes[OFFSET_EPOCH],
                bytes[OFFSET_EPOCH + 1],
                bytes[OFFSET_EPOCH + 2],
                bytes[OFFSET_EPOCH + 3],
            ]),
            name: field(OFFSET_NAME),
            salt: field(OFFSET_SALT),
            commitment: field(OFFSET_COMMITMENT),
        };
        // A valid object under the name of another is as wrong as a damaged one.
        if header.kind != name.kind().code() || header.name != name.header_bytes() {
            return Err(Error::corrupt(name, "holds another object"));
        }
        // Only the fields may be set; all other bytes of the header are bound by the seal as well.
        if header.encode() != *bytes {
            return Err(Error::corrupt(name, "reserved bytes of the header are not zero"));
        }
        Ok(header)
    }
}

/// Returns the name that the header of a commit or prune record claims; `None` for any other bytes.
/// Only opening the object under this name verifies the claim.
pub(crate) fn claimed_view_name(bytes: &[u8]) -> Option<ObjectName> {
    let header = bytes.first_chunk::<HEADER_LEN>()?;
    let name: [u8; 16] = header[OFFSET_NAME..OFFSET_SALT].try_into().ok()?;
    let kind = header[OFFSET_KIND];
    let claimed = if kind == ObjectKind::Commit.code() {
        ObjectName::Commit(PartName::from_bytes(name).ticket)
    } else if kind == ObjectKind::Prune.code() {
        ObjectName::Prune(u64::try_from(u128::from_le_bytes(name)).ok()?)
    } else {
        return None;
    };
    (claimed.header_bytes() == name).then_some(claimed)
}

/// Derives the key and the commitment of an object: 48 bytes of keyed BLAKE3 over the first 48
/// bytes of the header, and for keyrings also over the unencrypted bytes that follow it.
pub(crate) fn object_key(class_key: &Secret, header: &[u8], clear: &[u8]) -> (Secret, [u8; 16]) {
    let mut hasher = blake3::Hasher::new_keyed(&class_key.0);
    hasher.update(&header[..OFFSET_COMMITMENT]).update(clear);
    let mut output = [0; 48];
    hasher.finalize_xof().fill(&mut output);
    let mut key = Secret([0; 32]);
    key.0.copy_from_slice(&output[..32]);
    let mut commitment = [0; 16];
    commitment.copy_from_slice(&output[32..]);
    output.zeroize();
    (key, commitment)
}
