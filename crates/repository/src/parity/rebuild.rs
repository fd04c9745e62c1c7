//! Rebuilding a damaged container from its parity.

use cutpoint_storage::{Error, Kind, Result, Storage};

use super::listing::ParityListing;
use super::object::Parity;
use crate::crypto::object_is_intact;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::repo::repository::Repository;

/// The length of the pieces, in bytes, in which a container is read that cannot be read at once.
const PIECE_LEN: usize = 4 * 1024;

/// Reads a container, and repairs damage with its parity. The returned bytes are intact by their
/// own checksum, but their authenticity is only established by opening them.
///
/// # Errors
///
/// Returns a `Missing` error if there is no parity for the container, and `Corrupt` if the parity
/// is not sufficient.
pub(crate) fn rebuild_container(
    repository: &Repository,
    listed: &ParityListing,
    class: Class,
    container: PartName,
) -> Result<Vec<u8>> {
    let name = ObjectName::Container(class, container);
    let storage = &**repository.storage();
    let mut failure = Error::missing(name, "no parity to rebuild from");
    for (parity_name, _) in listed.get(&(class, container)).into_iter().flatten() {
        let rebuilt = storage
            .get(&parity_name.to_string())
            .and_then(|bytes| Parity::open(repository.keys(), *parity_name, &bytes))
            .and_then(|parity| {
                let mut bytes = read_readable_pieces(storage, name, &parity)?;
                parity.rebuild(&mut bytes).map_err(|error| error.of(name))?;
                if object_is_intact(&bytes) {
                    Ok(bytes)
                } else {
                    Err(Error::corrupt(
                        name,
                        "content rebuilt from parity differs from the original",
                    ))
                }
            });
        match rebuilt {
            Ok(bytes) => return Ok(bytes),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Reads the bytes of a container, with zeros where the storage fails.
fn read_readable_pieces(
    storage: &dyn Storage,
    name: ObjectName,
    parity: &Parity,
) -> Result<Vec<u8>> {
    let path = name.to_string();
    match storage.get(&path) {
        Ok(bytes) => return Ok(bytes.to_vec()),
        Err(error) if error.kind() == Kind::Missing => return Ok(Vec::new()),
        // A container longer than the maximum has extra bytes behind its end.
        Err(error) if matches!(error.kind(), Kind::Storage | Kind::Corrupt) => {}
        Err(error) => return Err(error),
    }
    // One bad sector makes the whole file unreadable. If more pieces fail than could be repaired,
    // the cause is not bad sectors.
    let failures_max = parity.shards.len() * (parity.table.shard_len as usize).div_ceil(PIECE_LEN);
    let mut failures = 0;
    let stored_len = storage.head(&path)?.unwrap_or(0).min(parity.table.container_len);
    let stored_len = usize::try_from(stored_len)
        .map_err(|_| Error::corrupt(name, "longer than the memory of this machine"))?;
    let mut bytes = vec![0; stored_len];
    for (number, piece) in (0_u64..).zip(bytes.chunks_mut(PIECE_LEN)) {
        match storage.get_range(&path, number * PIECE_LEN as u64, piece.len()) {
            Ok(read) => piece.copy_from_slice(&read),
            Err(error) => {
                failures += 1;
                if failures > failures_max {
                    return Err(error);
                }
            }
        }
    }
    Ok(bytes)
}
