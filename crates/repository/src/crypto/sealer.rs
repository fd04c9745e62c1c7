//! Sealing: from the parts of an object to its bytes.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::cipher::{Cipher, PartKind, TAG_LEN};
use super::header::{Header, SALT_LEN, object_key};
use super::keys::{KeyClass, Keys};
use super::trailer::{PADDING_OTHER, TRAILER_LEN, push_tail};
use crate::format::HEADER_LEN;
use crate::format::names::ObjectName;

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
    ///
    /// # Panics
    ///
    /// Panics if the part has 4 GiB or more. The maximum length of an object is 160 MiB.
    pub fn finish(mut self, kind: PartKind, part: &mut Vec<u8>) {
        let offset = self.seal(kind, part);
        let length = u32::try_from(part.len());
        let length = length.expect("bounded by the maximum length of an object");
        let tail = part.len();
        push_tail(part, self.name, self.len, offset, length);
        self.checksum.update(&part[tail..]);
        let checksum = self.checksum.digest128();
        part.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// Seals an object of one part.
///
/// # Panics
///
/// Panics if the body has 4 GiB or more. The maximum length of an object is 160 MiB.
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
