//! Chunks of trees: from bytes to the entries of a folder.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use crate::format::tree::Entry;

/// Returns the entries in the bytes of a chunk of a tree.
///
/// # Errors
///
/// Returns `Corrupt` if there is anything but entries with ascending names.
pub(super) fn entries_in(chunk: &[u8]) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let d = &mut Decoder::new(chunk);
    while d.position() < chunk.len() {
        let entry = Entry::decode(d).map_err(|error| error.of("tree"))?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(not_ascending());
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Returns the error of a tree with names in another order.
pub(super) fn not_ascending() -> Error {
    Error::corrupt("tree", "names are not in ascending order")
}
