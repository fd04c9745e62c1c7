//! Finds what a new chunk has in common with an old stream, which is the previous version of what
//! is being stored (rules C1, C3 to C5).
//!
//! The old stream is the recipe of the same file in the parent snapshot. The position of the new
//! stream in it is known from the last chunk that was found in both. A [`Window`] of old bytes
//! around that position is read, and moves along. Every old chunk can be traced byte by byte to the
//! full chunks that it is made of. So the parts that a new chunk takes from it are expressed in full chunks
//! again, and no delta chunk ever refers to a delta chunk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use cutpoint_delta::{Piece, Resync, Window};
use cutpoint_storage::{Error, Result};

use crate::format::edges::numbers_with_edges;
use crate::format::extents::{Extent, extent_count_max};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::{Content, Segment};
use crate::format::toc::{Form, REGION_RAW_LEN_MAX};
use crate::index::{Index, Loaded, Location, Scope};
use crate::read::{ChunkBytes, Reader, Segments};
use crate::rules;
use crate::write::similarity::{EDGES_MAX, SimilarityIndex};

/// Number of old bytes to search before and behind the expected position of a chunk.
const AROUND_LEN: u64 = 96 * 1024;
/// Number of old pieces ahead in which a known chunk is looked up.
const AHEAD_COUNT: u64 = 1024;
/// Maximum number of full chunks that the bytes of a window come from. Beyond it the window is
/// restarted.
const FULL_CHUNKS_MAX: usize = 16 * 1024;
/// Length of old bytes to resync for a lost position, as a multiple of the length of the new chunk.
const SCOUTED_TIMES: u64 = 8;
/// Maximum length of old bytes to resync, in bytes.
const SCOUTED_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Number of consecutive unprofitable chunks before the encoder pauses.
const MISSES_MAX: u32 = 6;
/// Maximum exponent of a pause: each further failure doubles the number of skipped chunks, up to 2
/// to the power of this.
const PAUSE_BITS_MAX: u32 = 7;
/// Number of chunks of a container that form an old stream: those before the position, and all.
const PACKED_BEFORE_COUNT: usize = 16;
const PACKED_COUNT: usize = 1024;

/// Maximum number of full chunks that a delta chunk refers to, besides the literal of its region. At worst
/// each lies in another region, and more than these would exceed what a reader can hold, if every
/// version changes a little.
const FULL_CHUNKS_PER_CHUNK_MAX: usize = 20;

/// A part of a delta chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The next new bytes.
    Literal { len: usize },
    /// `len` bytes of a full chunk, from `offset` on. `source` is an index into [`Delta::sources`].
    Copy { source: u32, offset: u32, len: u32 },
}

/// A chunk expressed as literals and copies.
#[derive(Debug, Default)]
pub(super) struct Delta {
    pub(super) parts: Vec<Part>,
    /// The new bytes, concatenated.
    pub(super) literals: Vec<u8>,
    /// The full chunks that are copied from, each once.
    pub(super) sources: Vec<Fingerprint>,
}

impl Delta {
    /// Returns `true` if at least half of `chunk` is in the old stream, which makes the position of
    /// the new stream certain.
    pub(super) fn has_most_of(&self, chunk: &[u8]) -> bool {
        self.literals.len() * 2 <= chunk.len()
    }
}

/// A piece of the old stream. Positions count only the bytes of chunks, without holes and zeros.
#[derive(Clone, Copy, Debug)]
struct Old {
    fingerprint: Fingerprint,
    /// Offset of the piece in its chunk.
    offset: u64,
    position: u64,
    len: u64,
}

impl Old {
    fn end(&self) -> u64 {
        self.position + self.len
    }
}

/// Bytes of the window that are consecutive bytes of one full chunk.
#[derive(Clone, Copy, Debug)]
struct Span {
    position: u64,
    len: u32,
    whole: u32,
    offset: u32,
}

/// A stretch of a chunk: `len` bytes of a full chunk from `offset` on, with the container of the full chunk.
#[derive(Clone, Copy, Debug)]
struct Source {
    whole: Fingerprint,
    container: PartName,
    offset: u32,
    len: u32,
}

/// Expresses new chunks in terms of an old stream, for one backup.
#[derive(Debug)]
pub struct DeltaEncoder<'a> {
    reader: &'a Reader,
    /// The index of the writer, which determines what may be referred to.
    index: &'a Index,
    /// The writer's own ticket. Chunks of this writer are not referred to, because the time at
    /// which they become readable depends on timing.
    own: TicketId,
    stream: Option<Stream<'a>>,
    window: Window,
    spans: VecDeque<Span>,
    /// Created at the first use, because it takes 4 MiB.
    resync: Option<Resync>,
    /// The times at which the writers of the view have ended.
    times: BTreeMap<TicketId, i64>,
    /// Created at the first use, with at most `ends_max` ends.
    similarity: Option<SimilarityIndex>,
    ends_max: usize,
    /// The chunk right before the next one, if it is known and not in the old stream.
    neighbour: Option<Fingerprint>,
    /// Number of consecutive chunks that did not resemble what was found for them.
    found_misses: u32,
    /// Number of chunks since then for which nothing was looked up.
    unlooked: u32,
    /// The full chunks that the spans come from, with their containers.
    full_chunks: Vec<(Fingerprint, PartName)>,
    numbers: HashMap<Fingerprint, u32>,
    pieces: Vec<Piece>,
}

/// The old stream, and the position of the new stream in it.
#[derive(Debug)]
struct Stream<'a> {
    segments: Segments<'a>,
    /// Pieces from shortly before the position on. Their numbers count from 0 at the first piece of
    /// the stream.
    ahead: VecDeque<Old>,
    ahead_first: u64,
    /// Maps a hint to the number of a piece in `ahead`.
    by_hint: HashMap<u64, u64>,
    end: u64,
    /// The old position that the next new byte is expected to correspond to.
    expected: u64,
    /// The old position behind the last certain match.
    known: u64,
    /// Set if a resync is looking for the position.
    is_scouted: bool,
    /// Set if the stream was taken from a container around a chunk that was found there.
    is_found: bool,
    misses: u32,
    pause: u32,
}

impl Stream<'_> {
    /// Returns the number of the piece at `position`, or of the next one.
    fn number_at(&self, position: u64) -> u64 {
        self.ahead_first + self.ahead.partition_point(|old| old.end() <= position) as u64
    }

    fn get(&self, number: u64) -> Option<Old> {
        let index = usize::try_from(number.checked_sub(self.ahead_first)?).ok()?;
        self.ahead.get(index).copied()
    }

    /// Reads on in the recipe, and drops pieces that lie far behind.
    fn fill(&mut self) -> Result<()> {
        // A position that is too far ahead of the last match counts as certain, because the list
        // must not grow with the file.
        if self.expected > self.known + SCOUTED_LEN_MAX {
            (self.known, self.is_scouted) = (self.expected, false);
        }
        while self.ahead.front().is_some_and(|old| old.end() + 2 * AROUND_LEN < self.known) {
            let Some(old) = self.ahead.pop_front() else { break };
            let hint = old.fingerprint.hint();
            if self.by_hint.get(&hint) == Some(&self.ahead_first) {
                self.by_hint.remove(&hint);
            }
            self.ahead_first += 1;
        }
        let wanted = self.number_at(self.expected) + AHEAD_COUNT;
        while self.ahead_first + (self.ahead.len() as u64) < wanted {
            let Some(segment) = self.segments.next() else { break };
            let Segment::Chunk { fingerprint, offset, length } = segment? else { continue };
            if length > u64::from(REGION_RAW_LEN_MAX) {
                return Err(Error::corrupt(
                    format!("chunk {fingerprint}"),
                    "recorded length is too large",
                ));
            }
            let number = self.ahead_first + self.ahead.len() as u64;
            // The first of several equal pieces is kept, because it comes next.
            self.by_hint.entry(fingerprint.hint()).or_insert(number);
            self.ahead.push_back(Old { fingerprint, offset, position: self.end, len: length });
            self.end += length;
        }
        Ok(())
    }

    /// Skips a known chunk of the new stream. Returns `true` if the old stream has it as well.
    fn pass(&mut self, fingerprint: &Fingerprint, len: usize) -> Result<bool> {
        self.fill()?;
        let is_it = |old: &Old| old.fingerprint == *fingerprint && old.offset == 0;
        // Among equal pieces in a row, the expected one is preferred.
        let here = self.get(self.number_at(self.expected)).filter(is_it);
        let found = here.or_else(|| {
            let number = self.by_hint.get(&fingerprint.hint())?;
            self.get(*number).filter(is_it)
        });
        match found {
            Some(old) => self.found(old.position + len as u64),
            None => self.expected += len as u64,
        }
        Ok(found.is_some())
    }

    /// Records that the new stream certainly stands at `position`.
    fn found(&mut self, position: u64) {
        (self.expected, self.known) = (position, position);
        (self.misses, self.pause, self.is_scouted) = (0, 0, false);
    }
}

impl<'a> DeltaEncoder<'a> {
    /// Creates a encoder that reads old chunks by `reader` and refers to what `index` allows,
    /// except for chunks that the writer of `own` stores itself.
    pub fn new(reader: &'a Reader, index: &'a Index, own: TicketId) -> DeltaEncoder<'a> {
        let commits = reader.view().commits;
        DeltaEncoder {
            times: commits.iter().map(|(ticket, commit)| (*ticket, commit.time_ns)).collect(),
            similarity: None,
            ends_max: EDGES_MAX,
            neighbour: None,
            found_misses: 0,
            unlooked: 0,
            reader,
            index,
            own,
            stream: None,
            window: Window::new(0),
            spans: VecDeque::new(),
            resync: None,
            full_chunks: Vec::new(),
            numbers: HashMap::new(),
            pieces: Vec::new(),
        }
    }

    /// Sets the maximum number of remembered heads and tails of old chunks, 8 bytes each.
    #[must_use]
    pub fn with_ends_max(self, ends_max: usize) -> DeltaEncoder<'a> {
        DeltaEncoder { ends_max, ..self }
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
        let end = self.stream.as_ref().map_or(0, |stream| stream.end);
        let position = self.window.end().max(end);
        self.restart(position);
        self.stream = old.map(|content| Stream {
            segments: self.reader.segments(content),
            ahead: VecDeque::new(),
            ahead_first: 0,
            by_hint: HashMap::new(),
            end: position,
            expected: position,
            known: position,
            is_scouted: false,
            is_found: false,
            misses: 0,
            pause: 0,
        });
    }

    /// Restarts the window at `position`, and with it the list of the full chunks that it comes from.
    fn restart(&mut self, position: u64) {
        self.window.restart(position);
        self.spans.clear();
        self.full_chunks.clear();
        self.numbers.clear();
    }

    /// Skips a known chunk of the new stream.
    pub(super) fn pass(&mut self, fingerprint: &Fingerprint, len: usize) -> Result<()> {
        let is_there = match &mut self.stream {
            Some(stream) => stream.pass(fingerprint, len),
            None => Ok(false),
        };
        match is_there {
            Ok(is_there) => {
                self.neighbour = (!is_there).then_some(*fingerprint);
                Ok(())
            }
            Err(error) => self.give_up(error),
        }
    }

    /// If there is no previous version, continues behind the known chunk right before the next one,
    /// unless the current old stream has that chunk.
    fn follow_neighbour(&mut self) -> Result<()> {
        let Some(neighbour) = self.neighbour.take() else { return Ok(()) };
        if self.has_previous() {
            return Ok(());
        }
        if let Some(location) = self.place(&neighbour)?
            && let Some(loaded) = self.container(location.container.name)?
        {
            self.begin_at(&loaded, location.number, true);
        }
        Ok(())
    }

    /// Looks for an old chunk that begins or ends as `chunk` does. Returns `true` if there is one.
    fn find_edges(&mut self, chunk: &[u8]) -> Result<bool> {
        // After repeated failures only every second chunk is looked up, then every fourth, and so
        // on.
        if let Some(bits) = self.found_misses.checked_sub(MISSES_MAX) {
            self.unlooked += 1;
            if self.unlooked < 1 << bits.min(PAUSE_BITS_MAX) {
                return Ok(false);
            }
            self.unlooked = 0;
        }
        let Some((loaded, number)) = self.resembling(chunk)? else { return Ok(false) };
        self.begin_at(&loaded, number, false);
        Ok(true)
    }

    /// Returns `true` if the current stream has a previous version.
    fn has_previous(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.is_found)
    }

    /// Returns a place of a chunk, chosen in a fixed order.
    fn place(&self, fingerprint: &Fingerprint) -> Result<Option<Location>> {
        let order = |it: &Location| (!it.is_full(), it.container.name, it.number);
        let mut first: Option<Location> = None;
        self.find(fingerprint, |location| {
            if first.as_ref().is_none_or(|first| order(location) < order(first)) {
                first = Some(location.clone());
            }
            Ok(false)
        })?;
        Ok(first)
    }

    /// Returns a container that may be referred to, if it can be read.
    fn container(&self, name: PartName) -> Result<Option<Arc<Loaded>>> {
        match self.index.container(Class::Data, name) {
            Err(error) if error.is_loss() => Ok(None),
            loaded => loaded,
        }
    }

    /// Returns the place of a chunk that begins or ends as `chunk` does: its container, and its
    /// number there.
    fn resembling(&mut self, chunk: &[u8]) -> Result<Option<(Arc<Loaded>, usize)>> {
        let repository = self.reader.repository();
        let Some(edges) = repository.keys().edges(chunk) else { return Ok(None) };
        let similarity = self.similarity.get_or_insert_with(|| {
            SimilarityIndex::load(repository, self.index, self.own, &self.times, self.ends_max)
        });
        let Some((container, number)) = similarity.find(edges) else { return Ok(None) };
        let Some(loaded) = self.container(container)? else { return Ok(None) };
        let found = numbers_with_edges(&loaded.toc.chunks).nth(number);
        Ok(found.map(|number| (loaded, number)))
    }

    /// Begins a stream at chunk `at` of a container, or right behind it. Chunks that were stored
    /// one after another mostly followed each other in a file.
    fn begin_at(&mut self, loaded: &Loaded, at: usize, is_behind: bool) {
        let chunks = loaded.toc.chunks.iter().enumerate();
        let first = at.saturating_sub(PACKED_BEFORE_COUNT);
        let mut before = 0;
        let mut segments = Vec::new();
        for (number, chunk) in chunks.skip(first).take(PACKED_COUNT) {
            let (fingerprint, length) = (chunk.fingerprint, u64::from(chunk.chunk_len));
            if chunk.form != Form::Literal {
                segments.push(Segment::Chunk { fingerprint, offset: 0, length });
                let is_before = number < at + usize::from(is_behind);
                before += if is_before { length } else { 0 };
            }
        }
        self.begin(Some(&Content::Segments(segments)));
        if let Some(stream) = &mut self.stream {
            stream.expected += before;
            (stream.known, stream.is_found) = (stream.expected, true);
        }
    }

    /// Stops using the old stream.
    fn give_up(&mut self, error: Error) -> Result<()> {
        self.stream = None;
        if error.is_loss() { Ok(()) } else { Err(error) }
    }

    /// Reports whether the last composed chunk was stored as a delta chunk, and whether it makes the
    /// position of the new stream certain.
    pub(super) fn tell(&mut self, stored: bool, shows_place: bool) {
        let Some(stream) = &mut self.stream else { return };
        if stream.is_found {
            self.found_misses = if stored { 0 } else { self.found_misses.saturating_add(1) };
        }
        if stored && shows_place {
            stream.found(stream.expected);
        } else if stream.pause == 0 {
            // With a miss counted, a resync looks for a better position.
            stream.misses += 1;
            if !stored && let Some(bits) = stream.misses.checked_sub(MISSES_MAX) {
                stream.pause = 1 + (1 << bits.min(PAUSE_BITS_MAX));
            }
        }
    }

    /// Returns the containers of the full chunks that a delta chunk refers to.
    pub(super) fn containers(&self, delta: &Delta) -> impl Iterator<Item = PartName> {
        let numbers = delta.sources.iter().filter_map(|source| self.numbers.get(source));
        numbers.map(|number| self.full_chunks[*number as usize].1)
    }

    /// Expresses the next chunk of the new stream in terms of old chunks, if there is a stream to
    /// compare it with.
    pub(super) fn compose(&mut self, chunk: &[u8]) -> Result<Option<Delta>> {
        self.follow_neighbour()?;
        let delta = self.encode_here(chunk)?;
        let is_much = delta.as_ref().is_some_and(|delta| delta.has_most_of(chunk));
        let is_done = self.has_previous() || is_much;
        if is_done || !self.find_edges(chunk)? { Ok(delta) } else { self.encode_here(chunk) }
    }

    /// Does the same as [`DeltaEncoder::compose`], by the present old stream only.
    fn encode_here(&mut self, chunk: &[u8]) -> Result<Option<Delta>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let len = chunk.len() as u64;
        stream.pause = stream.pause.saturating_sub(1);
        if stream.pause > 0 {
            stream.expected += len;
            return Ok(None);
        }
        let moved = stream.fill().and_then(|()| self.resync(chunk));
        let expected = self.stream.as_ref().map_or(0, |stream| stream.expected);
        if let Err(error) = moved.and_then(|()| self.move_window(expected, len)) {
            self.give_up(error)?;
            return Ok(None);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        self.window.find(chunk, expected, &mut pieces);
        let behind = match pieces[..] {
            [.., Piece::Copy { position, len }] => position + len as u64,
            [.., Piece::Copy { position, len }, Piece::Literal { len: behind }] => {
                position + (len + behind) as u64
            }
            _ => expected + len,
        };
        if let Some(stream) = &mut self.stream {
            stream.expected = behind;
        }
        let delta = self.refer(chunk, &pieces);
        self.pieces = pieces;
        match delta {
            // Rule C5.
            Some(delta) if self.is_rebuilt(&delta, chunk)? => Ok(Some(delta)),
            _ => Ok(None),
        }
    }

    /// Looks further ahead for the position of `chunk` if the previous chunk was a miss.
    fn resync(&mut self, chunk: &[u8]) -> Result<()> {
        let is_lost = |stream: &&mut Stream<'_>| stream.misses > 0 && !stream.is_found;
        let Some(stream) = self.stream.as_mut().filter(is_lost) else { return Ok(()) };
        let begin = stream.ahead.front().map_or(stream.known, |old| old.position);
        let first = stream.known.saturating_sub(AROUND_LEN).max(begin);
        let capacity = usize::try_from(SCOUTED_LEN_MAX).unwrap_or(usize::MAX);
        let mut resync = self.resync.take().unwrap_or_else(|| Resync::new(capacity, first));
        if !std::mem::replace(&mut stream.is_scouted, true) {
            resync.restart(first);
        }
        let wanted = resync.end() + chunk.len() as u64 * SCOUTED_TIMES;
        let wanted = wanted.min(first + SCOUTED_LEN_MAX);
        let mut number = stream.number_at(resync.end());
        while resync.end() < wanted {
            let Some(old) = self.stream.as_ref().and_then(|stream| stream.get(number)) else {
                break;
            };
            // The first piece is used only from the resync's end on, because what lies before it is
            // of no use.
            let skipped = usize::try_from(resync.end().saturating_sub(old.position)).unwrap_or(0);
            let chunk = match self.old_chunk(&old, |_| Ok(true)) {
                Err(error) if !error.is_loss() => return Err(error),
                chunk => chunk.ok().flatten(),
            };
            let chunk = chunk
                .as_ref()
                .and_then(|(chunk, _, range)| chunk.get(range.clone())?.get(skipped..));
            match chunk {
                Some(bytes) => resync.push(bytes),
                // An unreadable piece is skipped.
                None => resync.restart(old.end()),
            }
            number += 1;
        }
        if let Some(position) = resync.locate(chunk)
            && let Some(stream) = &mut self.stream
        {
            stream.expected = position;
        }
        self.resync = Some(resync);
        Ok(())
    }

    /// Makes the window hold the bytes around the `len` bytes from `expected` on.
    fn move_window(&mut self, expected: u64, len: u64) -> Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let Some(first) = stream.get(stream.number_at(expected.saturating_sub(AROUND_LEN))) else {
            return Ok(());
        };
        let wanted_end = expected + len + AROUND_LEN;
        let held = self.window.start()..=self.window.end();
        if held.contains(&first.position) && self.full_chunks.len() < FULL_CHUNKS_MAX {
            self.window.drop_before(first.position);
            while self
                .spans
                .front()
                .is_some_and(|s| s.position + u64::from(s.len) <= first.position)
            {
                self.spans.pop_front();
            }
        } else {
            self.restart(first.position);
        }
        let end = self.window.end();
        let mut number = self.stream.as_ref().map_or(0, |stream| stream.number_at(end));
        while self.window.end() < wanted_end {
            let Some(old) = self.stream.as_ref().and_then(|stream| stream.get(number)) else {
                break;
            };
            match self.load(&old) {
                Ok(true) => {}
                // The window is restarted behind the piece.
                Ok(false) => self.restart(old.end()),
                Err(error) if error.is_loss() => self.restart(old.end()),
                Err(error) => return Err(error),
            }
            number += 1;
        }
        Ok(())
    }

    /// Returns the chunk of a piece of the old stream, its location, and the range of the piece in
    /// it. Returns `None` if no place of the chunk may be referred to that `accepts` admits.
    fn old_chunk(
        &self,
        old: &Old,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<(ChunkBytes, Location, Range<usize>)>> {
        let mut found = None;
        self.find(&old.fingerprint, |location| {
            if !accepts(location)? {
                return Ok(false);
            }
            // Not verified here: the copied bytes are compared with the full chunks (C5).
            let chunk = self.reader.unverified(Class::Data, location)?;
            let start = usize::try_from(old.offset).unwrap_or(usize::MAX);
            let len = usize::try_from(old.len).unwrap_or(usize::MAX);
            let range = start..start.saturating_add(len);
            let is_in = chunk.get(range.clone()).is_some();
            found = is_in.then(|| (chunk, location.clone(), range));
            Ok(is_in)
        })?;
        Ok(found)
    }

    /// Appends a piece of the old stream to the window. Returns `true` if the piece may be referred
    /// to.
    fn load(&mut self, old: &Old) -> Result<bool> {
        let mut sources = None;
        let found = self.old_chunk(old, |location| {
            sources = self.sources(location)?;
            Ok(sources.is_some())
        })?;
        let (Some((chunk, _, range)), Some(sources)) = (found, sources) else { return Ok(false) };
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let mut at = 0;
        for source in sources {
            let end = at + source.len as usize;
            let taken = range.start.max(at)..range.end.min(end);
            if !taken.is_empty() {
                let span = Span {
                    position: old.position + (taken.start - range.start) as u64,
                    len: narrow(taken.len()),
                    whole: self.number(&source),
                    offset: source.offset + narrow(taken.start - at),
                };
                self.spans.push_back(span);
            }
            at = end;
        }
        self.window.push(&chunk[range]);
        Ok(true)
    }

    /// Returns the stretches of full chunks that the chunk at `location` is made of, in order, or `None`
    /// if one of them may not be referred to.
    fn sources(&self, location: &Location) -> Result<Option<Vec<Source>>> {
        let chunk = location.chunk();
        if rules::may_refer_to(location.is_full()) {
            let container = location.container.name;
            let (whole, len) = (chunk.fingerprint, chunk.chunk_len);
            return Ok(Some(vec![Source { whole, container, offset: 0, len }]));
        }
        let mut containers: HashMap<u16, PartName> = HashMap::new();
        let mut sources = Vec::new();
        for Extent { reference, offset, len } in self.reader.extents(Class::Data, location)? {
            let whole = location.references()[usize::from(reference)];
            let number = self.numbers.get(&whole);
            let known = number.map(|number| self.full_chunks[*number as usize].1);
            let container = match known.or_else(|| containers.get(&reference).copied()) {
                Some(container) => container,
                None => match self.find(&whole, |found| Ok(found.is_full()))? {
                    Some(found) => found.container.name,
                    None => return Ok(None),
                },
            };
            containers.insert(reference, container);
            sources.push(Source { whole, container, offset, len });
        }
        Ok(Some(sources))
    }

    /// Does the same as [`find_of_others`] for this writer and its index.
    fn find(
        &self,
        fingerprint: &Fingerprint,
        accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        find_of_others(self.index, self.own, fingerprint, accepts)
    }

    /// Returns the number of a full chunk.
    fn number(&mut self, source: &Source) -> u32 {
        *self.numbers.entry(source.whole).or_insert_with(|| {
            self.full_chunks.push((source.whole, source.container));
            u32::try_from(self.full_chunks.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Expresses the pieces in terms of full chunks.
    fn refer(&self, chunk: &[u8], pieces: &[Piece]) -> Option<Delta> {
        let mut parts: Vec<Part> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match *piece {
                Piece::Literal { len } => parts.push(Part::Literal { len }),
                Piece::Copy { position, len } => self.refer_copy(position, len, &mut parts)?,
            }
        }
        let mut used: Vec<u32> = Vec::new();
        for part in &parts {
            if let Part::Copy { source, .. } = *part {
                used.push(source);
            }
        }
        used.sort_unstable();
        used.dedup();
        // Rule C4.
        if used.len() > FULL_CHUNKS_PER_CHUNK_MAX {
            // The full chunks of which least is left in this window are given up, so that neighbouring
            // chunks keep the same ones.
            let mut lens: HashMap<u32, u64> = HashMap::new();
            for span in &self.spans {
                *lens.entry(span.whole).or_default() += u64::from(span.len);
            }
            used.sort_unstable_by_key(|whole| (std::cmp::Reverse(lens.get(whole)), *whole));
            used.truncate(FULL_CHUNKS_PER_CHUNK_MAX);
            used.sort_unstable();
        }
        let mut delta = Delta::default();
        delta.sources.extend(used.iter().map(|whole| self.full_chunks[*whole as usize].0));
        let mut at = 0;
        for part in parts {
            let len = match part {
                Part::Literal { len } => len,
                Part::Copy { len, .. } => len as usize,
            };
            let kept = match part {
                Part::Copy { source, offset, len } => used
                    .binary_search(&source)
                    .ok()
                    .and_then(|source| u32::try_from(source).ok())
                    .map(|source| Part::Copy { source, offset, len }),
                Part::Literal { .. } => None,
            };
            match (kept, delta.parts.last_mut()) {
                (Some(copy), _) => delta.parts.push(copy),
                (None, Some(Part::Literal { len: before })) => *before += len,
                (None, _) => delta.parts.push(Part::Literal { len }),
            }
            if kept.is_none() {
                delta.literals.extend_from_slice(&chunk[at..at + len]);
            }
            at += len;
        }
        let is_fine = delta.parts.len() <= extent_count_max(chunk.len());
        (is_fine && !delta.sources.is_empty()).then_some(delta)
    }

    /// Expresses a copy out of the window as extents of full chunks (C1). The sources in `parts` are
    /// numbers of full chunks.
    fn refer_copy(&self, mut position: u64, len: usize, parts: &mut Vec<Part>) -> Option<()> {
        let end = position + len as u64;
        let mut index = self.spans.partition_point(|s| s.position + u64::from(s.len) <= position);
        while position < end {
            let span = self.spans.get(index)?;
            let skipped = u32::try_from(position.checked_sub(span.position)?).ok()?;
            let left = u32::try_from(end - position).unwrap_or(u32::MAX);
            let len = (span.len - skipped).min(left);
            let offset = span.offset + skipped;
            match parts.last_mut() {
                Some(Part::Copy { source, offset: before, len: before_len })
                    if *source == span.whole && *before + *before_len == offset =>
                {
                    *before_len += len;
                }
                _ => parts.push(Part::Copy { source: span.whole, offset, len }),
            }
            position += u64::from(len);
            index += 1;
        }
        Some(())
    }

    /// Returns `true` if the parts, read from the stored full chunks, yield the chunk.
    fn is_rebuilt(&self, delta: &Delta, chunk: &[u8]) -> Result<bool> {
        let mut copies: Vec<(u32, usize, Range<usize>)> = Vec::with_capacity(delta.parts.len());
        let (mut at, mut literal_at) = (0, 0);
        for part in &delta.parts {
            match *part {
                Part::Literal { len } => {
                    let new = delta.literals.get(literal_at..literal_at + len);
                    if new.is_none() || chunk.get(at..at + len) != new {
                        return Ok(false);
                    }
                    literal_at += len;
                    at += len;
                }
                Part::Copy { source, offset, len } => {
                    let (offset, len) = (offset as usize, len as usize);
                    copies.push((source, at, offset..offset + len));
                    at += len;
                }
            }
        }
        // Reads one full chunk at a time, because each may be the last reference that keeps a region in
        // memory.
        copies.sort_unstable_by_key(|(source, at, _)| (*source, *at));
        for copies in copies.chunk_by(|(source, ..), (other, ..)| source == other) {
            let Some(fingerprint) = copies.first().map(|copy| delta.sources[copy.0 as usize])
            else {
                continue;
            };
            let Some(whole) = self.stored(&fingerprint)? else { return Ok(false) };
            for (_, at, range) in copies {
                let bytes = whole.get(range.clone());
                if bytes.is_none() || chunk.get(*at..at + range.len()) != bytes {
                    return Ok(false);
                }
            }
        }
        Ok(at == chunk.len())
    }

    /// Returns the stored bytes of a full chunk, if it may be referred to and can be read.
    fn stored(&self, fingerprint: &Fingerprint) -> Result<Option<ChunkBytes>> {
        let mut stored = None;
        self.find(fingerprint, |location| {
            if rules::may_refer_to(location.is_full()) {
                stored = Some(self.reader.unverified(Class::Data, location)?);
            }
            Ok(stored.is_some())
        })?;
        Ok(stored)
    }
}

/// Visits the places of a chunk that may be referred to and that the writer of `own` has not stored
/// itself, until `accepts` admits one. Places that cannot be read are skipped.
pub(super) fn find_of_others(
    index: &Index,
    own: TicketId,
    fingerprint: &Fingerprint,
    mut accepts: impl FnMut(&Location) -> Result<bool>,
) -> Result<Option<Location>> {
    index.find_where(Class::Data, fingerprint, Scope::Write, |location| {
        if location.container.name.ticket == own {
            return Ok(false);
        }
        match accepts(location) {
            Err(error) if error.is_loss() => Ok(false),
            accepted => accepted,
        }
    })
}
