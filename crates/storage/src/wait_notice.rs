//! Notices of waits, which a program shows its user.

/// A wait that takes more than about a second: the reason, and the time of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitNotice {
    /// The kind of wait.
    pub reason: WaitReason,
    /// A description of the wait without its end, such as "listings of X may lag".
    pub text: String,
    /// The time at which the wait ends at the latest, in nanoseconds since 1970.
    pub until_ns: i64,
}

/// A kind of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Listings of this client may lag, which other clients have to be told once for a repository.
    LaggingListings,
    /// Listings do not show an object that exists.
    UnlistedObject,
    /// A request has failed, and will be sent again.
    Retry,
}
