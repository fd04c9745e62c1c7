//! The choice of the values that end a chunk, by their counts.

use alloc::vec::Vec;

/// Chooses those of `ranked`, values by falling count, that give a mean of `target` bytes:
/// Gregoriadis et al., "A Thorough Investigation", algorithm 7 with equation 3.
///
/// `size` is the number of bytes that were counted, and `skipped` the number of bytes of each chunk
/// that are not tested. The first value taken is one that alone gives a mean that is not too small.
/// Each later one is taken if it brings the mean strictly nearer to the target.
pub(super) fn choose<T>(
    ranked: impl Iterator<Item = (T, u64)>,
    size: u64,
    skipped: usize,
    target: usize,
) -> Vec<T> {
    let mean = |count: u64| size as f64 / (count + 1) as f64 + skipped as f64;
    let target = target as f64;
    let mut chosen = Vec::new();
    let mut sum = 0;
    for (value, count) in ranked {
        let is_taken = if chosen.is_empty() {
            mean(count) >= target
        } else {
            (target - mean(sum + count)).abs() < (target - mean(sum)).abs()
        };
        if is_taken {
            chosen.push(value);
            sum += count;
        }
    }
    chosen
}
