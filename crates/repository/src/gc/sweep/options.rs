//! Options of a sweep.

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// Options of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Minimum age of a prune's record, in nanoseconds: twice the time by which a listing may lag
    /// behind.
    pub settle_ns: i64,
    /// Time for which the commits of deleted snapshots stay, in nanoseconds, so that no late
    /// request puts them back.
    pub commit_ns: i64,
    /// Set if every open writer is ended instead of waited for. The caller vouches that there are
    /// none, or accepts that these writers have to restart. Nothing that was committed is at risk
    /// either way.
    pub end_others: bool,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { settle_ns: DAY_NS, commit_ns: 30 * DAY_NS, end_others: false }
    }
}
