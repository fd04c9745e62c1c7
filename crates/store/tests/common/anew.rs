//! Stores chunks without regard to known ones, under any given fingerprint.

use std::sync::Arc;

use cutpoint_store::error::Result;
use cutpoint_store::fingerprint::{Class, Fingerprint};
use cutpoint_store::index::Index;
use cutpoint_store::name::{PartName, TicketId};
use cutpoint_store::repository::Repository;
use cutpoint_store::view::View;
use cutpoint_store::writer::{Packer, Verify};

use crate::packed::put_packed;

/// Stores `chunks` and returns the segments that name them.
pub(crate) fn store_anew(
    repository: &Arc<Repository>,
    ticket: TicketId,
    chunks: impl IntoIterator<Item = (Class, Fingerprint, Vec<u8>)>,
) -> Result<Vec<PartName>> {
    let nothing = Arc::new(Index::open(repository.clone(), &View::default())?);
    let keys = repository.keys().clone();
    let mut packer = Packer::new(keys, nothing, repository.config().region_size, Verify::Some)?;
    for (class, fingerprint, bytes) in chunks {
        packer.store(class, fingerprint, &bytes)?;
    }
    put_packed(repository, ticket, packer)
}
