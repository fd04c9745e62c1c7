//! Wrapping: keyrings that a passphrase or a key file unlocks.
//!
//! A `keys/` object consists of a header, [`WRAP_LEN`] unencrypted bytes that describe how the
//! wrapping key is derived, a description of the key for clients that have the repository open, the
//! sealed keyring, padding, and the trailer.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Result};
use minicbor::Decoder;
use xxhash_rust::xxh3::xxh3_128;
use zeroize::Zeroizing;

use super::cipher::{Cipher, PartKind, TAG_LEN};
use super::header::{Header, SALT_LEN, object_key};
use super::keys::{KeyClass, Keyring, Keys, Secret};
use super::trailer::{Trailer, push_tail};
use crate::format::HEADER_LEN;
use crate::format::map::{MapWriter, at_end, malformed, read_map};
use crate::format::names::ObjectName;
use crate::format::suite::CipherSuite;

/// The length of the unencrypted bytes between header and description: method 1, zero 3, memory in
/// KiB 4, passes 4, lanes 4, salt 16.
pub const WRAP_LEN: usize = 32;

/// The maximum length of a label, in bytes.
pub const LABEL_LEN_MAX: usize = 200;

/// The length of the epoch that precedes the sealed description and names its key, in bytes.
const ABOUT_EPOCH_LEN: usize = 4;

/// The method by which a `keys/` object is opened. The code follows the header of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMethod {
    /// No secret: the repository is not encrypted.
    Nothing,
    /// A passphrase.
    Passphrase,
    /// A key file.
    KeyFile,
    /// A recovery kit, which opens the repository without any object. The object only records that
    /// the kit exists.
    RecoveryKit,
}

impl KeyMethod {
    fn code(self) -> u8 {
        match self {
            KeyMethod::Nothing => 0,
            KeyMethod::Passphrase => 1,
            KeyMethod::KeyFile => 2,
            KeyMethod::RecoveryKit => 3,
        }
    }

    /// Returns the method by which the `keys/` object with these bytes is opened.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the bytes are not such an object, and `Unsupported` if a newer
    /// version has written it.
    pub fn of_object(name: ObjectName, bytes: &[u8]) -> Result<KeyMethod> {
        Header::decode(&name, bytes)?;
        let code = wrap_of(&name, bytes)?[0];
        let all =
            [KeyMethod::Nothing, KeyMethod::Passphrase, KeyMethod::KeyFile, KeyMethod::RecoveryKit];
        all.into_iter().find(|method| method.code() == code).ok_or_else(|| {
            let message = format!("method {code} requires a newer cutpoint");
            Error::new(Kind::Unsupported, name, message)
        })
    }
}

/// The description of a `keys/` object. It is sealed with a key of the repository, so that any
/// client which has the repository open can read it, without the secret that the object is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyAbout {
    /// The creation time of the key, in nanoseconds since 1970 UTC.
    pub made_ns: i64,
    /// The human-readable label, of at most [`LABEL_LEN_MAX`] bytes.
    pub label: String,
    /// The newest epoch of the wrapped keyring.
    pub epoch: u32,
}

impl KeyAbout {
    fn encode(&self) -> Vec<u8> {
        let mut map = MapWriter::new();
        map.int(0, self.made_ns).text(1, &self.label).uint(2, self.epoch.into());
        map.finish()
    }

    fn decode(bytes: &[u8]) -> Result<KeyAbout> {
        let d = &mut Decoder::new(bytes);
        let mut about = KeyAbout::default();
        read_map(d, |key, d| {
            match key {
                0 => about.made_ns = d.i64().map_err(malformed)?,
                1 => about.label = d.str().map_err(malformed)?.to_owned(),
                2 => about.epoch = d.u32().map_err(malformed)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        Ok(about)
    }

    /// Reads the description in the `keys/` object with these bytes. Returns `None` if the object
    /// has none.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the object is damaged, and `WrongKey` if the description was
    /// sealed with a key that is not among `keys`.
    pub fn of_object(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<Option<KeyAbout>> {
        let header = Header::decode(&name, bytes)?;
        let wrap = wrap_of(&name, bytes)?;
        let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
        let end = usize::try_from(trailer.offset).unwrap_or(usize::MAX);
        let about = bytes.get(HEADER_LEN + WRAP_LEN..end).unwrap_or_default();
        let Some((epoch, sealed)) = about.split_first_chunk::<ABOUT_EPOCH_LEN>() else {
            return Ok(None);
        };
        let epoch = u32::from_le_bytes(*epoch);
        let class_key = keys.class_key(epoch, KeyClass::Config).ok_or_else(|| {
            let message = format!(
                "the description is sealed with a key of epoch {epoch}, which does not exist",
            );
            Error::new(Kind::WrongKey, name, message)
        })?;
        let (key, _) = object_key(class_key, bytes, wrap);
        let mut part = sealed.to_vec();
        let len = Cipher::new(header.suite, key)
            .open(&header.encode(), PartKind::About, &mut part)
            .ok_or_else(|| Error::corrupt(name, "the description cannot be opened"))?;
        KeyAbout::decode(&part[..len]).map(Some).map_err(|error| error.of(name))
    }
}

/// Returns the unencrypted bytes that follow the header of a `keys/` object.
fn wrap_of<'a>(name: &ObjectName, bytes: &'a [u8]) -> Result<&'a [u8; WRAP_LEN]> {
    bytes
        .get(HEADER_LEN..)
        .and_then(|wrap| wrap.first_chunk::<WRAP_LEN>())
        .ok_or_else(|| Error::corrupt(name, "truncated in its header"))
}

/// The second recommended choice of RFC 9106: 64 MiB, three passes, four lanes.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;

/// The maximum cost that a `keys/` object may demand before it is authenticated, because anyone who
/// can write to the storage could demand a terabyte. By default [`KdfLimits::TIMES`] times the cost
/// that this program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfLimits {
    /// The maximum memory, in KiB.
    pub memory_kib_max: u32,
    /// The maximum number of passes.
    pub passes_max: u32,
    /// The maximum number of lanes.
    pub lanes_max: u32,
}

impl KdfLimits {
    /// The default multiple of the cost that this program writes.
    pub const TIMES: u32 = 4;

    /// Returns limits of `times` the memory, passes and lanes that this program writes.
    pub fn times(times: u32) -> KdfLimits {
        KdfLimits {
            memory_kib_max: MEMORY_KIB.saturating_mul(times),
            passes_max: PASSES.saturating_mul(times),
            lanes_max: LANES.saturating_mul(times),
        }
    }
}

impl Default for KdfLimits {
    fn default() -> Self {
        KdfLimits::times(KdfLimits::TIMES)
    }
}

/// A secret that opens a repository.
#[derive(Clone)]
pub enum Unlock {
    /// No secret: the repository is not encrypted.
    Nothing,
    /// A passphrase, stretched by Argon2id.
    Passphrase(Zeroizing<Vec<u8>>),
    /// 32 random bytes from a file; no stretching is needed.
    KeyFile(Secret),
    /// The keyring itself, from a recovery kit.
    Keyring(Keyring),
}

impl Unlock {
    /// Returns the method that belongs to this kind of secret.
    pub fn method(&self) -> KeyMethod {
        match self {
            Unlock::Nothing => KeyMethod::Nothing,
            Unlock::Passphrase(_) => KeyMethod::Passphrase,
            Unlock::KeyFile(_) => KeyMethod::KeyFile,
            Unlock::Keyring(_) => KeyMethod::RecoveryKit,
        }
    }
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

/// Returns the bytes of `keys/<id>`: `keyring`, wrapped for `unlock`. `salts` are random: that of
/// the object, and that of the passphrase.
///
/// # Errors
///
/// Returns an `Invalid` error if the label or the keyring is too long, or the passphrase cannot be
/// stretched.
pub fn wrap_keyring(
    keyring: &Keyring,
    unlock: &Unlock,
    suite: CipherSuite,
    id: [u8; 16],
    salts: [[u8; SALT_LEN]; 2],
    about: &KeyAbout,
) -> Result<Bytes> {
    let name = ObjectName::Key { id, copy: false };
    if about.label.len() > LABEL_LEN_MAX {
        let message = format!("label too long (at most {LABEL_LEN_MAX} bytes)");
        return Err(Error::invalid(name, message));
    }
    let method = unlock.method();
    let mut wrap = [0; WRAP_LEN];
    wrap[0] = method.code();
    if method == KeyMethod::Passphrase {
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
    let keys = Keys::derive(keyring, suite);
    let epoch = keys.epoch();
    let Some(class_key) = keys.class_key(epoch, KeyClass::Config) else {
        unreachable!("the newest epoch has every key")
    };
    let mut about = about.encode();
    let (about_key, _) = object_key(class_key, &header, &wrap);
    let about_tag = Cipher::new(suite, about_key).seal(&header, PartKind::About, &mut about);
    let mut part = keyring.encode();
    let tag = Cipher::new(suite, key).seal(&header, PartKind::Body, &mut part);
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&wrap);
    bytes.extend_from_slice(&epoch.to_le_bytes());
    bytes.extend_from_slice(&about);
    bytes.extend_from_slice(&about_tag);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(&part);
    bytes.extend_from_slice(&tag);
    let length = u32::try_from(part.len() + TAG_LEN)
        .map_err(|_| Error::invalid(name, "too many epochs for one keyring"))?;
    let end = bytes.len();
    push_tail(&mut bytes, name, end, offset, length);
    let checksum = xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(Bytes::from(bytes))
}

/// Opens the bytes of `keys/<id>`. Returns `None` if `unlock` is not the right secret.
///
/// # Errors
///
/// Returns a `Corrupt` error if the object is damaged, and `Unsupported` if it demands a higher
/// cost than `limits` allow.
pub fn unwrap_keyring(
    name: ObjectName,
    bytes: &[u8],
    unlock: &Unlock,
    limits: KdfLimits,
) -> Result<Option<(Keyring, CipherSuite)>> {
    let header = Header::decode(&name, bytes)?;
    let damaged = |what: &str| Error::corrupt(name, what);
    let wrap = wrap_of(&name, bytes)?;
    let method = unlock.method();
    if wrap[0] != method.code() {
        return Ok(None);
    }
    // Suite 0 and method "nothing" belong together, so that a passphrase never opens an unencrypted
    // repository which was put in the place of an encrypted one.
    if (header.suite == CipherSuite::None) != (method == KeyMethod::Nothing) {
        return Err(damaged("contradictory: encrypted and not encrypted"));
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
        .ok_or_else(|| damaged("authentication failed"))?;
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
        Unlock::Nothing => Ok(Secret(blake3::derive_key("cutpoint v1 wrap nothing", &[]))),
        Unlock::Keyring(keyring) => {
            let newest = keyring.epochs.last().map_or(&[][..], |(_, secret)| &secret.0);
            Ok(Secret(blake3::derive_key("cutpoint v1 wrap recovery kit", newest)))
        }
        Unlock::KeyFile(secret) => {
            Ok(Secret(blake3::derive_key("cutpoint v1 wrap key file", &secret.0)))
        }
        Unlock::Passphrase(passphrase) => {
            let (memory_kib, passes, lanes) = (number(4), number(8), number(12));
            if memory_kib > limits.memory_kib_max
                || passes > limits.passes_max
                || lanes > limits.lanes_max
            {
                return Err(Error::new(
                    Kind::Unsupported,
                    name,
                    format!(
                        "Argon2id with {memory_kib} KiB, {passes} passes, {lanes} lanes refused \
                         (at most {} KiB, {} passes, {} lanes; --kdf-limit raises the limits)",
                        limits.memory_kib_max, limits.passes_max, limits.lanes_max
                    ),
                ));
            }
            let params = Params::new(memory_kib, passes, lanes, Some(32))
                .map_err(|error| Error::corrupt(name, format!("Argon2id: {error}")))?;
            let mut key = Secret([0; 32]);
            // The crate wipes its own memory, but not the large block memory, which is allocated
            // here. With its contents, passphrases could be tried without stretching them.
            let mut memory = Zeroizing::new(vec![Block::default(); params.block_count()]);
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into_with_memory(
                    passphrase,
                    &wrap[16..],
                    &mut key.0,
                    memory.as_mut_slice(),
                )
                .map_err(|error| Error::new(Kind::Invalid, name, format!("Argon2id: {error}")))?;
            Ok(key)
        }
    }
}
