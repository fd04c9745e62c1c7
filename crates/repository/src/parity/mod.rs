//! Parity: objects beside the containers, from which a partly damaged container can be rebuilt. The
//! reasons for the design are in `docs/decisions/0009-parity.md`.
//!
//! Nothing depends on parity, and nothing trusts it: a rebuilt container is like any other, and its
//! own seals and fingerprints decide. Parity objects may therefore be absent, damaged or left over
//! at any time.

mod code;

use std::collections::BTreeMap;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result, Storage};

use crate::crypto::{
    HEADER_LEN, Header, Keys, Opener, PartKind, Sealer, TAG_LEN, TRAILER_LEN, Trailer,
    object_is_intact,
};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::parity::ParityTable;
use crate::repo::refuse_longer;
use crate::repo::repository::Repository;

pub(crate) use code::encode_again;

/// The length of the pieces, in bytes, in which a container is read that cannot be read at once.
const PIECE_LEN: usize = 4 * 1024;

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
        let start = usize::try_from(trailer.offset).unwrap_or(usize::MAX);
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

/// Parity objects and their lengths, by the containers that they protect.
pub(crate) type Listed = BTreeMap<(Class, PartName), Vec<(ObjectName, u64)>>;

/// Lists all parity objects.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn list(repository: &Repository) -> Result<Listed> {
    Ok(sorted(repository.storage().list(ObjectKind::Parity.folder())?))
}

/// Selects the names of parity objects from `paths`, by container.
pub(crate) fn sorted(paths: impl IntoIterator<Item = (String, u64)>) -> Listed {
    let mut listed = Listed::new();
    for (path, len) in paths {
        if let Ok(name @ ObjectName::Parity { class, container, .. }) = ObjectName::parse(&path) {
            listed.entry((class, container)).or_default().push((name, len));
        }
    }
    listed
}

/// Reads a container, and repairs damage with its parity. The returned bytes are intact by their
/// own checksum, but their authenticity is only established by opening them.
///
/// # Errors
///
/// Returns a `Missing` error if there is no parity for the container, and `Corrupt` if the parity
/// is not sufficient.
pub(crate) fn rebuild_container(
    repository: &Repository,
    listed: &Listed,
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
                let mut bytes = read_what_is_left(storage, name, &parity)?;
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
fn read_what_is_left(storage: &dyn Storage, name: ObjectName, parity: &Parity) -> Result<Vec<u8>> {
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
    let mut bytes = vec![0; usize::try_from(stored_len).unwrap_or(usize::MAX)];
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
