//! Trees: the contents of folders.
//!
//! A tree is a stream of [`Entry`]s, one CBOR map each, sorted by the bytes of their names; each
//! name occurs once. `crate::write` cuts the stream into chunks.

use cutpoint_storage::{Error, Result};
use minicbor::{Decoder, Encoder};

use super::map::{Extra, MapWriter, malformed, read_array, read_map, required};
use super::recipe::Content;

/// The maximum length of a name that a reader accepts, in bytes. File systems stop at 255 or 1020.
pub const NAME_LEN_MAX: usize = 4096;

/// A point in time: seconds since 1970 (negative before it) and nanoseconds after that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds since 1970-01-01 00:00 UTC, rounded down.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file; its bytes are the content.
    File,
    /// A folder; its tree is the content.
    Folder,
    /// A symbolic link; its target is the content, byte for byte.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl EntryKind {
    fn code(self) -> u64 {
        match self {
            EntryKind::File => 0,
            EntryKind::Folder => 1,
            EntryKind::Symlink => 2,
            EntryKind::CharDevice => 3,
            EntryKind::BlockDevice => 4,
            EntryKind::Fifo => 5,
            EntryKind::Socket => 6,
        }
    }

    pub(super) fn from_code(code: u64) -> Result<EntryKind> {
        Ok(match code {
            0 => EntryKind::File,
            1 => EntryKind::Folder,
            2 => EntryKind::Symlink,
            3 => EntryKind::CharDevice,
            4 => EntryKind::BlockDevice,
            5 => EntryKind::Fifo,
            6 => EntryKind::Socket,
            _ => return Err(Error::corrupt("", format!("tree entry of unknown type {code}"))),
        })
    }
}

/// A difference between an entry and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The file changed while it was read, so that its bytes are not of a single moment.
    Changed,
    /// The bytes of the file ended before its size, so that the entry has only the beginning.
    Short,
    /// An entry of the folder could not be saved.
    Lacking,
    /// The code of a defect that a newer version defines.
    Other(u64),
}

impl Defect {
    fn code(self) -> u64 {
        match self {
            Defect::Changed => 1,
            Defect::Short => 2,
            Defect::Lacking => 3,
            Defect::Other(code) => code,
        }
    }

    fn from_code(code: u64) -> Defect {
        match code {
            1 => Defect::Changed,
            2 => Defect::Short,
            3 => Defect::Lacking,
            code => Defect::Other(code),
        }
    }

    /// Returns a predicate for messages, whose subject is the path of the entry.
    pub fn message(self) -> &'static str {
        match self {
            Defect::Changed => "changed during the backup; saved as read",
            Defect::Short => "incomplete in the snapshot: the file ended early when it was read",
            Defect::Lacking => "incomplete in the snapshot: a part of it could not be saved",
            Defect::Other(_) => "has a defect in the snapshot that only a newer cutpoint can name",
        }
    }
}

/// A name in a folder, with all data that is kept for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: any bytes except `/` and NUL; not empty, `.` or `..`.
    pub name: Vec<u8>,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Permission bits, including set-user-id, set-group-id and sticky: 12 bits.
    pub mode: u32,
    /// The id of the owner.
    pub user_id: u32,
    /// The id of the group.
    pub group_id: u32,
    /// The name of the owner; empty if the system did not know it.
    pub user: String,
    /// The name of the group; empty if the system did not know it.
    pub group: String,
    /// The time of the last change of the content.
    pub mtime: Time,
    /// The time of the last change of content or metadata.
    pub ctime: Time,
    /// The inode number, used to detect whether a file is unchanged.
    pub inode: u64,
    /// The number of the file system among the sources, which distinguishes equal inode numbers.
    pub device: u64,
    /// The number of names of the file. Entries of one snapshot with `links > 1` are one file under
    /// several names if they agree in everything except the name, `ctime`, `links` and `defect`.
    /// The value is 1 for folders.
    pub links: u64,
    /// The device number of a character or block device (`major << 32 | minor`), otherwise 0.
    pub device_number: u64,
    /// The size in bytes of the content of a file, or of the target of a symbolic link, otherwise
    /// 0.
    pub size: u64,
    /// The bytes of a file, the tree of a folder, the target of a symbolic link. A short tree lies
    /// in the entry itself ([`Content::Raw`]).
    pub content: Content,
    /// Extended attributes (name, value), sorted by name; on Linux the POSIX ACLs are among them.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The difference between the entry and its source, if any. An entry with a defect is never
    /// reused unread (rule W3).
    pub defect: Option<Defect>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl Entry {
    /// Creates an entry of `kind` named `name`; everything else is zero or empty.
    pub fn new(name: impl Into<Vec<u8>>, kind: EntryKind) -> Entry {
        Entry {
            name: name.into(),
            kind,
            mode: 0,
            user_id: 0,
            group_id: 0,
            user: String::new(),
            group: String::new(),
            mtime: Time::default(),
            ctime: Time::default(),
            inode: 0,
            device: 0,
            links: 1,
            device_number: 0,
            size: 0,
            content: Content::Empty,
            xattrs: Vec::new(),
            defect: None,
            extra: Extra::new(),
        }
    }

    /// Returns `true` for a folder above the sources of a backup. A snapshot has neither its times
    /// nor its inode.
    pub fn is_above_sources(&self) -> bool {
        self.kind == EntryKind::Folder && self.inode == 0 && self.mtime == Time::default()
    }

    /// Appends the encoded entry to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new();
        map.bytes(0, &self.name).uint(1, self.kind.code()).uint(2, u64::from(self.mode));
        map.uint(3, u64::from(self.user_id)).uint(4, u64::from(self.group_id));
        if !self.user.is_empty() {
            map.text(5, &self.user);
        }
        if !self.group.is_empty() {
            map.text(6, &self.group);
        }
        map.item(7, |e| write_time(e, self.mtime)).item(8, |e| write_time(e, self.ctime));
        map.uint(9, self.inode);
        if self.device != 0 {
            map.uint(10, self.device);
        }
        if self.links != 1 {
            map.uint(11, self.links);
        }
        if self.device_number != 0 {
            map.uint(12, self.device_number);
        }
        if self.size != 0 {
            map.uint(13, self.size);
        }
        if self.content != Content::Empty {
            map.item(14, |e| self.content.encode(e));
        }
        if !self.xattrs.is_empty() {
            map.item(15, |e| write_xattrs(e, &self.xattrs));
        }
        if let Some(defect) = self.defect {
            map.uint(16, defect.code());
        }
        map.extra(&self.extra);
        map.finish_into(out);
    }

    /// Decodes one entry.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error for an entry that no writer produces, in particular for a name
    /// that leads out of the folder.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Entry> {
        let mut entry = Entry::new(Vec::new(), EntryKind::File);
        let mut kind = None;
        entry.extra = read_map(d, |key, d| {
            match key {
                0 => entry.name = d.bytes().map_err(malformed)?.to_vec(),
                1 => kind = Some(EntryKind::from_code(d.u64().map_err(malformed)?)?),
                2 => entry.mode = d.u32().map_err(malformed)?,
                3 => entry.user_id = d.u32().map_err(malformed)?,
                4 => entry.group_id = d.u32().map_err(malformed)?,
                5 => entry.user = d.str().map_err(malformed)?.to_owned(),
                6 => entry.group = d.str().map_err(malformed)?.to_owned(),
                7 => entry.mtime = read_time(d)?,
                8 => entry.ctime = read_time(d)?,
                9 => entry.inode = d.u64().map_err(malformed)?,
                10 => entry.device = d.u64().map_err(malformed)?,
                11 => entry.links = d.u64().map_err(malformed)?,
                12 => entry.device_number = d.u64().map_err(malformed)?,
                13 => entry.size = d.u64().map_err(malformed)?,
                14 => entry.content = Content::decode(d)?,
                15 => entry.xattrs = read_xattrs(d)?,
                16 => entry.defect = Some(Defect::from_code(d.u64().map_err(malformed)?)),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        entry.kind = required(kind, "type of a tree entry")?;
        check_name(&entry.name)?;
        // A mode above twelve bits could contain a file type.
        if entry.mode > 0o7777 {
            return Err(Error::corrupt("", format!("tree entry with mode {:o}", entry.mode)));
        }
        Ok(entry)
    }

    /// Decodes the bytes that [`Entry::encode_into`] appends.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Entry::decode`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Entry> {
        Entry::decode(&mut Decoder::new(bytes))
    }

    /// Returns `true` if this entry is a file that has other names.
    pub fn is_hard_link(&self) -> bool {
        self.kind != EntryKind::Folder && self.links > 1
    }
}

/// Returns the entries in the bytes of a tree that lies in its folder's entry, or of one chunk of a
/// tree.
///
/// # Errors
///
/// Returns `Corrupt` if there is anything but entries with ascending names.
pub fn entries_in(bytes: &[u8]) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let d = &mut Decoder::new(bytes);
    while d.position() < bytes.len() {
        let entry = Entry::decode(d)?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(not_ascending());
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Returns the error of a tree with names in another order.
pub(crate) fn not_ascending() -> Error {
    Error::corrupt("", "names are not in ascending order")
}

/// Refuses names that no folder can hold, because they could lead a restore out of its target.
pub fn check_name(name: &[u8]) -> Result<()> {
    let bad = name.is_empty()
        || name == b"."
        || name == b".."
        || name.len() > NAME_LEN_MAX
        || name.contains(&b'/')
        || name.contains(&0);
    if bad {
        return Err(Error::corrupt(
            "",
            format!("tree entry with the invalid name {:?}", String::from_utf8_lossy(name)),
        ));
    }
    Ok(())
}

fn write_time(e: &mut Encoder<Vec<u8>>, time: Time) {
    e.array(2).and_then(|e| e.i64(time.seconds)).and_then(|e| e.u32(time.nanoseconds)).ok();
}

fn read_time(d: &mut Decoder<'_>) -> Result<Time> {
    if d.array().map_err(malformed)? != Some(2) {
        return Err(Error::corrupt("", "malformed metadata: a time requires two numbers"));
    }
    let time =
        Time { seconds: d.i64().map_err(malformed)?, nanoseconds: d.u32().map_err(malformed)? };
    if time.nanoseconds >= 1_000_000_000 {
        return Err(Error::corrupt("", "malformed metadata: a second has 10^9 nanoseconds"));
    }
    Ok(time)
}

fn write_xattrs(e: &mut Encoder<Vec<u8>>, xattrs: &[(Vec<u8>, Vec<u8>)]) {
    e.array(xattrs.len() as u64 * 2).ok();
    for (name, value) in xattrs {
        e.bytes(name).and_then(|e| e.bytes(value)).ok();
    }
}

fn read_xattrs(d: &mut Decoder<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let flat = read_array(d, |d| Ok(d.bytes().map_err(malformed)?.to_vec()))?;
    if flat.len() % 2 != 0 {
        return Err(Error::corrupt("", "malformed metadata: an attribute without a value"));
    }
    let mut pairs = Vec::with_capacity(flat.len() / 2);
    let mut flat = flat.into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        pairs.push((name, value));
    }
    Ok(pairs)
}
