//! Vectors in plain Rust, with each operation by its definition, for testing the code over vectors
//! on a CPU that lacks the real ones.

#![expect(clippy::cast_possible_truncation, reason = "numbers are cut to the size of a lane")]

use super::{
    BLOCK_SIZE, Block, ByteTable, Columns, ColumnsKind, ColumnsWork, Kernel, LANE_COUNT,
    LongNumberBlock, Mapping, Matrix, NumberBlock, ROW_COUNT_MAX, Scalar, Tables, VALUE_SIZE_MAX,
    ValueBlock,
};

/// The emulated kernel, which every CPU has and which is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulated;

impl Kernel for Emulated {
    fn compare(self, bytes: &[u8; BLOCK_SIZE + 1]) -> (u64, u64) {
        Scalar.compare(bytes)
    }

    fn above(self, block: &Block, value: u8) -> u64 {
        Scalar.above(block, value)
    }

    fn below(self, block: &Block, value: u8) -> u64 {
        Scalar.below(block, value)
    }

    fn pairs_from(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        Scalar.pairs_from(bytes, pair)
    }

    fn pairs_to(self, bytes: &[u8; BLOCK_SIZE + 1], pair: [u8; 2]) -> u64 {
        Scalar.pairs_to(bytes, pair)
    }

    fn values_from(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        Scalar.values_from(bytes, bound, size)
    }

    fn values_to(self, bytes: &ValueBlock, bound: [u8; VALUE_SIZE_MAX], size: usize) -> u64 {
        Scalar.values_to(bytes, bound, size)
    }

    fn least_number(self, bytes: &NumberBlock, mapping: Mapping) -> u32 {
        Scalar.least_number(bytes, mapping)
    }

    fn has_number_below(self, bytes: &NumberBlock, mapping: Mapping, bound: u32) -> bool {
        Scalar.has_number_below(bytes, mapping, bound)
    }

    fn least_numbers(self, bytes: &LongNumberBlock, mapping: Mapping) -> [u32; LANE_COUNT] {
        Scalar.least_numbers(bytes, mapping)
    }

    fn first_number(self, bytes: &LongNumberBlock, mapping: Mapping, number: u32) -> usize {
        Scalar.first_number(bytes, mapping, number)
    }

    fn sift(self, bytes: &[u8; BLOCK_SIZE + 1], tables: &Tables) -> u64 {
        Scalar.sift(bytes, tables)
    }

    fn squeeze(self, bits: u64, kept: u64) -> u64 {
        Scalar.squeeze(bits, kept)
    }

    fn nth_one(self, mask: u64, n: u32) -> u32 {
        Scalar.nth_one(mask, n)
    }

    fn prefetch(self, _: &[u8], _: usize) {}

    fn prefetch_far(self, _: &[u8], _: usize) {}
}

/// Returns the numbers of `N` bytes in a vector.
fn numbers<const N: usize>(
    vector: Block,
) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
    (0..BLOCK_SIZE / N).map(move |k| {
        vector[N * k..][..N].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    })
}

/// Returns the vector of numbers of `N` bytes; higher bits are dropped.
fn vector<const N: usize>(numbers: impl Iterator<Item = u64>) -> Block {
    let mut vector = [0; BLOCK_SIZE];
    for (bytes, number) in vector.chunks_mut(N).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes()[..N]);
    }
    vector
}

fn mapped<const N: usize>(a: Block, b: Block, map: impl Fn(u64, u64) -> u64) -> Block {
    vector::<N>(numbers::<N>(a).zip(numbers::<N>(b)).map(|(a, b)| map(a, b)))
}

/// Returns a mask whose bit k is set if `is_such` holds for number k of `N` bytes.
fn mask<const N: usize>(a: Block, is_such: impl Fn(u64) -> bool) -> u64 {
    numbers::<N>(a).rev().fold(0, |mask, number| mask << 1 | u64::from(is_such(number)))
}

/// Interleaves the numbers of `N` bytes in each 16 bytes.
fn weave<const N: usize>(a: Block, b: Block) -> [Block; 2] {
    let mut woven = [[0; BLOCK_SIZE]; 2];
    for quarter in (0..BLOCK_SIZE).step_by(16) {
        for k in 0..16 / N {
            let half = &mut woven[k / (8 / N)];
            let to = quarter + 2 * N * (k % (8 / N));
            let from = quarter + N * k;
            half[to..to + N].copy_from_slice(&a[from..from + N]);
            half[to + N..to + 2 * N].copy_from_slice(&b[from..from + N]);
        }
    }
    woven
}

impl Columns for Emulated {
    const KIND: ColumnsKind = ColumnsKind::Bytes;

    const ROWS: usize = ROW_COUNT_MAX;

    type Vector = Block;

    fn enter<W: ColumnsWork<Emulated>>(self, work: W) -> W::Output {
        work.run(self)
    }

    fn transpose(
        self,
        data: &[u8],
        first: usize,
        stride: usize,
        columns: &mut [Block; BLOCK_SIZE],
        _: &mut [Block; BLOCK_SIZE],
    ) {
        for (row, bytes) in data[first..].chunks(stride).take(Self::ROWS).enumerate() {
            for (column, &byte) in columns.iter_mut().zip(&bytes[..BLOCK_SIZE]) {
                column[row] = byte;
            }
        }
    }

    fn prefetch(self, _: &[u8], _: usize) {}

    fn splat(self, value: u8) -> Block {
        [value; BLOCK_SIZE]
    }

    fn and(self, a: Block, b: Block) -> Block {
        mapped::<1>(a, b, |a, b| a & b)
    }

    fn or(self, a: Block, b: Block) -> Block {
        mapped::<1>(a, b, |a, b| a | b)
    }

    fn xor(self, a: Block, b: Block) -> Block {
        mapped::<1>(a, b, |a, b| a ^ b)
    }

    fn xor3(self, a: Block, b: Block, c: Block) -> Block {
        self.xor(self.xor(a, b), c)
    }

    fn look_up(self, table: &ByteTable, bytes: Block) -> Block {
        bytes.map(|byte| table.0[usize::from(byte >> 6)][usize::from(byte & 63)])
    }

    fn multiply(self, bytes: Block, matrix: &Matrix) -> Block {
        let rows = matrix.rows.to_le_bytes();
        bytes.map(|byte| {
            (0..8)
                .fold(0, |product, i| product | ((byte & rows[7 - i]).count_ones() as u8 & 1) << i)
        })
    }

    fn count_ones(self, bytes: Block) -> Block {
        bytes.map(|byte| byte.count_ones() as u8)
    }

    fn zero_bytes(self, bytes: Block) -> u64 {
        mask::<1>(bytes, |byte| byte == 0)
    }

    fn weave_bytes(self, a: Block, b: Block) -> [Block; 2] {
        weave::<1>(a, b)
    }

    fn weave_16(self, a: Block, b: Block) -> [Block; 2] {
        weave::<2>(a, b)
    }

    fn weave_32(self, a: Block, b: Block) -> [Block; 2] {
        weave::<4>(a, b)
    }

    fn add_16(self, a: Block, b: Block) -> Block {
        mapped::<2>(a, b, u64::wrapping_add)
    }

    fn subtract_16(self, a: Block, b: Block) -> Block {
        mapped::<2>(a, b, u64::wrapping_sub)
    }

    fn at_least_16(self, a: Block, least: u16) -> u64 {
        mask::<2>(a, |number| number >= u64::from(least))
    }

    fn without_16(self, a: Block, bits: u16) -> u64 {
        mask::<2>(a, |number| number & u64::from(bits) == 0)
    }

    fn add_32(self, a: Block, b: Block) -> Block {
        mapped::<4>(a, b, u64::wrapping_add)
    }

    fn turn_32(self, a: Block) -> Block {
        mapped::<4>(a, a, |number, _| number << 1 | number >> 31)
    }

    fn without_32(self, a: Block, bits: u32) -> u64 {
        mask::<4>(a, |number| number & u64::from(bits) == 0)
    }

    fn add_64(self, a: Block, b: Block) -> Block {
        mapped::<8>(a, b, u64::wrapping_add)
    }

    fn turn_64(self, a: Block) -> Block {
        mapped::<8>(a, a, |number, _| number.rotate_left(1))
    }

    fn without_64(self, a: Block, bits: u64) -> u64 {
        mask::<8>(a, |number| number & bits == 0)
    }

    fn quotient_32(self, a: Block, factor: u32, subtrahend: u32, shift: u32) -> Block {
        mapped::<4>(a, a, |number, _| {
            let number = number as u32;
            u64::from(number.wrapping_mul(factor).wrapping_sub(subtrahend).rotate_right(shift))
        })
    }

    fn quotient_64(self, a: Block, factor: u64, subtrahend: u64, shift: u32) -> Block {
        mapped::<8>(a, a, |number, _| {
            number.wrapping_mul(factor).wrapping_sub(subtrahend).rotate_right(shift)
        })
    }

    fn within_32(self, a: Block, least: u32, most: u32) -> u64 {
        mask::<4>(a, |number| (u64::from(least)..=u64::from(most)).contains(&number))
    }

    fn within_64(self, a: Block, least: u64, most: u64) -> u64 {
        mask::<8>(a, |number| (least..=most).contains(&number))
    }

    fn any_at_most_32(self, vectors: [Block; 4], most: u32) -> bool {
        vectors.iter().any(|&vector| self.within_32(vector, 0, most) != 0)
    }

    fn any_at_most_64(self, vectors: [Block; 8], most: u64) -> bool {
        vectors.iter().any(|&vector| self.within_64(vector, 0, most) != 0)
    }

    fn any_without_16(self, vectors: [Block; 2], bits: u16) -> bool {
        vectors.iter().any(|&vector| self.without_16(vector, bits) != 0)
    }

    fn any_without_32(self, vectors: [Block; 4], bits: u32) -> bool {
        vectors.iter().any(|&vector| self.without_32(vector, bits) != 0)
    }

    fn any_without_64(self, vectors: [Block; 8], bits: u64) -> bool {
        vectors.iter().any(|&vector| self.without_64(vector, bits) != 0)
    }

    fn spread(self, bits: u64, places: u64) -> u64 {
        let places = (0..64).filter(|place| places >> place & 1 == 1);
        places.enumerate().fold(0, |spread, (k, place)| spread | (bits >> k & 1) << place)
    }
}
