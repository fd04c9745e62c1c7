//! Items of archives, which become entries.

use cutpoint_repository::format::recipe::{RAW_LEN_MAX, Segment};
use cutpoint_repository::format::tree::check_name;
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint, Time};
use cutpoint_storage::{Error, Result};
use rmpv::Value;
use sha2::{Digest, Sha256};

use super::acl;
use super::message::{bytes, get, get_bytes, get_number, get_text, malformed};

/// The bits of a mode with the type of a file, and their values.
const TYPE: u32 = 0o170_000;

/// The access control lists: the keys of an item, the names of their attributes, and those for
/// messages.
const LISTS: [(&str, &[u8], &str); 2] =
    [("acl_access", acl::ACCESS, "access ACL"), ("acl_default", acl::DEFAULT, "default ACL")];

/// An identifier that no object has.
const ABSENT: [u8; 32] = [0xff; 32];

/// The content of a file with several names, which the item of one of them has. Pipes and devices have
/// none, but names.
#[derive(Clone, Debug)]
pub(super) struct Master {
    pub(super) content: Content,
    pub(super) size: u64,
    /// The number of names in the archive.
    pub(super) name_count: u64,
}

impl Master {
    /// Returns the content of a file that has no item with its content, because a repair of the archive
    /// has left it out. Reading it fails.
    pub(super) fn lost() -> Master {
        let fingerprint = Fingerprint(ABSENT);
        let content = Content::Segments(vec![Segment::Chunk { fingerprint, offset: 0, length: 1 }]);
        Master { content, size: 1, name_count: 1 }
    }
}

/// Returns the parts of the path of an item, without empty parts and `.`.
///
/// # Errors
///
/// Returns `Corrupt` if a part cannot be a name.
pub(super) fn parts(path: &[u8]) -> Result<Vec<&[u8]>> {
    let is_part = |part: &&[u8]| !part.is_empty() && *part != b".";
    let parts: Vec<_> = path.split(|byte| *byte == b'/').filter(is_part).collect();
    parts.iter().try_for_each(|part| check_name(part))?;
    Ok(parts)
}

/// Returns the path of the item that has the content of this one, of which it may be one name of
/// several; `None` if it cannot be.
pub(super) fn master_of(item: &Value) -> Option<&[u8]> {
    let path = || get_bytes(item, "path").filter(|_| may_have_names(item));
    further_name_of(item).or_else(path)
}

/// Returns the path of the item that has the content of this one, if this is a further name of a file,
/// pipe or device.
pub(super) fn further_name_of(item: &Value) -> Option<&[u8]> {
    get_bytes(item, "source").filter(|_| may_have_names(item))
}

/// Returns `true` if the item says that others refer to its content. Borg 1.0 did not write that.
pub(super) fn is_master(item: &Value) -> bool {
    get(item, "hardlink_master").and_then(Value::as_bool).unwrap_or(false)
        && may_have_names(item)
        && get(item, "source").is_none()
}

/// Returns `true` for the kinds of files of which Borg keeps the names together.
fn may_have_names(item: &Value) -> bool {
    use EntryKind::{BlockDevice, CharDevice, Fifo, File};
    kind(item).is_ok_and(|kind| matches!(kind, File | Fifo | CharDevice | BlockDevice))
}

/// Returns `true` if the item has a part of a file that it stands beside. Borg adds such items for the
/// case that it is interrupted, and shows them only on request.
pub(super) fn is_part(item: &Value) -> bool {
    get(item, "part").is_some_and(|part| !part.is_nil())
}

fn kind(item: &Value) -> Result<EntryKind> {
    let mode = get_number(item, "mode").and_then(|mode| u32::try_from(mode).ok());
    Ok(match mode.ok_or_else(|| malformed("an item without a mode"))? & TYPE {
        0o100_000 => EntryKind::File,
        0o040_000 => EntryKind::Folder,
        0o120_000 => EntryKind::Symlink,
        0o020_000 => EntryKind::CharDevice,
        0o060_000 => EntryKind::BlockDevice,
        0o010_000 => EntryKind::Fifo,
        0o140_000 => EntryKind::Socket,
        other => return Err(malformed(&format!("an item of the type {other:o}"))),
    })
}

/// Returns the content and the size of a file.
///
/// # Errors
///
/// Returns `Corrupt` if the item is malformed.
pub(super) fn content(item: &Value) -> Result<Master> {
    // If `borg check --repair` has replaced chunks by zeros, the true ones are listed here.
    let chunks = get(item, "chunks_healthy").or_else(|| get(item, "chunks"));
    let Some(chunks) = chunks.filter(|chunks| !chunks.is_nil()) else {
        return Ok(Master { content: Content::Empty, size: 0, name_count: 1 });
    };
    let chunks = chunks.as_array().ok_or_else(|| malformed("the chunks of an item"))?;
    let mut segments = Vec::new();
    let mut size = 0_u64;
    for chunk in chunks {
        let fields = chunk.as_array().and_then(|fields| fields.first_chunk::<2>());
        let fields = fields.and_then(|[id, length]| Some((id_of(id)?, length.as_u64()?)));
        let (id, length) = fields.ok_or_else(|| malformed("a chunk of an item"))?;
        size = size.checked_add(length).ok_or_else(|| malformed("the size of an item"))?;
        if length > 0 {
            let fingerprint = Fingerprint(id);
            segments.push(Segment::Chunk { fingerprint, offset: 0, length });
        }
    }
    let content = if segments.is_empty() { Content::Empty } else { Content::Segments(segments) };
    Ok(Master { content, size, name_count: 1 })
}

/// Returns the identifier of an object.
pub(super) fn id_of(value: &Value) -> Option<[u8; 32]> {
    bytes(value)?.try_into().ok()
}

/// Returns the entry of an item with this name. `master` has the path and the content of the item that
/// [`master_of`] names, if the file has several names.
///
/// # Errors
///
/// Returns `Corrupt` if the item is malformed.
pub(super) fn entry(name: &[u8], item: &Value, master: Option<(&[u8], &Master)>) -> Result<Entry> {
    let kind = kind(item)?;
    let number = |key: &str| get_number(item, key).unwrap_or(0);
    let id = |key: &str| u32::try_from(number(key)).unwrap_or(0);
    let mut entry = Entry::new(name, kind);
    entry.mode = id("mode") & 0o7777;
    (entry.user_id, entry.group_id) = (id("uid"), id("gid"));
    entry.user = get_text(item, "user").unwrap_or_default();
    entry.group = get_text(item, "group").unwrap_or_default();
    entry.mtime = time(number("mtime"));
    // An item without a time of its own has that of its content.
    entry.ctime = get_number(item, "ctime").map_or(entry.mtime, time);
    if entry.is_above_sources() {
        // Borg keeps the beginning of 1970 for earlier times, and no inode. A folder with neither
        // counts as one that no backup has read.
        entry.inode = 1;
    }
    entry.xattrs = attributes(item);
    // A restore looks for this number of names, and Borg keeps neither it nor the inode.
    if let Some((path, master)) = master.filter(|(_, master)| master.name_count > 1) {
        entry.links = master.name_count;
        entry.inode = inode(path);
    }
    match kind {
        EntryKind::File => {
            let own = if master.is_none() { Some(content(item)?) } else { None };
            let shared = master.map(|(_, master)| master);
            if let Some(Master { content, size, .. }) = shared.or(own.as_ref()) {
                (entry.content, entry.size) = (content.clone(), *size);
            }
        }
        EntryKind::Symlink => {
            let target = get_bytes(item, "source").unwrap_or_default();
            if target.len() > RAW_LEN_MAX {
                let message =
                    format!("link of {} B (expected at most {RAW_LEN_MAX})", target.len());
                return Err(Error::corrupt("", message));
            }
            entry.size = target.len() as u64;
            entry.content = Content::Raw(target.to_vec());
        }
        EntryKind::BlockDevice | EntryKind::CharDevice => {
            let device = u64::try_from(number("rdev")).unwrap_or(0);
            let major = device >> 8 & 0xfff | device >> 32 & 0xffff_f000;
            let minor = device & 0xff | device >> 12 & 0xffff_ff00;
            entry.device_number = major << 32 | minor & 0xffff_ffff;
        }
        EntryKind::Folder | EntryKind::Fifo | EntryKind::Socket => {}
    }
    Ok(entry)
}

/// Returns a number that stands for the inode number of the file with several names whose content is
/// at `path`, because Borg does not keep that.
fn inode(path: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::digest(path).into();
    digest.first_chunk::<8>().map_or(1, |first| u64::from_le_bytes(*first).max(1))
}

fn time(ns: i64) -> Time {
    Time {
        seconds: ns.div_euclid(1_000_000_000),
        nanoseconds: u32::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}

/// Returns the access control list `key` of an item as an attribute, if there is one.
///
/// # Errors
///
/// Fails if the list is malformed.
fn list(item: &Value, key: &str) -> Result<Option<Vec<u8>>, acl::Malformed> {
    match get(item, key).filter(|value| !value.is_nil()) {
        Some(value) => acl::attribute(bytes(value).ok_or(acl::Malformed)?),
        None => Ok(None),
    }
}

/// Returns the names of the access control lists of an item that are malformed, for a message.
pub(super) fn malformed_lists(item: &Value) -> impl Iterator<Item = &'static str> {
    let is_malformed = |key: &str| list(item, key).is_err();
    LISTS.into_iter().filter(move |(key, ..)| is_malformed(key)).map(|(.., shown)| shown)
}

/// Returns the extended attributes, with those of access control lists that are valid, sorted.
fn attributes(item: &Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let given = get(item, "xattrs").and_then(Value::as_map);
    let pair = |(name, value): &(Value, Value)| {
        Some((bytes(name)?.to_vec(), bytes(value).unwrap_or_default().to_vec()))
    };
    let mut attributes: Vec<_> = given.into_iter().flatten().filter_map(pair).collect();
    for (key, name, _) in LISTS {
        let value = list(item, key).ok().flatten();
        attributes.extend(value.map(|value| (name.to_vec(), value)));
    }
    attributes.sort();
    attributes.dedup_by(|a, b| a.0 == b.0);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(fields: Vec<(&str, Value)>) -> Value {
        Value::Map(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn chunk(byte: u8, length: u64) -> Value {
        Value::Array(vec![Value::Binary(vec![byte; 32]), length.into(), 9.into()])
    }

    #[test]
    fn folders_of_the_beginning_of_1970_keep_their_time() {
        let value = item(vec![("mode", 0o040_755.into()), ("mtime", 0.into())]);
        let made = entry(b"f", &value, None).expect("a valid item");
        assert_eq!(made.kind, EntryKind::Folder, "the kind");
        assert!(!made.is_above_sources(), "it has its time");
    }

    #[test]
    fn items_become_entries() {
        let file = item(vec![
            ("path", "a/b".into()),
            ("mode", 0o104_755.into()),
            ("uid", 1.into()),
            ("gid", 2.into()),
            ("user", "u".into()),
            ("mtime", (-1).into()),
            ("hardlink_master", true.into()),
            ("chunks", Value::Array(vec![chunk(1, 5), chunk(2, 7)])),
            ("acl_access", "user::rwx\ngroup::r-x\nother::r-x".into()),
            ("acl_default", "".into()),
            ("xattrs", item(vec![("user.k", Value::Binary(vec![0, 255])), ("user.n", Value::Nil)])),
        ]);
        let shared = Master { name_count: 2, ..content(&file).expect("a valid item") };
        let made = entry(b"b", &file, Some((b"a/b", &shared))).expect("a valid item");
        assert_eq!((made.kind, made.mode, made.size), (EntryKind::File, 0o4755, 12));
        assert_eq!((made.user_id, made.group_id, &*made.user, &*made.group), (1, 2, "u", ""));
        assert_eq!((made.mtime.seconds, made.mtime.nanoseconds), (-1, 999_999_999));
        let names: Vec<_> = made.xattrs.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, [acl::ACCESS, b"user.k", b"user.n"]);
        let link =
            item(vec![("path", "c".into()), ("mode", 0o104_755.into()), ("source", "a/b".into())]);
        assert_eq!(master_of(&link), Some(&b"a/b"[..]));
        assert_eq!(master_of(&file), Some(&b"a/b"[..]));
        assert_eq!((further_name_of(&file), further_name_of(&link)), (None, Some(&b"a/b"[..])));
        let linked = entry(b"c", &link, Some((b"a/b", &shared))).expect("a valid item");
        assert_eq!((linked.inode, linked.links, linked.size), (made.inode, 2, 12));
        assert_eq!(linked.content, made.content);
        let symlink = item(vec![("mode", 0o120_777.into()), ("source", Value::Binary(vec![0xff]))]);
        let made = entry(b"s", &symlink, None).expect("a valid item");
        assert_eq!((made.content, further_name_of(&symlink)), (Content::Raw(vec![0xff]), None));
        let device = item(vec![("mode", 0o020_666.into()), ("rdev", 259.into())]);
        let made = entry(b"d", &device, None).expect("a valid item");
        assert_eq!((made.kind, made.device_number), (EntryKind::CharDevice, 1 << 32 | 3));
        // Large numbers are bytes.
        let late = Value::Binary(vec![0, 0, 0, 0, 0, 0, 0, 0x40]);
        let late = item(vec![("mode", 0o100_644.into()), ("mtime", late)]);
        assert_eq!(entry(b"l", &late, None).expect("a valid item").mtime.seconds, 4_611_686_018);
    }

    #[test]
    fn hostile_items_are_refused() {
        for fields in [
            vec![],
            vec![("mode", 0.into())],
            vec![("mode", Value::from(0o100_644)), ("chunks", 7.into())],
            vec![("mode", Value::from(0o100_644)), ("chunks", Value::Array(vec![7.into()]))],
            vec![
                ("mode", Value::from(0o100_644)),
                ("chunks", Value::Array(vec![chunk(1, u64::MAX), chunk(1, 1)])),
            ],
            vec![("mode", Value::from(0o120_777)), ("source", Value::Binary(vec![b'x'; 5000]))],
        ] {
            assert!(entry(b"a", &item(fields.clone()), None).is_err(), "{fields:?}");
        }
        assert_eq!(parts(b"./a//b/.").expect("parts"), [b"a", b"b"]);
        assert!(parts(b"a/../b").is_err(), "a path that leads out");
        assert!(parts(b"a/\0").is_err(), "a zero byte");
        assert!(parts(b".").expect("parts").is_empty());
    }
}
