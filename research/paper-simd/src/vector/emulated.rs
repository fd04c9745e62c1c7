//! Vectors in plain Rust, which define the result of every operation.

use super::{SIZE_MAX, STRIDE_MAX, Table, Vector};

/// Registers of `SIZE` bytes, on every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulated<const SIZE: usize>;

/// Makes a register from its words.
fn words<const SIZE: usize>(word: impl Fn(usize) -> u32) -> [u8; SIZE] {
    let mut register = [0; SIZE];
    for (lane, bytes) in register.as_chunks_mut().0.iter_mut().enumerate() {
        *bytes = word(lane).to_le_bytes();
    }
    register
}

/// Returns a word of a register.
fn word(register: &[u8], lane: usize) -> u32 {
    u32::from_le_bytes(register.as_chunks().0[lane])
}

/// Returns the mask of the pairs of bytes for which `is` returns `true`.
fn mask(a: &[u8], b: &[u8], is: impl Fn(&u8, &u8) -> bool) -> u64 {
    let pairs = a.iter().zip(b).enumerate();
    pairs.fold(0, |mask, (k, (a, b))| mask | u64::from(is(a, b)) << k)
}

impl<const SIZE: usize> Vector for Emulated<SIZE> {
    type Register = [u8; SIZE];

    const SIZE: usize = SIZE;

    fn load(self, bytes: &[u8]) -> [u8; SIZE] {
        let mut register = [0; SIZE];
        register.copy_from_slice(&bytes[..SIZE]);
        register
    }

    fn store(self, a: [u8; SIZE]) -> [u8; SIZE_MAX] {
        let mut bytes = [0; SIZE_MAX];
        bytes[..SIZE].copy_from_slice(&a);
        bytes
    }

    fn splat(self, byte: u8) -> [u8; SIZE] {
        [byte; SIZE]
    }

    fn max(self, a: [u8; SIZE], b: [u8; SIZE]) -> [u8; SIZE] {
        core::array::from_fn(|k| a[k].max(b[k]))
    }

    fn min(self, a: [u8; SIZE], b: [u8; SIZE]) -> [u8; SIZE] {
        core::array::from_fn(|k| a[k].min(b[k]))
    }

    fn greater(self, a: [u8; SIZE], b: [u8; SIZE]) -> u64 {
        mask(&a, &b, u8::gt)
    }

    fn at_least(self, a: [u8; SIZE], b: [u8; SIZE]) -> u64 {
        mask(&a, &b, u8::ge)
    }

    fn nth_one(self, mut mask: u64, n: u32) -> u32 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask.trailing_zeros()
    }

    fn splat_word(self, word: u32) -> [u8; SIZE] {
        words(|_| word)
    }

    fn gather(self, data: &[u8], start: usize, stride: usize) -> [u8; SIZE] {
        assert!(stride <= STRIDE_MAX, "a stride of {stride} bytes");
        words(|lane| word(&data[start + lane * stride..], 0))
    }

    fn look_up(self, table: &Table, a: [u8; SIZE]) -> [u8; SIZE] {
        words(|lane| table[usize::from(a[4 * lane])])
    }

    fn add(self, a: [u8; SIZE], b: [u8; SIZE]) -> [u8; SIZE] {
        words(|lane| word(&a, lane).wrapping_add(word(&b, lane)))
    }

    fn xor(self, a: [u8; SIZE], b: [u8; SIZE]) -> [u8; SIZE] {
        core::array::from_fn(|k| a[k] ^ b[k])
    }

    fn double(self, a: [u8; SIZE]) -> [u8; SIZE] {
        words(|lane| word(&a, lane) << 1)
    }

    fn next_byte(self, a: [u8; SIZE]) -> [u8; SIZE] {
        words(|lane| word(&a, lane) >> 8)
    }

    fn mark_zeros(
        self,
        marks: [u8; SIZE],
        a: [u8; SIZE],
        mask: [u8; SIZE],
        bit: [u8; SIZE],
    ) -> [u8; SIZE] {
        words(|lane| {
            let is_zero = word(&a, lane) & word(&mask, lane) == 0;
            word(&marks, lane) | if is_zero { word(&bit, lane) } else { 0 }
        })
    }
}
