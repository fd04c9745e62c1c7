//! The superblock: what never changes after the creation of a volume.

use super::cursor::Cursor;
use super::{VERSION, VolumeId};
use crate::error::{Error, Kind, Result};
use crate::rules;

/// The length of a superblock in bytes.
pub(crate) const SUPERBLOCK_SIZE: usize = 128;

const MAGIC: &[u8; 8] = b"CutpVol\0";
/// The cipher suite of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Payloads are in the clear.
    Clear,
    /// Payloads are sealed with AES-256-GCM, and the secret is in the files of keys.
    Aes256Gcm,
}

impl Suite {
    pub(crate) fn is_encrypted(self) -> bool {
        self != Suite::Clear
    }

    fn of_code(code: u8) -> Option<Suite> {
        [Suite::Clear, Suite::Aes256Gcm].into_iter().find(|suite| *suite as u8 == code)
    }
}

/// The sizes of blocks that a volume may have, as powers of two.
pub(crate) const BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 12..=16;
/// The sizes of segments that a volume may have, in bytes.
pub(crate) const SEGMENT_SIZES: std::ops::RangeInclusive<u32> = 64 * 1024..=1024 * 1024 * 1024;

/// The values of a superblock.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) suite: Suite,
    pub(crate) id: VolumeId,
    /// The secret of a volume that is not encrypted; zeros otherwise.
    pub(crate) secret: [u8; 32],
    pub(crate) block_shift: u8,
    /// The length from which on a segment gets no further record.
    pub(crate) segment_size: u32,
}

impl std::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Superblock").field("block_shift", &self.block_shift).finish_non_exhaustive()
    }
}

impl Superblock {
    /// Returns the bytes of the superblock.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPERBLOCK_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.suite as u8, self.block_shift]);
        bytes.extend_from_slice(&self.segment_size.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.secret);
        bytes.resize(96, 0);
        let checksum = blake3::hash(&bytes);
        bytes.extend_from_slice(checksum.as_bytes());
        bytes
    }

    /// Decodes the superblock of the file `name`.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Corrupt`] if the bytes are no superblock, and with [`Kind::Unsupported`]
    /// if a newer version has written it.
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Superblock> {
        let corrupt = |problem: &str| Error::new(Kind::Corrupt, name, problem);
        let (body, checksum) = bytes
            .split_at_checked(96)
            .filter(|_| bytes.len() == SUPERBLOCK_SIZE)
            .ok_or_else(|| corrupt(&format!("has {} bytes, expected 128", bytes.len())))?;
        if !rules::is_authentic(*blake3::hash(body).as_bytes() == *checksum) {
            return Err(corrupt("the checksum does not match"));
        }
        let mut rest = Cursor(body);
        if rest.array() != Some(*MAGIC) {
            return Err(corrupt("is no superblock of a volume"));
        }
        let version = rest.u16().unwrap_or_default();
        let code = rest.u8().unwrap_or_default();
        let Some(suite) = Suite::of_code(code).filter(|_| version == VERSION) else {
            let problem =
                format!("version {version}, cipher suite {code} (expected 1, and 0 or 1)");
            return Err(Error::new(Kind::Unsupported, name, problem));
        };
        Superblock::fields(suite, rest).ok_or_else(|| corrupt("a field is out of range"))
    }

    /// Decodes what stands behind the cipher suite.
    fn fields(suite: Suite, mut rest: Cursor<'_>) -> Option<Superblock> {
        let block_shift = rest.u8().filter(|shift| BLOCK_SHIFTS.contains(shift))?;
        let segment_size = rest.u32().filter(|size| SEGMENT_SIZES.contains(size))?;
        let (id, secret) = (rest.array()?, rest.array()?);
        rest.zeros(32)?;
        // An encrypted volume has no secret here.
        let is_right = !suite.is_encrypted() || secret == [0; 32];
        is_right.then_some(Superblock { suite, id, secret, block_shift, segment_size })
    }
}
