//! Requests that do not depend on each other.

use std::panic::resume_unwind;

use cutpoint_storage::{Result, Storage};

/// Calls `request` with each of `items`: at the same time if the storage has a long way, and otherwise
/// one after the other until one fails. Returns the results in the order of the items. The items have
/// to be few, because each gets a thread.
///
/// # Errors
///
/// Returns the error of the first item that has one.
pub(crate) fn at_once<T: Send, R: Send>(
    storage: &dyn Storage,
    items: impl IntoIterator<Item = T>,
    request: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items = items.into_iter();
    if storage.requests_ahead_max() == 0 {
        return items.map(request).collect();
    }
    let request = &request;
    let results: Vec<Result<R>> = std::thread::scope(|scope| {
        let threads: Vec<_> = items.map(|item| scope.spawn(move || request(item))).collect();
        let join = threads.into_iter().map(|thread| thread.join());
        join.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.into_iter().collect()
}
