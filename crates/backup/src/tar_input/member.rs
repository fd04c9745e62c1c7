//! A member of a tar archive, as an entry of a snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use cutpoint_repository::{Content, Entry, EntryKind, Time};
use tar::{EntryType, Header};

use super::acl::binary_acl;
use super::member_path::member_path;
use super::pax_records::PaxRecords;
use super::sparse::DataExtent;
use crate::source::OwnerIds;

/// A member of a tar archive.
#[derive(Debug)]
pub(crate) struct Member {
    /// The name in the archive, for messages.
    pub(crate) name: Vec<u8>,
    /// The path below the root of the archive, without `/` at its beginning and end; empty for the
    /// root.
    pub(crate) path: Vec<u8>,
    /// The entry, with the last component of `path` as its name. The content of a symbolic link is
    /// its target; that of a file is still to be read.
    pub(crate) entry: Entry,
    pub(crate) kind: MemberKind,
    /// The reasons why the entry lacks something.
    pub(crate) warnings: Vec<String>,
}

/// The kind of a member.
#[derive(Debug)]
pub(crate) enum MemberKind {
    /// A file of the size of its entry, with these ranges of data. They are read one after the
    /// other.
    File(Vec<DataExtent>),
    /// A further name of the member with this path.
    HardLink(Vec<u8>),
    /// A folder, symbolic link, device or pipe.
    Other,
    /// A member that cannot be saved, for this reason.
    Refused(String),
}

/// The headers of a member.
#[derive(Debug)]
pub(super) struct MemberHeaders {
    pub(super) header: Header,
    /// The records of the PAX headers.
    pub(super) records: PaxRecords,
    /// The name from a header of GNU tar.
    pub(super) long_name: Option<Vec<u8>>,
    /// The target of a link from a header of GNU tar.
    pub(super) long_link: Option<Vec<u8>>,
}

impl MemberHeaders {
    /// The name of the member.
    pub(super) fn name(&self) -> Vec<u8> {
        let sparse = self.records.get("GNU.sparse.name");
        let found = sparse.or(self.records.get("path")).or(self.long_name.as_deref());
        found.map_or_else(|| self.header.path_bytes().into_owned(), <[u8]>::to_vec)
    }

    fn link_name(&self) -> Vec<u8> {
        let found = self.records.get("linkpath").or(self.long_link.as_deref());
        let found = found.map(Cow::Borrowed).or_else(|| self.header.link_name_bytes());
        found.unwrap_or_default().into_owned()
    }

    /// The size of the data that follows the headers.
    ///
    /// # Errors
    ///
    /// Returns an error if the headers have no valid number.
    pub(super) fn stored_len(&self) -> io::Result<u64> {
        // The headers of these types may have any size, and no data follows.
        let has_data =
            !matches!(self.header.entry_type().as_byte(), b'1' | b'2' | b'3' | b'4' | b'5' | b'6');
        if !has_data {
            return Ok(0);
        }
        Ok(match self.records.number("size")? {
            Some(size) => size,
            None => self.header.entry_size()?,
        })
    }

    /// Returns the member. `extents` has the ranges of data of a file, which has `size` bytes.
    pub(super) fn member(
        &self,
        extents: Vec<DataExtent>,
        size: u64,
        owners: &mut OwnerIds,
    ) -> io::Result<Member> {
        let name = self.name();
        let mut kind = MemberKind::Other;
        let entry_kind = match self.header.entry_type() {
            // In archives of the seventh edition of Unix, only the name shows a folder.
            EntryType::Regular if name.ends_with(b"/") => EntryKind::Folder,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                kind = MemberKind::File(extents);
                EntryKind::File
            }
            EntryType::Directory => EntryKind::Folder,
            EntryType::Symlink => EntryKind::Symlink,
            EntryType::Char => EntryKind::CharDevice,
            EntryType::Block => EntryKind::BlockDevice,
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::Link => match member_path(&self.link_name()) {
                Ok(target) => {
                    kind = MemberKind::HardLink(target);
                    EntryKind::File
                }
                Err(reason) => {
                    kind = MemberKind::Refused(format!("target of a hard link: {reason}"));
                    EntryKind::File
                }
            },
            // A folder of an incremental archive of GNU tar, with a list of names as its data.
            other if other.as_byte() == b'D' => EntryKind::Folder,
            other => {
                let code = char::from(other.as_byte()).escape_default();
                kind = MemberKind::Refused(format!("members of type '{code}' are not supported"));
                EntryKind::File
            }
        };
        let path = member_path(&name).unwrap_or_else(|reason| {
            kind = MemberKind::Refused(reason.to_owned());
            Vec::new()
        });
        let is_root = path.is_empty() && entry_kind != EntryKind::Folder;
        if is_root && !matches!(kind, MemberKind::Refused(_)) {
            kind = MemberKind::Refused("its name is that of the root folder".to_owned());
        }
        let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut entry = Entry::new(last, entry_kind);
        self.set_metadata(&mut entry)?;
        match entry_kind {
            EntryKind::File => entry.size = size,
            EntryKind::Symlink => {
                let target = self.link_name();
                entry.size = target.len() as u64;
                entry.content = Content::Raw(target);
            }
            EntryKind::CharDevice | EntryKind::BlockDevice => {
                entry.device_number = self.device_number()?;
            }
            _ => {}
        }
        let mut warnings = Vec::new();
        entry.xattrs = self.xattrs(owners, &mut warnings);
        Ok(Member { name, path, entry, kind, warnings })
    }

    /// Sets permissions, owners and the time of modification.
    fn set_metadata(&self, entry: &mut Entry) -> io::Result<()> {
        let Self { header, records, .. } = self;
        entry.mode = header.mode()? & 0o7777;
        let id = |keyword, in_header: io::Result<u64>| {
            let id = match records.number(keyword)? {
                Some(id) => id,
                None => in_header?,
            };
            u32::try_from(id).map_err(|_| {
                let message = format!("{keyword} {id} in the tar archive is out of range");
                io::Error::new(io::ErrorKind::InvalidData, message)
            })
        };
        entry.user_id = id("uid", header.uid())?;
        entry.group_id = id("gid", header.gid())?;
        let text = |keyword: &str, in_header: Option<&[u8]>| {
            let bytes = records.get(keyword).or(in_header).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        entry.user = text("uname", header.username_bytes());
        entry.group = text("gname", header.groupname_bytes());
        entry.mtime = match records.time("mtime") {
            Some(time) => time,
            // A time before 1970 is a negative binary number.
            None => Time { seconds: header.mtime()?.cast_signed(), nanoseconds: 0 },
        };
        // Only a folder that no member describes has no inode. The number has no other meaning.
        entry.inode = 1;
        Ok(())
    }

    fn device_number(&self) -> io::Result<u64> {
        let part = |keyword, in_header: io::Result<Option<u32>>| {
            let number = match self.records.number(keyword)? {
                Some(number) => number,
                None => u64::from(in_header?.unwrap_or(0)),
            };
            Ok::<_, io::Error>(number & 0xffff_ffff)
        };
        let major = part("SCHILY.devmajor", self.header.device_major())?;
        let minor = part("SCHILY.devminor", self.header.device_minor())?;
        Ok(major << 32 | minor)
    }

    /// Returns the extended attributes, sorted by name.
    fn xattrs(&self, owners: &mut OwnerIds, warnings: &mut Vec<String>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = BTreeMap::new();
        for (keyword, value) in self.records.iter() {
            let mut add_acl = |name: &str| match binary_acl(value, owners) {
                Some(value) => {
                    found.insert(name.as_bytes().to_vec(), value);
                }
                None => warnings.push(format!("{name} left out: the ACL is not understood")),
            };
            if let Some(name) = keyword.strip_prefix(b"SCHILY.xattr.") {
                found.insert(percent_decoded(name), value.to_vec());
            } else if let Some(name) = keyword.strip_prefix(b"LIBARCHIVE.xattr.") {
                let name = percent_decoded(name);
                match base64_decoded(value) {
                    Some(value) => {
                        found.insert(name, value);
                    }
                    None => {
                        let name = String::from_utf8_lossy(&name);
                        warnings.push(format!("extended attribute {name} left out: no base64"));
                    }
                }
            } else if keyword == b"SCHILY.acl.access" {
                add_acl("system.posix_acl_access");
            } else if keyword == b"SCHILY.acl.default" {
                add_acl("system.posix_acl_default");
            } else if keyword == b"RHT.security.selinux" {
                // The kernel ends the label with a zero byte.
                let mut label = value.to_vec();
                label.push(0);
                found.insert(b"security.selinux".to_vec(), label);
            }
        }
        found.into_iter().collect()
    }
}

/// Decodes `%` and two hexadecimal digits, which keywords have for `=` and other bytes.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &after[2..];
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}

/// Decodes base64, with or without padding.
fn base64_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut bit_count) = (0_u32, 0);
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let end = text.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    for &character in &text[..end] {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            decoded.push((bits >> bit_count & 0xff) as u8);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_attributes_are_decoded() {
        assert_eq!(percent_decoded(b"user.a%3Db%25%zz%2"), b"user.a=b%%zz%2", "percent");
        for (text, expected) in [("", &b""[..]), ("AA==", b"\0"), ("cmVk", b"red"), ("cmU", b"re")]
        {
            assert_eq!(base64_decoded(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(base64_decoded(b"c m"), None, "no base64");
    }
}
