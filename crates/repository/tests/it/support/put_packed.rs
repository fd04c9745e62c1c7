//! Puts the regions of a deduplicator, as a backup does, in the calling thread.

use std::sync::Arc;

use cutpoint_repository::write::{ContainerWriter, Deduplicator, RegionCodec, Uploads};
use cutpoint_repository::{PartName, Repository, TicketId};
use cutpoint_storage::Result;

/// Puts everything, and returns the segments that name it.
pub(crate) fn put_packed(
    repository: &Arc<Repository>,
    ticket: TicketId,
    mut dedup: Deduplicator,
) -> Result<Vec<PartName>> {
    dedup.flush();
    let mut codec = RegionCodec::new(1)?;
    let mut containers = ContainerWriter::new(repository.clone(), ticket);
    for region in dedup.take_regions() {
        containers.append(codec.encode(region, Vec::new())?)?;
    }
    containers.finish()?;
    let mut uploads = Uploads::default();
    for part in containers.take_parts() {
        if let Some(upload) = uploads.write(repository, part)?.upload {
            upload.finish(repository)?;
        }
    }
    Ok(containers.segments().to_vec())
}
