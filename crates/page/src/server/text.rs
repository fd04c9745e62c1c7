//! Names and times as the page shows them.

/// Returns bytes as text in which nothing is invisible or reorders what stands beside it.
pub(super) fn shown(bytes: &[u8]) -> String {
    cutpoint_terminal::escape::for_terminal(bytes)
}

/// Returns a time in milliseconds, as scripts count.
pub(super) fn milliseconds(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1_000_000)
}
