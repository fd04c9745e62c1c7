//! Index segments: which containers and chunks a writer has stored.

use std::collections::BTreeSet;

use bytes::Bytes;
use cutpoint_storage::Result;

use super::part::{CompletedObject, PublishedSegment, SealedPart};
use crate::crypto::seal_object;
use crate::format::commit::EMBEDDED_LEN_MAX;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::segment::Segment;
use crate::repo::repository::Repository;

/// Number of stored bytes after which an index segment is due (W4).
const SEGMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The same for the first segment of a writer. Each further one is due after twice as many, up to the
/// maximum, so that little is stored again after a crash early in a run.
const SEGMENT_BYTES_FIRST: u64 = 32 * 1024 * 1024;
/// Number of hints after which an index segment is due, even with fewer bytes, because the chunks
/// of its containers are kept in memory until then.
const SEGMENT_HINTS: usize = 512 * 1024;
/// Time in nanoseconds after which an index segment is due, even with fewer bytes.
const SEGMENT_NS: u64 = 60 * 1_000_000_000;

/// Collects closed containers, and names them in index segments.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    ticket: TicketId,
    /// The segments so far.
    names: Vec<PartName>,
    /// The number of the next segment.
    next: u32,
    /// The containers that no segment names yet, and the numbers of their regions.
    pending: Segment,
    pending_regions: BTreeSet<u64>,
    pending_bytes: u64,
    published_ns: u64,
}

/// The reason for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Many bytes or chunks are in closed containers.
    Size,
    /// The last segment is old. The open containers are to be closed first.
    Time,
}

impl SegmentWriter {
    pub(super) fn new(ticket: TicketId, now_ns: u64) -> SegmentWriter {
        SegmentWriter {
            ticket,
            names: Vec::new(),
            next: 0,
            pending: Segment::default(),
            pending_regions: BTreeSet::new(),
            pending_bytes: 0,
            published_ns: now_ns,
        }
    }

    /// Adds a closed container of `len` bytes with the regions of these numbers.
    pub(super) fn add(&mut self, container: &Segment, regions: BTreeSet<u64>, len: u64) {
        self.pending.append(container);
        self.pending_regions.extend(regions);
        self.pending_bytes += len;
    }

    /// Adds existing containers, which hold no new regions.
    pub(super) fn add_existing(&mut self, containers: Segment) {
        if self.pending.containers.is_empty() {
            self.pending = containers;
        } else {
            self.pending.append(&containers);
        }
    }

    /// Returns the reason for a segment now, if there is one.
    pub(super) fn due(&self, now_ns: u64) -> Option<Due> {
        if self.pending_bytes >= segment_bytes(self.next)
            || self.pending.hints.len() >= SEGMENT_HINTS
        {
            Some(Due::Size)
        } else {
            let is_old = now_ns.saturating_sub(self.published_ns) >= SEGMENT_NS;
            is_old.then_some(Due::Time)
        }
    }

    /// Seals a segment for the pending containers; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub(super) fn publish(
        &mut self,
        repository: &Repository,
        now_ns: u64,
    ) -> Result<Option<SealedPart>> {
        self.published_ns = now_ns;
        if self.pending.containers.is_empty() {
            return Ok(None);
        }
        let mut segment = std::mem::take(&mut self.pending);
        let name = PartName { ticket: self.ticket, count: self.next };
        self.next += 1;
        let bytes = seal_segment(repository, name, &mut segment)?;
        self.pending_bytes = 0;
        self.names.push(name);
        let regions = std::mem::take(&mut self.pending_regions);
        let part = SealedPart::new(ObjectName::Segment(name), bytes.into(), true);
        let published = PublishedSegment { name, segment, regions };
        Ok(Some(part.with_meaning(CompletedObject::Segment(published))))
    }

    /// Returns the segment for the pending containers if it is so small that it may lie in a commit.
    pub(super) fn take_small(&mut self) -> Option<Segment> {
        if self.pending.containers.is_empty() || self.pending.encoded_len() > EMBEDDED_LEN_MAX {
            return None;
        }
        self.pending_bytes = 0;
        self.pending_regions.clear();
        let mut segment = std::mem::take(&mut self.pending);
        segment.hints.sort_unstable();
        Some(segment)
    }

    /// Returns the names of the segments so far.
    pub(super) fn names(&self) -> &[PartName] {
        &self.names
    }
}

/// Returns the number of stored bytes after which segment `count` is due.
fn segment_bytes(count: u32) -> u64 {
    let doubled =
        1_u64.checked_shl(count).and_then(|factor| SEGMENT_BYTES_FIRST.checked_mul(factor));
    doubled.map_or(SEGMENT_BYTES_MAX, |bytes| bytes.min(SEGMENT_BYTES_MAX))
}

/// Sorts and seals an index segment.
///
/// # Errors
///
/// Returns `Storage` if there is no randomness.
pub(super) fn seal_segment(
    repository: &Repository,
    name: PartName,
    segment: &mut Segment,
) -> Result<Bytes> {
    segment.hints.sort_unstable();
    let salt = repository.salt()?;
    Ok(seal_object(repository.keys(), ObjectName::Segment(name), salt, &segment.encode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_due_after_twice_as_many_bytes_each_up_to_the_maximum() {
        let mebibytes = [0, 1, 2, 3, 4, 40, 64, u32::MAX].map(|count| segment_bytes(count) >> 20);
        assert_eq!(mebibytes, [32, 64, 128, 256, 256, 256, 256, 256]);
    }
}
