//! Every width of this CPU has the results of the emulated registers of that width, which are those
//! of plain expressions.

use cutpoint_testing::SplitMix64;

use super::{Machine, SIZE_MAX, Table, Task, Vector};

/// The task of applying all operations to some operands.
struct Answers<'a> {
    a: &'a [u8; SIZE_MAX],
    b: &'a [u8; SIZE_MAX],
    table: &'a Table,
    data: &'a [u8],
    start: usize,
    stride: usize,
    n: u32,
}

impl Task for Answers<'_> {
    type Output = (Vec<[u8; SIZE_MAX]>, Vec<u64>);

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> Self::Output {
        let Answers { a: bytes, b: others, table, data, start, stride, n } = self;
        let (a, b) = (v.load(bytes), v.load(others));
        let registers = vec![
            v.store(a),
            v.store(v.splat(bytes[0])),
            v.store(v.max(a, b)),
            v.store(v.min(a, b)),
            v.store(v.splat_word(table[usize::from(bytes[0])])),
            v.store(v.gather(data, start, stride)),
            v.store(v.look_up(table, a)),
            v.store(v.add(a, b)),
            v.store(v.xor(a, b)),
            v.store(v.double(a)),
            v.store(v.next_byte(a)),
            v.store(v.mark_zeros(b, a, v.splat_word(table[0]), v.splat_word(0x8000_0001))),
        ];
        let mask = u64::from_le_bytes(bytes[..8].try_into().expect("8 of 64 bytes"));
        (registers, vec![v.greater(a, b), v.at_least(a, b), u64::from(v.nth_one(mask, n))])
    }
}

/// Returns the results by definition, in plain expressions.
fn expected(size: usize, answers: &Answers<'_>) -> (Vec<[u8; SIZE_MAX]>, Vec<u64>) {
    let Answers { a, b, table, data, start, stride, n } = *answers;
    let bytes = |byte: &dyn Fn(usize) -> u8| {
        let mut bytes = [0; SIZE_MAX];
        (0..size).for_each(|k| bytes[k] = byte(k));
        bytes
    };
    let word = |bytes: &[u8], at: usize| {
        bytes[at..at + 4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
    };
    let words = |each: &dyn Fn(usize) -> u32| {
        bytes(&|k| (each(k / 4) >> (8 * (k % 4)) & 255).try_into().expect("a byte"))
    };
    let (first, second) = (|lane| word(a, 4 * lane), |lane| word(b, 4 * lane));
    let registers = vec![
        bytes(&|k| a[k]),
        bytes(&|_| a[0]),
        bytes(&|k| if a[k] > b[k] { a[k] } else { b[k] }),
        bytes(&|k| if a[k] > b[k] { b[k] } else { a[k] }),
        words(&|_| table[usize::from(a[0])]),
        words(&|lane| word(data, start + lane * stride)),
        words(&|lane| table[usize::from(a[4 * lane])]),
        words(&|lane| first(lane).wrapping_add(second(lane))),
        bytes(&|k| a[k] ^ b[k]),
        words(&|lane| first(lane).wrapping_mul(2)),
        words(&|lane| first(lane) / 256),
        words(&|lane| second(lane) | if first(lane) & table[0] == 0 { 0x8000_0001 } else { 0 }),
    ];
    let mask = |is: &dyn Fn(usize) -> bool| (0..size).map(|k| u64::from(is(k)) << k).sum();
    let mut ones = (0_u8..64).filter(|&bit| a[usize::from(bit / 8)] >> (bit % 8) & 1 == 1);
    let nth_one = u64::from(ones.nth(n as usize).unwrap_or(64));
    (registers, vec![mask(&|k| a[k] > b[k]), mask(&|k| a[k] >= b[k]), nth_one])
}

#[test]
fn results_are_equal_at_every_width() {
    const VALUES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    let mut random = SplitMix64::new(1);
    for round in 0..3000 {
        let (mut a, mut b) = ([0; SIZE_MAX], [0; SIZE_MAX]);
        a.copy_from_slice(&random.take(SIZE_MAX));
        b.copy_from_slice(&random.take(SIZE_MAX));
        // Few values, so that there are equal ones, and values that signed comparisons order
        // differently.
        if round % 2 == 0 {
            a.iter_mut().chain(&mut b).for_each(|byte| *byte = VALUES[usize::from(*byte % 6)]);
        }
        let mut table = [0; 256];
        for entry in &mut table {
            *entry = (random.next() >> 32).try_into().expect("32 bits are left");
        }
        // The mask of `mark_zeros` has one bit, so that many words have no bit of it.
        table[0] = 1 << (round % 32);
        let (start, stride) = (random.below(40), random.below(300));
        for bits in [128, 256, 512] {
            let size = bits / 8;
            // The last gathered word is at the end of the data.
            let data = random.take(start + (size / 4 - 1) * stride + 4);
            let n = (round % 64).try_into().expect("it is small");
            let answers = || Answers { a: &a, b: &b, table: &table, data: &data, start, stride, n };
            let expected = expected(size, &answers());
            for machine in [Machine::emulated(bits), Machine::detect(bits)].into_iter().flatten() {
                assert_eq!(machine.dispatch(answers()), expected, "{machine:?}, round {round}");
            }
        }
    }
}

/// The task of gathering the last words of the data, or words one byte beyond them.
struct Edge {
    is_behind: bool,
}

impl Task for Edge {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) {
        let data = vec![0; (V::LANES - 1) * 100 + 4];
        vector.store(vector.gather(&data, usize::from(self.is_behind), 100));
    }
}

#[test]
fn gather_beyond_the_data_panics() {
    for bits in [128, 256, 512] {
        for machine in [Machine::emulated(bits), Machine::detect(bits)].into_iter().flatten() {
            machine.dispatch(Edge { is_behind: false });
            let result = std::panic::catch_unwind(|| machine.dispatch(Edge { is_behind: true }));
            assert!(result.is_err(), "{machine:?} gathers from behind the data");
        }
    }
}
