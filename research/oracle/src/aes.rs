//! AES of a window, as described in FIPS 197, with tables computed from its definitions.

use crate::chunk_by_chunk;
use crate::keys::Keys;

type Block = [u8; 16];

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, window) = (keys.size("bits"), keys.optional_size("window").unwrap_or(32));
    let min = keys.optional_size("min").unwrap_or(1).max(window);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let public: Vec<u8> = (0..80).collect();
    let material = keys.material().unwrap_or(&public);
    let box_of_bytes: Vec<u8> = (0..=255).map(substitute).collect();
    let (key, hash_keys) = material[..80].split_at(16);
    let round_keys = expand(key, &box_of_bytes);
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        for end in min..=n {
            let window = &data[end - window..end];
            let mut block: Block = [0; 16];
            if window.len() == 32 {
                block.copy_from_slice(&window[..16]);
                for hash_key in hash_keys.chunks(16) {
                    block = mix_columns(shift_rows(bytes(add(block, hash_key), &box_of_bytes)));
                }
            }
            let block = add(block, &window[window.len() - 16..]);
            let result = encrypt(block, &round_keys, &box_of_bytes);
            let low = u32::from_le_bytes([result[0], result[1], result[2], result[3]]);
            if low.is_multiple_of(1 << bits) {
                return end;
            }
        }
        n
    })
}

/// Encrypts a block (section 5.1).
fn encrypt(block: Block, round_keys: &[Block], box_of_bytes: &[u8]) -> Block {
    let mut state = add(block, &round_keys[0]);
    for round_key in &round_keys[1..10] {
        state = mix_columns(shift_rows(bytes(state, box_of_bytes)));
        state = add(state, round_key);
    }
    add(shift_rows(bytes(state, box_of_bytes)), &round_keys[10])
}

fn add(block: Block, other: &[u8]) -> Block {
    std::array::from_fn(|place| block[place] ^ other[place])
}

fn bytes(block: Block, box_of_bytes: &[u8]) -> Block {
    block.map(|byte| box_of_bytes[usize::from(byte)])
}

/// Shifts row `row` by `row` columns. The index of a byte is `row + 4 * column`.
fn shift_rows(block: Block) -> Block {
    std::array::from_fn(|place| {
        let (row, column) = (place % 4, place / 4);
        block[row + 4 * ((column + row) % 4)]
    })
}

fn mix_columns(block: Block) -> Block {
    const MATRIX: [[u8; 4]; 4] = [[2, 3, 1, 1], [1, 2, 3, 1], [1, 1, 2, 3], [3, 1, 1, 2]];
    std::array::from_fn(|place| {
        let (row, column) = (place % 4, place / 4);
        (0..4).fold(0, |sum, k| sum ^ multiply(MATRIX[row][k], block[4 * column + k]))
    })
}

/// Multiplies polynomials modulo x^8 + x^4 + x^3 + x + 1 (section 4.2).
fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0u16;
    for bit in 0..8 {
        if a >> bit & 1 == 1 {
            product ^= u16::from(b) << bit;
        }
    }
    for bit in (8..16).rev() {
        if product >> bit & 1 == 1 {
            product ^= 0x11b << (bit - 8);
        }
    }
    product.to_le_bytes()[0]
}

/// Substitutes a byte by the affine map of its inverse (section 5.1.1).
fn substitute(byte: u8) -> u8 {
    let inverse = (0..=255).find(|&other| multiply(byte, other) == 1).unwrap_or(0);
    let turned = (1..5).map(|turn| inverse.rotate_left(turn));
    turned.fold(inverse ^ 0x63, |sum, each| sum ^ each)
}

/// Expands the key to the round keys (section 5.2).
fn expand(key: &[u8], box_of_bytes: &[u8]) -> Vec<Block> {
    let mut words: Vec<[u8; 4]> = key.chunks(4).map(|w| [w[0], w[1], w[2], w[3]]).collect();
    let mut constant = 1;
    for i in 4..44 {
        let mut word = words[i - 1];
        if i % 4 == 0 {
            word.rotate_left(1);
            word = word.map(|byte| box_of_bytes[usize::from(byte)]);
            word[0] ^= constant;
            constant = multiply(constant, 2);
        }
        words.push(std::array::from_fn(|k| word[k] ^ words[i - 4][k]));
    }
    words.chunks(4).map(|four| std::array::from_fn(|place| four[place / 4][place % 4])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix B of the standard.
    #[test]
    fn example_of_the_standard_is_encrypted() {
        let box_of_bytes: Vec<u8> = (0..=255).map(substitute).collect();
        let key = *b"\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c";
        let input = *b"\x32\x43\xf6\xa8\x88\x5a\x30\x8d\x31\x31\x98\xa2\xe0\x37\x07\x34";
        let result = *b"\x39\x25\x84\x1d\x02\xdc\x09\xfb\xdc\x11\x85\x97\x19\x6a\x0b\x32";
        assert_eq!(encrypt(input, &expand(&key, &box_of_bytes), &box_of_bytes), result);
    }
}
