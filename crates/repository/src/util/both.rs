//! Two requests at a time.

use cutpoint_storage::Storage;

/// Runs two functions that make requests to `storage` and do not depend on each other: at the same time
/// if the storage has a long way, otherwise one after the other.
pub(crate) fn both<A: Send, B>(
    storage: &dyn Storage,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    if storage.requests_ahead_max() == 0 {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}
