//! A stretch of an old stream, in which new bytes are looked for.

use std::ops::Range;

use crate::common::{common_prefix, common_suffix};

/// So many bytes are hashed.
const KEY_LEN: usize = 8;
/// Each so many-th position of the old stream is in the table.
const STEP: usize = 32;
/// No copy is shorter, in bytes. One that is at least as long has a whole key at a position of the
/// table, so that none is missed for being between two.
pub const COPY_LEN_MIN: usize = KEY_LEN + STEP;
/// A copy that goes on where the bytes would be anyway is cheaper to name, and may be shorter.
const COPY_LEN_MIN_EXPECTED: usize = 24;
/// The table has 2 to the power of so many slots.
const TABLE_BITS: u32 = 16;
/// The table knows one place of a key. If that is not where the bytes would be, the nearest to it is
/// looked for, so many bytes to both sides: it is cheaper to name, and what follows is there as well.
const NEAR_LEN: usize = 256;
/// It is taken unless the other copy is more than so many times as long.
const NEAR_TIMES: usize = 8;
/// Nothing found for so many bytes: every second position is looked at from there on, and so forth.
const PATIENCE_LEN: usize = 512;

/// A part of a new chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes are not in the window.
    Literal {
        /// In bytes, more than 0.
        len: usize,
    },
    /// The bytes are in the window.
    Copy {
        /// Where they begin in the old stream, in bytes.
        position: u64,
        /// In bytes, more than 0.
        len: usize,
    },
}

/// Bytes of an old stream from [`start`](Window::start) to [`end`](Window::end), and a table of where
/// they are.
#[derive(Debug)]
pub struct Window {
    bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that have been dropped.
    dropped: usize,
    /// The position of `bytes[0]`: a multiple of the step.
    base: u64,
    /// What the slots of the table count from: a multiple of the step.
    epoch: u64,
    /// (position - epoch) / step + 1; 0 is empty. What lies before the window is stale.
    table: Vec<u32>,
    /// The next position to be put into the table.
    indexed: u64,
}

/// A piece of new bytes that is in the window.
#[derive(Clone, Copy, Debug)]
struct Extended {
    /// Where it begins in the new bytes.
    start: usize,
    /// And in the window's.
    old: usize,
    len: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let key = bytes.get(at..)?.first_chunk::<KEY_LEN>()?;
    Some(u64::from_le_bytes(*key))
}

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - TABLE_BITS)) as usize
}

impl Window {
    /// An empty window, in which the next byte that comes is at `position` of the old stream.
    #[must_use]
    pub fn new(position: u64) -> Window {
        let mut window = Window {
            bytes: Vec::new(),
            dropped: 0,
            base: 0,
            epoch: 0,
            table: vec![0; 1 << TABLE_BITS],
            indexed: 0,
        };
        window.restart(position);
        window
    }

    /// Where it begins in the old stream, in bytes.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.base + self.dropped as u64
    }

    /// Where it ends in the old stream, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Drops everything; the next byte that comes is at `position`.
    pub fn restart(&mut self, position: u64) {
        self.bytes.clear();
        self.base = position / STEP as u64 * STEP as u64;
        self.dropped = usize::try_from(position - self.base).unwrap_or(0);
        self.bytes.resize(self.dropped, 0);
        let indexed = position.next_multiple_of(STEP as u64);
        let indexed_before = std::mem::replace(&mut self.indexed, indexed);
        // What the table has of before may lie in the window again: going back, it is forgotten. The
        // last one in it is a step before the next.
        if position + STEP as u64 <= indexed_before {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.table.fill(0);
        self.epoch = self.base;
    }

    /// Appends what follows in the old stream.
    pub fn push(&mut self, old: &[u8]) {
        self.bytes.extend_from_slice(old);
        if (self.end() - self.epoch) / STEP as u64 >= u64::from(u32::MAX) {
            self.forget();
        }
        let mut at = usize::try_from(self.indexed - self.base).unwrap_or(usize::MAX);
        while let Some(key) = word(&self.bytes, at) {
            let count = (self.base + at as u64 - self.epoch) / STEP as u64 + 1;
            self.table[slot(key)] = u32::try_from(count).unwrap_or(0);
            at += STEP;
        }
        self.indexed = self.base + at as u64;
    }

    /// Drops what lies before `position`.
    pub fn drop_before(&mut self, position: u64) {
        let dropped = usize::try_from(position.min(self.end()).saturating_sub(self.base));
        self.dropped = dropped.unwrap_or(0).max(self.dropped);
        // Moved rarely: each byte once for each time that it is kept.
        if self.dropped > self.bytes.len() / 2 + STEP {
            let whole = self.dropped / STEP * STEP;
            self.bytes.drain(..whole);
            self.dropped -= whole;
            self.base += whole as u64;
        }
    }

    /// Where the window has `key`, by the table.
    fn look_up(&self, key: u64) -> Option<usize> {
        let count = self.table[slot(key)].checked_sub(1)?;
        let position = self.epoch + u64::from(count) * STEP as u64;
        let at = usize::try_from(position.checked_sub(self.base)?).ok()?;
        (at >= self.dropped && word(&self.bytes, at) == Some(key)).then_some(at)
    }

    /// What `new` has in common with the window around `new[literal.end]` and `bytes[old]`, which have a key in
    /// common.
    fn extend(&self, new: &[u8], literal: Range<usize>, old: usize) -> Extended {
        let at = literal.end;
        let behind = common_suffix(&new[literal], &self.bytes[self.dropped..old]);
        let before = common_prefix(&new[at + KEY_LEN..], &self.bytes[old + KEY_LEN..]);
        Extended { start: at - behind, old: old - behind, len: behind + KEY_LEN + before }
    }

    /// The place of `key` that is nearest to `expected`, if that is nearer than `found`.
    fn nearest(&self, key: u64, expected: i64, found: usize) -> Option<usize> {
        let center = usize::try_from(expected).ok()?;
        let radius = NEAR_LEN.min(center.abs_diff(found).checked_sub(1)?);
        let is_there = |at: &usize| *at >= self.dropped && word(&self.bytes, *at) == Some(key);
        (1..=radius).find_map(|distance| {
            let before = center.checked_sub(distance).filter(is_there);
            before.or_else(|| Some(center + distance).filter(is_there))
        })
    }

    /// Takes `new` apart. `expected` is the position in the old stream where its first byte would be
    /// if it had not changed. The pieces are appended; their lengths add up to that of `new`.
    pub fn find(&self, new: &[u8], expected: u64, pieces: &mut Vec<Piece>) {
        // Where `new[literal]` would be, relative to `bytes`.
        let mut expected = i64::try_from(expected).unwrap_or(i64::MAX)
            - i64::try_from(self.base).unwrap_or(i64::MAX);
        let (mut literal, mut at) = (0, 0);
        while let Some(key) = word(new, at) {
            let ahead = usize::try_from(expected + (at - literal) as i64).ok();
            let ahead =
                ahead.filter(|old| *old >= self.dropped && word(&self.bytes, *old) == Some(key));
            let found = match ahead {
                Some(old) => {
                    let copy = self.extend(new, literal..at, old);
                    (copy.len >= COPY_LEN_MIN_EXPECTED).then_some(copy)
                }
                None => {
                    let far = self.look_up(key).map(|old| self.extend(new, literal..at, old));
                    // Looked for only where there is a copy anyway: it takes longer than a look into the table.
                    far.filter(|far| far.len >= COPY_LEN_MIN).map(|far| {
                        let expected = expected + (at - literal) as i64;
                        let near = self.nearest(key, expected, far.old + (at - far.start));
                        near.map(|near| self.extend(new, literal..at, near))
                            .filter(|near| near.len >= COPY_LEN_MIN_EXPECTED)
                            .filter(|near| near.len * NEAR_TIMES >= far.len)
                            .unwrap_or(far)
                    })
                }
            };
            if let Some(Extended { start, old, len }) = found {
                if start > literal {
                    pieces.push(Piece::Literal { len: start - literal });
                }
                pieces.push(Piece::Copy { position: self.base + old as u64, len });
                at = start + len;
                literal = at;
                expected = (old + len) as i64;
                continue;
            }
            at += 1 + (at - literal) / PATIENCE_LEN;
        }
        if new.len() > literal {
            pieces.push(Piece::Literal { len: new.len() - literal });
        }
    }
}
