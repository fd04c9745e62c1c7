//! Opens images.

use std::fs::File;
use std::io;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::bytes::{ByteSource, FileBytes};
use crate::detect::{Format, detect};
use crate::error::{Error, Kind, Result};
use crate::image::Image;
use crate::qcow2::{Header, Qcow2Image};
use crate::raw::RawImage;

/// An image, and facts about it.
#[derive(Debug)]
pub struct Opened {
    /// The image.
    pub image: Box<dyn Image>,
    /// The format.
    pub format: Format,
    /// The number of snapshots in the image, which are ignored.
    pub snapshot_count: u32,
}

/// Opens the image at `path`, a file or a block device. Without a `format`, detects it. `backing` has
/// the backing files of the image: the one that it is based on, the one that this is based on, and so
/// on.
///
/// # Errors
///
/// Fails with `NeedsBacking` if `backing` lacks a file, and with `Invalid` if it has more files than
/// are needed or if `path` is neither a file nor a block device. Fails if the file cannot be opened,
/// or is no image that this crate can read.
pub fn open(path: &Path, format: Option<Format>, backing: &[PathBuf]) -> Result<Opened> {
    let name = path.display().to_string();
    let bytes = open_bytes(path, &name)?;
    let format = match format {
        Some(format) => format,
        None => detect(&name, &bytes)?,
    };
    if format == Format::Qcow2 {
        let (base, rest) = match backing.split_first() {
            Some((base, rest)) => (Some(base), rest),
            None => (None, backing),
        };
        return open_based(&name, Box::new(bytes), base.map(|base| (base.as_path(), rest)));
    }
    match backing.first() {
        Some(base) => Err(needless(&name, base)),
        None => Ok(Opened { image: Box::new(RawImage { name, bytes }), format, snapshot_count: 0 }),
    }
}

/// Opens a qcow2 image without a backing file.
///
/// # Errors
///
/// Returns any error of [`open`].
pub fn open_qcow2(name: &str, bytes: Box<dyn ByteSource>) -> Result<Opened> {
    open_based(name, bytes, None)
}

/// Opens a qcow2 image with its backing file and the backing files of that.
fn open_based(
    name: &str,
    bytes: Box<dyn ByteSource>,
    base: Option<(&Path, &[PathBuf])>,
) -> Result<Opened> {
    let header = Header::read(name, &*bytes)?;
    let snapshot_count = header.snapshot_count;
    let base = match (&header.backing, base) {
        (None, None) => None,
        (Some(named), None) => {
            // The name is data of the image, and could contain anything.
            let shown = String::from_utf8_lossy(&named.name).escape_debug().to_string();
            let problem = format!("is based on the backing file {shown:?}, which was not given");
            return Err(Error::new(Kind::NeedsBacking, name, problem));
        }
        (None, Some((base, _))) => return Err(needless(name, base)),
        (Some(named), Some((base, rest))) => Some(open(base, named.format, rest)?.image),
    };
    let image = Qcow2Image::new(name.to_owned(), bytes, header, base)?;
    Ok(Opened { image: Box::new(image), format: Format::Qcow2, snapshot_count })
}

fn needless(name: &str, base: &Path) -> Error {
    let problem = format!("has no backing file, but {} was given as one", base.display());
    Error::new(Kind::Invalid, name, problem)
}

fn open_bytes(path: &Path, name: &str) -> Result<FileBytes> {
    let failed = |error: io::Error| Error::io(name, &error);
    let mut options = File::options();
    // A pipe would make the call wait.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = options.read(true).custom_flags(flags).open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let problem = "is neither a file nor a block device";
        return Err(Error::new(Kind::Invalid, name, problem));
    }
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok(FileBytes { file, size })
}
