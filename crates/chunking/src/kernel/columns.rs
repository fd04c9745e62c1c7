//! Vectors with a byte of each of 64 rows: what hashes at 64 places at once are computed with.

use super::{BLOCK_SIZE, Block};

/// How many rows there are.
pub(crate) const ROW_COUNT: usize = 64;

/// A table of a byte for each byte. It does not cross lines of the cache, which would double its loads.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct ByteTable(pub(crate) [Block; 4]);

/// What an instruction set supplies to the rolling hashes. As with [`Kernel`](super::Kernel), a value
/// is a proof that this CPU has it, and the methods are `#[inline(always)]`.
///
/// 64 rows of bytes stand in one vector, byte `r` being of row `r`. Wider numbers stand in as many
/// vectors as they have bytes, in the order that [`weave`](Columns::weave_bytes) leaves them in:
/// [`rows_of`](Columns::rows_of) brings a mask of them back to the order of the rows.
pub(crate) trait Columns: Copy {
    /// 64 bytes, or 32 numbers of 16 bits, 16 of 32, 8 of 64.
    type Vector: Copy;

    /// Does `work` in a function of its own, compiled for the instruction set.
    fn enter<W: ColumnsWork<Self>>(self, work: W) -> W::Output;

    /// Makes columns of rows: `columns[c]` gets byte `first + stride * r + c` of `data` for each row `r`.
    /// There are 64 bytes in each row, and `stride` is not less.
    fn transpose(
        self,
        data: &[u8],
        first: usize,
        stride: usize,
        columns: &mut [Self::Vector; BLOCK_SIZE],
        scratch: &mut [Self::Vector; BLOCK_SIZE],
    );

    /// Asks for the cache line of byte `offset` of `data`, which may lie behind its end.
    fn prefetch(self, data: &[u8], offset: usize);

    /// 64 times `value`.
    fn splat(self, value: u8) -> Self::Vector;

    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The exclusive or of three.
    fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// For each byte the entry of `table` of that number.
    fn look_up(self, table: &ByteTable, bytes: Self::Vector) -> Self::Vector;

    /// Multiplies each byte, taken as 8 bits, with a matrix of 8 rows: bit `i` of a result is the parity
    /// of the byte and byte `7 - i` of `matrix`.
    fn multiply(self, bytes: Self::Vector, matrix: u64) -> Self::Vector;

    /// The number of ones in each byte.
    fn count_ones(self, bytes: Self::Vector) -> Self::Vector;

    /// Which bytes are zero.
    fn zero_bytes(self, bytes: Self::Vector) -> u64;

    /// In each 16 bytes, the bytes of `a` and `b` in turns: of their first 8, and of their last 8.
    fn weave_bytes(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    /// The same with numbers of 16 bits.
    fn weave_16(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    /// The same with numbers of 32 bits.
    fn weave_32(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];

    fn add_16(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn subtract_16(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Which numbers of 16 bits are at least `least`.
    fn at_least_16(self, a: Self::Vector, least: u16) -> u64;

    /// Which numbers of 16 bits have none of the bits of `mask`.
    fn without_16(self, a: Self::Vector, mask: u16) -> u64;

    fn add_32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Turns each number of 32 bits left by one bit.
    fn turn_32(self, a: Self::Vector) -> Self::Vector;

    /// Which numbers of 32 bits have none of the bits of `mask`.
    fn without_32(self, a: Self::Vector, mask: u32) -> u64;

    fn add_64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Turns each number of 64 bits left by one bit.
    fn turn_64(self, a: Self::Vector) -> Self::Vector;

    /// Which numbers of 64 bits have none of the bits of `mask`.
    fn without_64(self, a: Self::Vector, mask: u64) -> u64;

    /// For each number of 32 bits its product with `factor`, less `subtrahend`, turned right by `shift`
    /// bits.
    fn quotient_32(self, a: Self::Vector, factor: u32, subtrahend: u32, shift: u32)
    -> Self::Vector;

    /// The same with 64 bits.
    fn quotient_64(self, a: Self::Vector, factor: u64, subtrahend: u64, shift: u32)
    -> Self::Vector;

    /// Which numbers of 32 bits are from `least` to `most`.
    fn within_32(self, a: Self::Vector, least: u32, most: u32) -> u64;

    /// Which numbers of 64 bits are from `least` to `most`.
    fn within_64(self, a: Self::Vector, least: u64, most: u64) -> u64;

    /// Whether one or more numbers of 32 bits, in any of the vectors, are at most `most`.
    fn any_at_most_32(self, vectors: [Self::Vector; 4], most: u32) -> bool;

    /// The same with numbers of 64 bits.
    fn any_at_most_64(self, vectors: [Self::Vector; 8], most: u64) -> bool;

    /// Whether one or more numbers of 16 bits, in any of the vectors, have none of the bits of `mask`.
    fn any_without_16(self, vectors: [Self::Vector; 2], mask: u16) -> bool;

    /// The same with numbers of 32 bits.
    fn any_without_32(self, vectors: [Self::Vector; 4], mask: u32) -> bool;

    /// The same with numbers of 64 bits.
    fn any_without_64(self, vectors: [Self::Vector; 8], mask: u64) -> bool;

    /// Moves the lowest bits of `bits`, in order, to where `places` has ones.
    fn spread(self, bits: u64, places: u64) -> u64;

    /// Brings masks of numbers of `W` bytes, one mask for each of `W` vectors, to the order of rows.
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
    /// What it results in.
    type Output;

    /// Does the work. It is not compiled for the instruction set: what it does by the thousand is
    /// [`ColumnsWork`].
    fn run<C: Columns>(self, columns: C) -> Self::Output;
}

/// A loop over vectors of an instruction set. There should be no call in it: vectors that live across
/// a call stay in memory all the time, which takes several times as long.
pub(crate) trait ColumnsWork<C> {
    /// What it results in.
    type Output;

    /// Does the work; `#[inline(always)]`, as with [`Task`](super::Task).
    fn run(self, columns: C) -> Self::Output;
}
