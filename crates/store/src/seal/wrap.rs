//! Wrapping: a keyring that a passphrase or a key file unlocks.
//!
//! A `keys/` object is a header, [`WRAP_LEN`] bytes in the clear that say how the wrapping key is
//! made, the sealed keyring, padding, trailer.

use argon2::{Algorithm, Argon2, Params, Version};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;
use zeroize::Zeroizing;

use super::keys::{Keyring, Secret, Suite};
use super::object::{
    Cipher, HEADER_LEN, Header, PADDING_OTHER, PartKind, SALT_LEN, TAG_LEN, TRAILER_LEN, Trailer,
    object_key,
};
use crate::error::{Error, Kind, Result};
use crate::name::ObjectName;

/// The bytes between header and sealed keyring: method 1, zero 3, memory in KiB 4, passes 4,
/// lanes 4, salt 16.
pub const WRAP_LEN: usize = 32;

const METHOD_NONE: u8 = 0;
const METHOD_ARGON2ID: u8 = 1;
const METHOD_KEY_FILE: u8 = 2;

/// RFC 9106, second recommended choice: 64 MiB, three passes, four lanes.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;

/// How much work a `keys/` object may ask for before it is believed: an attacker who can write to
/// the storage could ask for a terabyte.
#[derive(Clone, Copy, Debug)]
pub struct KdfLimits {
    /// The most memory, in KiB.
    pub memory_kib_max: u32,
    /// The most passes.
    pub passes_max: u32,
}

impl Default for KdfLimits {
    fn default() -> Self {
        KdfLimits { memory_kib_max: 1024 * 1024, passes_max: 64 }
    }
}

/// What opens a repository.
#[derive(Clone)]
pub enum Unlock {
    /// Nothing: the repository is not encrypted.
    Nothing,
    /// A passphrase, stretched by Argon2id.
    Passphrase(Zeroizing<Vec<u8>>),
    /// 32 random bytes from a file; no stretching is needed.
    KeyFile(Secret),
    /// The keyring itself, from a recovery kit.
    Keyring(Keyring),
}

impl std::fmt::Debug for Unlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unlock::Nothing => "Nothing",
            Unlock::Passphrase(_) => "Passphrase(..)",
            Unlock::KeyFile(_) => "KeyFile(..)",
            Unlock::Keyring(_) => "Keyring(..)",
        })
    }
}

/// Returns the bytes of `keys/<id>`: `keyring`, to be opened by `unlock`. `salts` are random: the
/// object's, and the passphrase's.
///
/// # Errors
///
/// `Invalid` where `unlock` is a keyring, which cannot wrap itself.
pub fn wrap_keyring(
    keyring: &Keyring,
    unlock: &Unlock,
    suite: Suite,
    id: [u8; 16],
    salts: [[u8; SALT_LEN]; 2],
) -> Result<Bytes> {
    let name = ObjectName::Key { id, copy: false };
    let method = match unlock {
        Unlock::Nothing => METHOD_NONE,
        Unlock::Passphrase(_) => METHOD_ARGON2ID,
        Unlock::KeyFile(_) => METHOD_KEY_FILE,
        Unlock::Keyring(_) => {
            return Err(Error::invalid(name, "a recovery kit cannot be a way to unlock"));
        }
    };
    let mut wrap = [0; WRAP_LEN];
    wrap[0] = method;
    if method == METHOD_ARGON2ID {
        wrap[4..8].copy_from_slice(&MEMORY_KIB.to_le_bytes());
        wrap[8..12].copy_from_slice(&PASSES.to_le_bytes());
        wrap[12..16].copy_from_slice(&LANES.to_le_bytes());
        wrap[16..].copy_from_slice(&salts[1]);
    }
    let mut header = Header {
        kind: name.kind().code(),
        suite,
        epoch: 0,
        name: name.header_bytes(),
        salt: salts[0],
        commitment: [0; 16],
    };
    let wrapping_key = wrapping_key(&name, unlock, &wrap, KdfLimits::default())?;
    let (key, commitment) = object_key(&wrapping_key, &header.encode(), &wrap);
    header.commitment = commitment;
    let header = header.encode();
    let mut part = Zeroizing::new(keyring.encode());
    let tag = Cipher::new(suite, key).seal(&header, PartKind::Body, &mut part);
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&wrap);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(&part);
    bytes.extend_from_slice(&tag);
    let length = u32::try_from(part.len() + TAG_LEN).unwrap_or(u32::MAX);
    let padded = (bytes.len() + TRAILER_LEN).next_multiple_of(PADDING_OTHER);
    bytes.resize(padded - TRAILER_LEN, 0);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&offset.to_le_bytes());
    let checksum = xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(Bytes::from(bytes))
}

/// Opens the bytes of `keys/<id>`. Returns `None` where `unlock` is not the right key for it.
///
/// # Errors
///
/// `Corrupt` where the object is damaged; `Unsupported` where it asks for more work than `limits`
/// allow.
pub fn unwrap_keyring(
    name: ObjectName,
    bytes: &[u8],
    unlock: &Unlock,
    limits: KdfLimits,
) -> Result<Option<(Keyring, Suite)>> {
    let header = Header::decode(&name, bytes)?;
    if let Unlock::Keyring(keyring) = unlock {
        return Ok(Some((keyring.clone(), header.suite)));
    }
    let damaged = |what: &str| Error::corrupt(name, what);
    let wrap = bytes
        .get(HEADER_LEN..HEADER_LEN + WRAP_LEN)
        .and_then(|wrap| wrap.first_chunk::<WRAP_LEN>())
        .ok_or_else(|| damaged("ends inside its header"))?;
    let method = match unlock {
        Unlock::Nothing => METHOD_NONE,
        Unlock::Passphrase(_) => METHOD_ARGON2ID,
        Unlock::KeyFile(_) | Unlock::Keyring(_) => METHOD_KEY_FILE,
    };
    if wrap[0] != method {
        return Ok(None);
    }
    // Suite 0 and method "nothing" belong together: a passphrase never opens an unencrypted
    // repository that somebody put in the place of an encrypted one.
    if (header.suite == Suite::None) != (method == METHOD_NONE) {
        return Err(damaged("says that it is encrypted, and that it is not"));
    }
    let wrapping_key = wrapping_key(&name, unlock, wrap, limits)?;
    let (key, commitment) = object_key(&wrapping_key, bytes, wrap);
    if commitment != header.commitment {
        return Ok(None);
    }
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
    let start = usize::try_from(trailer.offset).unwrap_or(usize::MAX);
    let mut part = Zeroizing::new(bytes[start..start + trailer.length as usize].to_vec());
    let len = Cipher::new(header.suite, key)
        .open(&header.encode(), PartKind::Body, &mut part)
        .ok_or_else(|| damaged("is damaged: the tag does not match"))?;
    let keyring = Keyring::decode(&part[..len]).map_err(|error| error.of(name))?;
    Ok(Some((keyring, header.suite)))
}

fn wrapping_key(
    name: &ObjectName,
    unlock: &Unlock,
    wrap: &[u8; WRAP_LEN],
    limits: KdfLimits,
) -> Result<Secret> {
    let number =
        |at: usize| u32::from_le_bytes([wrap[at], wrap[at + 1], wrap[at + 2], wrap[at + 3]]);
    match unlock {
        Unlock::Nothing | Unlock::Keyring(_) => {
            Ok(Secret(blake3::derive_key("cutpoint v1 wrap nothing", &[])))
        }
        Unlock::KeyFile(secret) => {
            Ok(Secret(blake3::derive_key("cutpoint v1 wrap key file", &secret.0)))
        }
        Unlock::Passphrase(passphrase) => {
            let (memory_kib, passes, lanes) = (number(4), number(8), number(12));
            if memory_kib > limits.memory_kib_max || passes > limits.passes_max || lanes > 64 {
                return Err(Error::new(
                    Kind::Unsupported,
                    name,
                    format!(
                        "asks for Argon2id with {memory_kib} KiB, {passes} passes, {lanes} lanes; \
                         refused above {} KiB, {} passes, 64 lanes",
                        limits.memory_kib_max, limits.passes_max
                    ),
                ));
            }
            let params = Params::new(memory_kib, passes, lanes, Some(32))
                .map_err(|error| Error::corrupt(name, format!("Argon2id: {error}")))?;
            let mut key = Secret([0; 32]);
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(passphrase, &wrap[16..], &mut key.0)
                .map_err(|error| Error::new(Kind::Invalid, name, format!("Argon2id: {error}")))?;
            Ok(key)
        }
    }
}
