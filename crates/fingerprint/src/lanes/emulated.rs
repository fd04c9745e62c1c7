//! Lanes in plain Rust, every operation by its definition, so that the tree over lanes is tested on
//! any machine. There are five lanes, so that no size is a multiple of the lane count by chance.

use super::{LANES_MAX, Lanes};

/// The lanes that every CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulated;

const COUNT: usize = 5;

impl Lanes for Emulated {
    type Vector = [u32; COUNT];

    const COUNT: usize = COUNT;

    fn splat(self, word: u32) -> [u32; COUNT] {
        [word; COUNT]
    }

    fn each(self, word: impl Fn(usize) -> u32) -> [u32; COUNT] {
        std::array::from_fn(word)
    }

    fn add(self, a: [u32; COUNT], b: [u32; COUNT]) -> [u32; COUNT] {
        std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    fn xor(self, a: [u32; COUNT], b: [u32; COUNT]) -> [u32; COUNT] {
        std::array::from_fn(|lane| a[lane] ^ b[lane])
    }

    fn rotate_16(self, a: [u32; COUNT]) -> [u32; COUNT] {
        a.map(|word| word.rotate_right(16))
    }

    fn rotate_12(self, a: [u32; COUNT]) -> [u32; COUNT] {
        a.map(|word| word.rotate_right(12))
    }

    fn rotate_8(self, a: [u32; COUNT]) -> [u32; COUNT] {
        a.map(|word| word.rotate_right(8))
    }

    fn rotate_7(self, a: [u32; COUNT]) -> [u32; COUNT] {
        a.map(|word| word.rotate_right(7))
    }

    fn select(self, mask: [u32; COUNT], a: [u32; COUNT], b: [u32; COUNT]) -> [u32; COUNT] {
        std::array::from_fn(|lane| a[lane] & mask[lane] | b[lane] & !mask[lane])
    }

    fn load<'a>(self, block: impl Fn(usize) -> &'a [u8; 64]) -> [[u32; COUNT]; 16] {
        let word = |lane: usize, word: usize| u32::from_le_bytes(block(lane).as_chunks().0[word]);
        std::array::from_fn(|number| std::array::from_fn(|lane| word(lane, number)))
    }

    fn words(self, vectors: &[[u32; COUNT]; 8]) -> [[u32; LANES_MAX]; 8] {
        let mut words = [[0; LANES_MAX]; 8];
        for (words, vector) in words.iter_mut().zip(vectors) {
            words[..COUNT].copy_from_slice(vector);
        }
        words
    }

    fn prefetch<'a>(self, _: impl Fn(usize) -> &'a [u8], _: usize) {}
}
