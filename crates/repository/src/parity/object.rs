//! Parity objects: putting one, and opening one.

use bytes::Bytes;
use cutpoint_storage::{Error, Result};

use super::code;
use crate::crypto::{
    HEADER_LEN, Header, Keys, Opener, PartKind, Sealer, TAG_LEN, TRAILER_LEN, Trailer,
};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::parity::ParityTable;
use crate::repo::repository::{Repository, refuse_longer};

/// Puts parity for a container with the given bytes, in the name of `writer`. Returns the size of
/// the parity object in bytes.
///
/// # Errors
///
/// Returns a `Corrupt` error if the bytes do not begin with the header of the container, or any
/// error of [`Repository::put`].
pub(crate) fn protect(
    repository: &Repository,
    writer: TicketId,
    class: Class,
    container: PartName,
    bytes: &[u8],
    percent: u32,
) -> Result<u64> {
    // The salt is that of the container. The key differs nevertheless, because kind and name
    // differ. Reusing the salt makes the stored bytes independent of the order in which threads ask
    // for randomness.
    let salt = Header::decode(&ObjectName::Container(class, container), bytes)?.salt;
    let coded = code::encode(class, container, bytes, percent)?;
    let name = ObjectName::Parity { class, container, writer };
    let mut sealer = Sealer::new(repository.keys(), name, salt);
    let mut object = sealer.header().to_vec();
    for (number, mut shard) in (0..).zip(coded.shards) {
        sealer.seal(PartKind::Region(number), &mut shard);
        object.append(&mut shard);
    }
    let mut table = coded.table.encode();
    sealer.finish(PartKind::Toc, &mut table);
    object.append(&mut table);
    let len = object.len() as u64;
    repository.put(name, Bytes::from(object))?;
    Ok(len)
}

/// An opened parity object.
#[derive(Debug)]
pub(crate) struct Parity {
    pub(crate) table: ParityTable,
    /// The shards, each with a tag of its own; `None` for a damaged one.
    pub(crate) shards: Vec<Option<Vec<u8>>>,
}

impl Parity {
    /// Opens the parity object `name`, some shards of which may be damaged.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` or `WrongKey` error if the table cannot be read, or belongs to another
    /// container.
    pub(crate) fn open(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Result<Parity> {
        let opener = Opener::new(keys, name, bytes)?;
        let trailer = Trailer::decode(&name, bytes, bytes.len() as u64)?;
        let start = usize::try_from(trailer.offset)
            .map_err(|_| Error::corrupt(name, "the table begins beyond the end"))?;
        let part = bytes[start..start + trailer.length as usize].to_vec();
        let table = open_table(&opener, name, &trailer, part)?;
        let part_len = table.shard_len as usize + TAG_LEN;
        let parts = bytes[HEADER_LEN..start].chunks_exact(part_len);
        let shards = (0..).zip(parts).map(|(number, part)| {
            let mut part = part.to_vec();
            opener.open(PartKind::Region(number), &mut part).ok().map(|()| part)
        });
        Ok(Parity { shards: shards.collect(), table })
    }

    /// Repairs the damage in the `bytes` of a container. Returns the number of shards that were
    /// damaged.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if there is more damage than the parity can repair.
    pub(crate) fn rebuild(&self, bytes: &mut Vec<u8>) -> Result<usize> {
        code::rebuild(bytes, &self.table, &self.shards)
    }
}

fn open_table(
    opener: &Opener,
    name: ObjectName,
    trailer: &Trailer,
    mut part: Vec<u8>,
) -> Result<ParityTable> {
    opener.open(PartKind::Toc, &mut part)?;
    let table = ParityTable::decode(&part).map_err(|error| error.of(name))?;
    let is_its_own = matches!(name, ObjectName::Parity { class, container, .. }
        if (class, container) == (table.class, table.container));
    if !is_its_own {
        return Err(Error::corrupt(name, "belongs to another container than its name says"));
    }
    let shards_len = u64::from(table.parity_count) * (u64::from(table.shard_len) + TAG_LEN as u64);
    if HEADER_LEN as u64 + shards_len != trailer.offset {
        let message = format!("no room for {} shards before the table", table.parity_count);
        return Err(Error::corrupt(name, message));
    }
    Ok(table)
}

/// Reads the table of a parity object of `stored_len` bytes, without its shards.
///
/// # Errors
///
/// Returns any error of [`Parity::open`] and of the storage.
pub(crate) fn read_table(
    repository: &Repository,
    name: ObjectName,
    stored_len: u64,
) -> Result<ParityTable> {
    let (storage, path) = (repository.storage(), name.to_string());
    refuse_longer(name, stored_len)?;
    let trailer_offset = stored_len.saturating_sub(TRAILER_LEN as u64);
    let trailer = storage.get_range(&path, trailer_offset, TRAILER_LEN)?;
    let trailer = Trailer::decode(&name, &trailer, stored_len)?;
    let opener = Opener::new(repository.keys(), name, &storage.get_range(&path, 0, HEADER_LEN)?)?;
    let part = storage.get_range(&path, trailer.offset, trailer.length as usize)?;
    open_table(&opener, name, &trailer, part.to_vec())
}
