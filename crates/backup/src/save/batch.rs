//! Batches: the unit in which the source stage sends bytes and events, about a mebibyte each.

use std::ops::Range;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Class, Content, Entry, Fingerprint, Keys, Time};

use super::chunk_rebuilder::DamagedPart;

/// The number of bytes that a batch gathers, unless a chunk can be larger.
///
/// The lanes of the fingerprints need many chunks, and the bytes that were read and cut should
/// still be in a cache: in the second level for the core that cut them, in the third level for
/// another core. On Zen 5, one thread gets from memory to fingerprints (`seqcdc:avg=8k`) at 4.5
/// GB/s in portions of 256 KiB, at 4.7 GB/s in 512 KiB, at 4.8 GB/s in 1 MiB, at 4.9 GB/s in 2 and
/// 4 MiB, and at 3.6 GB/s if everything is cut first. Measured by the example `fused` of
/// `cutpoint-fingerprint`.
pub(super) const BATCH_SIZE: usize = 1 << 20;
/// The number of events at which a batch ends, too, because trees of empty files have no bytes.
pub(super) const BATCH_EVENTS_MAX: usize = 4096;

/// An event at the source. Except for members of archives, events come in the order of the
/// snapshot's trees.
#[derive(Debug)]
pub(super) enum Event {
    /// A folder begins.
    Enter(Box<Entry>),
    /// The folder that began last ends.
    Leave,
    /// An entry, including its content.
    Entry(Box<Entry>),
    /// A further name of a file that came before.
    Link(Box<Entry>),
    /// The path in the snapshot of the next entry, a member of an archive. Such entries come in any
    /// order.
    Member(Vec<u8>),
    /// A further name, `path`, of the member that has the name `target`.
    MemberLink { path: Vec<u8>, target: Vec<u8> },
    /// A file begins. The events up to [`Event::File`] or [`Event::Dropped`] belong to it. Holds
    /// the content of the file's previous version, if there is one.
    Begin(Option<Box<Content>>),
    /// The next chunk of the current file, whose bytes are in the batch.
    Chunk(Cut),
    /// The bytes from `start` on, of the chunk before, lie where the previous version of the current
    /// file has this part of a damaged chunk.
    Damaged { part: DamagedPart, start: usize },
    /// A chunk that the next files share, and the content of their previous versions, if any.
    Bundle(Cut, Option<Box<Content>>),
    /// The bytes of the last bundle that the current file consists of.
    Part { offset: u64, length: u64 },
    /// The next segment of the current file: a hole, or one taken over from the parent.
    Segment(Segment),
    /// The next segment of the current file, from a chunk that the index has, most likely.
    Known(Segment),
    /// The current file is complete. Its size follows from its segments.
    File(Box<Entry>),
    /// The current file could not be read to its end. Everything of it so far is dropped.
    Dropped,
    /// An entry of the innermost open folder could not be saved.
    Lacking,
}

/// The properties that distinguish a file of several names from all others as long as a run looks
/// at both.
///
/// The inode number alone is not enough, because it is reused when its file is deleted, and some
/// file systems give the same number to several files. The other fields distinguish these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SourceLinkKey {
    device: u64,
    inode: u64,
    size: u64,
    mtime: Time,
    ctime: Time,
}

impl SourceLinkKey {
    /// Returns the key of an entry with the metadata from the system.
    pub(super) fn of(entry: &Entry) -> SourceLinkKey {
        SourceLinkKey {
            device: entry.device,
            inode: entry.inode,
            size: entry.size,
            mtime: entry.mtime,
            ctime: entry.ctime,
        }
    }
}

/// A chunk in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) start: usize,
    pub(super) len: usize,
    /// The fingerprint, filled in by a worker.
    pub(super) fingerprint: Fingerprint,
    /// Set by a worker if all bytes are zero.
    pub(super) zeros: bool,
}

impl Cut {
    /// Creates a chunk from the bytes at `range` of the batch.
    pub(super) fn new(range: Range<usize>) -> Cut {
        Cut {
            start: range.start,
            len: range.len(),
            fingerprint: Fingerprint([0; 32]),
            zeros: false,
        }
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }

    /// Returns the segment of a recipe for `length` bytes of the chunk, from `offset` on.
    pub(super) fn segment(&self, offset: u64, length: u64) -> Segment {
        match self.zeros {
            true => Segment::Zeros { length },
            false => Segment::Chunk { fingerprint: self.fingerprint, offset, length },
        }
    }

    pub(super) fn bytes<'a>(&self, batch: &'a [u8]) -> &'a [u8] {
        &batch[self.start..self.end()]
    }
}

/// Bytes of files, and the events that they belong to.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: u64,
    /// A buffer of fixed length, which is reused.
    pub(super) bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
}

impl Batch {
    pub(super) fn new(capacity: usize) -> Batch {
        Batch { number: 0, bytes: vec![0; capacity], events: Vec::new() }
    }

    /// Fingerprints all chunks. Called by workers.
    pub(super) fn fingerprint(&mut self, keys: &Keys) {
        let (mut chunks, mut targets) = (Vec::new(), Vec::new());
        for event in &mut self.events {
            if let Event::Chunk(cut) | Event::Bundle(cut, _) = event {
                let chunk = cut.bytes(&self.bytes);
                cut.zeros = is_zero(chunk);
                if !cut.zeros {
                    chunks.push(chunk);
                    targets.push(&mut cut.fingerprint);
                }
            }
        }
        let fingerprints = keys.fingerprints(Class::Data, &chunks);
        for (target, fingerprint) in targets.into_iter().zip(fingerprints) {
            *target = fingerprint;
        }
    }
}

/// Returns `true` if all bytes are zero. For most chunks, the first bytes decide.
fn is_zero(chunk: &[u8]) -> bool {
    let (head, tail) = chunk.split_at(chunk.len().min(64));
    head.iter().all(|byte| *byte == 0) && tail.iter().fold(0, |all, byte| all | byte) == 0
}
