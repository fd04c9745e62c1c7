//! The segments of the previous version of a file, and which of them a new version has as well.
//!
//! The end of a chunk is a function of the bytes from its start on, of which the chunker looks at a
//! bounded number. So if the previous version has a cut-point at the place where a new chunk
//! begins, and none of the bytes that the chunker would look at has changed, the new chunk is the
//! old one. This is the argument of `cutpoint_chunking::Ranges`.

use std::collections::VecDeque;

use cutpoint_chunking::Chunker;
use cutpoint_repository::Reader;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::Segments;
use cutpoint_repository::{Content, Fingerprint};
use cutpoint_storage::{Error, Result};

use super::changed_blocks::ChangedBlocks;

/// The previous version of a file, from a position on.
pub(super) struct BaseSegments<'a> {
    segments: Segments<'a>,
    /// The next segments with their offsets, none of which ends before the position.
    ahead: VecDeque<(u64, Segment)>,
    /// The offset of the segment after these.
    end: u64,
    changed: &'a ChangedBlocks,
    /// The number of bytes from the start of a chunk that decide its end.
    needed_len: u64,
    /// The length of a chunk of zeros.
    zeros_len: u64,
}

/// A part of the previous version that the new version has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SamePart {
    /// A chunk of this length.
    Chunk(Fingerprint, u64),
    /// Zeros of this length.
    Zeros(u64),
}

impl SamePart {
    pub(super) fn len(self) -> u64 {
        match self {
            SamePart::Chunk(_, len) | SamePart::Zeros(len) => len,
        }
    }

    pub(super) fn segment(self) -> Segment {
        match self {
            SamePart::Chunk(fingerprint, length) => {
                Segment::Chunk { fingerprint, offset: 0, length }
            }
            SamePart::Zeros(length) => Segment::Zeros { length },
        }
    }
}

impl<'a> BaseSegments<'a> {
    /// Begins at the start of the previous version, which has the content `content`. Returns `None`
    /// if the cut-points are not limited to a number of bytes.
    pub(super) fn new(
        reader: &'a Reader,
        content: &Content,
        chunker: &dyn Chunker,
        changed: &'a ChangedBlocks,
    ) -> Option<BaseSegments<'a>> {
        let needed_len = chunker.needed_size_max()?;
        let zeros_len = chunker.next_cut(&vec![0; needed_len], true)? as u64;
        Some(BaseSegments {
            segments: reader.segments(content),
            ahead: VecDeque::new(),
            end: 0,
            changed,
            needed_len: needed_len as u64,
            zeros_len,
        })
    }

    /// Reads segments until they cover everything before `offset`, or end.
    fn fill(&mut self, offset: u64) -> Result<()> {
        while self.end < offset {
            let Some(segment) = self.segments.next().transpose()? else { return Ok(()) };
            self.ahead.push_back((self.end, segment));
            let end = self.end.checked_add(segment.length());
            self.end = end.ok_or_else(|| Error::corrupt("recipe", "longer than any file"))?;
        }
        Ok(())
    }

    /// Returns the part that begins at `offset` in both versions, and is the same; `None` if the
    /// new version has to be cut there. Offsets must ascend from call to call. The stream that the
    /// chunker sees ends at `stream_end`: the end of the file, or the next hole.
    ///
    /// # Errors
    ///
    /// Returns an error if the recipe cannot be read.
    pub(super) fn same_part(&mut self, offset: u64, stream_end: u64) -> Result<Option<SamePart>> {
        while let Some((start, segment)) = self.ahead.front()
            && start + segment.length() <= offset
        {
            self.ahead.pop_front();
        }
        self.fill(offset.saturating_add(1))?;
        while let Some((start, segment)) = self.ahead.front()
            && start + segment.length() <= offset
        {
            self.ahead.pop_front();
        }
        let Some(&(start, segment)) = self.ahead.front() else { return Ok(None) };
        match segment {
            Segment::Chunk { fingerprint, offset: 0, length } if start == offset => {
                let same = self.is_same_up_to(offset, length, stream_end)?;
                Ok(same.then_some(SamePart::Chunk(fingerprint, length)))
            }
            Segment::Zeros { length } => self.same_zeros(start, length, offset, stream_end),
            Segment::Chunk { .. } | Segment::Hole { .. } => Ok(None),
        }
    }

    /// Returns `true` if the chunks that cover `len` bytes from `offset` on are those of the
    /// previous version: no byte that decides about them has changed, and both streams end at the
    /// same place, or behind.
    fn is_same_up_to(&mut self, offset: u64, len: u64, stream_end: u64) -> Result<bool> {
        // The last of the chunks begins before this, so that the chunker looks at no more.
        let looked_at = offset.saturating_add(len).saturating_add(self.needed_len);
        let end = looked_at.min(stream_end);
        if offset.saturating_add(len) > stream_end
            || self.changed.next(offset).is_some_and(|changed| changed < end)
        {
            return Ok(false);
        }
        self.fill(looked_at)?;
        let is_hole = |segment: &Segment| matches!(segment, Segment::Hole { .. });
        let hole = self.ahead.iter().find(|(start, segment)| *start >= offset && is_hole(segment));
        let base_end = hole.map_or(self.end, |(start, _)| *start);
        Ok(base_end == stream_end || (base_end >= looked_at && stream_end >= looked_at))
    }

    /// Returns the zeros that begin at `offset`, which is at or behind the beginning of `length`
    /// zeros at `start`. Adjacent chunks of zeros are one segment, but their lengths are known,
    /// except near the end.
    fn same_zeros(
        &mut self,
        start: u64,
        length: u64,
        offset: u64,
        stream_end: u64,
    ) -> Result<Option<SamePart>> {
        let end = start.saturating_add(length);
        let past = offset - start;
        let is_cut_point = past.is_multiple_of(self.zeros_len)
            && (past == 0 || offset - self.zeros_len + self.needed_len <= end);
        if is_cut_point && self.is_same_up_to(offset, end - offset, stream_end)? {
            return Ok(Some(SamePart::Zeros(end - offset)));
        }
        // The chunks whose end is decided by zeros that have not changed, wherever those of the
        // previous version begin.
        let changed = self.changed.next(offset).unwrap_or(u64::MAX);
        let decided = end.min(changed).min(stream_end).saturating_sub(offset);
        let count = match decided.checked_sub(self.needed_len) {
            Some(rest) => rest / self.zeros_len + 1,
            None => return Ok(None),
        };
        Ok(Some(SamePart::Zeros(count * self.zeros_len)))
    }
}
