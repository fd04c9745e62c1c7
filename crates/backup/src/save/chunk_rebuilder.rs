//! Damaged chunks that are rebuilt from the files that had them.
//!
//! A file that has not changed is cut into the same chunks again, which replaces those that are
//! damaged. This does not hold for a chunk that several small files share, if a file was added
//! between them, or for the last chunk of a file that has grown. Older snapshots need such a chunk
//! all the same. The bytes that are read at the places of its parts in the previous versions become
//! the chunk again, if they have its fingerprint.

use std::collections::VecDeque;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::toc::REGION_RAW_LEN_MAX;
use cutpoint_repository::write::Deduplicator;
use cutpoint_repository::{Class, Fingerprint, Keys};
use cutpoint_storage::Result;

/// The maximum number of damaged parts of one file. Larger files consist of chunks of their own,
/// nearly all of which are found again by cutting.
const PARTS_MAX: usize = 1 << 16;

/// A part of a damaged chunk in the previous version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedPart {
    pub(super) fingerprint: Fingerprint,
    /// The offset of the part in the chunk.
    pub(super) offset: u64,
    /// The offset of the part in the file.
    pub(super) file_offset: u64,
    pub(super) length: u64,
}

/// The damaged parts of the previous version of the current file, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct DamagedParts(VecDeque<DamagedPart>);

impl DamagedParts {
    /// Returns the parts of the chunks for which `is_damaged` returns `true`. `segments` is the
    /// content of the previous version, up to the first segment that cannot be read.
    pub(super) fn of(
        segments: impl Iterator<Item = Segment>,
        is_damaged: impl Fn(&Fingerprint) -> bool,
    ) -> DamagedParts {
        let mut file_offset = 0_u64;
        let parts = segments.filter_map(|segment| {
            let at = file_offset;
            file_offset = file_offset.saturating_add(segment.length());
            match segment {
                Segment::Chunk { fingerprint, offset, length } if is_damaged(&fingerprint) => {
                    Some(DamagedPart { fingerprint, offset, file_offset: at, length })
                }
                _ => None,
            }
        });
        DamagedParts(parts.take(PARTS_MAX).collect())
    }

    /// Returns the next part, or piece of a part, that lies in the `length` bytes of the file from
    /// `file_offset` on. Forgets what lies before. The ranges of successive calls ascend.
    pub(super) fn next_within(&mut self, file_offset: u64, length: u64) -> Option<DamagedPart> {
        let end = file_offset.saturating_add(length);
        loop {
            let first = self.0.front_mut()?;
            let skipped = file_offset.saturating_sub(first.file_offset);
            if first.length <= skipped {
                self.0.pop_front();
                continue;
            }
            if first.file_offset >= end {
                return None;
            }
            first.offset = first.offset.saturating_add(skipped);
            first.file_offset += skipped;
            first.length -= skipped;
            let piece = DamagedPart { length: first.length.min(end - first.file_offset), ..*first };
            first.offset = first.offset.saturating_add(piece.length);
            first.file_offset += piece.length;
            first.length -= piece.length;
            return Some(piece);
        }
    }
}

/// Gathers the parts of one damaged chunk after the other.
#[derive(Debug, Default)]
pub(super) struct ChunkRebuilder {
    fingerprint: Option<Fingerprint>,
    /// The bytes from the beginning of the chunk on.
    bytes: Vec<u8>,
}

impl ChunkRebuilder {
    /// Adds bytes that the chunk `fingerprint` had at `offset`. The parts of a chunk come one after
    /// the other, because its files do; after a gap, the rest of the chunk is ignored.
    ///
    /// # Errors
    ///
    /// Returns any error of [`ChunkRebuilder::finish`], for the chunk before.
    pub(super) fn add(
        &mut self,
        fingerprint: Fingerprint,
        offset: u64,
        bytes: &[u8],
        (keys, dedup): (&Keys, &mut Deduplicator),
    ) -> Result<()> {
        if self.fingerprint != Some(fingerprint) || offset == 0 {
            self.finish(keys, dedup)?;
            self.fingerprint = Some(fingerprint);
        }
        let len = self.bytes.len() as u64;
        // No chunk is longer than a region.
        if offset == len && len + bytes.len() as u64 <= u64::from(REGION_RAW_LEN_MAX) {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Stores the chunk if it is complete, and not stored yet.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Deduplicator::store`].
    pub(super) fn finish(&mut self, keys: &Keys, dedup: &mut Deduplicator) -> Result<()> {
        let Some(fingerprint) = self.fingerprint.take() else { return Ok(()) };
        if keys.fingerprint(Class::Data, &self.bytes) == fingerprint {
            dedup.store(Class::Data, fingerprint, &self.bytes)?;
        }
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(byte: u8, offset: u64, length: u64) -> Segment {
        Segment::Chunk { fingerprint: Fingerprint([byte; 32]), offset, length }
    }

    #[test]
    fn damaged_parts_are_found_in_ranges_of_the_file() {
        let segments = [
            chunk(1, 0, 10),
            Segment::Hole { length: 5 },
            chunk(2, 100, 20),
            chunk(1, 0, 10),
            chunk(2, 0, 7),
        ];
        let is_damaged = |fingerprint: &Fingerprint| fingerprint.0[0] == 2;
        let mut parts = DamagedParts::of(segments.into_iter(), is_damaged);
        let mut found = Vec::new();
        // The ranges skip the first 3 bytes of the first part, and the end of the second one.
        for (file_offset, length) in [(0, 12), (18, 4), (22, 20), (42, 9), (51, 0)] {
            while let Some(part) = parts.next_within(file_offset, length) {
                found.push((part.offset, part.file_offset, part.length));
            }
        }
        assert_eq!(found, [(103, 18, 4), (107, 22, 13), (0, 45, 6)]);
        assert_eq!(parts.next_within(52, 100), None, "the last byte was skipped");
        let mut none = DamagedParts::of(segments.into_iter(), |_| false);
        assert_eq!(none.next_within(0, u64::MAX), None, "nothing is damaged");
    }
}
