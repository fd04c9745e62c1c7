//! The encoder: expresses new chunks in terms of an old stream.

use std::sync::Arc;

use cutpoint_storage::{Error, Result};

use super::ahead::RegionsAhead;
use super::rebuild::is_rebuilt;
use super::resync::Resynchronizer;
use super::similar::{SimilarChunk, SimilarChunks};
use super::stream::{OldStream, Origin};
use super::window::OldWindow;
use crate::format::edges::Edges;
use crate::format::fingerprint::Fingerprint;
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::{Content, Segment};
use crate::format::toc::Form;
use crate::index::{ContainerToc, Index};
use crate::read::Reader;
use crate::write::cost::Limit;
use crate::write::delta::Delta;
use crate::write::recent::{RecentChunks, RecentRegions, RecentStream};
use crate::write::references::References;
use crate::write::region::RawRegion;
use crate::write::strategy::{DeltaStrategy, StoreDelta};

/// Number of chunks around a similar one that form an old stream: those before the position, and all.
const SIMILAR_BEFORE_COUNT: usize = 16;
const SIMILAR_COUNT: usize = 1024;

/// Number of consecutive chunks that were compared from which on regions are decoded ahead. Behind a
/// single change, the next chunks are mostly known, and need no old bytes.
const COMPARED_COUNT_MIN: u32 = 3;
/// Number of old bytes behind the window whose regions are decoded ahead.
const AHEAD_LEN: u64 = 1024 * 1024;

/// Minimum mean length of the parts of a delta that is not stored, for it to make the position
/// certain, in bytes.
const CERTAIN_PART_LEN_MEAN: usize = 128;

/// Expresses new chunks in terms of an old stream, for one backup.
#[derive(Debug)]
pub struct DeltaEncoder<'a> {
    references: References<'a>,
    stream: Option<OldStream<'a>>,
    window: OldWindow,
    resync: Resynchronizer,
    similar: SimilarChunks,
    /// The chunks of this run so far, which stays empty if they may not be referred to.
    recent: RecentStream,
    /// The chunk right before the next one, if it is known and not in the old stream.
    neighbour: Option<Neighbour>,
    /// The regions that another thread decodes.
    ahead: Arc<RegionsAhead>,
    /// Number of consecutive chunks that were compared.
    compared_count: u32,
    /// The old position up to which regions were wanted ahead.
    ahead_end: u64,
}

/// A known chunk right before a new one.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    fingerprint: Fingerprint,
    /// The number of the same chunk earlier in the run.
    recent: Option<u64>,
}

impl<'a> DeltaEncoder<'a> {
    /// Creates an encoder that reads old chunks by `reader` and refers to what `index` allows,
    /// except for chunks that the writer of `own` stores itself. [`DeltaEncoder::with_recent`] adds
    /// those.
    pub fn new(reader: &'a Reader, index: &'a Index, own: TicketId) -> DeltaEncoder<'a> {
        let references = References::new(reader, index, own);
        DeltaEncoder {
            similar: SimilarChunks::new(&references),
            references,
            stream: None,
            window: OldWindow::new(),
            resync: Resynchronizer::default(),
            recent: RecentStream::default(),
            neighbour: None,
            ahead: Arc::default(),
            compared_count: 0,
            ahead_end: 0,
        }
    }

    /// Lets new chunks be compared with those of this run as well. Every region of file data must be
    /// put into [`DeltaStrategy::recent_regions`] once it is encoded.
    #[must_use]
    pub fn with_recent(mut self) -> DeltaEncoder<'a> {
        self.references = self.references.with_recent(RecentChunks::new(Arc::default()));
        self
    }

    /// Sets the maximum total length of the encoded regions of this run that are kept, in bytes.
    #[must_use]
    pub fn with_recent_bytes_max(self, bytes: usize) -> DeltaEncoder<'a> {
        if let Some(recent) = self.references.recent() {
            recent.borrow_mut().set_bytes_max(bytes);
        }
        self
    }

    /// Sets the maximum number of remembered heads and tails of old chunks, 8 bytes each.
    #[must_use]
    pub fn with_edges_max(mut self, edges_max: usize) -> DeltaEncoder<'a> {
        self.similar.set_edges_max(edges_max);
        self
    }

    /// Begins a stream that is a new version of `old`. If `old` is `None`, similar chunks are found
    /// through known chunks, or through old chunks that begin or end in the same way. Known chunks
    /// of the stream before count as well, because the files of a renamed folder still follow each
    /// other.
    pub fn begin(&mut self, old: Option<&Content>) {
        if old.is_none() && !self.has_previous() {
            return;
        }
        self.neighbour = None;
        // Positions continue behind those of earlier streams, so that entries in the table of the
        // window stay valid.
        let end = self.stream.as_ref().map_or(0, OldStream::end);
        let position = self.window.end().max(end);
        self.window.restart(position);
        let reader = self.references.reader();
        self.stream = old.map(|content| OldStream::new(reader.segments(content), position));
    }

    /// Begins a stream at chunk `at` of a container, or right behind it. Chunks that were stored
    /// one after another mostly followed each other in a file.
    fn begin_at(&mut self, loaded: &ContainerToc, at: usize, is_behind: bool) {
        let chunks = loaded.toc.chunks.iter().enumerate();
        let first = at.saturating_sub(SIMILAR_BEFORE_COUNT);
        let mut before_len = 0;
        let mut segments = Vec::new();
        for (number, chunk) in chunks.skip(first).take(SIMILAR_COUNT) {
            let (fingerprint, length) = (chunk.fingerprint, u64::from(chunk.chunk_len));
            if chunk.form != Form::Literal {
                segments.push(Segment::Chunk { fingerprint, offset: 0, length });
                let is_before = number < at + usize::from(is_behind);
                before_len += if is_before { length } else { 0 };
            }
        }
        self.begin_similar(segments, before_len, Origin::Container);
    }

    /// Begins a stream at chunk `at` of this run.
    fn begin_at_recent(&mut self, at: u64) {
        let before_count = SIMILAR_BEFORE_COUNT as u64;
        let (segments, before_len) = self.recent.around(at, before_count, SIMILAR_COUNT);
        self.begin_similar(segments, before_len, Origin::Run);
    }

    /// Begins a stream of `segments`, which is no previous version, behind its first `before_len`
    /// bytes.
    fn begin_similar(&mut self, segments: Vec<Segment>, before_len: u64, origin: Origin) {
        self.begin(Some(&Content::Segments(segments)));
        if let Some(stream) = &mut self.stream {
            stream.expected += before_len;
            (stream.known, stream.origin) = (stream.expected, origin);
        }
    }

    /// If there is no previous version, continues behind the known chunk right before the next one,
    /// unless the current old stream has that chunk.
    fn follow_neighbour(&mut self) -> Result<()> {
        let Some(neighbour) = self.neighbour.take() else { return Ok(()) };
        if self.has_previous() {
            return Ok(());
        }
        if self.references.compares_with_recent()
            && let Some(number) = neighbour.recent
            && self.recent.is_available(number + 1, |chunk| self.references.has_recent(chunk))
        {
            self.begin_at_recent(number + 1);
            return Ok(());
        }
        if let Some(location) = self.references.locate(&neighbour.fingerprint)?
            && let Some(loaded) = self.references.container(location.container.name)?
        {
            self.begin_at(&loaded, location.number, true);
        }
        Ok(())
    }

    /// Returns `true` if the current stream has a previous version.
    fn has_previous(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.origin == Origin::Previous)
    }

    /// Adds a chunk to those of this run, with its edges if it is new.
    fn push_recent(&mut self, fingerprint: Fingerprint, len: usize, edges: Option<Edges>) {
        if self.references.recent().is_some()
            && let Ok(len) = u32::try_from(len)
        {
            self.recent.push(fingerprint, len, edges);
        }
    }

    /// Stops using the old stream.
    fn give_up(&mut self, error: Error) -> Result<()> {
        self.stream = None;
        if error.is_loss() { Ok(()) } else { Err(error) }
    }

    /// Expresses the next chunk of the new stream in terms of old chunks, if there is a stream to
    /// compare it with.
    fn find(&mut self, chunk: &[u8]) -> Result<Option<Delta>> {
        self.follow_neighbour()?;
        let delta = self.find_in_stream(chunk)?;
        let is_much = delta.as_ref().is_some_and(|delta| delta.copies_most_of(chunk));
        if is_much || self.has_previous() {
            return Ok(delta);
        }
        match self.similar.find(&self.references, &self.recent, chunk)? {
            None => return Ok(delta),
            Some(SimilarChunk::Stored(loaded, number)) => self.begin_at(&loaded, number, false),
            Some(SimilarChunk::Recent(number)) => self.begin_at_recent(number),
        }
        self.find_in_stream(chunk)
    }

    /// Does the same as [`DeltaEncoder::find`], by the present old stream only.
    fn find_in_stream(&mut self, chunk: &[u8]) -> Result<Option<Delta>> {
        let len = chunk.len() as u64;
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if !stream.attempts(len) {
            return Ok(None);
        }
        let prepared = stream.fill().and_then(|()| {
            if stream.is_out_of_sync() {
                self.resync.find(&self.references, stream, chunk)?;
            }
            self.window.move_to(&self.references, &stream.pieces, stream.expected, len)
        });
        if let Err(error) = prepared {
            self.give_up(error)?;
            return Ok(None);
        }
        self.compared_count += 1;
        if self.compared_count >= COMPARED_COUNT_MIN && stream.origin != Origin::Run {
            let begin = self.ahead_end.max(self.window.end());
            let end = self.window.end() + AHEAD_LEN;
            let mut chunks = stream.pieces.within(begin..end).peekable();
            if chunks.peek().is_some() {
                self.ahead_end = end;
                self.ahead.want(chunks.map(|old| old.fingerprint));
            }
        }
        let (behind, delta) = self.window.encode(chunk, stream.expected);
        stream.expected = behind;
        match delta {
            Some(delta) if is_rebuilt(&self.references, &delta, chunk)? => Ok(Some(delta)),
            _ => Ok(None),
        }
    }
}

impl DeltaStrategy for DeltaEncoder<'_> {
    fn begin(&mut self, previous: Option<&Content>) {
        DeltaEncoder::begin(self, previous);
    }

    fn skip(&mut self, fingerprint: &Fingerprint, len: usize) -> Result<()> {
        self.compared_count = 0;
        let recent = self.recent.find(fingerprint);
        self.push_recent(*fingerprint, len, None);
        let is_there = match &mut self.stream {
            Some(stream) => stream.skip(fingerprint, len),
            None => Ok(false),
        };
        match is_there {
            Ok(is_there) => {
                let neighbour = Neighbour { fingerprint: *fingerprint, recent };
                self.neighbour = (!is_there).then_some(neighbour);
                Ok(())
            }
            Err(error) => self.give_up(error),
        }
    }

    fn encode(
        &mut self,
        chunk: &[u8],
        store: &mut StoreDelta<'_>,
    ) -> Result<Option<Vec<PartName>>> {
        let delta = self.find(chunk)?;
        let is_of_run = self.stream.as_ref().is_some_and(|it| it.origin == Origin::Run);
        let limit = if is_of_run { Limit::SampledOfRun } else { Limit::Sampled };
        let is_stored = match &delta {
            Some(delta) => store(delta, limit)?,
            None => false,
        };
        if let Some(stream) = &mut self.stream {
            if stream.origin != Origin::Previous {
                self.similar.report(is_stored);
            }
            // A delta that copies most of the chunk makes the position of the new stream certain. If
            // it is too large to be stored, its copies must be long: records that are almost equal
            // are copied from a wrong position, too.
            let is_certain = delta.as_ref().is_some_and(|delta| {
                let is_long = chunk.len() >= delta.parts.len() * CERTAIN_PART_LEN_MEAN;
                delta.copies_most_of(chunk) && (is_stored || is_long)
            });
            stream.report(is_stored, is_certain);
        }
        let delta = delta.filter(|_| is_stored);
        if let Some(recent) = self.references.recent() {
            let copying = delta.as_ref().filter(|_| is_of_run);
            let copied_len = copying.map_or(0, |delta| chunk.len() - delta.literals.len());
            recent.borrow_mut().record(chunk.len(), copied_len);
        }
        Ok(delta.map(|delta| self.window.containers(&delta)))
    }

    fn stored(&mut self, fingerprint: Fingerprint, chunk: &[u8], _is_full: bool) {
        if self.references.recent().is_some() {
            let edges = self.references.keys().edges(chunk);
            self.push_recent(fingerprint, chunk.len(), edges);
        }
    }

    fn stored_regions(&mut self, regions: &[RawRegion]) -> Result<()> {
        match self.references.recent() {
            Some(recent) => recent.borrow_mut().add(regions),
            None => Ok(()),
        }
    }

    fn recent_regions(&self) -> Option<Arc<RecentRegions>> {
        Some(self.references.recent()?.borrow().encoded().clone())
    }

    fn regions_ahead(&self) -> Option<Arc<RegionsAhead>> {
        Some(self.ahead.clone())
    }

    fn is_fine_grained(&self) -> bool {
        true
    }
}
