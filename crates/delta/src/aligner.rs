//! Long copies first: the pieces of a chunk where records were inserted or removed.

use crate::anchors::{AnchorIndex, KEY_LEN, Repeats};
use crate::piece::Piece;
use crate::window::{Window, WindowRange};

/// The density of anchors: the content selects one in 2 to the power of this number of positions.
const ANCHOR_BITS: u32 = 5;
/// The length of the old bytes whose anchors have a slot each, in bytes: a window around a chunk.
const INDEX_LEN: usize = 512 * 1024;
/// The minimum length of a copy that an anchor leads to, in bytes.
const COPY_LEN_MIN: usize = 128;
/// The ratio of lengths up to which a copy at the expected position is preferred to a longer copy
/// elsewhere.
const EXPECTED_TIMES: usize = 8;
/// The mean length of pieces from which on a chunk is not searched again, in bytes.
const PIECE_LEN_MEAN_MAX: usize = 256;
/// The assumed cost of a copy, and that of a literal besides its bytes, in bytes.
const COPY_COST: usize = 4;
const LITERAL_COST: usize = 2;
/// The maximum exponent of a pause: after each failure twice as many chunks are not searched again,
/// up to 2 to the power of this number.
const PAUSE_BITS_MAX: u32 = 6;

/// Finds better pieces for chunks of many short ones.
///
/// [`Window::find`] continues at the expected position as long as it finds copies there. Records
/// that are almost equal give copies at a wrong position, too: after one row of a table was
/// removed, each further row is a copy of the row before it, except for its number. The aligner
/// looks for long copies first, from anchors on, and for short ones only between these.
#[derive(Debug)]
pub struct Aligner {
    index: AnchorIndex,
    /// The pieces of the present chunk. Kept for its memory.
    pieces: Vec<Piece>,
    /// Number of consecutive chunks for which nothing better was found.
    misses: u32,
    /// Number of further chunks that are not searched again.
    pause: u32,
}

impl Default for Aligner {
    fn default() -> Aligner {
        Aligner::new()
    }
}

impl Aligner {
    /// Creates an aligner, which takes 128 KiB of memory.
    #[must_use]
    pub fn new() -> Aligner {
        let index = AnchorIndex::new(INDEX_LEN, ANCHOR_BITS, Repeats::Last, 0);
        Aligner { index, pieces: Vec::new(), misses: 0, pause: 0 }
    }

    /// Replaces `pieces`, which `window` has found for `new` at `expected`, if long copies give
    /// clearly better ones. Chunks of long pieces are left as they are. After chunks without a
    /// gain, further chunks are skipped, twice as many each time.
    pub fn improve(&mut self, window: &Window, new: &[u8], expected: u64, pieces: &mut Vec<Piece>) {
        if new.len() >= pieces.len() * PIECE_LEN_MEAN_MAX {
            return;
        }
        if let Some(pause) = self.pause.checked_sub(1) {
            self.pause = pause;
            return;
        }
        let mut found = std::mem::take(&mut self.pieces);
        found.clear();
        self.find(window, new, expected, &mut found);
        if cost(&found) < cost(pieces) / 8 * 7 {
            std::mem::swap(&mut found, pieces);
            self.misses = 0;
        } else {
            self.pause = 1 << self.misses.min(PAUSE_BITS_MAX);
            self.misses += 1;
        }
        self.pieces = found;
    }

    /// Splits `new` into pieces: long copies, and what the window finds between them.
    fn find(&mut self, window: &Window, new: &[u8], mut expected: u64, pieces: &mut Vec<Piece>) {
        self.index_window(window);
        let mut done = 0;
        while let Some(WindowRange { start, old, len }) =
            self.long_copy(window, new, done, expected)
        {
            window.find(&new[done..start], expected, pieces);
            let position = window.position_of(old);
            pieces.push(Piece::Copy { position, len });
            (done, expected) = (start + len, position + len as u64);
        }
        window.find(&new[done..], expected, pieces);
    }

    /// Returns the first long copy in `new[done..]`. `expected` is the position of `new[done]` if
    /// nothing had changed.
    fn long_copy(
        &self,
        window: &Window,
        new: &[u8],
        done: usize,
        expected: u64,
    ) -> Option<WindowRange> {
        self.index.of(&new[done..]).find_map(|(at, hash)| {
            let measure = |position| window.range_around(new, done, done + at, position);
            let near = measure(expected + at as u64);
            let far = self.index.look_up(hash).and_then(measure);
            let range = match (near, far) {
                (Some(near), Some(far)) if near.len * EXPECTED_TIMES < far.len => Some(far),
                (near, far) => near.or(far),
            };
            range.filter(|range| range.len >= COPY_LEN_MIN)
        })
    }

    /// Indexes the bytes of the window that are not indexed yet.
    fn index_window(&mut self, window: &Window) {
        if !(window.start()..=window.end()).contains(&self.index.end()) {
            self.index.restart(window.start());
        }
        self.index.push(window.bytes_from(self.index.end()));
    }
}

/// Returns the assumed cost of pieces in bytes.
fn cost(pieces: &[Piece]) -> usize {
    let cost = |piece: &Piece| match piece {
        Piece::Literal { len } => LITERAL_COST + len,
        Piece::Copy { .. } => COPY_COST,
    };
    pieces.iter().map(cost).sum()
}

const _: () = assert!(COPY_LEN_MIN >= KEY_LEN, "a copy has the key of its anchor");
