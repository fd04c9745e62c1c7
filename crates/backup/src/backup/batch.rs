//! Batches: what the source hands on, about a mebibyte at a time.

use std::ops::Range;

use cutpoint_store::fingerprint::{Class, Fingerprint};
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::tree::{Entry, Time};
use cutpoint_store::seal::Keys;

/// How many bytes a batch gathers, unless a chunk can be larger.
///
/// The lanes of the fingerprints want many chunks, and what was read and cut is to be in a cache still:
/// in the second level of the core that cut it, in the third for another one. On Zen 5 one thread comes
/// from memory to fingerprints (`seqcdc:avg=8k`) at 4.5 GB/s in portions of 256 KiB, 4.7 of 512 KiB, 4.8
/// of 1 MiB, 4.9 of 2 and 4 MiB, 3.6 if all is cut first: example `fused` of `cutpoint-fingerprint`.
pub(super) const BATCH_SIZE: usize = 1 << 20;
/// A batch also ends at this many events: trees of empty files have no bytes.
pub(super) const BATCH_EVENTS_MAX: usize = 4096;

/// One thing that happened at the source, in the order of the snapshot's trees.
#[derive(Debug)]
pub(super) enum Event {
    /// A folder begins.
    Enter(Box<Entry>),
    /// The folder that began last ends.
    Leave,
    /// An entry with its content.
    Item(Box<Entry>),
    /// Another name of a file that came before.
    Link(Box<Entry>),
    /// What follows, up to [`Event::File`] or [`Event::Dropped`], is of one file, a new version of this
    /// where there is something.
    Begin(Option<Box<Content>>),
    /// The next chunk of the current file lies in the batch.
    Chunk(Cut),
    /// A chunk that the next files share, and what they were before, where there is something.
    Bundle(Cut, Option<Box<Content>>),
    /// The current file has these bytes of the last bundle.
    Part { offset: u64, length: u64 },
    /// The current file has this next: a hole, or what the parent has of it.
    Piece(Segment),
    /// The current file is complete; its size follows from its pieces.
    File(Box<Entry>),
    /// The current file could not be read to its end: what came of it is dropped.
    Dropped,
    /// Something in the folder that began last and has not ended could not be saved.
    Lacking,
}

/// What tells a file of several names from all others, while a run looks at both.
///
/// The number of an inode is used again when its file is gone, and some file systems give the same one
/// to several files: what follows the number tells these apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkKey {
    device: u64,
    inode: u64,
    size: u64,
    mtime: Time,
    ctime: Time,
}

impl LinkKey {
    /// Of an entry as the system tells it.
    pub(super) fn of(entry: &Entry) -> LinkKey {
        LinkKey {
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
    /// Filled in by a worker.
    pub(super) fingerprint: Fingerprint,
    /// Filled in by a worker: all bytes are zero.
    pub(super) zeros: bool,
}

impl Cut {
    /// The bytes at `range` of the batch.
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

    /// What a recipe says of `length` bytes of the chunk, from `offset` on.
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

/// Bytes of files, and what they belong to.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: u64,
    /// Of fixed length; used over and over.
    pub(super) bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
}

impl Batch {
    pub(super) fn new(capacity: usize) -> Batch {
        Batch { number: 0, bytes: vec![0; capacity], events: Vec::new() }
    }

    /// Fingerprints all chunks: what workers do.
    pub(super) fn fingerprint(&mut self, keys: &Keys) {
        let (mut chunks, mut wanted) = (Vec::new(), Vec::new());
        for event in &mut self.events {
            if let Event::Chunk(cut) | Event::Bundle(cut, _) = event {
                let chunk = cut.bytes(&self.bytes);
                cut.zeros = is_zero(chunk);
                if !cut.zeros {
                    chunks.push(chunk);
                    wanted.push(&mut cut.fingerprint);
                }
            }
        }
        for (wanted, fingerprint) in wanted.into_iter().zip(keys.fingerprints(Class::Data, &chunks))
        {
            *wanted = fingerprint;
        }
    }
}

/// Whether all bytes are zero. Most chunks are told apart by their first bytes.
fn is_zero(chunk: &[u8]) -> bool {
    let (head, tail) = chunk.split_at(chunk.len().min(64));
    head.iter().all(|byte| *byte == 0) && tail.iter().fold(0, |all, byte| all | byte) == 0
}
