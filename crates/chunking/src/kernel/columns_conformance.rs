//! A test suite for the columns of every level of this CPU: the answers equal those of the emulated
//! ones, which are plain definitions.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use cutpoint_testing::SplitMix64;

use super::{
    BLOCK_SIZE, ByteTable, Columns, ColumnsTask, ColumnsWork, Level, Matrix, PairTable,
    ROW_COUNT_MAX,
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

/// The results of an operation.
#[derive(Clone, Debug, PartialEq)]
enum Result {
    Vectors(Vec<Vec<u8>>),
    /// The mask of numbers of as many bytes.
    Mask(usize, u64),
    Bits(u64),
    /// Set if an answer about several vectors fits those about each.
    Fits(bool),
}

impl Result {
    /// Returns the part of the result that belongs to the first `count` rows.
    fn of_rows(&self, count: usize) -> Result {
        let first = |vector: &Vec<u8>| vector[..count].to_vec();
        match self {
            Result::Vectors(vectors) => Result::Vectors(vectors.iter().map(first).collect()),
            Result::Mask(size, mask) => {
                Result::Mask(*size, mask & (u64::MAX >> (64 - count / size)))
            }
            _ => self.clone(),
        }
    }
}

type Results = Vec<(&'static str, Result)>;

impl ColumnsTask for Answer<'_> {
    /// The number of rows, and the results.
    type Output = (usize, Results);

    fn run<C: Columns>(self, columns: C) -> (usize, Results) {
        let mut vectors = [columns.splat(0); BLOCK_SIZE];
        let mut scratch = vectors;
        columns.transpose(self.rows, 0, BLOCK_SIZE, &mut vectors, &mut scratch);
        let transposed = vectors.map(|vector| bytes(columns, vector)).to_vec();
        let mut results = vec![("transpose", Result::Vectors(transposed))];
        for group in vectors.as_chunks::<8>().0 {
            results.extend(columns.enter(Group { answer: &self, group }));
        }
        (C::ROWS, results)
    }
}

/// Returns the bytes of a vector.
fn bytes<C: Columns>(columns: C, vector: C::Vector) -> Vec<u8> {
    let mut bytes = vec![0; C::ROWS];
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
        let bytes_of = |vector| bytes(c, vector);
        let group = *self.group;
        let [v0, v1, v2, v3, ..] = group;
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
            ("zero_bytes", Result::Mask(1, c.zero_bytes(v0))),
            ("weave_bytes", vectors(&c.weave_bytes(v0, v1))),
            ("weave_16", vectors(&c.weave_16(v0, v1))),
            ("weave_32", vectors(&c.weave_32(v0, v1))),
            ("add_16", vectors(&[c.add_16(v0, v1), c.subtract_16(v0, v1)])),
            ("at_least_16", Result::Mask(2, c.at_least_16(v0, n16))),
            ("without_16", Result::Mask(2, c.without_16(v0, n16))),
            ("add_32", vectors(&[c.add_32(v0, v1), c.turn_32(v0)])),
            ("without_32", Result::Mask(4, c.without_32(v0, n32))),
            ("add_64", vectors(&[c.add_64(v0, v1), c.turn_64(v0)])),
            ("without_64", Result::Mask(8, c.without_64(v0, number))),
            ("quotient_32", vectors(&[c.quotient_32(v0, n32, n32 / 3, shift % 32)])),
            ("quotient_64", vectors(&[c.quotient_64(v0, number, number / 3, shift)])),
            ("within_32", Result::Mask(4, c.within_32(v0, n32 / 2, n32))),
            ("within_64", Result::Mask(8, c.within_64(v0, number / 2, number))),
            ("any_at_most_32", {
                let most = n32 >> (shift % 32);
                let one_by_one = four.iter().any(|&v| c.within_32(v, 0, most) != 0);
                Result::Fits(c.any_at_most_32(four, most) == one_by_one)
            }),
            ("any_at_most_64", {
                let most = number >> shift;
                let one_by_one = group.iter().any(|&v| c.within_64(v, 0, most) != 0);
                Result::Fits(c.any_at_most_64(group, most) == one_by_one)
            }),
            ("any_without_16", {
                let one_by_one = c.without_16(v0, n16) | c.without_16(v1, n16) != 0;
                Result::Fits(c.any_without_16([v0, v1], n16) == one_by_one)
            }),
            ("any_without_32", {
                let one_by_one = four.iter().any(|&v| c.without_32(v, n32) != 0);
                Result::Fits(c.any_without_32(four, n32) == one_by_one)
            }),
            ("any_without_64", {
                let one_by_one = group.iter().any(|&v| c.without_64(v, number) != 0);
                Result::Fits(c.any_without_64(group, number) == one_by_one)
            }),
            ("spread", Result::Bits(c.spread(number, number.rotate_left(shift)))),
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
        let mut rows = random.take(ROW_COUNT_MAX * BLOCK_SIZE);
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
        let (_, expected) = Level::EMULATED.dispatch_columns(answer()).expect("it has columns");
        for level in Level::available() {
            let Some((rows, results)) = level.dispatch_columns(answer()) else { continue };
            for ((name, result), (_, expected)) in results.iter().zip(&expected) {
                let name = format!("{}: {name}, round {round}", level.name());
                assert_eq!(*result, expected.of_rows(rows), "{name}");
                assert_ne!(*result, Result::Fits(false), "{name}");
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
