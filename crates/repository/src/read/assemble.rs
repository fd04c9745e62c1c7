//! Delta chunks: from the extents of full chunks to the bytes of the chunk.

use std::fmt::Display;

use cutpoint_storage::{Error, Result};

use super::chunk_bytes::ChunkBytes;
use crate::format::extents::Extent;
use crate::format::fingerprint::{Class, Fingerprint};

/// Returns the error of a delta chunk whose reference is not stored as a full chunk anywhere (rules
/// C1 and C2).
pub(crate) fn no_full_chunk(class: Class, fingerprint: &Fingerprint) -> Error {
    let message = "a delta chunk refers to it, but no container listed in the index has it as a \
         full chunk";
    Error::missing(format!("{class} chunk {fingerprint}"), message)
}

/// Assembles the `extents` of a delta chunk of `container` from the full chunks that `full_chunk`
/// returns. Only one of them is held at a time, because those of a hostile container may lie in 64
/// regions of 16 MiB.
///
/// # Errors
///
/// Returns any error of `full_chunk`, and `Corrupt` if a full chunk is too short or an extent names
/// a reference that does not exist.
pub(crate) fn gather(
    container: impl Display + Copy,
    extents: &[Extent],
    references: &[Fingerprint],
    mut full_chunk: impl FnMut(&Fingerprint) -> Result<ChunkBytes>,
) -> Result<Vec<u8>> {
    let mut places: Vec<(&Extent, usize)> = Vec::with_capacity(extents.len());
    let mut len = 0;
    for extent in extents {
        places.push((extent, len));
        len += extent.len as usize;
    }
    places.sort_by_key(|(extent, _)| extent.reference);
    let mut bytes = vec![0; len];
    for of_one in places.chunk_by(|(left, _), (right, _)| left.reference == right.reference) {
        let Some(reference) = references.get(usize::from(of_one[0].0.reference)) else {
            return Err(Error::corrupt(
                container,
                "a delta chunk uses a reference that does not exist",
            ));
        };
        let full_chunk = full_chunk(reference)?;
        for (extent, at) in of_one {
            let start = extent.offset as usize;
            let Some(found) = full_chunk.get(start..start + extent.len as usize) else {
                let message = format!(
                    "a delta chunk takes {} bytes at {start} of {reference}, which has {} bytes",
                    extent.len,
                    full_chunk.len()
                );
                return Err(Error::corrupt(container, message));
            };
            bytes[*at..at + found.len()].copy_from_slice(found);
        }
    }
    Ok(bytes)
}
