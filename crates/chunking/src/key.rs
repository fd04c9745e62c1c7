//! Secret key material for cut-points.

use std::fmt;

/// 2048 pseudo-random bytes that make an algorithm's cut-points secret.
///
/// The sizes of chunks tell much about content: who knows a file can recognise it by where it is
/// cut. With key material the same rule cuts elsewhere, and alike only for those who hold it. What a
/// rule does with the bytes is part of the format, and is stated at each algorithm's `keyed`
/// constructor.
///
/// The caller derives the bytes from a key by an extendable-output function; they must look random
/// and be used for nothing else. `Debug` does not show them. They are not wiped from memory.
#[derive(Clone)]
pub struct KeyMaterial(Box<[u8; KeyMaterial::SIZE]>);

impl KeyMaterial {
    /// The size of the key material in bytes: a gear table of 256 times 8.
    pub const SIZE: usize = 2048;

    /// Takes the bytes as they are.
    pub fn new(bytes: [u8; KeyMaterial::SIZE]) -> KeyMaterial {
        KeyMaterial(Box::new(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; KeyMaterial::SIZE] {
        &self.0
    }
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}
