//! Options of a prune.

/// The default of [`PruneOptions::merged_hints_max`]: 4 Mi, which takes 48 MB. A build for
/// measurements may have another one, because it takes gigabytes to fill many segments of this size.
const MERGED_HINTS_MAX: usize = match option_env!("CUTPOINT_MERGED_HINTS_MAX") {
    None => 4 << 20,
    Some(text) => match usize::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("CUTPOINT_MERGED_HINTS_MAX must be a number"),
    },
};

/// Options of a prune.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PruneOptions {
    /// Maximum share of unused bytes in what stays. Containers are rewritten until the share is not
    /// above it: 0 rewrites every container that has unused bytes, 1 rewrites none.
    pub unused_max: f64,
    /// Maximum total size of the containers to rewrite, in bytes.
    pub rewrite_bytes_max: u64,
    /// Minimum number of small index segments at which a prune merges them.
    pub segment_count_max: usize,
    /// Number of hints at which a merged segment is published. A segment is small if it is shorter
    /// than half of that many hints.
    pub merged_hints_max: usize,
    /// Set if the caller vouches that no other client is at work. Dead writers are then ended even
    /// on storage that lets several clients create one object.
    pub is_alone: bool,
    /// Minimum number of small containers of one class at which they are rewritten as a few large
    /// ones.
    pub small_count_max: usize,
}

impl Default for PruneOptions {
    fn default() -> PruneOptions {
        PruneOptions {
            unused_max: 0.05,
            rewrite_bytes_max: u64::MAX,
            segment_count_max: 500,
            merged_hints_max: MERGED_HINTS_MAX,
            small_count_max: 64,
            is_alone: false,
        }
    }
}
