//! Settings that papers print for several algorithms at once.

use super::rounded_log2;

/// The targets in bytes at which Gregoriadis et al., "A Thorough Investigation", measure rules with
/// the hash of a window.
const TARGETS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

/// Returns the number of bits of a window's hash that must be zeros for a mean of `target` bytes,
/// as Gregoriadis et al. print it in table 4: the logarithm of `target - window`, which their code
/// rounds. `None` for a target that they do not measure.
pub(super) fn bits(target: usize, window: usize) -> Option<u32> {
    TARGETS.contains(&target).then(|| rounded_log2(target - window))
}

/// Returns the minimum and the maximum size that Udayashankar et al., "SeqCDC", give every
/// algorithm for an expected average of 4, 8 or 16 KiB (section 6): half and twice the average, but
/// a quarter as the minimum for 4 KiB. `None` for any other average.
pub(super) fn sizes(nominal_size: usize) -> Option<(usize, usize)> {
    match nominal_size {
        4096 => Some((1024, 8192)),
        8192 | 16384 => Some((nominal_size / 2, nominal_size * 2)),
        _ => None,
    }
}
