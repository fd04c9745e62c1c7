//! Cutting blocks by one rule, and fingerprinting what comes of it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cutpoint_chunking::{Chunker, Spec, SpecError};
use cutpoint_fingerprint::{Blake3, Digest};
use cutpoint_store::format::tree::Entry;
use cutpoint_testing::thread_cpu_time;

use super::block::{Block, Event};
use super::job::Job;

/// A chunk of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// Their hash; of no meaning where all of them are zero.
    pub(crate) digest: Digest,
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Whether all bytes are zero.
    pub(crate) is_zeros: bool,
    /// Whether it ends a stream: the file, or what lies before a hole.
    pub(crate) is_last: bool,
}

/// What is done with what comes out of a [`Cutter`], in the order of the source.
pub(crate) trait Sink: Send {
    /// A folder begins.
    fn enter(&mut self, _entry: &Arc<Entry>) {}
    /// The folder that began last ends.
    fn leave(&mut self) {}
    /// Something without bytes.
    fn item(&mut self, _entry: &Entry) {}
    /// Another name of a file that came before.
    fn link(&mut self, _entry: &Entry) {}
    /// A file begins.
    fn begin(&mut self, path: &Arc<Path>);
    /// Its next chunk.
    fn chunk(&mut self, chunk: &Chunk<'_>, jobs: &mut Vec<Job>);
    /// It has a hole.
    fn hole(&mut self, _size: u64) {}
    /// It ends.
    fn file(&mut self, _entry: &Entry) {}
    /// It could not be read to its end.
    fn dropped(&mut self) {}
    /// There is nothing more.
    fn finish(&mut self, _jobs: &mut Vec<Job>) {}
}

/// Cuts streams by one rule, block by block.
#[derive(Debug)]
pub(crate) struct Cutter {
    chunker: Box<dyn Chunker>,
    hash: Blake3,
    /// The bytes of the open stream that are in no chunk yet.
    tail: Vec<u8>,
    /// Where in the file `tail` begins.
    offset: u64,
    ends: Vec<usize>,
    digests: Vec<Digest>,
    /// CPU time so far.
    pub(crate) chunking: Duration,
    /// The same of the fingerprints.
    pub(crate) fingerprinting: Duration,
}

/// What a block came to.
enum Action {
    Chunk {
        range: Range<usize>,
        offset: u64,
        is_zeros: bool,
        is_last: bool,
    },
    /// The event of this number.
    Event(usize),
}

impl Cutter {
    /// Cuts by `spec`, and fingerprints by `hash`.
    ///
    /// # Errors
    ///
    /// Where the spec has no largest chunk, or looks at other chunks.
    pub(crate) fn new(spec: &Spec, hash: Blake3) -> Result<Cutter, SpecError> {
        Ok(Cutter {
            chunker: spec.clone().bounded()?.chunker(),
            hash,
            tail: Vec::new(),
            offset: 0,
            ends: Vec::new(),
            digests: Vec::new(),
            chunking: Duration::ZERO,
            fingerprinting: Duration::ZERO,
        })
    }

    /// Cuts a block; what comes of it goes to `sink`.
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
        // The open stream's bytes that are in no chunk yet.
        let mut open = 0..carried;
        for (number, event) in block.events.iter().enumerate() {
            match event {
                Event::Data(len) => open.end += len,
                Event::Cut => self.cut(bytes, &mut open, false, &mut actions),
                Event::Begin(_) => {
                    self.offset = 0;
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
                Action::Chunk { range, offset, is_zeros, is_last } => {
                    let digest = if is_zeros { None } else { digests.next() };
                    let digest = digest.copied().unwrap_or_default();
                    let bytes = &bytes[range];
                    sink.chunk(&Chunk { bytes, digest, offset, is_zeros, is_last }, jobs);
                }
                Action::Event(number) => tell(&block.events[number], sink),
            }
        }
        self.tail = bytes[open].to_vec();
    }

    /// Cuts the open stream as far as it goes.
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
                let is_zeros = is_zeros(&bytes[range.clone()]);
                let is_last = !more && end == stream.len();
                actions.push(Action::Chunk { range, offset, is_zeros, is_last });
                start = end;
            }
        }
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
        Event::Data(_) | Event::Cut => {}
    }
}

/// Whether all bytes are zero. Most chunks are told apart by their first bytes.
fn is_zeros(chunk: &[u8]) -> bool {
    let (head, tail) = chunk.split_at(chunk.len().min(64));
    head.iter().all(|byte| *byte == 0) && tail.iter().fold(0, |all, byte| all | byte) == 0
}
