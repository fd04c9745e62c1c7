//! Opening: from the bytes of an object to its parts.

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::cipher::{Cipher, PartKind};
use super::header::{Header, object_key};
use super::keys::{KeyClass, Keys};
use super::trailer::Trailer;
use crate::format::HEADER_LEN;
use crate::format::names::ObjectName;
use crate::format::newer::NewerClaim;
use crate::format::suite::CipherSuite;

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
                    error.with_source(NewerClaim::Epoch(decoded.epoch))
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
