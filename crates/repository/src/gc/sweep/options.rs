//! Options of a sweep.

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// The storages on which a record is swept as soon as it is seen (S1), because listings show puts at
/// once. A client whose listings may lag still makes every sweep of the repository wait
/// ([`lagging_clients`](crate::repo::lagging_clients)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// None: a record has to settle.
    Never,
    /// Those whose kind promises it: [`Visibility::AtOnce`](cutpoint_storage::Visibility::AtOnce).
    AsPromised,
    /// Also those of [`Visibility::IfProbed`](cutpoint_storage::Visibility::IfProbed): the caller has
    /// just probed the storage, and found no exception.
    AsProbed,
}

/// Options of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Minimum age of a prune's record that is not swept at once, in nanoseconds: twice the time by
    /// which a listing may lag behind.
    pub settle_ns: i64,
    /// The storages on which records need not settle.
    pub at_once: AtOnce,
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
        SweepOptions {
            settle_ns: DAY_NS,
            at_once: AtOnce::Never,
            commit_ns: 30 * DAY_NS,
            end_others: false,
        }
    }
}
