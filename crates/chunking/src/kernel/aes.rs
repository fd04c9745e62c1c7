//! AES of windows of bytes, 64 windows at a time.

use super::BLOCK_SIZE;

/// A block of AES.
pub(crate) type AesBlock = [u8; 16];

/// The bytes of 64 windows, and the bytes behind them. The window of position `p` begins at byte
/// `p`.
pub(crate) type Windows = [u8; 2 * BLOCK_SIZE];

/// The conversion of a window's bytes to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowSize {
    /// A window of 16 bytes is a block.
    One,
    /// Of 32 bytes, the first 16 go through four rounds of AES, and the last 16 are added.
    Two,
}

/// The secret keys, with the parameters of a match.
#[derive(Clone)]
pub(crate) struct AesKeys {
    pub(crate) window: WindowSize,
    /// The bits of the result that must be zero in a match, of its first four bytes, little-endian.
    pub(crate) mask: u32,
    /// The keys of the four rounds of the hash; each is added before its round.
    pub(crate) hash: [AesBlock; 4],
    /// The expanded keys of AES-128.
    pub(crate) rounds: [AesBlock; 11],
}

impl AesKeys {
    pub(crate) fn new(
        window: WindowSize,
        mask: u32,
        hash: [AesBlock; 4],
        key: AesBlock,
    ) -> AesKeys {
        AesKeys { window, mask, hash, rounds: expand(key) }
    }
}

/// The operations that an instruction set supplies to the cipher. As with
/// [`Kernel`](super::Kernel), a value is a proof that this CPU has the instruction set, and the
/// methods are `#[inline(always)]`.
pub(crate) trait Cipher: Copy {
    /// Runs `task` in a separate function, compiled for the instruction set.
    fn enter<T: CipherTask>(self, task: T) -> T::Output;

    /// Returns a mask whose bit `p` is set if AES of the window of position `p` has zeros where
    /// `keys.mask` has ones.
    fn matches(self, keys: &AesKeys, bytes: &Windows) -> u64;

    /// Prefetches the cache line of byte `offset` of `data`, which may lie behind the end of
    /// `data`.
    fn prefetch(self, data: &[u8], offset: usize);
}

/// Work that is written once for every cipher.
pub(crate) trait CipherTask {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`.
    fn run<C: Cipher>(self, cipher: C) -> Self::Output;
}

/// The cipher in plain Rust without tables: a word holds one bit of 64 windows, so that no branch
/// and no address depends on a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bitsliced;

/// The bits of a byte, lowest first, of 64 windows.
type Bits = [u64; 8];

/// A block of 64 windows.
type State = [Bits; 16];

impl Cipher for Bitsliced {
    fn enter<T: CipherTask>(self, task: T) -> T::Output {
        task.run(self)
    }

    fn matches(self, keys: &AesKeys, bytes: &Windows) -> u64 {
        let mut planes = [0u128; 8];
        for (place, &byte) in bytes.iter().enumerate() {
            for (bit, plane) in planes.iter_mut().enumerate() {
                *plane |= u128::from(byte >> bit & 1) << place;
            }
        }
        let block = |first: usize| -> State {
            core::array::from_fn(|index| planes.map(|plane| low_half(plane >> (first + index))))
        };
        let mut state = block(0);
        if keys.window == WindowSize::Two {
            for key in &keys.hash {
                add_key(&mut state, key);
                mix(&mut state);
            }
            for (bits, added) in state.iter_mut().zip(block(16)) {
                *bits = add(*bits, added);
            }
        }
        let [first, middle @ .., last] = &keys.rounds;
        add_key(&mut state, first);
        for key in middle {
            mix(&mut state);
            add_key(&mut state, key);
        }
        substitute(&mut state);
        add_key(&mut state, last);
        let set = (0..32).filter(|bit| keys.mask >> bit & 1 == 1);
        !set.fold(0, |any, bit| any | state[bit / 8][bit % 8])
    }

    /// Does nothing, because a prefetch would make no noticeable difference.
    fn prefetch(self, _: &[u8], _: usize) {}
}

#[expect(clippy::cast_possible_truncation, reason = "the upper half is other places")]
fn low_half(plane: u128) -> u64 {
    plane as u64
}

fn add(a: Bits, b: Bits) -> Bits {
    core::array::from_fn(|bit| a[bit] ^ b[bit])
}

fn add_key(state: &mut State, key: &AesBlock) {
    for (bits, byte) in state.iter_mut().zip(key) {
        for (bit, word) in bits.iter_mut().enumerate() {
            *word ^= u64::from(byte >> bit & 1).wrapping_neg();
        }
    }
}

/// Applies SubBytes and ShiftRows: FIPS 197, sections 5.1.1 and 5.1.2.
fn substitute(state: &mut State) {
    let before = *state;
    for (place, bits) in state.iter_mut().enumerate() {
        // Row r moves left by r columns; columns are stored one after the other.
        *bits = substituted(before[(place + 4 * (place % 4)) % 16]);
    }
}

/// Applies SubBytes, ShiftRows and MixColumns: FIPS 197, section 5.1.3.
fn mix(state: &mut State) {
    substitute(state);
    for column in state.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *column;
        let all = add(add(a, b), add(c, d));
        for (bits, next) in column.iter_mut().zip([b, c, d, a]) {
            *bits = add(add(*bits, all), doubled(add(*bits, next)));
        }
    }
}

/// Returns the product with x in the field of AES.
fn doubled(bits: Bits) -> Bits {
    let [a, b, c, d, e, f, g, top] = bits;
    [top, a ^ top, b, c ^ top, d ^ top, e, f, g]
}

/// Applies the S-box by the circuit of Boyar and Peralta, "A small depth-16 circuit for the AES
/// S-box" (2011), with the names used there.
fn substituted(bits: Bits) -> Bits {
    let y = sums(bits);
    let [t29, t33, t37, t40, t41, t42, t43, t44, t45] = inverse(&y);
    let z = [
        t44 & y[15],
        t37 & y[6],
        t33 & y[0],
        t43 & y[16],
        t40 & y[1],
        t29 & y[7],
        t42 & y[11],
        t45 & y[17],
        t41 & y[10],
        t44 & y[12],
        t37 & y[3],
        t33 & y[4],
        t43 & y[13],
        t40 & y[5],
        t29 & y[2],
        t42 & y[9],
        t45 & y[14],
        t41 & y[8],
    ];
    combined(&z)
}

/// Returns the sums `y1` to `y21` of the circuit at their numbers, and `x7` at 0: its top linear
/// layer.
#[inline(always)]
fn sums([x7, x6, x5, x4, x3, x2, x1, x0]: Bits) -> [u64; 22] {
    let y14 = x3 ^ x5;
    let y13 = x0 ^ x6;
    let y9 = x0 ^ x3;
    let y8 = x0 ^ x5;
    let t0 = x1 ^ x2;
    let y1 = t0 ^ x7;
    let y4 = y1 ^ x3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ x0;
    let y5 = y1 ^ x6;
    let y3 = y5 ^ y8;
    let t1 = x4 ^ y12;
    let y15 = t1 ^ x5;
    let y20 = t1 ^ x1;
    let y6 = y15 ^ x7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = x7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = x0 ^ y16;
    [
        x7, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19,
        y20, y21,
    ]
}

/// Returns the values `t29`, `t33`, `t37` and `t40` to `t45` of the circuit: the inverse, by which
/// the sums are multiplied.
#[inline(always)]
fn inverse(y: &[u64; 22]) -> [u64; 9] {
    let t2 = y[12] & y[15];
    let t4 = (y[3] & y[6]) ^ t2;
    let t6 = (y[4] & y[0]) ^ t2;
    let t7 = y[13] & y[16];
    let t9 = (y[5] & y[1]) ^ t7;
    let t11 = (y[2] & y[7]) ^ t7;
    let t12 = y[9] & y[11];
    let t14 = (y[14] & y[17]) ^ t12;
    let t16 = (y[8] & y[10]) ^ t12;
    let t21 = t4 ^ t14 ^ y[20];
    let t22 = t6 ^ t16 ^ y[19];
    let t23 = t9 ^ t14 ^ y[21];
    let t24 = t11 ^ t16 ^ y[18];
    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t29 = (t25 & t27) ^ t22;
    let t30 = t23 ^ t24;
    let t31 = t22 ^ t26;
    let t33 = (t31 & t30) ^ t24;
    let t34 = t23 ^ t33;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t37 = t36 ^ t34;
    let t38 = t27 ^ t36;
    let t40 = t25 ^ (t29 & t38);
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;
    [t29, t33, t37, t40, t41, t42, t43, t44, t45]
}

/// Combines the products `z0` to `z17` of the circuit to the result: its bottom linear layer.
#[inline(always)]
fn combined(z: &[u64; 18]) -> Bits {
    let t46 = z[15] ^ z[16];
    let t47 = z[10] ^ z[11];
    let t48 = z[5] ^ z[13];
    let t49 = z[9] ^ z[10];
    let t50 = z[2] ^ z[12];
    let t51 = z[2] ^ z[5];
    let t52 = z[7] ^ z[8];
    let t53 = z[0] ^ z[3];
    let t54 = z[6] ^ z[7];
    let t55 = z[16] ^ z[17];
    let t56 = z[12] ^ t48;
    let t57 = t50 ^ t53;
    let t58 = z[4] ^ t46;
    let t59 = z[3] ^ t54;
    let t60 = t46 ^ t57;
    let t61 = z[14] ^ t57;
    let t62 = t52 ^ t58;
    let t63 = t49 ^ t58;
    let t64 = z[4] ^ t59;
    let t65 = t61 ^ t62;
    let t66 = z[1] ^ t63;
    let s0 = t59 ^ t63;
    let s6 = t56 ^ !t62;
    let s7 = t48 ^ !t60;
    let t67 = t64 ^ t65;
    let s3 = t53 ^ t66;
    let s4 = t51 ^ t66;
    let s5 = t47 ^ t65;
    let s1 = t64 ^ !s3;
    let s2 = t55 ^ !t67;
    [s7, s6, s5, s4, s3, s2, s1, s0]
}

/// Returns the round keys of AES-128: FIPS 197, section 5.2.
fn expand(key: AesBlock) -> [AesBlock; 11] {
    let mut keys = [key; 11];
    let mut constant = 1;
    for round in 1..keys.len() {
        let before = keys[round - 1];
        let [.., a, b, c, d] = before;
        let mut word = [b, c, d, a].map(substituted_byte);
        word[0] ^= constant;
        constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        for (place, (result, byte)) in keys[round].iter_mut().zip(before).enumerate() {
            word[place % 4] ^= byte;
            *result = word[place % 4];
        }
    }
    keys
}

fn substituted_byte(byte: u8) -> u8 {
    let bits = substituted(core::array::from_fn(|bit| u64::from(byte >> bit & 1)));
    let bit = |(place, word): (usize, u64)| u8::from(word & 1 == 1) << place;
    bits.into_iter().enumerate().map(bit).fold(0, |all, each| all | each)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first four bytes of the result are those of FIPS 197, appendix B, bit by bit, and a
    /// wrong bit is no match.
    #[test]
    fn bitsliced_aes_matches_fips_197_example() {
        let key = *b"\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c";
        let input = *b"\x32\x43\xf6\xa8\x88\x5a\x30\x8d\x31\x31\x98\xa2\xe0\x37\x07\x34";
        let result = u32::from_le_bytes([0x39, 0x25, 0x84, 0x1d]);
        let mut windows = [0; 128];
        windows[5..21].copy_from_slice(&input);
        for bit in 0..32 {
            let keys = AesKeys::new(WindowSize::One, 1 << bit, [[0; 16]; 4], key);
            let is_zero = Bitsliced.matches(&keys, &windows) >> 5 & 1 == 1;
            assert_eq!(is_zero, result >> bit & 1 == 0, "bit {bit}");
        }
        let last = *b"\xd0\x14\xf9\xa8\xc9\xee\x25\x89\xe1\x3f\x0c\xc8\xb6\x63\x0c\xa6";
        assert_eq!(expand(key)[10], last, "the last key, from appendix A");
    }
}
