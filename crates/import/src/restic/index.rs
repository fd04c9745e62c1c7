//! The index: from the identifier of a blob to its places in packs.

use cutpoint_storage::{Error, Result};
use serde::Deserialize;

use super::cipher::OVERHEAD_LEN;
use super::json::{Id, decode};

/// The number of bytes of an identifier that the index keeps. The bytes of a blob are compared with
/// the whole identifier when they are read.
const PREFIX_LEN: usize = 16;

/// An index object.
#[derive(Deserialize)]
struct IndexFile {
    #[serde(default)]
    packs: Vec<Pack>,
}

#[derive(Deserialize)]
struct Pack {
    id: Id,
    blobs: Vec<Blob>,
}

#[derive(Deserialize)]
struct Blob {
    id: Id,
    offset: u32,
    length: u32,
    #[serde(default)]
    uncompressed_length: u32,
}

/// The place of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the pack.
    pub(super) pack: u32,
    pub(super) offset: u32,
    /// The length in the pack.
    pub(super) len: u32,
    /// The length after decompression; 0 if the blob is not compressed.
    raw_len: u32,
}

impl Place {
    /// The length of the blob.
    pub(super) fn size(&self) -> u64 {
        match self.raw_len {
            0 => u64::from(self.len).saturating_sub(OVERHEAD_LEN as u64),
            len => u64::from(len),
        }
    }

    /// Returns `true` if the blob is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.raw_len != 0
    }

    /// The offset of the first byte behind the blob.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// The places of all blobs.
#[derive(Debug, Default)]
pub(super) struct BlobIndex {
    packs: Vec<Id>,
    /// Sorted once the index is complete. A blob that several packs have is there several times.
    blobs: Vec<([u8; PREFIX_LEN], Place)>,
}

impl BlobIndex {
    /// Adds the blobs of an index object.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the object is malformed.
    pub(super) fn add(&mut self, text: &[u8]) -> Result<()> {
        let file: IndexFile = decode(text)?;
        for pack in file.packs {
            let number = u32::try_from(self.packs.len())
                .map_err(|_| Error::corrupt("", "more packs than there can be"))?;
            self.packs.push(pack.id);
            for Blob { id, offset, length, uncompressed_length: raw_len } in pack.blobs {
                let place = Place { pack: number, offset, len: length, raw_len };
                self.blobs.push((prefix(&id), place));
            }
        }
        Ok(())
    }

    /// Completes the index.
    pub(super) fn finish(&mut self) {
        self.blobs.sort_unstable_by_key(|(id, place)| (*id, place.pack, place.offset));
        self.blobs.dedup();
        self.blobs.shrink_to_fit();
    }

    /// Returns the places of a blob.
    pub(super) fn find(&self, id: &Id) -> impl Iterator<Item = Place> + '_ {
        let prefix = prefix(id);
        let first = self.blobs.partition_point(|(each, _)| *each < prefix);
        let found = self.blobs[first..].iter().take_while(move |(each, _)| *each == prefix);
        found.map(|(_, place)| *place)
    }

    /// Returns the identifier of the pack with a number.
    pub(super) fn pack(&self, number: u32) -> Option<Id> {
        self.packs.get(usize::try_from(number).ok()?).copied()
    }
}

fn prefix(id: &Id) -> [u8; PREFIX_LEN] {
    let mut prefix = [0; PREFIX_LEN];
    prefix.copy_from_slice(&id.0[..PREFIX_LEN]);
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_of_several_packs_are_found_in_each() {
        let id = |digit: &str| digit.repeat(64);
        let text = format!(
            r#"{{"supersedes":[],"packs":[
                {{"id":"{0}","blobs":[{{"id":"{2}","type":"data","offset":0,"length":132}},
                    {{"id":"{3}","type":"tree","offset":132,"length":50,"uncompressed_length":99}}]}},
                {{"id":"{1}","blobs":[{{"id":"{2}","type":"data","offset":7,"length":132}}]}}]}}"#,
            id("a"),
            id("b"),
            id("1"),
            id("2"),
        );
        let mut index = BlobIndex::default();
        index.add(text.as_bytes()).expect("a valid index");
        index.finish();
        let find =
            |digit: &str| index.find(&Id::parse(&id(digit)).expect("digits")).collect::<Vec<_>>();
        let places: Vec<_> = find("1").iter().map(|it| (it.pack, it.offset, it.size())).collect();
        assert_eq!(places, [(0, 0, 100), (1, 7, 100)]);
        let place = find("2")[0];
        assert_eq!((place.size(), place.is_compressed(), place.end()), (99, true, 182));
        assert_eq!(find("3"), [], "an unknown blob");
        assert_eq!(index.pack(1).map(|id| id.to_string()), Some(id("b")));
        assert_eq!(index.pack(2), None);
    }

    #[test]
    fn malformed_index_is_refused() {
        for text in ["", "{", r#"{"packs":[{"id":"1","blobs":[]}]}"#, r#"{"packs":7}"#] {
            BlobIndex::default().add(text.as_bytes()).expect_err(text);
        }
    }
}
