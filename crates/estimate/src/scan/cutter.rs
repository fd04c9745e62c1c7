//! Cutting blocks by one rule, and fingerprinting the chunks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::thread_cpu_time;
use cutpoint_chunking::{Chunker, Spec, SpecError};
use cutpoint_fingerprint::{Blake3, Digest};
use cutpoint_repository::Entry;

use super::block::{Block, Event};
use super::job::Job;

/// A chunk of a file.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The bytes of the chunk.
    pub bytes: &'a [u8],
    /// The hash of the bytes. Unspecified if all bytes are zero.
    pub digest: Digest,
    /// The offset of the chunk in the file, in bytes.
    pub offset: u64,
    /// Set if all bytes are zero.
    pub is_zeros: bool,
    /// Set if the chunk begins a stream, at the start of the file or behind a hole.
    pub is_first: bool,
    /// Set if the chunk ends a stream, at the end of the file or before a hole.
    pub is_last: bool,
}

/// The consumer of the chunks and events of a [`Cutter`], in the order of the source.
pub trait Sink: Send {
    /// A folder begins.
    fn enter(&mut self, _entry: &Arc<Entry>) {}
    /// The folder that began last ends.
    fn leave(&mut self) {}
    /// An entry without bytes.
    fn item(&mut self, _entry: &Entry) {}
    /// Another name of a file that came before.
    fn link(&mut self, _entry: &Entry) {}
    /// A file begins.
    fn begin(&mut self, path: &Arc<Path>);
    /// The next chunk of the file.
    fn chunk(&mut self, chunk: &Chunk<'_>, jobs: &mut Vec<Job>);
    /// A hole in the file.
    fn hole(&mut self, _size: u64) {}
    /// The file ends.
    fn file(&mut self, _entry: &Entry) {}
    /// The file could not be read to its end.
    fn dropped(&mut self) {}
    /// The source ends.
    fn finish(&mut self, _jobs: &mut Vec<Job>) {}
}

/// Cuts streams by one rule, block by block.
#[derive(Debug)]
pub struct Cutter {
    chunker: Box<dyn Chunker>,
    hash: Blake3,
    /// The bytes of the open stream that are in no chunk yet.
    tail: Vec<u8>,
    /// The offset of `tail` in the file, in bytes.
    offset: u64,
    /// The offsets at which chunks count.
    owned: Range<u64>,
    /// Set if the next chunk begins a stream.
    is_first: bool,
    ends: Vec<usize>,
    digests: Vec<Digest>,
    /// The CPU time of finding cut-points so far.
    pub chunking: Duration,
    /// The CPU time of fingerprinting so far.
    pub fingerprinting: Duration,
}

/// A chunk or an event of a block, in the order in which the sink gets them.
enum Action {
    Chunk {
        range: Range<usize>,
        offset: u64,
        is_zeros: bool,
        is_first: bool,
        is_last: bool,
    },
    /// The event of this number.
    Event(usize),
}

impl Cutter {
    /// Creates a cutter that cuts by `spec` and fingerprints by `hash`.
    ///
    /// # Errors
    ///
    /// Returns an error if the specification has no maximum chunk size, or if its cut-points depend
    /// on other chunks.
    pub fn new(spec: &Spec, hash: Blake3) -> Result<Cutter, SpecError> {
        Ok(Cutter {
            chunker: spec.clone().bounded()?.chunker(),
            hash,
            tail: Vec::new(),
            offset: 0,
            owned: 0..u64::MAX,
            is_first: true,
            ends: Vec::new(),
            digests: Vec::new(),
            chunking: Duration::ZERO,
            fingerprinting: Duration::ZERO,
        })
    }

    /// Cuts a block, and passes its chunks and events to `sink`.
    pub(super) fn take(&mut self, block: &Block, sink: &mut dyn Sink, jobs: &mut Vec<Job>) {
        let began = thread_cpu_time();
        let mut joined = std::mem::take(&mut self.tail);
        let carried = joined.len();
        let bytes: &[u8] = if joined.is_empty() {
            &block.bytes
        } else {
            joined.extend_from_slice(&block.bytes);
            &joined
        };
        let mut actions = Vec::new();
        // The bytes of the open stream that are in no chunk yet.
        let mut open = 0..carried;
        for (number, event) in block.events.iter().enumerate() {
            match event {
                Event::Data(len) => open.end += len,
                Event::Cut => self.cut(bytes, &mut open, false, &mut actions),
                Event::Stop => {
                    self.cut(bytes, &mut open, true, &mut actions);
                    open.start = open.end;
                }
                Event::Part { offset, owned, is_first } => {
                    (self.offset, self.owned, self.is_first) = (*offset, owned.clone(), *is_first);
                }
                Event::Begin(_) => {
                    (self.offset, self.owned, self.is_first) = (0, 0..u64::MAX, true);
                    actions.push(Action::Event(number));
                }
                Event::Hole(size) => {
                    self.offset += size;
                    actions.push(Action::Event(number));
                }
                _ => actions.push(Action::Event(number)),
            }
        }
        self.cut(bytes, &mut open, true, &mut actions);
        let cut = thread_cpu_time();
        let chunks = actions.iter().filter_map(|action| match action {
            Action::Chunk { range, is_zeros: false, .. } => Some(&bytes[range.clone()]),
            _ => None,
        });
        let chunks: Vec<&[u8]> = chunks.collect();
        self.digests.clear();
        self.hash.digests(&chunks, &mut self.digests);
        self.chunking += cut.saturating_sub(began);
        self.fingerprinting += thread_cpu_time().saturating_sub(cut);
        let mut digests = self.digests.iter();
        for action in actions {
            match action {
                Action::Chunk { range, offset, is_zeros, is_first, is_last } => {
                    let digest = if is_zeros { None } else { digests.next() };
                    let digest = digest.copied().unwrap_or_default();
                    let bytes = &bytes[range];
                    let chunk = Chunk { bytes, digest, offset, is_zeros, is_first, is_last };
                    sink.chunk(&chunk, jobs);
                }
                Action::Event(number) => tell(&block.events[number], sink),
            }
        }
        self.tail = bytes[open].to_vec();
    }

    /// Cuts the open stream up to the last cut-point that can be determined.
    fn cut(
        &mut self,
        bytes: &[u8],
        open: &mut Range<usize>,
        more: bool,
        actions: &mut Vec<Action>,
    ) {
        let stream = &bytes[open.clone()];
        let mut start = 0;
        while start < stream.len() {
            self.ends.clear();
            self.chunker.next_cuts(stream, start, more, &mut self.ends);
            if self.ends.is_empty() {
                break;
            }
            for end in self.ends.drain(..) {
                let offset = self.offset;
                self.offset += (end - start) as u64;
                let range = open.start + start..open.start + end;
                let is_first = std::mem::take(&mut self.is_first);
                if self.owned.contains(&offset) {
                    let is_zeros = is_zeros(&bytes[range.clone()]);
                    let is_last = !more && end == stream.len();
                    let chunk = Action::Chunk { range, offset, is_zeros, is_first, is_last };
                    actions.push(chunk);
                }
                start = end;
            }
        }
        self.is_first |= !more;
        open.start += start;
    }
}

fn tell(event: &Event, sink: &mut dyn Sink) {
    match event {
        Event::Enter(entry) => sink.enter(entry),
        Event::Leave => sink.leave(),
        Event::Item(entry) => sink.item(entry),
        Event::Link(entry) => sink.link(entry),
        Event::Begin(path) => sink.begin(path),
        Event::Hole(size) => sink.hole(*size),
        Event::File(entry) => sink.file(entry),
        Event::Dropped => sink.dropped(),
        Event::Data(_) | Event::Cut | Event::Part { .. } | Event::Stop => {}
    }
}

/// Returns `true` if all bytes are zero. For most chunks the first bytes already decide.
fn is_zeros(chunk: &[u8]) -> bool {
    let (head, tail) = chunk.split_at(chunk.len().min(64));
    head.iter().all(|byte| *byte == 0) && tail.iter().fold(0, |all, byte| all | byte) == 0
}
