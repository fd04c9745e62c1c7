//! The first stage: finding the candidates, every position whose hash matches.

use alloc::vec;
use alloc::vec::Vec;

use crate::kernel::{BLOCK_SIZE, ByteTable, Columns, ColumnsWork, ROW_COUNT_MAX};

/// A hash of the last bytes, for many rows at once.
pub(crate) trait ColumnHash {
    /// Set if bytes leave the hash by [`ColumnHash::roll`]; otherwise they are shifted out of it.
    const LEAVES: bool;

    /// Set if the hash looks up bytes in tables of 256 entries, which takes longer by
    /// [`ColumnsKind::HalfBytes`](crate::kernel::ColumnsKind::HalfBytes) than by a plain loop.
    const LOOKS_UP: bool = false;

    /// The hashes of the rows.
    type State<C: Columns>: Copy;

    /// Returns the number of bytes, up to and including a position, on which the hash at the
    /// position depends.
    fn window(&self) -> usize;

    /// Returns the hashes of no bytes.
    fn empty<C: Columns>(&self, columns: C) -> Self::State<C>;

    /// Returns the hashes after `new` has entered, without a byte that leaves.
    fn enter<C: Columns>(
        &self,
        columns: C,
        state: Self::State<C>,
        new: C::Vector,
    ) -> Self::State<C>;

    /// Returns the hashes after `new` has entered and `old` has left.
    #[inline(always)]
    fn roll<C: Columns>(
        &self,
        columns: C,
        state: Self::State<C>,
        new: C::Vector,
        old: C::Vector,
    ) -> Self::State<C> {
        let _ = old;
        self.enter(columns, state, new)
    }

    /// Returns `true` if any hash may match, and `false` if none does. Some hashes know this sooner
    /// than which of them match.
    #[inline(always)]
    fn any<C: Columns>(&self, columns: C, state: Self::State<C>) -> bool {
        self.rows(columns, state) != 0
    }

    /// Returns the mask of rows whose hashes match.
    fn rows<C: Columns>(&self, columns: C, state: Self::State<C>) -> u64;
}

/// The maximum window, in bytes, for which candidates pay: each row begins by reading one window.
pub(crate) const WINDOW_MAX: usize = 512;

/// The maximum number of tiles of 64 bytes in a row. It is odd, so that the rows do not all fall
/// into the same sets of the cache.
pub(crate) const ROW_TILES_MAX: usize = 65;

/// The prefetch distance of a row, in bytes. On Zen 5, 2 tiles are too late for data from memory (a
/// third slower), and 8 and 16 are no better.
const PREFETCHED: usize = 4 * BLOCK_SIZE;

/// The maximum number of positions in one tile of every row.
pub(crate) const TILE_SIZE_MAX: usize = ROW_COUNT_MAX * BLOCK_SIZE;

/// The candidates of a stretch of bytes, with the buffers for making them.
pub(crate) struct CandidateBits<C: Columns> {
    /// The candidates: bit `k % 64` of word `k / 64` belongs to position `k`.
    words: Vec<u64>,
    /// The columns of the last tiles, as a ring buffer.
    ring: Vec<[C::Vector; BLOCK_SIZE]>,
    scratch: [C::Vector; BLOCK_SIZE],
}

impl<C: Columns> CandidateBits<C> {
    #[inline(always)]
    pub(crate) fn new(columns: C, window: usize) -> CandidateBits<C> {
        let zeros = [columns.splat(0); BLOCK_SIZE];
        let ring = vec![zeros; window.div_ceil(BLOCK_SIZE) + 1];
        CandidateBits { words: Vec::new(), ring, scratch: zeros }
    }

    /// Finds the positions at which `hash` matches, in `row_tiles` tiles of each row from `first`
    /// on. `data` contains all these bytes, and before `first` a window in whole tiles. Bytes are
    /// mapped by `permutation`.
    ///
    /// The stretch is divided into consecutive rows. The hash of a row begins a window before
    /// it.
    #[inline(always)]
    pub(crate) fn make<H: ColumnHash>(
        &mut self,
        columns: C,
        hash: &H,
        permutation: Option<&ByteTable>,
        data: &[u8],
        first: usize,
        row_tiles: usize,
    ) {
        let window = hash.window();
        let slots = self.ring.len();
        let warm_tiles = slots - 1;
        // Bytes of the first tile in front of the window are not hashed.
        let unused = warm_tiles * BLOCK_SIZE - window;
        self.words.clear();
        self.words.resize(row_tiles * C::ROWS, 0);
        let stride = row_tiles * BLOCK_SIZE;
        let mut state = hash.empty(columns);
        let mut hits = [0; BLOCK_SIZE];
        for tile in 0..warm_tiles + row_tiles {
            let slot = tile % slots;
            let start = first + tile * BLOCK_SIZE - warm_tiles * BLOCK_SIZE;
            columns.transpose(data, start, stride, &mut self.ring[slot], &mut self.scratch);
            if let Some(permutation) = permutation {
                columns.enter(Permute { permutation, tile: &mut self.ring[slot] });
            }
            if tile < warm_tiles {
                let new = &self.ring[slot][if tile == 0 { unused } else { 0 }..];
                state = columns.enter(Warm { hash, new, state });
            } else {
                // The bytes that leave arrived a window before: in the oldest tile, and then in the
                // next.
                let old = [
                    &self.ring[(tile + 1) % slots][unused..],
                    &self.ring[(tile + 2) % slots][..unused],
                ];
                let new = &self.ring[slot];
                let ahead = start + PREFETCHED;
                let work = Hash { hash, data, ahead, stride, new, old, state, hits: &mut hits };
                let hit_columns;
                (state, hit_columns) = columns.enter(work);
                if hit_columns != 0 {
                    self.note(&mut hits, hit_columns, tile - warm_tiles, row_tiles);
                }
            }
        }
    }

    /// Records the `hits` of a tile, of which only `hit_columns` are not zero, and resets them to
    /// zero.
    fn note(
        &mut self,
        hits: &mut [u64; BLOCK_SIZE],
        hit_columns: u64,
        tile: usize,
        row_tiles: usize,
    ) {
        if hit_columns.count_ones() > 8 {
            // In a run of one byte, for example, all positions match or none, so all bits are moved
            // at once.
            transpose_bits(hits);
            for (row, word) in hits.iter_mut().take(C::ROWS).enumerate() {
                self.words[row * row_tiles + tile] = core::mem::take(word);
            }
            return;
        }
        let mut left = hit_columns;
        while left != 0 {
            let column = left.trailing_zeros();
            left &= left - 1;
            let mut rows = core::mem::take(&mut hits[column as usize]);
            while rows != 0 {
                let row = rows.trailing_zeros() as usize;
                rows &= rows - 1;
                self.words[row * row_tiles + tile] |= 1 << column;
            }
        }
    }

    /// Returns the first candidate from `from` on and before `end`, counted from the first
    /// position.
    #[inline(always)]
    pub(crate) fn next(&self, from: usize, end: usize) -> Option<usize> {
        if from >= end {
            return None;
        }
        let mut index = from / 64;
        let mut word = self.words[index] & u64::MAX << (from % 64);
        while word == 0 {
            index += 1;
            if 64 * index >= end {
                return None;
            }
            word = self.words[index];
        }
        let at = 64 * index + word.trailing_zeros() as usize;
        (at < end).then_some(at)
    }
}

/// Maps each byte of a tile by a permutation.
struct Permute<'a, V> {
    permutation: &'a ByteTable,
    tile: &'a mut [V; BLOCK_SIZE],
}

impl<C: Columns> ColumnsWork<C> for Permute<'_, C::Vector> {
    type Output = ();

    #[inline(always)]
    fn run(self, columns: C) {
        for column in self.tile {
            *column = columns.look_up(self.permutation, *column);
        }
    }
}

/// Hashes the columns before the first position.
struct Warm<'a, C: Columns, H: ColumnHash> {
    hash: &'a H,
    new: &'a [C::Vector],
    state: H::State<C>,
}

impl<C: Columns, H: ColumnHash> ColumnsWork<C> for Warm<'_, C, H> {
    type Output = H::State<C>;

    #[inline(always)]
    fn run(self, columns: C) -> H::State<C> {
        let Warm { hash, new, mut state } = self;
        for &new in new {
            state = hash.enter(columns, state, new);
        }
        state
    }
}

/// Hashes a tile, and returns its hits.
struct Hash<'a, C: Columns, H: ColumnHash> {
    hash: &'a H,
    data: &'a [u8],
    /// The offset of the next prefetch, which advances by the distance of the rows.
    ahead: usize,
    stride: usize,
    new: &'a [C::Vector; BLOCK_SIZE],
    /// The columns that leave, as many as new ones.
    old: [&'a [C::Vector]; 2],
    state: H::State<C>,
    hits: &'a mut [u64; BLOCK_SIZE],
}

impl<C: Columns, H: ColumnHash> ColumnsWork<C> for Hash<'_, C, H> {
    /// The hashes after the tile, and the columns with hits.
    type Output = (H::State<C>, u64);

    #[inline(always)]
    fn run(self, columns: C) -> (H::State<C>, u64) {
        let Hash { hash, data, mut ahead, stride, new, old, mut state, hits } = self;
        let switch = if H::LEAVES { old[0].len() } else { BLOCK_SIZE };
        let mut hit_columns = 0;
        for (range, old) in [(0..switch, old[0]), (switch..BLOCK_SIZE, old[1])] {
            for column in range.clone() {
                // The rows are too many for the hardware to predict. With fewer rows than columns,
                // the first rows of the next stretch are prefetched as well.
                columns.prefetch(data, ahead);
                ahead += stride;
                state = if H::LEAVES {
                    hash.roll(columns, state, new[column], old[column - range.start])
                } else {
                    hash.enter(columns, state, new[column])
                };
                if hash.any(columns, state) {
                    hits[column] = hash.rows(columns, state);
                    hit_columns |= 1 << column;
                }
            }
        }
        (state, hit_columns)
    }
}

/// Transposes a matrix of 64 words of 64 bits.
fn transpose_bits(words: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = 0xffff_ffff_u64;
    while width > 0 {
        for row in (0..64).filter(|row| row & width == 0) {
            let (low, high) = (words[row], words[row + width]);
            let swapped = (low >> width ^ high) & mask;
            words[row] = low ^ swapped << width;
            words[row + width] = high ^ swapped;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    #[test]
    fn bits_are_transposed() {
        let mut random = SplitMix64::new(1);
        let words: [u64; 64] = core::array::from_fn(|_| random.next());
        let mut transposed = words;
        super::transpose_bits(&mut transposed);
        for (row, transposed) in transposed.into_iter().enumerate() {
            for (column, word) in words.into_iter().enumerate() {
                assert_eq!(transposed >> column & 1, word >> row & 1, "{row}, {column}");
            }
        }
    }
}
