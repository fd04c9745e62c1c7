//! A test suite for the columns of every level of this CPU: the answers equal those of the emulated
//! ones, which are plain definitions.

use alloc::vec;
use alloc::vec::Vec;

use cutpoint_testing::SplitMix64;

use super::{
    BLOCK_SIZE, Block, ByteTable, Columns, ColumnsTask, ColumnsWork, Level, Matrix, PairTable,
    ROW_COUNT,
};

/// The vectors, as bytes in rows of 64, and other arguments of the operations.
struct Answer<'a> {
    /// Byte `c` of row `r` is byte `r` of vector `c`.
    rows: &'a [u8],
    tables: &'a [PairTable; 2],
    matrix: &'a Matrix,
    number: u64,
    shift: u32,
}

/// The results of an operation, as bytes or as masks.
#[derive(Debug, PartialEq)]
enum Result {
    Vectors(Vec<Block>),
    Mask(u64),
    Any(bool),
}

type Results = Vec<(&'static str, Result)>;

impl ColumnsTask for Answer<'_> {
    type Output = Results;

    fn run<C: Columns>(self, columns: C) -> Results {
        let mut vectors = [columns.splat(0); BLOCK_SIZE];
        let mut scratch = vectors;
        columns.transpose(self.rows, 0, BLOCK_SIZE, &mut vectors, &mut scratch);
        let transposed = vectors.map(|vector| bytes(columns, vector)).to_vec();
        let mut results = vec![("transpose", Result::Vectors(transposed))];
        for group in vectors.as_chunks::<8>().0 {
            results.extend(columns.enter(Group { answer: &self, group }));
        }
        results
    }
}

/// Returns the bytes of a vector.
fn bytes<C: Columns>(columns: C, vector: C::Vector) -> Block {
    let mut bytes = [0; BLOCK_SIZE];
    for bit in 0..8 {
        let zeros = columns.zero_bytes(columns.and(vector, columns.splat(1 << bit)));
        for (row, byte) in bytes.iter_mut().enumerate() {
            *byte |= u8::from(zeros >> row & 1 == 0) << bit;
        }
    }
    bytes
}

struct Group<'a, V> {
    answer: &'a Answer<'a>,
    group: &'a [V; 8],
}

impl<C: Columns> ColumnsWork<C> for Group<'_, C::Vector> {
    type Output = Results;

    fn run(self, c: C) -> Results {
        let (bytes_of, [v0, v1, v2, v3, ..]) = (|vector| bytes(c, vector), *self.group);
        let Answer { tables, matrix, number, shift, .. } = *self.answer;
        let vectors = |vectors: &[C::Vector]| {
            Result::Vectors(vectors.iter().map(|&vector| bytes_of(vector)).collect())
        };
        let ([n8, n8_high, ..], n32) = (number.to_le_bytes(), lower(number));
        let n16 = u16::from_le_bytes([n8, n8_high]);
        let four = [v0, v1, v2, v3];
        vec![
            ("splat", vectors(&[c.splat(n8)])),
            ("and", vectors(&[c.and(v0, v1)])),
            ("or", vectors(&[c.or(v0, v1)])),
            ("xor", vectors(&[c.xor(v0, v1), c.xor3(v0, v1, v2)])),
            ("look_up", vectors(&[c.look_up(&tables[0].bytes[1], v0)])),
            ("look_up_16", vectors(&c.look_up_16(&tables[0], v0))),
            ("exchange_16", vectors(&c.exchange_16(&tables[0], v0, &tables[1], v1))),
            ("multiply", vectors(&[c.multiply(v0, matrix)])),
            ("count_ones", vectors(&[c.count_ones(v0)])),
            ("zero_bytes", Result::Mask(c.zero_bytes(v0))),
            ("weave_bytes", vectors(&c.weave_bytes(v0, v1))),
            ("weave_16", vectors(&c.weave_16(v0, v1))),
            ("weave_32", vectors(&c.weave_32(v0, v1))),
            ("add_16", vectors(&[c.add_16(v0, v1), c.subtract_16(v0, v1)])),
            ("at_least_16", Result::Mask(c.at_least_16(v0, n16))),
            ("without_16", Result::Mask(c.without_16(v0, n16))),
            ("add_32", vectors(&[c.add_32(v0, v1), c.turn_32(v0)])),
            ("without_32", Result::Mask(c.without_32(v0, n32))),
            ("add_64", vectors(&[c.add_64(v0, v1), c.turn_64(v0)])),
            ("without_64", Result::Mask(c.without_64(v0, number))),
            ("quotient_32", vectors(&[c.quotient_32(v0, n32, n32 / 3, shift % 32)])),
            ("quotient_64", vectors(&[c.quotient_64(v0, number, number / 3, shift)])),
            ("within_32", Result::Mask(c.within_32(v0, n32 / 2, n32))),
            ("within_64", Result::Mask(c.within_64(v0, number / 2, number))),
            ("any_at_most_32", Result::Any(c.any_at_most_32(four, n32 >> shift % 32))),
            ("any_at_most_64", Result::Any(c.any_at_most_64(*self.group, number >> shift))),
            ("any_without_16", Result::Any(c.any_without_16([v0, v1], n16))),
            ("any_without_32", Result::Any(c.any_without_32(four, n32))),
            ("any_without_64", Result::Any(c.any_without_64(*self.group, number))),
            ("spread", Result::Mask(c.spread(number, number.rotate_left(shift)))),
        ]
    }
}

/// Returns the lower half of `number`.
fn lower(number: u64) -> u32 {
    u32::try_from(number & 0xffff_ffff).expect("32 bits")
}

/// The bytes are random, all alike, or such that the top bit or single bits decide.
#[test]
fn operations_on_columns_match_their_definitions() {
    let mut random = SplitMix64::new(8);
    for round in 0..60 {
        let mut rows = random.take(ROW_COUNT * BLOCK_SIZE);
        match round % 6 {
            0 => rows.fill([0, 0xff, 0x80, 0x7f, 1][round / 6 % 5]),
            1 => rows.iter_mut().for_each(|byte| *byte &= 0x81),
            2 => rows.iter_mut().for_each(|byte| *byte &= *byte >> 4),
            _ => {}
        }
        let entries: Vec<u64> = (0..512).map(|_| random.next()).collect();
        let tables =
            [0, 256].map(|from| PairTable::new(|value| entries[from + usize::from(value)]));
        let matrix = Matrix::new(random.next());
        let number = match round % 4 {
            0 => random.next() & random.next() & random.next() & random.next(),
            1 => 1 << random.below(64),
            2 => u64::MAX >> random.below(64),
            _ => random.next(),
        };
        let shift = if round % 5 == 0 { 0 } else { lower(number) % 64 };
        let answer = || Answer { rows: &rows, tables: &tables, matrix: &matrix, number, shift };
        let expected = Level::EMULATED.dispatch_columns(answer()).expect("it has columns");
        for level in Level::available() {
            let Some(results) = level.dispatch_columns(answer()) else { continue };
            for (result, expected) in results.iter().zip(&expected) {
                assert_eq!(result, expected, "{}: round {round}", level.name());
            }
            assert_eq!(results.len(), expected.len(), "{}", level.name());
        }
    }
}

/// The look-up of every byte value in a table of its own values, and the product with the unit
/// matrix.
#[test]
fn tables_have_an_entry_for_every_byte() {
    let table = PairTable::new(|value| u64::from(value) * 0x1_03);
    for value in 0..=u8::MAX {
        let (block, place) = (usize::from(value) / 64, usize::from(value) % 64);
        let number = u16::from(value).wrapping_mul(0x103).to_le_bytes();
        let ByteTable(low) = table.bytes[0];
        assert_eq!([low[block][place], table.bytes[1].0[block][place]], number, "{value}: bytes");
        let at = 2 * (usize::from(value) % 32);
        assert_eq!(table.numbers[usize::from(value) / 32][at..at + 2], number, "{value}: numbers");
        let unit = Matrix::new(0x0102_0408_1020_4080);
        let halves = [value & 15, value >> 4].map(usize::from);
        assert_eq!(unit.low[halves[0]] ^ unit.high[halves[1]], value, "{value}: product");
    }
}
