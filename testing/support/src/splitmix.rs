//! The only generator of pseudo-random numbers in tests and vectors.

/// SplitMix64, which is small enough to be ported anywhere and good enough for test data.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014), with
/// the constants of its public reference form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator with `seed` as the state.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it has no end, so it returns no option")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns a number below `limit`.
    ///
    /// The result is the next number modulo `limit`, whose bias is too small to matter in a test.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "it is below `limit`")]
        let number = (self.next() % limit as u64) as usize;
        number
    }

    /// Returns a byte, the lowest 8 bits of the next number.
    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// Returns `size` bytes: the next numbers as 8 little-endian bytes each, the last one cut off.
    pub fn take(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
        bytes
    }

    /// Returns the first `size` bytes of a new generator with `seed`.
    pub fn bytes(seed: u64, size: usize) -> Vec<u8> {
        SplitMix64::new(seed).take(size)
    }
}
