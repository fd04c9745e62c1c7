//! The window of old bytes, every byte of which belongs to a full chunk.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use cutpoint_delta::{Aligner, Piece, Window, position_behind};
use cutpoint_storage::Result;

use super::stream::{AROUND_LEN, OldPiece, OldPieces};
use crate::format::extents::{Extent, extent_count_max};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::index::Location;
use crate::read::{ChunkBytes, gather, no_full_chunk};
use crate::rules;
use crate::write::delta::{Delta, Part};
use crate::write::references::References;
use crate::write::width::narrow;

/// Maximum number of full chunks that the bytes of a window come from. Beyond it the window is
/// restarted.
const FULL_CHUNKS_MAX: usize = 16 * 1024;
/// Maximum number of full chunks that a delta chunk refers to, besides the literal of its region.
/// At worst each lies in another region, and more than these would exceed what a reader can hold,
/// if every version changes a little.
const FULL_CHUNKS_PER_CHUNK_MAX: usize = 20;

/// Bytes of the window that are consecutive bytes of one full chunk.
#[derive(Clone, Copy, Debug)]
struct Span {
    position: u64,
    len: u32,
    /// The number of the full chunk.
    source: usize,
    /// Offset of the bytes in the full chunk.
    offset: u32,
}

impl Span {
    fn end(&self) -> u64 {
        self.position + u64::from(self.len)
    }
}

/// A full chunk with its container, unless this writer has stored it.
type FullChunk = (Fingerprint, Option<PartName>);

/// A stretch of an old chunk: `len` bytes of a full chunk from `offset` on.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The number of the full chunk among those of the old chunk.
    full_chunk: usize,
    offset: u32,
    len: u32,
}

/// The full chunks that an old chunk is made of.
#[derive(Debug, Default)]
struct Composition {
    full_chunks: Vec<FullChunk>,
    stretches: Vec<Stretch>,
}

impl Composition {
    /// Returns the composition of a full chunk of `len` bytes.
    fn of_full_chunk(full_chunk: FullChunk, len: u32) -> Composition {
        let stretches = vec![Stretch { full_chunk: 0, offset: 0, len }];
        Composition { full_chunks: vec![full_chunk], stretches }
    }

    /// Returns the composition of a delta chunk of `extents` over `references`, for which `find`
    /// returns full chunks; `None` if `find` returns none for one of them.
    fn of_extents(
        extents: &[Extent],
        references: &[Fingerprint],
        mut find: impl FnMut(&Fingerprint) -> Result<Option<FullChunk>>,
    ) -> Result<Option<Composition>> {
        let mut composition = Composition::default();
        let mut numbers: Vec<Option<usize>> = vec![None; references.len()];
        for Extent { reference, offset, len } in extents {
            let reference = usize::from(*reference);
            let full_chunk = match numbers[reference] {
                Some(number) => number,
                None => {
                    let Some(found) = find(&references[reference])? else { return Ok(None) };
                    composition.full_chunks.push(found);
                    composition.full_chunks.len() - 1
                }
            };
            numbers[reference] = Some(full_chunk);
            composition.stretches.push(Stretch { full_chunk, offset: *offset, len: *len });
        }
        Ok(Some(composition))
    }
}

/// A piece of the old stream: a range of an old chunk, and what the chunk is made of.
#[derive(Debug)]
struct LoadedPiece {
    chunk: ChunkBytes,
    range: Range<usize>,
    composition: Composition,
}

/// Old bytes around the position of the new stream, with the full chunks that they come from.
#[derive(Debug)]
pub(super) struct OldWindow {
    bytes: Window,
    aligner: Aligner,
    spans: VecDeque<Span>,
    /// The full chunks that the spans come from, with their containers, unless this writer has
    /// stored them.
    full_chunks: Vec<FullChunk>,
    numbers: HashMap<Fingerprint, usize>,
    /// The pieces of the present chunk. Kept for its memory.
    pieces: Vec<Piece>,
}

impl OldWindow {
    pub(super) fn new() -> OldWindow {
        OldWindow {
            bytes: Window::new(0),
            aligner: Aligner::new(),
            spans: VecDeque::new(),
            full_chunks: Vec::new(),
            numbers: HashMap::new(),
            pieces: Vec::new(),
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.bytes.end()
    }

    /// Restarts the window at `position`, and with it the list of the full chunks that it comes
    /// from.
    pub(super) fn restart(&mut self, position: u64) {
        self.bytes.restart(position);
        self.spans.clear();
        self.full_chunks.clear();
        self.numbers.clear();
    }

    /// Makes the window hold the bytes around the `len` bytes from `expected` on.
    pub(super) fn move_to(
        &mut self,
        references: &References<'_>,
        pieces: &OldPieces<'_>,
        expected: u64,
        len: u64,
    ) -> Result<()> {
        let first = pieces.number_at(expected.saturating_sub(AROUND_LEN));
        let Some(first) = pieces.get(first) else { return Ok(()) };
        let wanted_end = expected + len + AROUND_LEN;
        let held = self.bytes.start()..=self.bytes.end();
        if held.contains(&first.position) && self.full_chunks.len() < FULL_CHUNKS_MAX {
            self.bytes.drop_before(first.position);
            while self.spans.front().is_some_and(|span| span.end() <= first.position) {
                self.spans.pop_front();
            }
        } else {
            self.restart(first.position);
        }
        let mut number = pieces.number_at(self.bytes.end());
        while self.bytes.end() < wanted_end {
            let Some(old) = pieces.get(number) else { break };
            match self.load(references, &old) {
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

    /// Appends a piece of the old stream to the window. Returns `true` if the piece may be referred
    /// to.
    fn load(&mut self, references: &References<'_>, old: &OldPiece) -> Result<bool> {
        // The bytes are not verified here: the copied ones are compared with the full chunks (C5).
        let piece = match self.recent_piece(references, old)? {
            Some(piece) => Some(piece),
            None => self.stored_piece(references, old)?,
        };
        let Some(LoadedPiece { chunk, range, composition }) = piece else { return Ok(false) };
        // The numbers of the full chunks in the window.
        let mut numbers: Vec<Option<usize>> = vec![None; composition.full_chunks.len()];
        let mut at = 0;
        for stretch in composition.stretches {
            let end = at + stretch.len as usize;
            let used = range.start.max(at)..range.end.min(end);
            if !used.is_empty() {
                let number = &mut numbers[stretch.full_chunk];
                let full_chunk = composition.full_chunks[stretch.full_chunk];
                let source = *number.get_or_insert_with(|| self.number(full_chunk));
                let span = Span {
                    position: old.position + (used.start - range.start) as u64,
                    len: narrow(used.len(), "copy")?,
                    source,
                    offset: stretch.offset + narrow::<u32>(used.start - at, "copy")?,
                };
                self.spans.push_back(span);
            }
            at = end;
        }
        self.bytes.push(&chunk[range]);
        Ok(true)
    }

    /// Returns a piece of a stored chunk, if it may be referred to.
    fn stored_piece(
        &self,
        references: &References<'_>,
        old: &OldPiece,
    ) -> Result<Option<LoadedPiece>> {
        let mut composition = None;
        let found = references.piece(&old.fingerprint, (old.offset, old.len), |location| {
            composition = self.composition(references, location)?;
            Ok(composition.is_some())
        })?;
        let piece = found.zip(composition);
        Ok(piece.map(|((chunk, range), composition)| LoadedPiece { chunk, range, composition }))
    }

    /// Returns a piece of a chunk of this writer, if the chunk is in memory and what it is made of
    /// may be referred to.
    fn recent_piece(
        &self,
        references: &References<'_>,
        old: &OldPiece,
    ) -> Result<Option<LoadedPiece>> {
        let start = usize::try_from(old.offset).unwrap_or(usize::MAX);
        let range = start..start.saturating_add(usize::try_from(old.len).unwrap_or(usize::MAX));
        let (chunk, composition) = if let Some(chunk) =
            references.recent_full_chunk(&old.fingerprint)?
        {
            let len = narrow(chunk.len(), "chunk")?;
            (chunk, Composition::of_full_chunk((old.fingerprint, None), len))
        } else if let Some((extents, fingerprints)) = references.recent_extents(&old.fingerprint)? {
            let mut containers: HashMap<Fingerprint, Option<PartName>> = HashMap::new();
            let bytes = gather("a region of this run", &extents, &fingerprints, |reference| {
                let found = references.full_chunk(reference)?;
                let (bytes, container) =
                    found.ok_or_else(|| no_full_chunk(Class::Data, reference))?;
                containers.insert(*reference, container);
                Ok(bytes)
            })?;
            let composition = Composition::of_extents(&extents, &fingerprints, |reference| {
                Ok(containers.get(reference).map(|container| (*reference, *container)))
            })?;
            let Some(composition) = composition else { return Ok(None) };
            (ChunkBytes::from(bytes), composition)
        } else {
            return Ok(None);
        };
        let is_in = chunk.get(range.clone()).is_some();
        Ok(is_in.then_some(LoadedPiece { chunk, range, composition }))
    }

    /// Returns the composition of the chunk at `location`, or `None` if one of its full chunks may
    /// not be referred to.
    fn composition(
        &self,
        references: &References<'_>,
        location: &Location,
    ) -> Result<Option<Composition>> {
        let chunk = location.chunk();
        if rules::may_refer_to(location.is_full()) {
            let full_chunk = (chunk.fingerprint, Some(location.container.name));
            return Ok(Some(Composition::of_full_chunk(full_chunk, chunk.chunk_len)));
        }
        let extents = references.reader().extents(Class::Data, location)?;
        Composition::of_extents(&extents, location.references(), |reference| {
            if let Some(number) = self.numbers.get(reference) {
                return Ok(Some(self.full_chunks[*number]));
            }
            let found = references.find(reference, |found| Ok(found.is_full()))?;
            Ok(found.map(|found| (*reference, Some(found.container.name))))
        })
    }

    /// Returns the number of a full chunk.
    fn number(&mut self, full_chunk: FullChunk) -> usize {
        *self.numbers.entry(full_chunk.0).or_insert_with(|| {
            self.full_chunks.push(full_chunk);
            self.full_chunks.len() - 1
        })
    }

    /// Returns the containers of other writers that a delta of this window refers to.
    pub(super) fn containers(&self, delta: &Delta) -> Vec<PartName> {
        let numbers = delta.sources.iter().filter_map(|source| self.numbers.get(source));
        numbers.filter_map(|number| self.full_chunks[*number].1).collect()
    }

    /// Expresses a chunk in terms of the window, if that is possible. `expected` is the position of
    /// the chunk if nothing had changed. Also returns the position behind the chunk.
    pub(super) fn encode(&mut self, chunk: &[u8], expected: u64) -> (u64, Option<Delta>) {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        self.bytes.find(chunk, expected, &mut pieces);
        self.aligner.improve(&self.bytes, chunk, expected, &mut pieces);
        let behind = position_behind(&pieces).unwrap_or(expected + chunk.len() as u64);
        let delta = self.parts(&pieces).and_then(|parts| self.delta(chunk, parts));
        self.pieces = pieces;
        (behind, delta)
    }

    /// Expresses pieces in terms of full chunks. The sources of the parts are numbers of full
    /// chunks.
    fn parts(&self, pieces: &[Piece]) -> Option<Vec<Part>> {
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match *piece {
                Piece::Literal { len } => parts.push(Part::Literal { len }),
                Piece::Copy { position, len } => self.push_copy(position, len, &mut parts)?,
            }
        }
        Some(parts)
    }

    /// Expresses a copy out of the window as extents of full chunks (C1).
    fn push_copy(&self, mut position: u64, len: usize, parts: &mut Vec<Part>) -> Option<()> {
        let end = position + len as u64;
        let mut index = self.spans.partition_point(|span| span.end() <= position);
        while position < end {
            let span = self.spans.get(index)?;
            let skipped = u32::try_from(position.checked_sub(span.position)?).ok()?;
            let rest = u32::try_from(end - position).ok()?;
            let len = (span.len - skipped).min(rest);
            let offset = span.offset + skipped;
            match parts.last_mut() {
                Some(Part::Copy { source, offset: before, len: before_len })
                    if *source == span.source && *before + *before_len == offset =>
                {
                    *before_len += len;
                }
                _ => parts.push(Part::Copy { source: span.source, offset, len }),
            }
            position += u64::from(len);
            index += 1;
        }
        Some(())
    }

    /// Returns the numbers of the full chunks that the parts copy from and that a delta may keep,
    /// in ascending order (C4).
    fn sources(&self, parts: &[Part]) -> Vec<usize> {
        let sources = parts.iter().filter_map(|part| match *part {
            Part::Copy { source, .. } => Some(source),
            Part::Literal { .. } => None,
        });
        let mut sources: Vec<usize> = sources.collect();
        sources.sort_unstable();
        sources.dedup();
        if sources.len() > FULL_CHUNKS_PER_CHUNK_MAX {
            // The full chunks of which least is left in this window are given up, so that
            // neighbouring chunks keep the same ones.
            let mut lens: HashMap<usize, u64> = HashMap::new();
            for span in &self.spans {
                *lens.entry(span.source).or_default() += u64::from(span.len);
            }
            sources.sort_unstable_by_key(|it| (std::cmp::Reverse(lens.get(it)), *it));
            sources.truncate(FULL_CHUNKS_PER_CHUNK_MAX);
            sources.sort_unstable();
        }
        sources
    }

    /// Returns the delta of the parts. Copies from full chunks that are given up become literals.
    fn delta(&self, chunk: &[u8], parts: Vec<Part>) -> Option<Delta> {
        let sources = self.sources(&parts);
        let mut delta = Delta::default();
        delta.sources.extend(sources.iter().map(|source| self.full_chunks[*source].0));
        let mut at = 0;
        for part in parts {
            let (len, copy) = match part {
                Part::Literal { len } => (len, None),
                Part::Copy { source, offset, len } => {
                    let source = sources.binary_search(&source).ok();
                    (len as usize, source.map(|source| Part::Copy { source, offset, len }))
                }
            };
            match (copy, delta.parts.last_mut()) {
                (Some(copy), _) => delta.parts.push(copy),
                (None, Some(Part::Literal { len: before })) => *before += len,
                (None, _) => delta.parts.push(Part::Literal { len }),
            }
            if copy.is_none() {
                delta.literals.extend_from_slice(&chunk[at..at + len]);
            }
            at += len;
        }
        let is_allowed = delta.parts.len() <= extent_count_max(chunk.len());
        (is_allowed && !delta.sources.is_empty()).then_some(delta)
    }
}
