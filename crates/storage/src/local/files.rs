//! Files and folders of the local file system: reading, creating, syncing, and their errors.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::storage::{too_long, too_short};
use crate::system;

pub(super) fn io_error(object: &dyn std::fmt::Display, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => Kind::Missing,
        std::io::ErrorKind::StorageFull
        | std::io::ErrorKind::QuotaExceeded
        | std::io::ErrorKind::FileTooLarge => Kind::Full,
        _ => Kind::Storage,
    };
    Error::new(kind, object, error.to_string())
}

/// Converts an error about the object `name`, whose file or folder is `path`. A refusal names the
/// path as well, because it is that of the folder of the repository in most cases.
pub(super) fn object_error(name: &str, path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Error::new(Kind::Storage, name, format!("{error}: {}", path.display()))
        }
        _ => io_error(&name, error),
    }
}

/// Opens a file for reading without blocking. Also returns its length.
fn open_file(name: &str, path: &Path) -> Result<(File, u64)> {
    let failed = |error| object_error(name, path, error);
    let file = system::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Error::corrupt(name, "not a regular file"));
    }
    Ok((file, about.len()))
}

/// Reads `len` bytes at `offset` of a file.
pub(super) fn read_range(name: &str, path: &Path, offset: u64, len: usize) -> Result<Bytes> {
    let (file, file_len) = open_file(name, path)?;
    if offset.checked_add(len as u64).is_none_or(|end| end > file_len) {
        return Err(too_short(name, offset, len));
    }
    let mut bytes = vec![0; len];
    match system::read_exact_at(&file, &mut bytes, offset) {
        Ok(()) => Ok(Bytes::from(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(too_short(name, offset, len))
        }
        Err(error) => Err(io_error(&name, error)),
    }
}

/// Reads a file of at most `len_max` bytes. The length is that of the file's metadata, and a pipe
/// is never waited for.
pub(super) fn read_file(name: &str, path: &Path, len_max: u64) -> Result<Bytes> {
    let failed = |error| io_error(&name, error);
    let (file, len) = open_file(name, path)?;
    if len > len_max {
        return Err(too_long(name, len, len_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.take(len).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 != len {
        return Err(too_short(name, 0, usize::try_from(len).unwrap_or(usize::MAX)));
    }
    Ok(Bytes::from(bytes))
}

/// Creates `folder` and its missing parents, for their owner only, and syncs every folder with a
/// new entry.
///
/// # Errors
///
/// Returns `Storage` or `Full` if a folder cannot be created.
pub(super) fn make_folders(folder: &Path) -> Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let failed = |error: std::io::Error| {
        let is_refused = error.kind() == std::io::ErrorKind::PermissionDenied;
        let message = format!("cannot be created: {error}");
        let failure = Error::new(io_error(&"", error).of_put().kind(), folder.display(), message);
        match failure.kind() {
            Kind::Storage if !is_refused => {
                failure.with_remedy("choose a place in which folders can be created")
            }
            _ => failure,
        }
    };
    system::create_private_folder(folder, true).map_err(failed)?;
    made.into_iter().rev().try_for_each(|made| sync_folder(folder_of(made)))
}

/// Returns the folder that contains the entry `path`.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    system::sync_folder(folder).map_err(|error| io_error(&folder.display(), error))
}

/// Returns the time of a file's last write, in nanoseconds since 1970, by the clock of its file
/// system.
pub(super) fn modified_ns(about: &std::fs::Metadata) -> Option<i64> {
    let modified = about.modified().ok()?;
    match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos()).ok()?.checked_neg(),
    }
}
