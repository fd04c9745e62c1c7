//! Detects the format of an image by its first bytes.

use std::fmt;

use crate::bytes::ByteSource;
use crate::error::{Error, Kind, Result};
use crate::qcow2::MAGIC;

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// The format of QEMU, version 2 or 3.
    Qcow2,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
        })
    }
}

/// Formats that this crate cannot read: the offset of their magic, the magic, and the name.
const OTHERS: [(u64, &[u8], &str); 10] = [
    (0, b"KDMV", "a VMDK image"),
    (0, b"# Disk DescriptorFile", "the descriptor of a VMDK image"),
    (0, b"vhdxfile", "a VHDX image"),
    (0, b"conectix", "a VHD image"),
    (64, b"\x7f\x10\xda\xbe", "a VDI image"),
    (0, b"QED\0", "a QED image"),
    (0, b"\x1f\x8b\x08", "compressed by gzip"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (0, b"\xfd7zXZ\0", "compressed by xz"),
    (0, b"BZh", "compressed by bzip2"),
];

/// Returns the format of the image `name`. Everything without the magic of another format is raw.
///
/// # Errors
///
/// Fails with `Unsupported` if it is a format that this crate cannot read.
pub(crate) fn detect(name: &str, bytes: &dyn ByteSource) -> Result<Format> {
    if has(name, bytes, 0, &MAGIC)? {
        return Ok(Format::Qcow2);
    }
    let other = |what: &str| Err(Error::new(Kind::Unsupported, name, format!("is {what}")));
    for (offset, magic, what) in OTHERS {
        if has(name, bytes, offset, magic)? {
            return other(what);
        }
    }
    // A VHD image of fixed size has its magic behind the bytes of the disk.
    match bytes.size().checked_sub(512) {
        Some(footer) if has(name, bytes, footer, b"conectix")? => other("a VHD image"),
        _ => Ok(Format::Raw),
    }
}

/// Returns `true` if `magic` is at `offset`.
fn has(name: &str, bytes: &dyn ByteSource, offset: u64, magic: &[u8]) -> Result<bool> {
    if bytes.size() < offset + magic.len() as u64 {
        return Ok(false);
    }
    let mut found = vec![0; magic.len()];
    bytes.read_exact_at(&mut found, offset).map_err(|error| Error::io(name, &error))?;
    Ok(found == magic)
}
