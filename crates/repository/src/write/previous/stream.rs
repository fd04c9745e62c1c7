//! The old stream, and the position of the new stream in it.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use cutpoint_storage::{Error, Result};

use crate::format::fingerprint::Fingerprint;
use crate::format::recipe::Segment;
use crate::format::toc::REGION_RAW_LEN_MAX;
use crate::read::Segments;

/// Number of old bytes to search before and behind the expected position of a chunk.
pub(super) const AROUND_LEN: u64 = 96 * 1024;
/// Maximum length of old bytes to resync, in bytes.
pub(super) const RESYNC_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Number of old pieces ahead in which a known chunk is looked up.
const AHEAD_COUNT: u64 = 1024;
/// Number of consecutive unprofitable chunks before the encoder pauses.
pub(super) const MISSES_MAX: u32 = 6;
/// Maximum exponent of a pause: each further failure doubles the number of skipped chunks, up to 2
/// to the power of this.
pub(super) const PAUSE_BITS_MAX: u32 = 7;

/// A piece of the old stream. Positions count only the bytes of chunks, without holes and zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldPiece {
    pub(super) fingerprint: Fingerprint,
    /// Offset of the piece in its chunk.
    pub(super) offset: u64,
    pub(super) position: u64,
    pub(super) len: u64,
}

impl OldPiece {
    pub(super) fn end(&self) -> u64 {
        self.position + self.len
    }
}

/// The pieces of the old stream from shortly before the position of the new stream on.
#[derive(Debug)]
pub(super) struct OldPieces<'a> {
    segments: Segments<'a>,
    list: VecDeque<OldPiece>,
    /// The number of the first piece in `list`. Numbers count from 0 at the first piece of the
    /// stream.
    first: u64,
    /// Maps a hint to the number of a piece in `list`.
    by_hint: HashMap<u64, u64>,
    /// The position behind the last piece that was read from the recipe.
    end: u64,
}

impl OldPieces<'_> {
    /// Returns the number of the piece at `position`, or of the next one.
    pub(super) fn number_at(&self, position: u64) -> u64 {
        self.first + self.list.partition_point(|old| old.end() <= position) as u64
    }

    pub(super) fn get(&self, number: u64) -> Option<OldPiece> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.list.get(index).copied()
    }

    /// Returns the pieces that begin within `range`.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = OldPiece> {
        let begin = self.list.partition_point(|old| old.position < range.start);
        let pieces = self.list.range(begin..);
        pieces.copied().take_while(move |old| old.position < range.end)
    }

    /// Returns the position of the first piece, if there is one.
    pub(super) fn start(&self) -> Option<u64> {
        self.list.front().map(|old| old.position)
    }

    /// Returns the first of the pieces with this hint.
    fn by_hint(&self, hint: u64) -> Option<OldPiece> {
        self.get(*self.by_hint.get(&hint)?)
    }

    /// Drops the pieces that end before `position`.
    fn drop_before(&mut self, position: u64) {
        while self.list.front().is_some_and(|old| old.end() < position) {
            let Some(old) = self.list.pop_front() else { break };
            let hint = old.fingerprint.hint();
            if self.by_hint.get(&hint) == Some(&self.first) {
                self.by_hint.remove(&hint);
            }
            self.first += 1;
        }
    }

    /// Reads on in the recipe up to the piece of the given number.
    fn read_to(&mut self, number: u64) -> Result<()> {
        while self.first + (self.list.len() as u64) < number {
            let Some(segment) = self.segments.next() else { break };
            let Segment::Chunk { fingerprint, offset, length } = segment? else { continue };
            if length > u64::from(REGION_RAW_LEN_MAX) {
                return Err(Error::corrupt(
                    format!("chunk {fingerprint}"),
                    "recorded length is too large",
                ));
            }
            let number = self.first + self.list.len() as u64;
            // The first of several equal pieces is kept, because it comes next.
            self.by_hint.entry(fingerprint.hint()).or_insert(number);
            self.list.push_back(OldPiece { fingerprint, offset, position: self.end, len: length });
            self.end += length;
        }
        Ok(())
    }
}

/// The origin of an old stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The previous version.
    Previous,
    /// A container with a similar chunk.
    Container,
    /// The chunks of this run, one of which is similar.
    Run,
}

/// The old stream, and the position of the new stream in it.
#[derive(Debug)]
pub(super) struct OldStream<'a> {
    pub(super) pieces: OldPieces<'a>,
    /// The old position that the next new byte is expected to correspond to.
    pub(super) expected: u64,
    /// The old position behind the last certain match.
    pub(super) known: u64,
    /// Set if the last chunk that was compared says nothing about the position.
    is_lost: bool,
    /// Set if a resync is looking for the position.
    pub(super) is_resyncing: bool,
    pub(super) origin: Origin,
    /// Number of consecutive chunks that were not stored by this stream.
    misses: u32,
    /// Number of chunks until the next attempt.
    pause: u32,
}

impl<'a> OldStream<'a> {
    /// Creates a stream of `segments`, whose positions begin at `position`.
    pub(super) fn new(segments: Segments<'a>, position: u64) -> OldStream<'a> {
        OldStream {
            pieces: OldPieces {
                segments,
                list: VecDeque::new(),
                first: 0,
                by_hint: HashMap::new(),
                end: position,
            },
            expected: position,
            known: position,
            is_lost: false,
            is_resyncing: false,
            origin: Origin::Previous,
            misses: 0,
            pause: 0,
        }
    }

    /// Returns the position behind the last piece that was read so far.
    pub(super) fn end(&self) -> u64 {
        self.pieces.end
    }

    /// Returns `true` if the position is no longer certain, and a resync could find it.
    pub(super) fn is_out_of_sync(&self) -> bool {
        self.is_lost && self.origin == Origin::Previous
    }

    /// Reads on in the recipe, and drops pieces that lie far behind.
    pub(super) fn fill(&mut self) -> Result<()> {
        // A position that is too far ahead of the last match counts as certain, because the list
        // must not grow with the file.
        if self.expected > self.known + RESYNC_LEN_MAX {
            (self.known, self.is_resyncing) = (self.expected, false);
        }
        self.pieces.drop_before(self.known.saturating_sub(2 * AROUND_LEN));
        self.pieces.read_to(self.pieces.number_at(self.expected) + AHEAD_COUNT)
    }

    /// Skips a known chunk of the new stream. Returns `true` if the old stream has it as well.
    pub(super) fn skip(&mut self, fingerprint: &Fingerprint, len: usize) -> Result<bool> {
        self.fill()?;
        let is_it = |old: &OldPiece| old.fingerprint == *fingerprint && old.offset == 0;
        // Among equal pieces in a row, the expected one is preferred.
        let here = self.pieces.get(self.pieces.number_at(self.expected)).filter(is_it);
        let found = here.or_else(|| self.pieces.by_hint(fingerprint.hint()).filter(is_it));
        match found {
            Some(old) => self.found(old.position + len as u64),
            None => self.expected += len as u64,
        }
        Ok(found.is_some())
    }

    /// Records that the new stream certainly stands at `position`.
    fn found(&mut self, position: u64) {
        (self.expected, self.known) = (position, position);
        (self.is_lost, self.is_resyncing) = (false, false);
        (self.misses, self.pause) = (0, 0);
    }

    /// Returns `true` if the next chunk, of `len` bytes, is to be compared. Otherwise the stream
    /// skips it.
    pub(super) fn attempts(&mut self, len: u64) -> bool {
        self.pause = self.pause.saturating_sub(1);
        if self.pause > 0 {
            self.expected += len;
        }
        self.pause == 0
    }

    /// Reports that the last chunk was stored as a delta chunk or not, and that it makes the
    /// position certain or not.
    pub(super) fn report(&mut self, is_stored: bool, is_certain: bool) {
        if is_stored && is_certain {
            self.found(self.expected);
        } else if self.pause == 0 {
            // A resync looks for a better position.
            self.is_lost = !is_certain;
            self.misses += 1;
            if !is_stored && let Some(bits) = self.misses.checked_sub(MISSES_MAX) {
                self.pause = 1 + (1 << bits.min(PAUSE_BITS_MAX));
            }
        }
    }
}
