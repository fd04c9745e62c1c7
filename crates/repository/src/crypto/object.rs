//! The bytes of an object: header, sealed parts, padding, trailer.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};
use zeroize::Zeroize;

use super::keys::{KeyClass, Keys, Secret};
use crate::format::HEADER_LEN;
use crate::format::names::ObjectName;
use crate::format::newer::Newer;
use crate::format::suite::CipherSuite;

/// The length of the trailer of every object, in bytes.
pub const TRAILER_LEN: usize = 32;
/// The length that sealing adds to a part, in bytes.
pub const TAG_LEN: usize = 16;
/// The length of an object's salt, in bytes.
pub const SALT_LEN: usize = 16;
/// The version of the format that this version of cutpoint writes, and the newest that it reads.
pub const VERSION: u8 = 1;
/// The granularity of the length of containers, in bytes.
pub const PADDING_CONTAINER: usize = 64 * 1024;
/// The granularity of the length of all other objects, in bytes.
pub const PADDING_OTHER: usize = 256;

const MAGIC: [u8; 4] = *b"CutP";
const OFFSET_KIND: usize = 4;
const OFFSET_VERSION: usize = OFFSET_KIND + 1;
const OFFSET_SUITE: usize = OFFSET_VERSION + 1;
const OFFSET_EPOCH: usize = OFFSET_SUITE + 2;
const OFFSET_NAME: usize = OFFSET_EPOCH + 8;
const OFFSET_SALT: usize = OFFSET_NAME + 16;
const OFFSET_COMMITMENT: usize = OFFSET_SALT + SALT_LEN;
const _: () = assert!(OFFSET_COMMITMENT + 16 == HEADER_LEN, "the header's fields fill it");

/// The part number of a container's table of contents; regions count from 0.
const TOC_PART: u32 = u32::MAX;

/// The kind of a part. It is bound into the seal, so that no part can pose as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// The body of an object of one part.
    Body,
    /// A region of a container, with its number from 0.
    Region(u32),
    /// The table of contents of a container; sealed with the key of class `index`.
    Toc,
    /// The description of a `keys/` object; sealed with the key of class `config`.
    About,
}

impl PartKind {
    fn number(self) -> u32 {
        match self {
            PartKind::Body | PartKind::About => 0,
            PartKind::Region(number) => number,
            PartKind::Toc => TOC_PART,
        }
    }

    fn code(self) -> u8 {
        match self {
            PartKind::Body => 0,
            PartKind::Region(_) => 1,
            PartKind::Toc => 2,
            PartKind::About => 3,
        }
    }
}

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
            .with_source(Newer::Format(bytes[OFFSET_VERSION])));
        }
        if bytes[OFFSET_VERSION] == 0 {
            return Err(Error::corrupt(name, "format 0 does not exist"));
        }
        let header = Header {
            kind: bytes[OFFSET_KIND],
            suite: CipherSuite::from_code(bytes[OFFSET_SUITE]).map_err(|error| {
                error.of(name).with_source(Newer::CipherSuite(bytes[OFFSET_SUITE]))
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

/// The key of one object, ready for use.
pub(crate) enum Cipher {
    /// Suite 0: tags only.
    Plain(Secret),
    /// Suites 1 and 2.
    Aead(Box<LessSafeKey>),
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    pub(crate) fn new(suite: CipherSuite, key: Secret) -> Cipher {
        let algorithm = match suite {
            CipherSuite::None => return Cipher::Plain(key),
            CipherSuite::Aes256Gcm => &AES_256_GCM,
            CipherSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        match UnboundKey::new(algorithm, &key.0) {
            Ok(unbound) => Cipher::Aead(Box::new(LessSafeKey::new(unbound))),
            Err(_) => unreachable!("both algorithms take keys of 32 bytes"),
        }
    }

    /// Seals `part` in place. Returns its tag.
    pub(crate) fn seal(
        &self,
        header: &[u8; HEADER_LEN],
        kind: PartKind,
        part: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let associated = associated(header, kind);
        match self {
            Cipher::Plain(key) => plain_tag(key, &associated, part),
            Cipher::Aead(key) => {
                let mut tag = [0; TAG_LEN];
                match key.seal_in_place_separate_tag(nonce(kind), Aad::from(associated), part) {
                    Ok(sealed) => tag.copy_from_slice(sealed.as_ref()),
                    Err(_) => unreachable!("a part is far below the ciphers' limit of 64 GiB"),
                }
                tag
            }
        }
    }

    /// Opens `part` (sealed bytes and tag) in place. Returns the length of the opened bytes.
    pub(crate) fn open(
        &self,
        header: &[u8; HEADER_LEN],
        kind: PartKind,
        part: &mut [u8],
    ) -> Option<usize> {
        let len = part.len().checked_sub(TAG_LEN)?;
        let associated = associated(header, kind);
        match self {
            Cipher::Plain(key) => {
                let (body, tag) = part.split_at(len);
                // A constant-time comparison is not needed, because anyone with access to the
                // storage has this key.
                (plain_tag(key, &associated, body) == *tag).then_some(len)
            }
            Cipher::Aead(key) => {
                key.open_in_place(nonce(kind), Aad::from(associated), part).ok().map(|p| p.len())
            }
        }
    }
}

fn associated(header: &[u8; HEADER_LEN], kind: PartKind) -> [u8; HEADER_LEN + 5] {
    let mut bytes = [0; HEADER_LEN + 5];
    bytes[..HEADER_LEN].copy_from_slice(header);
    bytes[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&kind.number().to_le_bytes());
    bytes[HEADER_LEN + 4] = kind.code();
    bytes
}

fn nonce(kind: PartKind) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&kind.number().to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn plain_tag(key: &Secret, associated: &[u8], part: &[u8]) -> [u8; TAG_LEN] {
    let mut tag = [0; TAG_LEN];
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(associated).update(part).finalize_xof().fill(&mut tag);
    tag
}

/// The last 32 bytes of an object: the place of its table of contents (or its only part), and a checksum of
/// all bytes before it, which protects only against accidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The length of the sealed part, tag included, in bytes.
    pub length: u32,
    /// The offset of the sealed part from the start of the object, in bytes.
    pub offset: u64,
    /// XXH3-128 (seed 0) of everything before this field, little-endian.
    pub checksum: [u8; 16],
}

impl Trailer {
    /// Decodes the trailer at the end of `bytes`, which are the last bytes of an object of
    /// `object_len` bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the part does not lie inside the object.
    pub fn decode(name: &ObjectName, bytes: &[u8], object_len: u64) -> Result<Trailer> {
        let Some(bytes) = bytes.last_chunk::<TRAILER_LEN>() else {
            return Err(Error::corrupt(
                name,
                format!("too short for a trailer ({} bytes)", bytes.len()),
            ));
        };
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&bytes[16..]);
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut offset = [0; 8];
        offset.copy_from_slice(&bytes[8..16]);
        let offset = u64::from_le_bytes(offset);
        let end = offset.checked_add(u64::from(length));
        let room = object_len.checked_sub(TRAILER_LEN as u64);
        let inside = end.zip(room).is_some_and(|(end, room)| end <= room);
        if offset < HEADER_LEN as u64 || !inside || bytes[4..8] != [0; 4] {
            return Err(Error::corrupt(
                name,
                format!(
                    "the trailer refers to {length} bytes at {offset}; the object has {object_len}",
                ),
            ));
        }
        Ok(Trailer { length, offset, checksum })
    }
}

/// Seals the parts of one object, in place and in order. The bytes of the object are the header,
/// each sealed part, and the output of [`Sealer::finish`].
pub struct Sealer {
    name: ObjectName,
    header: [u8; HEADER_LEN],
    cipher: Cipher,
    toc_cipher: Option<Cipher>,
    checksum: Box<Xxh3>,
    len: usize,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Begins the object `name`. `salt` must be fresh.
    pub fn new(keys: &Keys, name: ObjectName, salt: [u8; SALT_LEN]) -> Sealer {
        let epoch = keys.epoch();
        let mut header = Header {
            kind: name.kind().code(),
            suite: keys.suite(),
            epoch,
            name: name.header_bytes(),
            salt,
            commitment: [0; 16],
        };
        let class_key = |class| match keys.class_key(epoch, class) {
            Some(key) => key,
            None => unreachable!("the newest epoch has every key"),
        };
        let (key, commitment) =
            object_key(class_key(KeyClass::of(name.kind())), &header.encode(), &[]);
        header.commitment = commitment;
        let header = header.encode();
        let toc_cipher = matches!(name, ObjectName::Container(..)).then(|| {
            let (key, _) = object_key(class_key(KeyClass::Index), &header, &[]);
            Cipher::new(keys.suite(), key)
        });
        let mut checksum = Box::new(Xxh3::new());
        checksum.update(&header);
        Sealer {
            name,
            header,
            cipher: Cipher::new(keys.suite(), key),
            toc_cipher,
            checksum,
            len: HEADER_LEN,
        }
    }

    /// Returns the name of the object.
    pub fn name(&self) -> ObjectName {
        self.name
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `false`, because there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the header, which is the beginning of the object.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        self.header
    }

    /// Seals `part`, the next part, and appends its tag. Returns the part's offset in the object.
    pub fn seal(&mut self, kind: PartKind, part: &mut Vec<u8>) -> u64 {
        let offset = self.len;
        let cipher = match (kind, &self.toc_cipher) {
            (PartKind::Toc, Some(cipher)) => cipher,
            _ => &self.cipher,
        };
        let tag = cipher.seal(&self.header, kind, part);
        part.extend_from_slice(&tag);
        // The part is still in the cache at this point.
        self.checksum.update(part);
        self.len += part.len();
        offset as u64
    }

    /// Seals the last part, and appends padding and the trailer.
    pub fn finish(mut self, kind: PartKind, part: &mut Vec<u8>) {
        let offset = self.seal(kind, part);
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let tail = part.len();
        push_tail(part, self.name, self.len, offset, length);
        self.checksum.update(&part[tail..]);
        let checksum = self.checksum.digest128();
        part.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// Appends the bytes between the last part of the object `name`, which ends at `end`, and the
/// checksum: padding, and the length and the offset of that part.
fn push_tail(bytes: &mut Vec<u8>, name: ObjectName, end: usize, offset: u64, length: u32) {
    let padding = match name {
        ObjectName::Container(..) => PADDING_CONTAINER,
        _ => PADDING_OTHER,
    };
    let padded = (end + TRAILER_LEN).next_multiple_of(padding);
    bytes.resize(bytes.len() + padded - TRAILER_LEN - end, 0);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&offset.to_le_bytes());
}

/// Returns an object with restored padding and trailer. `bytes` begin with its header and all
/// sealed parts, the last of which is `length` bytes at `offset`. Any bytes behind that part are
/// ignored.
pub(crate) fn with_tail_replaced(
    name: ObjectName,
    bytes: &[u8],
    offset: u64,
    length: u32,
) -> Option<Bytes> {
    let end = usize::try_from(offset.checked_add(u64::from(length))?).ok()?;
    let mut anew = bytes.get(..end)?.to_vec();
    push_tail(&mut anew, name, end, offset, length);
    let checksum = xxh3_128(&anew);
    anew.extend_from_slice(&checksum.to_le_bytes());
    Some(Bytes::from(anew))
}

/// Maximum number of lengths of the part that are tried if the trailer does not tell the length.
const LENGTHS_MAX: usize = 4 * PADDING_OTHER;
/// Maximum number of bytes that are decrypted for these attempts, which limits the lengths that are
/// tried for a longer object.
const TRIED_BYTES_MAX: usize = 1 << 32;

/// Returns the original bytes of an object of one part whose header and part are undamaged, because
/// padding and trailer follow from these. If the trailer is damaged, the length of the part is
/// found by trying. Returns `None` if the part does not open.
pub(crate) fn object_as_put(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Option<Bytes> {
    let opener = Opener::new(keys, name, bytes).ok()?;
    let opens = |length: usize| {
        let mut part = bytes.get(HEADER_LEN..HEADER_LEN.checked_add(length)?)?.to_vec();
        opener.open(PartKind::Body, &mut part).ok()?;
        with_tail_replaced(name, bytes, HEADER_LEN as u64, u32::try_from(length).ok()?)
    };
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok();
    let said = trailer.and_then(|trailer| opens(usize::try_from(trailer.length).ok()?));
    let room = bytes.len().saturating_sub(HEADER_LEN);
    // If the trailer is damaged but not cut off, the number of possible lengths is limited by the
    // padding.
    let count = (TRIED_BYTES_MAX / room.max(1)).clamp(PADDING_OTHER + TRAILER_LEN, LENGTHS_MAX);
    said.or_else(|| (TAG_LEN..=room).rev().take(count).find_map(opens))
}

/// Opens the parts of one object.
#[derive(Debug)]
pub struct Opener {
    name: ObjectName,
    header: [u8; HEADER_LEN],
    cipher: Cipher,
    toc_cipher: Option<Cipher>,
}

impl Opener {
    /// Creates an opener from the header of the object that was requested as `name`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Header::decode`]. Returns `WrongKey` if the object claims a newer
    /// epoch, or if settings were sealed with a key that is not among `keys` (that of another
    /// repository). Returns `Corrupt` if any other object was sealed with such a key, or if an
    /// object is sealed with another cipher suite.
    pub fn new(keys: &Keys, name: ObjectName, header: &[u8]) -> Result<Opener> {
        let decoded = Header::decode(&name, header)?;
        let mut bytes = [0; HEADER_LEN];
        bytes.copy_from_slice(&header[..HEADER_LEN]);
        // Both ciphers are accepted everywhere, but no unencrypted object is accepted in an
        // encrypted repository.
        if (decoded.suite == CipherSuite::None) != (keys.suite() == CipherSuite::None) {
            return Err(Error::corrupt(
                name,
                format!("sealed with {}, but this repository uses {}", decoded.suite, keys.suite()),
            ));
        }
        // Settings decide whether keys fit. If the keys have opened the settings, any other object
        // that does not fit is damaged.
        let misfit = match name.kind() {
            ObjectKind::Config | ObjectKind::Key => Kind::WrongKey,
            _ => Kind::Corrupt,
        };
        let class_key = |class| {
            keys.class_key(decoded.epoch, class).ok_or_else(|| {
                let error = Error::new(
                    if decoded.epoch > keys.epoch() { Kind::WrongKey } else { misfit },
                    name,
                    format!(
                        "sealed with a key of epoch {}, but the available keys go up to epoch {}",
                        decoded.epoch,
                        keys.epoch()
                    ),
                );
                if decoded.epoch > keys.epoch() {
                    error.with_source(Newer::Epoch(decoded.epoch))
                } else {
                    error
                }
            })
        };
        let (key, commitment) = object_key(class_key(KeyClass::of(name.kind()))?, &bytes, &[]);
        if commitment != decoded.commitment {
            return Err(Error::new(
                misfit,
                name,
                "sealed with another key, or its header is damaged: it belongs to another \
                 repository, or was not written by cutpoint",
            ));
        }
        let toc_cipher = if matches!(name, ObjectName::Container(..)) {
            let (key, _) = object_key(class_key(KeyClass::Index)?, &bytes, &[]);
            Some(Cipher::new(decoded.suite, key))
        } else {
            None
        };
        Ok(Opener { name, header: bytes, cipher: Cipher::new(decoded.suite, key), toc_cipher })
    }

    /// Opens one part, given with its tag. `part` then holds the opened bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if a byte of the part or of the header has changed, or the part is
    /// in another place.
    pub fn open(&self, kind: PartKind, part: &mut Vec<u8>) -> Result<()> {
        let cipher = match (kind, &self.toc_cipher) {
            (PartKind::Toc, Some(cipher)) => cipher,
            _ => &self.cipher,
        };
        match cipher.open(&self.header, kind, part) {
            Some(len) => {
                part.truncate(len);
                Ok(())
            }
            None => {
                let part = match kind {
                    PartKind::Body => "body".to_owned(),
                    PartKind::Region(number) => format!("region {number}"),
                    PartKind::Toc => "table of contents".to_owned(),
                    PartKind::About => "description".to_owned(),
                };
                Err(Error::corrupt(self.name, format!("{part}: authentication failed")))
            }
        }
    }
}

/// Seals an object of one part.
pub fn seal_object(keys: &Keys, name: ObjectName, salt: [u8; SALT_LEN], body: &[u8]) -> Bytes {
    let room = (body.len() + HEADER_LEN + TAG_LEN + TRAILER_LEN).next_multiple_of(PADDING_OTHER);
    let sealer = Sealer::new(keys, name, salt);
    let header = sealer.header();
    let mut part = Vec::with_capacity(room);
    part.extend_from_slice(body);
    sealer.finish(PartKind::Body, &mut part);
    part.splice(0..0, header);
    Bytes::from(part)
}

/// Opens an object of one part. Returns its body.
///
/// # Errors
///
/// Returns any error of [`Opener::new`], of [`Trailer::decode`] and of [`Opener::open`].
pub fn open_object(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<Vec<u8>> {
    let opener = Opener::new(keys, name, bytes)?;
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
    let start = usize::try_from(trailer.offset).unwrap_or(usize::MAX);
    let mut body = bytes[start..start + trailer.length as usize].to_vec();
    opener.open(PartKind::Body, &mut body)?;
    Ok(body)
}

/// Returns `true` if the checksum in the trailer matches all bytes before it. This detects
/// accidental damage anywhere in the object, padding included, without a key.
pub fn object_is_intact(bytes: &[u8]) -> bool {
    let Some((body, checksum)) = bytes.split_last_chunk::<16>() else {
        return false;
    };
    bytes.len() >= HEADER_LEN + TRAILER_LEN && xxh3_128(body).to_le_bytes() == *checksum
}
