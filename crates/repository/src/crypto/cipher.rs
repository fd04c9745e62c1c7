//! The cipher of one object, which seals and opens its parts.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::keys::Secret;
use crate::format::HEADER_LEN;
use crate::format::suite::CipherSuite;

/// The length that sealing adds to a part, in bytes.
pub const TAG_LEN: usize = 16;

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
