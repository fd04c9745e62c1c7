//! The sum that a plain read of memory computes.

/// A function that sums up a buffer.
pub(crate) type Sum = fn(&[u8]) -> u64;

/// Sums up a buffer in plain Rust. The compiler turns it into several sums side by side, in the
/// widest vectors that are enabled.
#[inline(always)]
pub(crate) fn sum(data: &[u8]) -> u64 {
    let words = data.as_chunks().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}
