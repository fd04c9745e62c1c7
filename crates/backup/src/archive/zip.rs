//! zip archives, written in one pass.

use std::borrow::Cow;
use std::io::{self, Write};

use cutpoint_repository::{Entry, EntryKind};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::extra_fields::ExtraFieldId;
use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, Header, ZipArchiveWriter};

use super::format::{Body, Format};

/// The times that a zip archive can hold, in seconds since 1970: from 1980 to 2107.
const TIMES: (i64, i64) = (315_532_800, 4_354_819_198);
/// The maximum length of a path of a snapshot, in bytes, each of which may need three in an archive.
const PATH_LEN_MAX: usize = 65_534 / 3;

/// A writer of a zip archive.
pub(super) struct Zip<'a>(ZipArchiveWriter<&'a mut dyn Write>);

impl<'a> Zip<'a> {
    pub(super) fn new(output: &'a mut dyn Write) -> Zip<'a> {
        Zip(ZipArchiveWriter::new(output))
    }

    fn append_folder(&mut self, path: &str, entry: &Entry) -> Result<(), rawzip::Error> {
        let path = format!("{path}/");
        let mut folder = self.0.new_dir(encoded(&path)).unix_permissions(0o40_000 | entry.mode);
        folder = folder.last_modified(time(entry));
        folder = folder.extra_field(
            ExtraFieldId::EXTENDED_TIMESTAMP,
            &timestamp(entry),
            Header::LOCAL,
        )?;
        folder.create()?;
        Ok(())
    }

    fn append_data(
        &mut self,
        path: &str,
        entry: &Entry,
        mode: u32,
        data: &mut dyn io::Read,
    ) -> Result<(), rawzip::Error> {
        let file = self.0.new_file(encoded(path)).unix_permissions(mode);
        let file = file.last_modified(time(entry)).extra_field(
            ExtraFieldId::EXTENDED_TIMESTAMP,
            &timestamp(entry),
            Header::LOCAL,
        )?;
        let (mut member, config) = file.compression_method(CompressionMethod::DEFLATE).start()?;
        let encoder = DeflateEncoder::new(&mut member, Compression::default());
        let mut writer = config.wrap(encoder);
        io::copy(data, &mut writer)?;
        let (encoder, descriptor) = writer.finish()?;
        encoder.finish()?;
        member.finish(descriptor)?;
        Ok(())
    }
}

impl Format for Zip<'_> {
    fn has_hard_links(&self) -> bool {
        false
    }

    fn refusal(&self, path: &[u8], entry: &Entry) -> Option<&'static str> {
        match entry.kind {
            EntryKind::File | EntryKind::Folder | EntryKind::Symlink => {
                (path.len() > PATH_LEN_MAX).then_some("the path is too long for zip")
            }
            EntryKind::CharDevice | EntryKind::BlockDevice => Some("zip has no devices"),
            EntryKind::Fifo => Some("zip has no pipes"),
            EntryKind::Socket => Some("zip has no sockets"),
        }
    }

    fn append(
        &mut self,
        path: &[u8],
        entry: &Entry,
        body: Body<'_>,
        warn: &mut dyn FnMut(String),
    ) -> io::Result<()> {
        let path = &*utf8(path);
        if let Cow::Owned(name) = utf8(&entry.name) {
            warn(format!("its name is not UTF-8; the archive has it as {name}"));
        }
        let appended = match body {
            // The folder that is written has no name in the archive.
            Body::Nothing | Body::HardLink(_) if path.is_empty() => Ok(()),
            Body::Nothing | Body::HardLink(_) => self.append_folder(path, entry),
            Body::File(data) => self.append_data(path, entry, 0o100_000 | entry.mode, data),
            Body::Symlink(mut target) => self.append_data(path, entry, 0o120_777, &mut target),
        };
        appended.map_err(io::Error::other)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish().map(|_| ()).map_err(io::Error::other)
    }
}

/// Returns a path in UTF-8, or without a declared code if it has parts that only Unix takes for
/// names, such as backslashes.
fn encoded(path: &str) -> EntryPath<'_> {
    match ZipFilePath::from_str(path).as_str() == path {
        true => EntryPath::conformant(path),
        false => EntryPath::verbatim(path.as_bytes()),
    }
}

/// Returns a path in UTF-8, with `%ff` for a byte that is not. Programs read other names in
/// different codes, or leave such bytes out.
fn utf8(path: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(path) {
        return text.into();
    }
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02x}")));
    }
    text.into()
}

fn time(entry: &Entry) -> UtcDateTime {
    UtcDateTime::from_unix(entry.mtime.seconds.clamp(TIMES.0, TIMES.1))
}

/// Returns the extra field of the modification time, which other programs look for in the header
/// before the data. The times of the headers themselves have a resolution of two seconds and no
/// zone.
fn timestamp(entry: &Entry) -> [u8; 5] {
    let seconds = entry.mtime.seconds.clamp(i32::MIN.into(), i32::MAX.into());
    let mut field = [1, 0, 0, 0, 0];
    field[1..].copy_from_slice(&i32::try_from(seconds).unwrap_or(0).to_le_bytes());
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_utf8_without_collisions_of_lost_bytes() {
        for (path, expected) in [
            (&b"a/b"[..], "a/b"),
            ("\u{20ac}".as_bytes(), "\u{20ac}"),
            (b"a\xff\xfe/b", "a%ff%fe/b"),
            (b"\xe2\x82", "%e2%82"),
        ] {
            assert_eq!(utf8(path), expected, "{path:?}");
        }
    }
}
