//! Secret key material for cut-points.

use alloc::boxed::Box;
use core::fmt;

/// 2048 pseudo-random bytes that make an algorithm's cut-points secret.
///
/// The sizes of chunks reveal much about content: a known file can be recognised by its cut-points.
/// With key material, the same rule cuts at other places, and alike only for holders of the same
/// material. The use that a rule makes of the bytes is part of the format.
/// [`About::key`](crate::About::key) tells which of the following uses it is; a rule with none of
/// them is not keyed.
///
/// The caller derives the bytes from a key by an extendable-output function. The bytes must look
/// random and must not be used for anything else. `Debug` does not show them, and dropping the
/// value does not wipe them from memory.
///
/// # Table
///
/// The rule has a table of one random number for each byte value. Entry `v` of the secret table is
/// the 8 bytes from byte `8 * v` on, little-endian; if an entry has 32 bits, only the lower 4 of
/// these bytes.
///
/// # Permutation
///
/// The keyed rule cuts `data` where the rule without a key cuts `data` with each byte `v` replaced
/// by `permutation[v]`. The permutation begins with `permutation[v] = v`. For `i` from 255 down to
/// 1, `permutation[i]` and `permutation[j]` change places, where `j = r mod (i + 1)` and `r` is the
/// next unused pair of bytes, from byte 0 on, as a little-endian number. A pair is skipped if `r`
/// is not below the largest multiple of `i + 1` that is not above 65536, so that every permutation
/// is equally likely (Fisher and Yates, by rejection). If the 1024 pairs run out, which does not
/// happen with material that looks random, the remaining entries stay in place.
///
/// # Cipher
///
/// Bytes 0 to 15 are the key of AES-128. Bytes 16 to 79 are the four keys of the hash, of 16 bytes
/// each.
#[derive(Clone)]
pub struct KeyMaterial(Box<[u8; KeyMaterial::SIZE]>);

impl KeyMaterial {
    /// The size of the key material in bytes: a table of 256 times 8.
    pub const SIZE: usize = 2048;

    /// Takes the bytes unchanged.
    pub fn new(bytes: [u8; KeyMaterial::SIZE]) -> KeyMaterial {
        KeyMaterial(Box::new(bytes))
    }

    /// Returns the table of 64-bit numbers.
    pub(crate) fn table(&self) -> Box<[u64; 256]> {
        let mut table = Box::new([0; 256]);
        for (entry, &bytes) in table.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *entry = u64::from_le_bytes(bytes);
        }
        table
    }

    /// Returns the key of AES-128 and the keys of the hash that precedes it.
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

/// Takes the keys of AES and of the hash from the beginning of `bytes`.
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
