//! tar archives in the format of PAX.

use std::io::{self, Write};

use cutpoint_repository::{Entry, EntryKind};
use tar::{Builder, EntryType, Header};

use super::format::{Body, Format};
use super::pax::{self, Records};

/// The greatest number in a field of 8 bytes of a header, which is octal.
const SMALL_MAX: u64 = 0o7_777_777;
/// The greatest number in a field of 12 bytes of a header.
const LARGE_MAX: u64 = 0o77_777_777_777;

/// A writer of a tar archive.
pub(super) struct Tar<'a>(Builder<&'a mut dyn Write>);

impl<'a> Tar<'a> {
    pub(super) fn new(output: &'a mut dyn Write) -> Tar<'a> {
        Tar(Builder::new(output))
    }
}

impl Format for Tar<'_> {
    fn has_hard_links(&self) -> bool {
        true
    }

    fn refusal(&self, _path: &[u8], entry: &Entry) -> Option<&'static str> {
        (entry.kind == EntryKind::Socket).then_some("tar has no sockets")
    }

    fn append(
        &mut self,
        path: &[u8],
        entry: &Entry,
        body: Body<'_>,
        warn: &mut dyn FnMut(String),
    ) -> io::Result<()> {
        let mut header = Header::new_ustar();
        let mut records = Records::default();
        let entry_type = match (&body, entry.kind) {
            (Body::HardLink(_), _) => EntryType::Link,
            (_, EntryKind::File | EntryKind::Socket) => EntryType::Regular,
            (_, EntryKind::Folder) => EntryType::Directory,
            (_, EntryKind::Symlink) => EntryType::Symlink,
            (_, EntryKind::CharDevice) => EntryType::Char,
            (_, EntryKind::BlockDevice) => EntryType::Block,
            (_, EntryKind::Fifo) => EntryType::Fifo,
        };
        header.set_entry_type(entry_type);
        let mut path = path.to_vec();
        if entry.kind == EntryKind::Folder {
            path.extend_from_slice(if path.is_empty() { b"./" } else { b"/" });
        }
        put_metadata(&mut header, &mut records, entry)?;
        if let Some(ustar) = header.as_ustar_mut() {
            put_text(&mut ustar.name, &path, "path", &mut records);
            put_text(&mut ustar.uname, entry.user.as_bytes(), "uname", &mut records);
            put_text(&mut ustar.gname, entry.group.as_bytes(), "gname", &mut records);
            if let Body::Symlink(target) | Body::HardLink(target) = &body {
                put_text(&mut ustar.linkname, target, "linkpath", &mut records);
            }
        }
        if entry_type != EntryType::Link {
            for (name, value) in &entry.xattrs {
                if !records.add_xattr(name, value) {
                    let name = String::from_utf8_lossy(name);
                    warn(format!("extended attribute {name} left out: its name is not UTF-8"));
                }
            }
        }
        let size = if matches!(body, Body::File(_)) { entry.size } else { 0 };
        header.set_size(size);
        if size > LARGE_MAX {
            records.add("size", size.to_string());
        }
        header.set_cksum();
        self.0.append_pax_extensions(records.iter())?;
        match body {
            Body::File(file) => self.0.append(&header, file),
            _ => self.0.append(&header, io::empty()),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.finish()
    }
}

/// Sets permissions, owners, time and device number.
fn put_metadata(header: &mut Header, records: &mut Records, entry: &Entry) -> io::Result<()> {
    header.set_mode(entry.mode & 0o7777);
    let (user_id, group_id) = (u64::from(entry.user_id), u64::from(entry.group_id));
    header.set_uid(user_id);
    header.set_gid(group_id);
    for (keyword, id) in [("uid", user_id), ("gid", group_id)] {
        if id > SMALL_MAX {
            records.add(keyword, id.to_string());
        }
    }
    let seconds = u64::try_from(entry.mtime.seconds).unwrap_or(0);
    header.set_mtime(seconds.min(LARGE_MAX));
    if entry.mtime.nanoseconds > 0 || !(0..=LARGE_MAX as i64).contains(&entry.mtime.seconds) {
        records.add("mtime", pax::decimal(entry.mtime));
    }
    let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    header.set_device_major(part(entry.device_number >> 32))?;
    header.set_device_minor(part(entry.device_number & 0xffff_ffff))
}

/// Writes `text` into a field of the header. What does not fit, or is in no code that all programs
/// assume, is recorded as well. Bytes that are not UTF-8 are written as they are, as GNU tar does.
fn put_text(field: &mut [u8], text: &[u8], keyword: &str, records: &mut Records) {
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text[..len]);
    let is_other = !text.is_ascii() && std::str::from_utf8(text).is_ok();
    if text.len() > field.len() || is_other {
        records.add(keyword, text);
    }
}
