//! Puts the regions of a packer, as a backup does, in the calling thread.

use std::sync::Arc;

use cutpoint_repository::write::{Archive, Packer, RegionCodec, Uploads};
use cutpoint_repository::{PartName, Repository, TicketId};
use cutpoint_storage::Result;

/// Puts everything, and returns the segments that name it.
pub(crate) fn put_packed(
    repository: &Arc<Repository>,
    ticket: TicketId,
    mut packer: Packer,
) -> Result<Vec<PartName>> {
    packer.flush();
    let mut codec = RegionCodec::new(1)?;
    let mut archive = Archive::new(repository.clone(), ticket);
    for region in packer.take_regions() {
        archive.append(codec.encode(region, Vec::new())?)?;
    }
    archive.finish()?;
    let mut uploads = Uploads::default();
    for part in archive.take_parts() {
        if let Some(upload) = uploads.write(repository, part)?.upload {
            upload.finish(repository)?;
        }
    }
    Ok(archive.segments().to_vec())
}
