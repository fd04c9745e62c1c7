//! Plain implementations of digests, so that a test can check a sum without a dependency.
//!
//! The implementations are slow, and not for secrets.

/// Returns the MD5 digest of `data` (RFC 1321).
pub fn md5(data: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut message = data.to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64) - 8, 0);
    message.extend((data.len() as u64 * 8).to_le_bytes());
    let mut state = [0x67452301u32, 0xefcdab89, 0x98badcfe, 0x10325476];
    for block in message.as_chunks::<64>().0 {
        let words: Vec<u32> =
            block.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (mix, word) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (b & d | c & !d, (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            #[expect(clippy::cast_possible_truncation, reason = "below 2^32 by definition")]
            let constant = (((i + 1) as f64).sin().abs() * 4294967296.0) as u32;
            let sum = a.wrapping_add(mix).wrapping_add(constant).wrapping_add(words[word]);
            let rotated = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
            (a, b, c, d) = (d, rotated, b, c);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

/// Returns the SHA-256 digest of `data` (FIPS 180-4).
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let (starts, constants) = fractions();
    let mut message = data.to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64) - 8, 0);
    message.extend((data.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 8] = starts;
    for block in message.as_chunks::<64>().0 {
        let mut words = [0u32; 64];
        for (word, &bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(bytes);
        }
        for i in 16..64 {
            let (a, b) = (words[i - 15], words[i - 2]);
            let small0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let small1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            words[i] =
                words[i - 16].wrapping_add(small0).wrapping_add(words[i - 7]).wrapping_add(small1);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, constant) in words.into_iter().zip(constants) {
            let big1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let big0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let first = h
                .wrapping_add(big1)
                .wrapping_add(e & f ^ !e & g)
                .wrapping_add(constant)
                .wrapping_add(word);
            let second = big0.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// Returns the constants of SHA-256: the first 32 bits of the fractions of the square roots of the
/// first 8 primes, and of the cube roots of the first 64.
fn fractions() -> ([u32; 8], [u32; 64]) {
    let primes: Vec<u128> = (2u128..).filter(|n| (2..*n).all(|d| n % d != 0)).take(64).collect();
    // The largest r with r^power <= prime * 2^(32 * power), without its integer part.
    let root = |prime: u128, power: u32| {
        let limit = prime << (32 * power);
        let mut root = 0u128;
        for bit in (0..37).rev() {
            if (root | 1 << bit).pow(power) <= limit {
                root |= 1 << bit;
            }
        }
        u32::try_from(root & 0xffff_ffff).expect("32 bits")
    };
    let mut starts = [0; 8];
    let mut constants = [0; 64];
    starts.iter_mut().zip(&primes).for_each(|(start, &prime)| *start = root(prime, 2));
    constants.iter_mut().zip(&primes).for_each(|(constant, &prime)| *constant = root(prime, 3));
    (starts, constants)
}

/// Returns the bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standards_have_their_digests() {
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), sum, "SHA-256");
        assert_eq!(hex(&md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72", "MD5");
        let digits =
            b"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(hex(&md5(digits)), "57edf4a22be3c955ac49da2e2107b67a", "MD5 of two blocks");
    }
}
