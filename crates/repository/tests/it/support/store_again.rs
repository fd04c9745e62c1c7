//! Stores chunks without regard to known ones, under any given fingerprint.

use std::sync::Arc;

use cutpoint_repository::write::Deduplicator;
use cutpoint_repository::{
    Class, Fingerprint, Index, PartName, Repository, TicketId, Verify, View,
};
use cutpoint_storage::Result;

use super::put_packed::put_packed;

/// Stores `chunks` and returns the segments that name them.
pub(crate) fn store_again(
    repository: &Arc<Repository>,
    ticket: TicketId,
    chunks: impl IntoIterator<Item = (Class, Fingerprint, Vec<u8>)>,
) -> Result<Vec<PartName>> {
    let nothing = Arc::new(Index::open(repository.clone(), &View::default())?);
    let keys = repository.keys().clone();
    let mut dedup =
        Deduplicator::new(keys, nothing, repository.config().region_size, Verify::Some)?;
    for (class, fingerprint, bytes) in chunks {
        dedup.store(class, fingerprint, &bytes)?;
    }
    put_packed(repository, ticket, dedup)
}
