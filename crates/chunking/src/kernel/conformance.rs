//! A test suite for every level of this CPU, including the scalar one: the answers equal those of
//! plain expressions.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use std::println;

use cutpoint_testing::SplitMix64;

use super::level::NAMES;
use super::{
    BLOCK_SIZE, Extremes, Kernel, LANE_COUNT, LONG_BLOCK_SIZE, Level, LongNumberBlock, Mapping,
    NumberBlock, SPAN_SIZE, TAIL_SIZE, Tables, Task, VALUE_BLOCK_SIZE, VALUE_SIZE_MAX, ValueBlock,
    ValueSpan,
};

/// The answers of a kernel about 65 bytes, or 64, and a value.
#[derive(Debug, PartialEq)]
struct Answers {
    compared: (u64, u64),
    above: u64,
    below: u64,
    pairs_from: u64,
    pairs_to: u64,
}

/// The bytes, the value, and a second value, with which the first makes a pair.
struct Ask<'a>(&'a [u8; BLOCK_SIZE + 1], u8, u8);

impl Task for Ask<'_> {
    type Output = Answers;

    fn run<K: Kernel>(self, kernel: K) -> Answers {
        let Ask(bytes, value, second) = self;
        let block = bytes.last_chunk().expect("it has a byte more");
        Answers {
            compared: kernel.compare(bytes),
            above: kernel.above(block, value),
            below: kernel.below(block, value),
            pairs_from: kernel.pairs_from(bytes, [value, second]),
            pairs_to: kernel.pairs_to(bytes, [value, second]),
        }
    }
}

fn mask(is_one: impl Fn(usize) -> bool) -> u64 {
    (0..BLOCK_SIZE).map(|k| u64::from(is_one(k)) << k).sum()
}

fn check(bytes: &[u8; BLOCK_SIZE + 1], value: u8, second: u8) {
    let pair = |k: usize| [bytes[k], bytes[k + 1]];
    let expected = Answers {
        compared: (mask(|k| bytes[k] < bytes[k + 1]), mask(|k| bytes[k] > bytes[k + 1])),
        above: mask(|k| bytes[k + 1] > value),
        below: mask(|k| bytes[k + 1] < value),
        pairs_from: mask(|k| pair(k) >= [value, second]),
        pairs_to: mask(|k| pair(k) <= [value, second]),
    };
    for level in Level::available() {
        let answers = level.dispatch(Ask(bytes, value, second));
        assert_eq!(answers, expected, "{}: {bytes:?}, {value}, {second}", level.name());
    }
}

/// The values include bytes with the top bit, which a signed comparison gets wrong, at every
/// position.
#[test]
fn differing_byte_is_found_at_every_position() {
    const VALUES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    for most in VALUES {
        for other in VALUES {
            for at in 0..=BLOCK_SIZE {
                let mut bytes = [most; BLOCK_SIZE + 1];
                bytes[at] = other;
                for value in VALUES {
                    [value, most, other].iter().for_each(|&second| check(&bytes, value, second));
                }
            }
        }
    }
}

#[test]
fn random_blocks_match_plain_expressions() {
    let mut random = SplitMix64::new(1);
    for round in 0..2000 {
        let mut bytes = [0; BLOCK_SIZE + 1];
        bytes.copy_from_slice(&random.take(BLOCK_SIZE + 1));
        // The bytes take few values, so that some neighbours are equal.
        if round % 2 == 0 {
            bytes.iter_mut().for_each(|byte| *byte &= 0x83);
        }
        let at = round % BLOCK_SIZE;
        check(&bytes, bytes[at], bytes[at + 1]);
        check(&bytes, bytes[at], bytes[at + 1].wrapping_add(1));
    }
}

struct Numbers<'a>(&'a NumberBlock, Mapping, u32);

impl Task for Numbers<'_> {
    type Output = (u32, bool);

    fn run<K: Kernel>(self, kernel: K) -> (u32, bool) {
        let Numbers(bytes, mapping, bound) = self;
        (kernel.least_number(bytes, mapping), kernel.has_number_below(bytes, mapping, bound))
    }
}

fn check_numbers(bytes: &NumberBlock, mapping: Mapping) {
    let Mapping { factor, summand } = mapping;
    let number = |k: usize| {
        let number = (0..4).fold(0, |number, i| number | u32::from(bytes[k + i]) << (8 * i));
        number.wrapping_mul(factor).wrapping_add(summand)
    };
    let least = (0..BLOCK_SIZE).map(number).min().expect("there are 64");
    for level in Level::available() {
        for bound in [0, least, least.saturating_add(1), least.saturating_sub(1), u32::MAX] {
            let answers = level.dispatch(Numbers(bytes, mapping, bound));
            let name = level.name();
            assert_eq!(answers, (least, least < bound), "{name}: {bytes:?}, {mapping:?}, {bound}");
        }
    }
}

/// The least number occurs at each position, and some numbers would be negative as signed ones.
#[test]
fn least_number_is_found_at_every_position() {
    let plain = Mapping { factor: 1, summand: 0 };
    let hash = Mapping { factor: 0x915f_77f5, summand: 0x3463_6463 };
    for (most, other) in [(0xff, 0), (0xff, 0x7f), (0x80, 0x7f), (1, 0), (0, 0x80), (0xff, 0xfe)] {
        for at in 0..BLOCK_SIZE + 3 {
            let mut bytes = [most; BLOCK_SIZE + 3];
            bytes[at] = other;
            check_numbers(&bytes, plain);
            check_numbers(&bytes, hash);
        }
    }
    let mut random = SplitMix64::new(4);
    for _ in 0..1000 {
        let mut bytes = [0; BLOCK_SIZE + 3];
        bytes.copy_from_slice(&random.take(BLOCK_SIZE + 3));
        check_numbers(&bytes, plain);
        check_numbers(&bytes, hash);
    }
}

struct Reaching<'a>(&'a ValueBlock, [u8; VALUE_SIZE_MAX], usize);

impl Task for Reaching<'_> {
    type Output = (u64, u64);

    fn run<K: Kernel>(self, kernel: K) -> (u64, u64) {
        let Reaching(bytes, bound, size) = self;
        (kernel.values_from(bytes, bound, size), kernel.values_to(bytes, bound, size))
    }
}

/// Returns the position of the most extreme value: the last of equal ones if `last` is set.
fn extreme_position(values: &[u64], least: bool, last: bool) -> usize {
    let extreme = if least { values.iter().min() } else { values.iter().max() };
    let is_extreme = |value: &u64| Some(value) == extreme;
    let found =
        if last { values.iter().rposition(is_extreme) } else { values.iter().position(is_extreme) };
    found.expect("there is a value")
}

/// Returns the values of `size` bytes that begin at each of the first `count` bytes, as numbers of 64
/// bits.
fn values_of(bytes: &[u8], count: usize, size: usize) -> Vec<u64> {
    let value = |k: usize| {
        let number = bytes[k..k + size].iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
        number << (64 - 8 * size)
    };
    (0..count).map(value).collect()
}

/// Returns bytes that are random, of few kinds so that values begin alike or are equal, or alike but
/// for one byte.
fn value_bytes(random: &mut SplitMix64, size: usize, round: usize) -> Vec<u8> {
    let mut bytes = random.take(size);
    match round % 6 {
        0 => (),
        1 => bytes.iter_mut().for_each(|byte| *byte &= 0x81),
        2 => bytes.iter_mut().for_each(|byte| *byte &= 1),
        kind => {
            let alike = [0, 0x7f, 0xff][kind - 3];
            bytes.fill(alike);
            bytes[random.below(size)] = [0xff, 0, 0x80, 0x7e][round / 6 % 4];
        }
    }
    bytes
}

struct Search<'a, const LEAST: bool>(&'a ValueSpan, [u8; VALUE_SIZE_MAX], usize);

impl<const LEAST: bool> Task for Search<'_, LEAST> {
    /// The extremes that are found when the first bytes of values are looked at before, and when all
    /// bytes are compared at once.
    type Output = [Option<Extremes>; 2];

    fn run<K: Kernel>(self, kernel: K) -> [Option<Extremes>; 2] {
        let Search(bytes, bound, size) = self;
        [true, false]
            .map(|mut by_prefix| kernel.next_extreme::<LEAST>(bytes, bound, size, &mut by_prefix))
    }
}

fn check_search<const LEAST: bool>(bytes: &ValueSpan, bound: u64, size: usize) {
    let values = values_of(bytes, SPAN_SIZE, size);
    let reaching =
        values.iter().position(|&value| if LEAST { value <= bound } else { value >= bound });
    for level in Level::available() {
        for found in level.dispatch(Search::<LEAST>(bytes, bound.to_be_bytes(), size)) {
            let end = found.map_or(0, |found| found.end);
            let text = format!("{}: {bytes:?}, {bound:x}, {size}, {found:?}", level.name());
            assert_eq!(found.is_some(), reaching.is_some(), "{text}");
            assert!(end <= SPAN_SIZE && reaching.is_none_or(|at| at < end), "{text}");
            let expected = reaching.map(|_| Extremes {
                first: extreme_position(&values[..end], LEAST, false),
                last: extreme_position(&values[..end], LEAST, true),
                end,
            });
            assert_eq!(found, expected, "{text}");
        }
    }
}

/// The bound is a value of the span, one next to it, or any other.
#[test]
fn extremes_of_spans_are_those_of_their_values() {
    let mut random = SplitMix64::new(7);
    for round in 0..2000 {
        let mut bytes = [0; SPAN_SIZE + TAIL_SIZE];
        bytes.copy_from_slice(&value_bytes(&mut random, SPAN_SIZE + TAIL_SIZE, round));
        for size in [2, 4, 8] {
            let values = values_of(&bytes, SPAN_SIZE, size);
            let step = 1 << (64 - 8 * size);
            let value = match round % 5 {
                0 => *values.iter().max().expect("there are values"),
                1 => *values.iter().min().expect("there are values"),
                2 => random.next() / step * step,
                _ => values[random.below(SPAN_SIZE)],
            };
            for bound in [value, value.wrapping_add(step), value.wrapping_sub(step)] {
                check_search::<false>(&bytes, bound, size);
                check_search::<true>(&bytes, bound, size);
            }
        }
    }
}

struct AllExtremes<'a>(&'a [u8], usize);

impl Task for AllExtremes<'_> {
    /// The positions of the greatest values, the first and the last one, and of the least ones;
    /// `None` if the instruction set does not find them at once.
    type Output = Option<[Option<usize>; 4]>;

    fn run<K: Kernel>(self, kernel: K) -> Option<[Option<usize>; 4]> {
        let AllExtremes(bytes, size) = self;
        let positions = [
            kernel.extreme_at::<false, false>(bytes, size),
            kernel.extreme_at::<false, true>(bytes, size),
            kernel.extreme_at::<true, false>(bytes, size),
            kernel.extreme_at::<true, true>(bytes, size),
        ];
        (K::START_SIZE_MAX > 0).then_some(positions)
    }
}

#[test]
fn extreme_of_many_values_is_found_in_every_block() {
    let mut random = SplitMix64::new(8);
    for round in 0..1000 {
        let count = BLOCK_SIZE * (1 + round % 33);
        let bytes = value_bytes(&mut random, count + TAIL_SIZE, round);
        for size in [2, 4, 8] {
            let values = values_of(&bytes, count, size);
            let expected = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(least, last)| Some(extreme_position(&values, least, last)));
            for level in Level::available() {
                let positions = level.dispatch(AllExtremes(&bytes, size));
                assert!(
                    positions.is_none_or(|positions| positions == expected),
                    "{}: {bytes:?}, {size}, {positions:?}, {expected:?}",
                    level.name()
                );
                let has_some = level.name().starts_with("avx");
                assert_eq!(positions.is_some(), has_some, "{}", level.name());
            }
        }
    }
}

/// The bound is a value of the block, or differs from it in one byte, by one or in the top bit.
#[test]
fn values_of_several_bytes_compare_by_their_first_difference() {
    let mut random = SplitMix64::new(6);
    for round in 0..4000 {
        let mut bytes = [0; VALUE_BLOCK_SIZE];
        bytes.copy_from_slice(&random.take(VALUE_BLOCK_SIZE));
        // Few different bytes, so that values begin alike.
        if round % 4 > 0 {
            let kept = [0x81, 0x01, 0xff][round % 4 - 1];
            bytes.iter_mut().for_each(|byte| *byte &= kept);
            if round % 4 == 3 {
                let byte = bytes[0];
                bytes.fill(byte);
            }
        }
        let at = random.below(BLOCK_SIZE);
        let mut bound: [u8; VALUE_SIZE_MAX] =
            bytes[at..at + VALUE_SIZE_MAX].try_into().expect("8 bytes");
        let changed = random.below(2 * VALUE_SIZE_MAX);
        if let Some(byte) = bound.get_mut(changed) {
            *byte = [byte.wrapping_add(1), byte.wrapping_sub(1), *byte ^ 0x80][random.below(3)];
        }
        for size in [4, 8] {
            let expected = (
                mask(|k| bytes[k..k + size] >= bound[..size]),
                mask(|k| bytes[k..k + size] <= bound[..size]),
            );
            for level in Level::available() {
                let answers = level.dispatch(Reaching(&bytes, bound, size));
                assert_eq!(answers, expected, "{}: {bytes:?}, {bound:?}", level.name());
            }
        }
    }
}

struct Groups<'a>(&'a LongNumberBlock, Mapping);

impl Task for Groups<'_> {
    /// The least numbers, and where the least of all, and a number that is not there, begins.
    type Output = ([u32; LANE_COUNT], usize, usize);

    fn run<K: Kernel>(self, kernel: K) -> ([u32; LANE_COUNT], usize, usize) {
        let Groups(bytes, mapping) = self;
        let groups = kernel.least_numbers(bytes, mapping);
        let least = groups.into_iter().fold(u32::MAX, u32::min);
        let first = |number| kernel.first_number(bytes, mapping, number);
        (groups, first(least), first(least.wrapping_sub(1)))
    }
}

/// Each group is of numbers of the block, and the least of them is the least of all, wherever it is.
#[test]
fn least_numbers_of_groups_cover_the_long_block() {
    let mut random = SplitMix64::new(5);
    let hash = Mapping { factor: 0x915f_77f5, summand: 0x3463_6463 };
    for mapping in [Mapping { factor: 1, summand: 0 }, hash] {
        for round in 0..4 * (LONG_BLOCK_SIZE + 3) {
            let mut bytes = [0xff; LONG_BLOCK_SIZE + 3];
            if round % 2 == 0 {
                bytes.copy_from_slice(&random.take(LONG_BLOCK_SIZE + 3));
            } else {
                bytes[round / 4] = [0, 0x7f][round / 2 % 2];
            }
            let numbers: Vec<u32> = bytes
                .as_slice()
                .windows(4)
                .map(|k| mapping.map([k[0], k[1], k[2], k[3]]))
                .collect();
            for level in Level::available() {
                let (groups, first, missing) = level.dispatch(Groups(&bytes, mapping));
                let least = numbers.iter().min().expect("there are numbers");
                let expected = numbers.iter().position(|number| number == least);
                assert_eq!(Some(first), expected, "{}", level.name());
                assert!(missing >= LONG_BLOCK_SIZE || *least == 0, "{}", level.name());
                assert_eq!(groups.iter().min(), numbers.iter().min(), "{}", level.name());
                let is_found = |least: &u32| *least == u32::MAX || numbers.contains(least);
                assert!(groups.iter().all(is_found), "{}", level.name());
            }
        }
    }
}

struct Sift<'a>(&'a [u8; BLOCK_SIZE + 1], &'a Tables);

impl Task for Sift<'_> {
    type Output = u64;

    fn run<K: Kernel>(self, kernel: K) -> u64 {
        kernel.sift(self.0, self.1)
    }
}

/// The tables have few ones or many, so that each half of each byte decides somewhere.
#[test]
fn pairs_are_sifted_by_their_halves() {
    let mut random = SplitMix64::new(3);
    let mut kept = 0;
    for round in 0..2000 {
        let mut bytes = [0; BLOCK_SIZE + 1];
        bytes.copy_from_slice(&random.take(BLOCK_SIZE + 1));
        let tables: Tables = core::array::from_fn(|_| {
            core::array::from_fn(|_| {
                let [a, b, ..] = random.next().to_le_bytes();
                if round % 2 == 0 { a & b } else { a | b }
            })
        });
        let common = |k: usize| {
            let (first, second) = (usize::from(bytes[k]), usize::from(bytes[k + 1]));
            tables[0][first % 16]
                & tables[1][first / 16]
                & tables[2][second % 16]
                & tables[3][second / 16]
        };
        let expected = mask(|k| common(k) != 0);
        kept += expected.count_ones();
        for level in Level::available() {
            let answer = level.dispatch(Sift(&bytes, &tables));
            assert_eq!(answer, expected, "{}: {bytes:?}, {tables:?}", level.name());
        }
    }
    assert!((20_000..100_000).contains(&kept), "{kept} of 128000: tables that decide nothing");
}

struct Bits(u64, u64, u32);

impl Task for Bits {
    type Output = (u64, u32);

    fn run<K: Kernel>(self, kernel: K) -> (u64, u32) {
        (kernel.squeeze(self.0, self.1), kernel.nth_one(self.1, self.2))
    }
}

#[test]
fn bits_are_moved_and_counted() {
    let mut random = SplitMix64::new(2);
    let mut masks: Vec<u64> = (0..400).map(|_| random.next() & random.next()).collect();
    masks.extend((0..400).map(|_| random.next() | random.next()));
    masks.extend([0, 1, 1 << 63, u64::MAX, u64::MAX >> 1, u64::MAX << 1, !(1 << 63)]);
    for kept in masks {
        let bits = random.next();
        let places: Vec<u32> = (0..64).filter(|&k| kept >> k & 1 == 1).collect();
        let squeezed: u64 =
            places.iter().enumerate().map(|(to, &from)| (bits >> from & 1) << to).sum();
        for n in 0..64 {
            let place = places.get(n as usize).map_or(64, |&place| place);
            for level in Level::available() {
                let answers = level.dispatch(Bits(bits, kept, n));
                assert_eq!(answers, (squeezed, place), "{}: {kept:#x}, {n}", level.name());
            }
        }
    }
}

/// A run of the tests that skips a level must not look like one that has passed it.
#[test]
fn every_level_of_cpu_is_tested() {
    let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    println!("levels: {}", available.join(", "));
    assert_eq!(available.first(), Some(&"scalar"));
    assert_eq!(available.last(), Some(&Level::best().name()));
    for name in NAMES {
        let level = Level::named(name);
        assert_eq!(level.as_ref().ok().map(|level| level.name()), {
            available.contains(&name).then_some(name)
        });
        #[cfg(target_arch = "aarch64")]
        assert_eq!(
            level.is_ok(),
            ["scalar", "neon"].contains(&name),
            "{name}: every such CPU has it"
        );
        #[cfg(target_arch = "x86_64")]
        {
            let has = match name {
                "scalar" => true,
                "sse4.1" => std::is_x86_feature_detected!("sse4.1"),
                "avx2" => std::is_x86_feature_detected!("avx2"),
                "avx512vbmi" => {
                    std::is_x86_feature_detected!("avx512vbmi")
                        && std::is_x86_feature_detected!("avx512bitalg")
                        && std::is_x86_feature_detected!("gfni")
                }
                "neon" => false,
                _ => std::is_x86_feature_detected!("avx512bw"),
            };
            assert_eq!(level.is_ok(), has, "{name}: what the CPU has was left out, or the reverse");
        }
    }
    let error = Level::named("avx1024").expect_err("there is none");
    let levels = "scalar, neon, sse4.1, avx2, avx512, avx512vbmi";
    assert!(error.to_string().contains(levels), "{error}");
}
