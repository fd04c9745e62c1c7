//! A stretch of an old stream, in which new bytes are searched for.

use std::ops::Range;

use crate::common::{common_prefix, common_suffix};
use crate::piece::Piece;

/// The length of a hashed key in bytes.
const KEY_LEN: usize = 8;
/// The interval of the positions of the old stream that are in the table, in bytes.
const STEP: usize = 32;
/// The minimum length of a copy away from the expected position, in bytes. A copy of this length
/// contains a full key at a position of the table, so that no such copy is missed.
pub const COPY_LEN_MIN: usize = KEY_LEN + STEP;
/// The minimum length of a copy at or near the expected position, in bytes. Such a copy is cheaper
/// to encode, and may therefore be shorter.
const COPY_LEN_MIN_EXPECTED: usize = 24;
/// The binary logarithm of the number of slots of the table.
const TABLE_BITS: u32 = 16;
/// The distance from the expected position, on each side, within which a nearer position of a key is
/// searched for, in bytes. The table has only one position of a key. One near the expected
/// position is cheaper to encode, and the bytes that follow are likely to be there as well.
const NEAR_LEN: usize = 256;
/// The ratio of lengths up to which a near copy is preferred to a longer copy elsewhere.
const NEAR_TIMES: usize = 8;
/// The number of bytes without a match after which the search skips one more position per step.
const PATIENCE_LEN: usize = 512;

/// The bytes of an old stream from [`start`](Window::start) to [`end`](Window::end), and a table of
/// the positions of their keys.
#[derive(Debug)]
pub struct Window {
    bytes: Vec<u8>,
    /// The number of bytes at the front of `bytes` that have been dropped.
    dropped: usize,
    /// The position of `bytes[0]`, a multiple of the step.
    base: u64,
    /// The position from which the slots of the table count, a multiple of the step.
    epoch: u64,
    /// The value (position - epoch) / step + 1 for each slot; 0 if empty. Positions before the
    /// window are stale.
    table: Vec<u32>,
    /// The next position to be put into the table.
    indexed: u64,
}

/// A range of new bytes that is in the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRange {
    /// The start in the new bytes.
    pub(crate) start: usize,
    /// The start in the bytes of the window.
    pub(crate) old: usize,
    pub(crate) len: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let key = bytes.get(at..)?.first_chunk::<KEY_LEN>()?;
    Some(u64::from_le_bytes(*key))
}

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - TABLE_BITS)) as usize
}

impl Window {
    /// Creates an empty window. The next byte that is pushed is at `position` of the old stream.
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

    /// Returns the position in the old stream at which the window starts.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.base + self.dropped as u64
    }

    /// Returns the position in the old stream at which the window ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns the position in the old stream of `bytes[at]`.
    pub(crate) fn position_of(&self, at: usize) -> u64 {
        self.base + at as u64
    }

    /// Returns the bytes from `position` on. Nothing is returned if the window does not hold it.
    pub(crate) fn bytes_from(&self, position: u64) -> &[u8] {
        self.index_of(position).and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    /// Returns the index of `position` in `bytes`, if the window holds it or ends there.
    fn index_of(&self, position: u64) -> Option<usize> {
        let at = usize::try_from(position.checked_sub(self.base)?).ok()?;
        (self.dropped..=self.bytes.len()).contains(&at).then_some(at)
    }

    /// Returns the range around `new[at]` that is equal to the old bytes around `position`, from
    /// `new[done]` on at the earliest. Returns `None` if the bytes at these places differ.
    pub(crate) fn range_around(
        &self,
        new: &[u8],
        done: usize,
        at: usize,
        position: u64,
    ) -> Option<WindowRange> {
        let old = self.index_of(position)?;
        let before = common_prefix(new.get(at..)?, &self.bytes[old..]);
        if before == 0 {
            return None;
        }
        let behind = common_suffix(new.get(done..at)?, &self.bytes[self.dropped..old]);
        Some(WindowRange { start: at - behind, old: old - behind, len: behind + before })
    }

    /// Drops all bytes. The next byte that is pushed is at `position`.
    pub fn restart(&mut self, position: u64) {
        self.bytes.clear();
        self.base = position / STEP as u64 * STEP as u64;
        self.dropped = usize::try_from(position - self.base).unwrap_or(0);
        self.bytes.resize(self.dropped, 0);
        let indexed = position.next_multiple_of(STEP as u64);
        let indexed_before = std::mem::replace(&mut self.indexed, indexed);
        // After a move backwards, stale entries of the table could lie in the window again, so the
        // table is cleared. The last indexed position is one step before the next one.
        if position + STEP as u64 <= indexed_before {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.table.fill(0);
        self.epoch = self.base;
    }

    /// Appends the next bytes of the old stream.
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

    /// Drops the bytes before `position`.
    pub fn drop_before(&mut self, position: u64) {
        let dropped = usize::try_from(position.min(self.end()).saturating_sub(self.base));
        self.dropped = dropped.unwrap_or(0).max(self.dropped);
        // The rest is moved only when more than half of the bytes are dropped, so that the cost per
        // byte stays constant.
        if self.dropped > self.bytes.len() / 2 + STEP {
            let removed = self.dropped / STEP * STEP;
            self.bytes.drain(..removed);
            self.dropped -= removed;
            self.base += removed as u64;
        }
    }

    /// Returns the position of `key` in the window that the table has, if any.
    fn look_up(&self, key: u64) -> Option<usize> {
        let count = self.table[slot(key)].checked_sub(1)?;
        let position = self.epoch + u64::from(count) * STEP as u64;
        let at = usize::try_from(position.checked_sub(self.base)?).ok()?;
        (at >= self.dropped && word(&self.bytes, at) == Some(key)).then_some(at)
    }

    /// Extends the key that `new[literal.end]` and `bytes[old]` have in common to all bytes around
    /// it that are equal. The result begins within `literal` or at its end.
    fn extend(&self, new: &[u8], literal: Range<usize>, old: usize) -> WindowRange {
        let at = literal.end;
        let behind = common_suffix(&new[literal], &self.bytes[self.dropped..old]);
        let before = common_prefix(&new[at + KEY_LEN..], &self.bytes[old + KEY_LEN..]);
        WindowRange { start: at - behind, old: old - behind, len: behind + KEY_LEN + before }
    }

    /// Returns the position of `key` that is nearest to `expected`, if that one is nearer than
    /// `found`.
    fn nearest(&self, key: u64, expected: i64, found: usize) -> Option<usize> {
        let center = usize::try_from(expected).ok()?;
        let radius = NEAR_LEN.min(center.abs_diff(found).checked_sub(1)?);
        let is_there = |at: &usize| *at >= self.dropped && word(&self.bytes, *at) == Some(key);
        (1..=radius).find_map(|distance| {
            let before = center.checked_sub(distance).filter(is_there);
            before.or_else(|| Some(center + distance).filter(is_there))
        })
    }

    /// Splits `new` into pieces and appends them to `pieces`. `expected` is the position in the old
    /// stream at which the first byte of `new` would be if nothing had changed. The lengths of the
    /// pieces add up to the length of `new`.
    pub fn find(&self, new: &[u8], expected: u64, pieces: &mut Vec<Piece>) {
        // The expected position of `new[literal]`, relative to `bytes`.
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
                    // The nearest position is searched for only if the table has a copy, because the
                    // search takes longer than a lookup in the table.
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
            if let Some(WindowRange { start, old, len }) = found {
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
