//! The comparison of a file on the disk with a content in the repository.

use std::io;

use cutpoint_backup::source::{FileExtent, SourceFile};
use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::{Class, Content, Reader};
use cutpoint_storage::Error as StoreError;

/// The maximum number of bytes that are read at once to find out if they are zeros.
const READ_LEN_MAX: u64 = 1024 * 1024;
/// The maximum length of a chunk whose fingerprint is compared, in bytes. It bounds the memory that
/// a wrong length in a recipe can take.
const HASHED_LEN_MAX: u64 = 64 * 1024 * 1024;

/// The reason why a file could not be compared.
pub(super) enum Failure {
    /// The file could not be read.
    Disk(io::Error),
    /// The content could not be read from the repository.
    Repository(StoreError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Disk(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Repository(error)
    }
}

/// Returns `true` if `file` begins with all bytes of `content`.
///
/// # Errors
///
/// Returns any error of [`SourceFile::read_at`], [`Reader::segments`] or [`Reader::chunk`].
pub(super) fn begins_with(
    file: &SourceFile,
    content: &Content,
    reader: &Reader,
) -> Result<bool, Failure> {
    if let Content::Raw(bytes) = content {
        return Ok(has_bytes(file, 0, bytes)?);
    }
    let mut position = 0_u64;
    for segment in reader.segments(content) {
        let segment = segment?;
        let is_same = match &segment {
            Segment::Chunk { .. } => has_chunk(file, position, &segment, reader)?,
            Segment::Hole { length } | Segment::Zeros { length } => {
                has_zeros(file, position, *length)?
            }
        };
        if !is_same {
            return Ok(false);
        }
        position = position.saturating_add(segment.length());
    }
    Ok(true)
}

/// Returns `true` if `file` has the bytes of `segment` at `position`. A chunk that belongs to one
/// file alone is compared by its fingerprint, and not read from the repository if it is equal.
fn has_chunk(
    file: &SourceFile,
    position: u64,
    segment: &Segment,
    reader: &Reader,
) -> Result<bool, Failure> {
    let Segment::Chunk { fingerprint, offset, length } = segment else { return Ok(false) };
    if *offset == 0 && *length <= HASHED_LEN_MAX {
        let mut bytes = vec![0; usize::try_from(*length).unwrap_or_default()];
        if file.read_at(&mut bytes, position)? < bytes.len() {
            return Ok(false);
        }
        if reader.repository().keys().fingerprint(Class::Data, &bytes) == *fingerprint {
            return Ok(true);
        }
    }
    // The chunk has another content, or several files share it.
    let chunk = reader.chunk(Class::Data, fingerprint)?;
    let range = range_in_chunk(fingerprint, chunk.len() as u64, *offset, *length)?;
    Ok(has_bytes(file, position, &chunk[range])?)
}

/// Returns `true` if `file` has these bytes at `position`.
fn has_bytes(file: &SourceFile, position: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; bytes.len()];
    Ok(file.read_at(&mut found, position)? == bytes.len() && found == bytes)
}

/// Returns `true` if `file` has `len` zeros at `position`. Holes are not read.
fn has_zeros(file: &SourceFile, position: u64, len: u64) -> io::Result<bool> {
    let end = position.saturating_add(len);
    if end > file.size() {
        return Ok(false);
    }
    for extent in file.extents(position) {
        match extent? {
            FileExtent::Hole { offset, len } if offset + len >= end => break,
            FileExtent::Hole { .. } => {}
            FileExtent::Data { offset, len } => {
                if !reads_zeros(file, offset, end.min(offset + len))? {
                    return Ok(false);
                }
                if offset + len >= end {
                    break;
                }
            }
        }
    }
    Ok(true)
}

/// Returns `true` if the bytes of `file` from `position` up to `end` are zeros.
fn reads_zeros(file: &SourceFile, mut position: u64, end: u64) -> io::Result<bool> {
    while position < end {
        let len = READ_LEN_MAX.min(end - position);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let is_short = file.read_at(&mut bytes, position)? < bytes.len();
        if is_short || bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        position += len;
    }
    Ok(true)
}
