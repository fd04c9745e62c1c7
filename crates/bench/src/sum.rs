//! The sum that a plain read of memory computes.

/// A compiled form of [`sum`].
pub(crate) type Sum = fn(&[u8]) -> u64;

/// Returns the sum of the little-endian 64-bit words of `data`. The compiler turns it into several sums
/// side by side, in vectors as wide as the target features allow.
#[inline(always)]
pub(crate) fn sum(data: &[u8]) -> u64 {
    let words = data.as_chunks().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}
