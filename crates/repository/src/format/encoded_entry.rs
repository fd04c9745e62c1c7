//! Encoded entries of a tree, for callers that decode only some of them.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use super::map::malformed;
use super::tree::{Entry, EntryKind};

/// An entry of a tree that is not decoded. Only its length, its name and its kind are known to be
/// well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedEntry<'a> {
    /// The name, which [`EncodedEntry::decode`] checks.
    pub name: &'a [u8],
    /// The kind.
    pub kind: EntryKind,
    /// The complete entry.
    pub bytes: &'a [u8],
}

impl<'a> EncodedEntry<'a> {
    /// Splits a chunk of a tree, or its rest, into its first entry and the bytes behind it.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if there is no complete entry, or if it does not begin with a name and a
    /// kind.
    pub fn split_first(chunk: &'a [u8]) -> Result<(EncodedEntry<'a>, &'a [u8])> {
        let (bytes, rest) = item_len(chunk)
            .and_then(|len| chunk.split_at_checked(len))
            .ok_or_else(|| Error::corrupt("tree", "malformed metadata: truncated entry"))?;
        let (name, kind) = name_and_kind(bytes).map_err(|error| error.of("tree"))?;
        Ok((EncodedEntry { name, kind, bytes }, rest))
    }

    /// Decodes the entry.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Entry::decode`].
    pub fn decode(&self) -> Result<Entry> {
        Entry::decode(&mut Decoder::new(self.bytes)).map_err(|error| error.of("tree"))
    }
}

/// Returns the name and the kind in an encoded entry: the values of the two lowest keys, which come
/// first.
fn name_and_kind(entry: &[u8]) -> Result<(&[u8], EntryKind)> {
    let d = &mut Decoder::new(entry);
    let count = d.map().map_err(malformed)?.unwrap_or_default();
    let expect_key = |d: &mut Decoder<'_>, key| match d.u32().map_err(malformed)? {
        found if found == key => Ok(()),
        _ => Err(Error::corrupt("", "malformed metadata: tree entry without a name and a kind")),
    };
    if count < 2 {
        return Err(Error::corrupt("", "malformed metadata: tree entry of fewer than two fields"));
    }
    expect_key(d, 0)?;
    let name = d.bytes().map_err(malformed)?;
    expect_key(d, 1)?;
    let kind = EntryKind::from_code(d.u64().map_err(malformed)?)?;
    Ok((name, kind))
}

/// Returns the length of the CBOR item at the beginning of `bytes`; `None` if it is truncated or
/// has no definite length. The contents of the item are not checked.
fn item_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    // Each pass takes at least one byte, whatever count an item claims.
    let mut pending_count = 1_u64;
    while pending_count > 0 {
        let head = *bytes.get(at)?;
        at += 1;
        let argument = match head & 0x1f {
            short @ ..24 => u64::from(short),
            width @ 24..=27 => {
                let width = 1 << (width - 24);
                let argument = bytes.get(at..at + width)?;
                at += width;
                argument.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
            }
            _ => return None,
        };
        pending_count -= 1;
        match head >> 5 {
            // Byte strings and texts.
            2 | 3 => {
                at = at.checked_add(usize::try_from(argument).ok()?)?;
                // A later item cannot bring the position back.
                bytes.get(..at)?;
            }
            // Arrays, maps and tags.
            4 => pending_count = pending_count.checked_add(argument)?,
            5 => pending_count = pending_count.checked_add(argument.checked_mul(2)?)?,
            6 => pending_count = pending_count.checked_add(1)?,
            _ => {}
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fingerprint::Fingerprint;
    use crate::format::recipe::{Content, Segment};
    use crate::format::tree::Time;

    /// Returns entries with every field, and with lengths of all widths.
    fn entries() -> Vec<Entry> {
        let mut full = Entry::new("b", EntryKind::File);
        full.mode = 0o644;
        full.user = "someone".to_owned();
        full.mtime = Time { seconds: -5, nanoseconds: 999_999_999 };
        full.inode = u64::MAX;
        full.size = 1 << 40;
        let fingerprint = Fingerprint([7; 32]);
        let segment = Segment::Chunk { fingerprint, offset: 3, length: 1 << 40 };
        full.content = Content::Segments(vec![segment; 4]);
        full.xattrs = vec![(b"user.a".to_vec(), vec![1; 70_000]), (b"user.b".to_vec(), Vec::new())];
        // An array that holds a text and a map.
        let nested = vec![0x82, 0x61, b'x', 0xa1, 0x01, 0x18, 0x20];
        full.extra = vec![(200, nested)];
        vec![Entry::new("a", EntryKind::Fifo), full, Entry::new("c".repeat(300), EntryKind::Folder)]
    }

    fn encoded(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode_into(&mut bytes));
        bytes
    }

    #[test]
    fn chunk_is_split_into_its_entries() {
        let entries = entries();
        let chunk = encoded(&entries);
        let mut rest = chunk.as_slice();
        for entry in &entries {
            let (first, behind) = EncodedEntry::split_first(rest).expect("an entry");
            assert_eq!(first.name, entry.name, "name");
            assert_eq!(first.kind, entry.kind, "kind");
            assert_eq!(first.bytes, encoded(std::slice::from_ref(entry)), "bytes");
            assert_eq!(first.decode().expect("decoded"), *entry, "entry");
            rest = behind;
        }
        assert!(rest.is_empty(), "{} bytes more", rest.len());
    }

    #[test]
    fn malformed_entries_are_refused() {
        let whole = encoded(&entries()[1..2]);
        for len in 0..200 {
            assert!(EncodedEntry::split_first(&whole[..len]).is_err(), "{len} bytes");
        }
        for bytes in [
            &[0xa0][..],
            &[0xa1, 0x01, 0x41, b'x'],
            &[0xa1, 0x00, 0x41, b'x'],
            &[0xa2, 0x00, 0x41, b'x', 0x02, 0x00],
            &[0xa2, 0x00, 0x41, b'x', 0x01, 0x18, 0xff],
            &[0xa1, 0x00, 0x61, b'x'],
            &[0xbf, 0x00, 0x41, b'x', 0xff],
            &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00],
        ] {
            assert!(EncodedEntry::split_first(bytes).is_err(), "{bytes:x?}");
        }
    }
}
