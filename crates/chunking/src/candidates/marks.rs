//! The first stage: marking every place whose hash matches.

use alloc::vec;
use alloc::vec::Vec;

use crate::kernel::{BLOCK_SIZE, ByteTable, Columns, ColumnsWork, ROW_COUNT};

/// A hash of the last bytes, of 64 rows at once.
pub(crate) trait ColumnHash {
    /// Whether bytes leave the hash by [`ColumnHash::roll`]; where not, they are shifted out of it.
    const LEAVES: bool;

    /// The hashes of the rows.
    type State<C: Columns>: Copy;

    /// How many bytes, up to the place itself, the hash at a place depends on.
    fn window(&self) -> usize;

    /// The hashes of no bytes.
    fn empty<C: Columns>(&self, columns: C) -> Self::State<C>;

    /// The hashes after `new`, where nothing leaves.
    fn enter<C: Columns>(
        &self,
        columns: C,
        state: Self::State<C>,
        new: C::Vector,
    ) -> Self::State<C>;

    /// The hashes after `new`, where `old` leaves.
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

    /// Whether any hash may match; false if none does. For those that know it sooner than which.
    #[inline(always)]
    fn any<C: Columns>(&self, columns: C, state: Self::State<C>) -> bool {
        self.rows(columns, state) != 0
    }

    /// Which rows' hashes match.
    fn rows<C: Columns>(&self, columns: C, state: Self::State<C>) -> u64;
}

/// The largest window, in bytes, that is worth it: each row begins by reading one.
pub(crate) const WINDOW_MAX: usize = 512;

/// As many tiles of 64 bytes make a row at most: an odd number, so that the rows do not all fall into
/// the same sets of the cache.
pub(crate) const ROW_TILES_MAX: usize = 65;

/// How far before a row is read its bytes are asked for: on Zen 5 from memory, 2 tiles are too late (a third
/// slower), 8 and 16 no better.
const PREFETCHED: usize = 4 * BLOCK_SIZE;

/// How many places there are in a tile of every row.
pub(crate) const TILE_SIZE: usize = ROW_COUNT * BLOCK_SIZE;

/// The marks of a stretch of bytes, and what is needed to make them.
pub(crate) struct Marks<C: Columns> {
    /// Bit `k % 64` of word `k / 64` is about place `k`.
    words: Vec<u64>,
    /// The columns of the last tiles, round and round.
    ring: Vec<[C::Vector; BLOCK_SIZE]>,
    scratch: [C::Vector; BLOCK_SIZE],
}

impl<C: Columns> Marks<C> {
    #[inline(always)]
    pub(crate) fn new(columns: C, window: usize) -> Marks<C> {
        let zeros = [columns.splat(0); BLOCK_SIZE];
        let ring = vec![zeros; window.div_ceil(BLOCK_SIZE) + 1];
        Marks { words: Vec::new(), ring, scratch: zeros }
    }

    /// Marks the places of `row_tiles` tiles from `first` on, where `hash` matches; there are as many
    /// bytes of `data`, and before `first` a window, in whole tiles. Bytes count as `permutation` says.
    ///
    /// The stretch is cut into 64 rows, one after the other. A row's hash begins a window before it.
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
        // Before the window there are bytes of the first tile that are not hashed.
        let unused = warm_tiles * BLOCK_SIZE - window;
        self.words.clear();
        self.words.resize(row_tiles * ROW_COUNT, 0);
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
                // What leaves came a window before: in the oldest tile, and then in the next.
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

    /// Notes the `hits` of a tile, of which only `hit_columns` are not zero, and makes them zero.
    fn note(
        &mut self,
        hits: &mut [u64; BLOCK_SIZE],
        hit_columns: u64,
        tile: usize,
        row_tiles: usize,
    ) {
        if hit_columns.count_ones() > 8 {
            // As in a run of one byte, where all places match or none: all bits at once.
            transpose_bits(hits);
            for (row, word) in hits.iter_mut().enumerate() {
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

    /// The first mark from `from` on and before `end`, counted from the first place.
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

/// Has each byte of a tile seen as another.
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

/// Hashes columns before the first place.
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

/// Hashes a tile, and says where it matches.
struct Hash<'a, C: Columns, H: ColumnHash> {
    hash: &'a H,
    data: &'a [u8],
    /// What is asked for meanwhile: this byte, and so on by the distance of the rows.
    ahead: usize,
    stride: usize,
    new: &'a [C::Vector; BLOCK_SIZE],
    /// The columns that leave: there are as many as new ones.
    old: [&'a [C::Vector]; 2],
    state: H::State<C>,
    hits: &'a mut [u64; BLOCK_SIZE],
}

impl<C: Columns, H: ColumnHash> ColumnsWork<C> for Hash<'_, C, H> {
    /// The hashes after it, and the columns with hits.
    type Output = (H::State<C>, u64);

    #[inline(always)]
    fn run(self, columns: C) -> (H::State<C>, u64) {
        let Hash { hash, data, mut ahead, stride, new, old, mut state, hits } = self;
        let switch = if H::LEAVES { old[0].len() } else { BLOCK_SIZE };
        let mut hit_columns = 0;
        for (range, old) in [(0..switch, old[0]), (switch..BLOCK_SIZE, old[1])] {
            for column in range.clone() {
                // The rows are too many for the hardware to foresee.
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

/// Swaps rows and columns of 64 words of 64 bits.
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
