//! Plain implementations of the pseudo-random streams from which tables are made: AES-256 in
//! counter mode, and cSHAKE128.
//!
//! The implementations are slow, and not for secrets.

/// Returns the first `size` bytes of the key stream of AES-256 (FIPS 197) in counter mode, with a
/// zero key and a zero first counter block. `size` is at most 4096.
pub fn aes256_ctr_of_zeros(size: usize) -> Vec<u8> {
    assert!(size <= 4096, "the counter has a byte");
    let keys = round_keys(&[0; 32]);
    let mut stream = Vec::new();
    for counter in 0..=255 {
        let mut block = [0; 16];
        block[15] = counter;
        stream.extend(aes256(&keys, block));
    }
    stream.truncate(size);
    stream
}

/// Multiplies two elements of the field of AES.
fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ if a >> 7 == 1 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

/// Applies the S-box: the inverse, which is the 254th power, and then an affine map.
fn substitute(value: u8) -> u8 {
    let mut inverse = 1;
    for _ in 0..254 {
        inverse = multiply(inverse, value);
    }
    let rotated = (1..5).map(|count| inverse.rotate_left(count));
    rotated.fold(inverse ^ 0x63, |sum, each| sum ^ each)
}

fn round_keys(key: &[u8; 32]) -> Vec<[u8; 4]> {
    let mut words: Vec<[u8; 4]> = key.as_chunks::<4>().0.to_vec();
    let mut constant = 1;
    for i in 8..60 {
        let mut word = words[i - 1];
        if i % 8 == 0 {
            word.rotate_left(1);
            word = word.map(substitute);
            word[0] ^= constant;
            constant = multiply(constant, 2);
        } else if i % 8 == 4 {
            word = word.map(substitute);
        }
        for (byte, before) in word.iter_mut().zip(words[i - 8]) {
            *byte ^= before;
        }
        words.push(word);
    }
    words
}

fn aes256(keys: &[[u8; 4]], block: [u8; 16]) -> [u8; 16] {
    let add_key = |state: [u8; 16], round: usize| {
        std::array::from_fn(|i| state[i] ^ keys[4 * round + i / 4][i % 4])
    };
    let mut state = add_key(block, 0);
    for round in 1..=14 {
        let bytes = state.map(substitute);
        // Row i % 4 is rotated by i % 4 columns.
        let shifted: [u8; 16] = std::array::from_fn(|i| bytes[(i + 4 * (i % 4)) % 16]);
        let mixed = std::array::from_fn(|i| {
            let column = |row: usize| shifted[i / 4 * 4 + (i + row) % 4];
            multiply(column(0), 2) ^ multiply(column(1), 3) ^ column(2) ^ column(3)
        });
        state = add_key(if round < 14 { mixed } else { shifted }, round);
    }
    state
}

/// Returns `size` bytes of cSHAKE128 (NIST SP 800-185) of no data, with the customization string
/// `custom` and no function name.
pub fn cshake128_of_nothing(custom: &[u8], size: usize) -> Vec<u8> {
    const RATE: usize = 168;
    // The rate, and then both strings, each with its length in bits.
    let mut padded = vec![1, 168];
    padded.extend([1, 0]);
    let bits = u16::try_from(custom.len() * 8).expect("it is short").to_be_bytes();
    match bits {
        [0, low] => padded.extend([1, low]),
        [high, low] => padded.extend([2, high, low]),
    }
    padded.extend(custom);
    padded.resize(padded.len().next_multiple_of(RATE), 0);
    let mut data = vec![0; RATE];
    data[0] = 0x04;
    data[RATE - 1] |= 0x80;
    padded.extend(data);
    let mut state = [0u64; 25];
    for block in padded.chunks(RATE) {
        for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane ^= u64::from_le_bytes(*bytes);
        }
        keccak(&mut state);
    }
    let mut stream = Vec::new();
    while stream.len() < size {
        stream.extend(state[..RATE / 8].iter().flat_map(|lane| lane.to_le_bytes()));
        keccak(&mut state);
    }
    stream.truncate(size);
    stream
}

/// Applies Keccak-f with 1600 bits (FIPS 202). Lane (x, y) is `state[x + 5 * y]`.
fn keccak(state: &mut [u64; 25]) {
    let mut register = 1u8;
    for _ in 0..24 {
        let columns: [u64; 5] =
            std::array::from_fn(|x| (0..5).fold(0, |sum, y| sum ^ state[x + 5 * y]));
        for (i, lane) in state.iter_mut().enumerate() {
            *lane ^= columns[(i + 4) % 5] ^ columns[(i % 5 + 1) % 5].rotate_left(1);
        }
        let (mut x, mut y) = (1, 0);
        let mut current = state[1];
        for t in 0..24 {
            (x, y) = (y, (2 * x + 3 * y) % 5);
            let moved = current.rotate_left((t + 1) * (t + 2) / 2 % 64);
            current = std::mem::replace(&mut state[x + 5 * y], moved);
        }
        for row in state.as_chunks_mut::<5>().0 {
            let old = *row;
            for x in 0..5 {
                row[x] = old[x] ^ !old[(x + 1) % 5] & old[(x + 2) % 5];
            }
        }
        for j in 0..7 {
            if register & 1 == 1 {
                state[0] ^= 1 << ((1 << j) - 1);
            }
            register = (register << 1) ^ if register >> 7 == 1 { 0x71 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AES-256 of a zero block with a zero key, from the known answers of NIST.
    #[test]
    fn first_block_is_known() {
        let hex: String =
            aes256_ctr_of_zeros(16).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "dc95c078a2408989ad48a21492842087");
    }
}
