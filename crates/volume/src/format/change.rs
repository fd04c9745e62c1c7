//! Changes of the catalog: disks, snapshots, layers and settings.

use super::cursor::{Cursor, put_text, put_varint};
use super::settings::Settings;
use super::span::LayerId;

/// The number of a disk or a snapshot. A number is used once.
pub(crate) type EntryId = u32;

/// The maximum length of a name in bytes.
const NAME_LEN_MAX: usize = 64;

/// A disk in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskEntry {
    pub(crate) name: String,
    /// The uppermost layer, which gets the writes.
    pub(crate) layer: LayerId,
    /// The size in bytes.
    pub(crate) size: u64,
}

/// A snapshot in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotEntry {
    pub(crate) disk: EntryId,
    pub(crate) name: String,
    /// The uppermost layer, which gets no writes.
    pub(crate) layer: LayerId,
    /// The size of the disk in bytes.
    pub(crate) size: u64,
    /// The time of its creation in seconds since 1970.
    pub(crate) created: u64,
}

/// A change of the catalog. To make it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Settings(Settings),
    /// A layer is new, or lies on another one from now on.
    Layer {
        id: LayerId,
        parent: Option<LayerId>,
    },
    /// A layer without blocks is gone.
    RemoveLayer(LayerId),
    /// A disk is new, or has another layer, name or size from now on.
    Disk(EntryId, DiskEntry),
    RemoveDisk(EntryId),
    Snapshot(EntryId, SnapshotEntry),
    RemoveSnapshot(EntryId),
}

impl Change {
    /// Appends the bytes of the change.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut put = |code: u8, numbers: &[u64]| {
            bytes.push(code);
            numbers.iter().for_each(|number| put_varint(bytes, *number));
        };
        match self {
            Change::Settings(settings) => put(1, &settings.numbers()),
            // Layers count from 1.
            Change::Layer { id, parent } => {
                put(2, &[u64::from(*id), u64::from(parent.unwrap_or_default())]);
            }
            Change::RemoveLayer(id) => put(3, &[u64::from(*id)]),
            Change::Disk(id, disk) => {
                put(4, &[u64::from(*id), u64::from(disk.layer), disk.size]);
                put_text(bytes, &disk.name);
            }
            Change::RemoveDisk(id) => put(5, &[u64::from(*id)]),
            Change::Snapshot(id, snapshot) => {
                let SnapshotEntry { disk, layer, size, created, .. } = snapshot;
                let ids = [*id, *disk, *layer].map(u64::from);
                put(6, &[ids[0], ids[1], ids[2], *size, *created]);
                put_text(bytes, &snapshot.name);
            }
            Change::RemoveSnapshot(id) => put(7, &[u64::from(*id)]),
        }
    }

    /// Returns the bytes of changes.
    pub(crate) fn encode_all(changes: &[Change]) -> Vec<u8> {
        let mut bytes = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut bytes));
        bytes
    }

    /// Decodes all changes of a payload. Returns `None` if the bytes are none.
    pub(crate) fn decode_all(bytes: &[u8]) -> Option<Vec<Change>> {
        let mut rest = Cursor(bytes);
        let mut changes = Vec::new();
        while !rest.0.is_empty() {
            changes.push(Change::decode(&mut rest)?);
        }
        Some(changes)
    }

    /// Decodes a change.
    pub(crate) fn decode(rest: &mut Cursor<'_>) -> Option<Change> {
        let code = rest.u8()?;
        let id = |rest: &mut Cursor<'_>| u32::try_from(rest.varint()?).ok().filter(|id| *id > 0);
        Some(match code {
            1 => {
                let numbers = [rest.varint()?, rest.varint()?, rest.varint()?, rest.varint()?];
                Change::Settings(Settings::of_numbers(numbers)?)
            }
            2 => {
                let layer = id(rest)?;
                let parent = u32::try_from(rest.varint()?).ok()?;
                Change::Layer { id: layer, parent: (parent > 0).then_some(parent) }
            }
            3 => Change::RemoveLayer(id(rest)?),
            4 => {
                let (disk, layer, size) = (id(rest)?, id(rest)?, rest.varint()?);
                Change::Disk(disk, DiskEntry { name: name(rest)?, layer, size })
            }
            5 => Change::RemoveDisk(id(rest)?),
            6 => {
                let (snapshot, disk, layer) = (id(rest)?, id(rest)?, id(rest)?);
                let (size, created) = (rest.varint()?, rest.varint()?);
                let name = name(rest)?;
                Change::Snapshot(snapshot, SnapshotEntry { disk, name, layer, size, created })
            }
            7 => Change::RemoveSnapshot(id(rest)?),
            _ => return None,
        })
    }
}

fn name(rest: &mut Cursor<'_>) -> Option<String> {
    rest.text().filter(|name| is_name(name)).map(str::to_owned)
}

/// Returns `true` if a text is a name of a disk or a snapshot: 1 to 64 letters and digits of ASCII, `.`,
/// `_` and `-`, of which the first is a letter or a digit.
pub(crate) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&text.len())
        && text.bytes().all(is_inner)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}
