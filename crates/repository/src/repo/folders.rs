//! Listings of several folders.

use std::panic::resume_unwind;

use cutpoint_storage::{ObjectKind, Result, Storage};

/// The objects of a folder with their lengths.
type Listing = Vec<(String, u64)>;

/// Lists the folders of `kinds`: at the same time if the storage has a long way, except the first one,
/// so that a connection that fails is made once.
pub(super) fn list_all(storage: &dyn Storage, kinds: &[ObjectKind]) -> Result<Vec<Listing>> {
    let list = |kind: &ObjectKind| storage.list(kind.folder());
    let Some((first, others)) = kinds.split_first() else { return Ok(Vec::new()) };
    let first = std::iter::once(list(first));
    if storage.requests_ahead_max() == 0 {
        return first.chain(others.iter().map(list)).collect();
    }
    let mut listings: Vec<Listing> = first.collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        let listing: Vec<_> = others.iter().map(|kind| scope.spawn(move || list(kind))).collect();
        for listed in listing {
            listings.push(listed.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(listings)
    })
}
