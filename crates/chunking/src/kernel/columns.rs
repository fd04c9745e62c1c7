//! Vectors with one byte of each of up to 64 rows, for computing hashes at as many positions at once.

use super::{BLOCK_SIZE, Block};

/// The maximum number of rows.
pub(crate) const ROW_COUNT_MAX: usize = 64;

/// A table of a byte for each byte value. Its alignment keeps loads from crossing cache lines,
/// which would double them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct ByteTable(pub(crate) [Block; 4]);

/// A table of a number of 16 bits for each byte value, as bytes and as numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct PairTable {
    /// The lower and the higher byte of each number.
    pub(crate) bytes: [ByteTable; 2],
    /// The numbers, 32 in a block, each with its lower byte first.
    pub(crate) numbers: [Block; 8],
}

impl PairTable {
    /// Creates the table whose entries are the lowest 16 bits of `number` of each byte value.
    pub(crate) fn new(number: impl Fn(u8) -> u64) -> PairTable {
        let mut bytes = [ByteTable([[0; BLOCK_SIZE]; 4]); 2];
        let mut numbers = [[0; BLOCK_SIZE]; 8];
        for value in 0..=u8::MAX {
            let at = usize::from(value);
            let [low, high, ..] = number(value).to_le_bytes();
            bytes[0].0[at / BLOCK_SIZE][at % BLOCK_SIZE] = low;
            bytes[1].0[at / BLOCK_SIZE][at % BLOCK_SIZE] = high;
            numbers[at / 32][2 * (at % 32)..][..2].copy_from_slice(&[low, high]);
        }
        PairTable { bytes, numbers }
    }
}

/// A matrix of 8 by 8 bits. Bit `i` of its product with a byte is the parity of the byte masked by
/// byte `7 - i` of the rows.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Matrix {
    /// The products with the values of the lower half of a byte. They repeat, because a vector
    /// looks up each 16 bytes in 16 entries of its own, and a load that repeats them takes longer.
    pub(crate) low: Block,
    /// The products with the values of the upper half of a byte, likewise.
    pub(crate) high: Block,
    pub(crate) rows: u64,
}

impl Matrix {
    pub(crate) fn new(rows: u64) -> Matrix {
        let product = |byte: usize| {
            let parity = |row: u8| (usize::from(row) & byte).count_ones() & 1 == 1;
            rows.to_le_bytes().into_iter().fold(0, |bits, row| bits << 1 | u8::from(parity(row)))
        };
        let low = core::array::from_fn(|k| product(k % 16));
        let high = core::array::from_fn(|k| product((k % 16) << 4));
        Matrix { low, high, rows }
    }
}

/// The kinds of columns, by the tables that one instruction looks up in, which decides what pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnsKind {
    /// Tables of a byte for each half of a byte.
    HalfBytes,
    /// Tables of a pair of bytes for each of 64 values.
    Pairs,
    /// Tables of a byte for each of 128 values, and matrices of bits.
    Bytes,
}

/// The operations that an instruction set supplies to the rolling hashes. As with
/// [`Kernel`](super::Kernel), a value is a proof that this CPU has the instruction set, and the
/// methods are `#[inline(always)]`.
///
/// A vector holds one byte of each row; byte `r` belongs to row `r`. Wider numbers take as
/// many vectors as they have bytes, in the order in which [`weave`](Columns::weave_bytes) leaves
/// them; [`rows_of`](Columns::rows_of) brings a mask of them back to the order of the rows.
pub(crate) trait Columns: Copy {
    const KIND: ColumnsKind;

    /// The number of rows, 32 or 64.
    const ROWS: usize;

    /// The number of positions in 64 columns of every row.
    const TILE_SIZE: usize = Self::ROWS * BLOCK_SIZE;

    /// A vector of a byte for each row. It may also hold half as many numbers of 16 bits, a quarter
    /// as many of 32, or an eighth as many of 64.
    type Vector: Copy;

    /// Does `work` in a separate function, compiled for the instruction set.
    fn enter<W: ColumnsWork<Self>>(self, work: W) -> W::Output;

    /// Transposes rows to columns: `columns[c]` gets byte `first + stride * r + c` of `data` for
    /// each row `r`. Each row has 64 bytes, and `stride` is not less.
    fn transpose(
        self,
        data: &[u8],
        first: usize,
        stride: usize,
        columns: &mut [Self::Vector; BLOCK_SIZE],
        scratch: &mut [Self::Vector; BLOCK_SIZE],
    );

    /// Prefetches the cache line of byte `offset` of `data`, which may lie behind the end of
    /// `data`.
    fn prefetch(self, data: &[u8], offset: usize);

    /// Returns a vector of bytes that are all `value`.
    fn splat(self, value: u8) -> Self::Vector;

    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Returns the exclusive or of all three.
    fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// Returns, for each byte, the entry of `table` at its index.
    fn look_up(self, table: &ByteTable, bytes: Self::Vector) -> Self::Vector;

    /// Returns, for each byte, the entry of `table` at its index. The numbers of 16 bits are in the
    /// order in which [`weave_bytes`](Columns::weave_bytes) leaves them.
    #[inline(always)]
    fn look_up_16(self, table: &PairTable, bytes: Self::Vector) -> [Self::Vector; 2] {
        let [low, high] = &table.bytes;
        self.weave_bytes(self.look_up(low, bytes), self.look_up(high, bytes))
    }

    /// Returns the exclusive or of the entries of `entering` for the bytes of `new` and those of
    /// `leaving` for the bytes of `old`, as [`look_up_16`](Columns::look_up_16) does.
    #[inline(always)]
    fn exchange_16(
        self,
        entering: &PairTable,
        new: Self::Vector,
        leaving: &PairTable,
        old: Self::Vector,
    ) -> [Self::Vector; 2] {
        let ([low, high], [old_low, old_high]) = (&entering.bytes, &leaving.bytes);
        self.weave_bytes(
            self.xor(self.look_up(low, new), self.look_up(old_low, old)),
            self.xor(self.look_up(high, new), self.look_up(old_high, old)),
        )
    }

    /// Multiplies each byte, taken as 8 bits, by a matrix.
    fn multiply(self, bytes: Self::Vector, matrix: &Matrix) -> Self::Vector;

    /// Returns the number of ones in each byte.
    fn count_ones(self, bytes: Self::Vector) -> Self::Vector;

    /// Returns the mask of the bytes that are zero.
    fn zero_bytes(self, bytes: Self::Vector) -> u64;

    /// Interleaves the bytes of `a` and `b` in each 16 bytes: their first 8, and their last 8.
    fn weave_bytes(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    /// Interleaves numbers of 16 bits likewise.
    fn weave_16(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    /// Interleaves numbers of 32 bits likewise.
    fn weave_32(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    fn add_16(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn subtract_16(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Returns the mask of the numbers of 16 bits that are at least `least`.
    fn at_least_16(self, a: Self::Vector, least: u16) -> u64;

    /// Returns the mask of the numbers of 16 bits that have none of the bits of `mask`.
    fn without_16(self, a: Self::Vector, mask: u16) -> u64;

    fn add_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Rotates each number of 32 bits left by one bit.
    fn turn_32(self, a: Self::Vector) -> Self::Vector;

    /// Returns the mask of the numbers of 32 bits that have none of the bits of `mask`.
    fn without_32(self, a: Self::Vector, mask: u32) -> u64;

    fn add_64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Rotates each number of 64 bits left by one bit.
    fn turn_64(self, a: Self::Vector) -> Self::Vector;

    /// Returns the mask of the numbers of 64 bits that have none of the bits of `mask`.
    fn without_64(self, a: Self::Vector, mask: u64) -> u64;

    /// Returns, for each number of 32 bits, its product with `factor`, less `subtrahend`, rotated
    /// right by `shift` bits.
    fn quotient_32(self, a: Self::Vector, factor: u32, subtrahend: u32, shift: u32)
    -> Self::Vector;

    /// Returns the same for each number of 64 bits.
    fn quotient_64(self, a: Self::Vector, factor: u64, subtrahend: u64, shift: u32)
    -> Self::Vector;

    /// Returns the mask of the numbers of 32 bits that are from `least` to `most`.
    fn within_32(self, a: Self::Vector, least: u32, most: u32) -> u64;

    /// Returns the mask of the numbers of 64 bits that are from `least` to `most`.
    fn within_64(self, a: Self::Vector, least: u64, most: u64) -> u64;

    /// Returns `true` if any number of 32 bits, in any of the vectors, is at most `most`.
    fn any_at_most_32(self, vectors: [Self::Vector; 4], most: u32) -> bool;

    /// Returns `true` if any number of 64 bits, in any of the vectors, is at most `most`.
    fn any_at_most_64(self, vectors: [Self::Vector; 8], most: u64) -> bool;

    /// Returns `true` if any number of 16 bits, in any of the vectors, has none of the bits of
    /// `mask`.
    fn any_without_16(self, vectors: [Self::Vector; 2], mask: u16) -> bool;

    /// Returns `true` if any number of 32 bits, in any of the vectors, has none of the bits of
    /// `mask`.
    fn any_without_32(self, vectors: [Self::Vector; 4], mask: u32) -> bool;

    /// Returns `true` if any number of 64 bits, in any of the vectors, has none of the bits of
    /// `mask`.
    fn any_without_64(self, vectors: [Self::Vector; 8], mask: u64) -> bool;

    /// Moves the lowest bits of `bits`, in order, to the positions at which `places` has ones.
    fn spread(self, bits: u64, places: u64) -> u64;

    /// Brings masks of numbers of `W` bytes, one mask for each of `W` vectors, to the order of the
    /// rows.
    #[inline(always)]
    fn rows_of<const W: usize>(self, masks: [u64; W]) -> u64 {
        let width = 16 / W;
        let places = 0x0001_0001_0001_0001 * ((1 << width) - 1);
        let mut rows = 0;
        for (vector, mask) in masks.into_iter().enumerate() {
            rows |= self.spread(mask, places << (vector * width));
        }
        rows
    }
}

/// Work that is written once for every instruction set with columns.
pub(crate) trait ColumnsTask {
    /// The result of the work.
    type Output;

    /// Does the work. It is not compiled for the instruction set; its hot loops are
    /// [`ColumnsWork`].
    fn run<C: Columns>(self, columns: C) -> Self::Output;
}

/// A loop over vectors of an instruction set. It should contain no call, because vectors that live
/// across a call stay in memory all the time, which takes several times as long.
pub(crate) trait ColumnsWork<C> {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, as with [`Task`](super::Task).
    fn run(self, columns: C) -> Self::Output;
}
