//! Secret key material for cut-points.

use alloc::boxed::Box;
use core::fmt;

/// 2048 pseudo-random bytes that make an algorithm's cut-points secret.
///
/// The sizes of chunks tell much about content: who knows a file can recognise it by where it is
/// cut. With key material the same rule cuts elsewhere, and alike only for those who hold it. What a
/// rule does with the bytes is part of the format; [`About::key`](crate::About::key) says which of
/// the following it is; a rule of none of them is not keyed.
///
/// The caller derives the bytes from a key by an extendable-output function; they must look random
/// and be used for nothing else. `Debug` does not show them. They are not wiped from memory.
///
/// # Table
///
/// The rule has a table of one random number for each byte value. Entry `v` of the secret one is the
/// 8 bytes from byte `8 * v`, little-endian; of them the lower 4 bytes where an entry has 32 bits.
///
/// # Permutation
///
/// The keyed rule cuts `data` where the rule without a key cuts `data` with each byte `v` replaced
/// by `permutation[v]`. The permutation begins with `permutation[v] = v`. For `i` from 255 down to
/// 1, `permutation[i]` and `permutation[j]` change places, where `j = r mod (i + 1)` and `r` is the
/// next unused pair of bytes, from byte 0 on, as a little-endian number. A pair is passed over where
/// `r` is not below the largest multiple of `i + 1` that is not above 65536: so every permutation is
/// equally likely (Fisher and Yates, by rejection). Should the 1024 pairs run out, as they do with
/// no material that looks random, the rest stays in place.
///
/// # Cipher
///
/// Bytes 0 to 15 are the key of AES-128. Bytes 16 to 79 are the four keys of the hash, 16 bytes each.
#[derive(Clone)]
pub struct KeyMaterial(Box<[u8; KeyMaterial::SIZE]>);

impl KeyMaterial {
    /// The size of the key material in bytes: a table of 256 times 8.
    pub const SIZE: usize = 2048;

    /// Takes the bytes as they are.
    pub fn new(bytes: [u8; KeyMaterial::SIZE]) -> KeyMaterial {
        KeyMaterial(Box::new(bytes))
    }

    /// Returns the table of numbers of 64 bits.
    pub(crate) fn table(&self) -> Box<[u64; 256]> {
        let mut table = Box::new([0; 256]);
        for (entry, &bytes) in table.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *entry = u64::from_le_bytes(bytes);
        }
        table
    }

    /// Returns the key of AES-128, and the keys of the hash before it.
    pub(crate) fn cipher(&self) -> ([u8; 16], [[u8; 16]; 4]) {
        cipher(&*self.0)
    }

    /// Returns the permutation of byte values.
    pub(crate) fn permutation(&self) -> Box<[u8; 256]> {
        let mut permutation = Box::new([0; 256]);
        for (entry, value) in permutation.iter_mut().zip(0..=255) {
            *entry = value;
        }
        let mut pairs = self.0.as_chunks::<2>().0.iter();
        for i in (1..256).rev() {
            let choices = i + 1;
            let unbiased = 65536 / choices * choices;
            let Some(r) = pairs
                .by_ref()
                .map(|&pair| usize::from(u16::from_le_bytes(pair)))
                .find(|&r| r < unbiased)
            else {
                break;
            };
            permutation.swap(i, r % choices);
        }
        permutation
    }
}

/// Takes the keys for AES and for the hash from the beginning of `bytes`.
pub(crate) fn cipher(bytes: &[u8]) -> ([u8; 16], [[u8; 16]; 4]) {
    let mut keys = [[0; 16]; 5];
    for (key, bytes) in keys.iter_mut().zip(bytes.as_chunks().0) {
        *key = *bytes;
    }
    let [key, hash @ ..] = keys;
    (key, hash)
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}
