//! The comparison of the contents of two entries, without reading what both have in common.

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::{ChunkBytes, Segments};
use cutpoint_repository::{Class, Content, Entry, EntryKind, Fingerprint, Reader};
use cutpoint_storage::{Error, Result};

/// Returns `true` if two entries of the same kind have the same content. The trees of two folders
/// are not compared.
///
/// # Errors
///
/// Returns any error of [`Reader::segments`] or [`Reader::chunk`].
pub(super) fn is_same(reader: &Reader, old: &Entry, new: &Entry) -> Result<bool> {
    match old.kind {
        EntryKind::CharDevice | EntryKind::BlockDevice => {
            Ok(old.device_number == new.device_number)
        }
        EntryKind::Folder | EntryKind::Fifo | EntryKind::Socket => Ok(true),
        EntryKind::Symlink => Ok(old.content == new.content),
        EntryKind::File if old.content == new.content => Ok(true),
        EntryKind::File if old.size != new.size => Ok(false),
        // Equal bytes may be cut differently, or share a chunk with other files.
        EntryKind::File => have_same_bytes(reader, &old.content, &new.content),
    }
}

fn have_same_bytes(reader: &Reader, old: &Content, new: &Content) -> Result<bool> {
    let [mut old, mut new] = [old, new].map(|content| Cursor::new(reader, content));
    loop {
        let len = match (old.fill()?, new.fill()?) {
            (None, None) => return Ok(true),
            (Some(old), Some(new)) => old.len().min(new.len()),
            _ => return Ok(false),
        };
        let (Some(old_piece), Some(new_piece)) = (&mut old.piece, &mut new.piece) else {
            return Ok(false);
        };
        if !old_piece.begins_like(new_piece, len, reader)? {
            return Ok(false);
        }
        old_piece.advance(len);
        new_piece.advance(len);
    }
}

/// A part of a file that has not been compared yet.
enum Piece {
    /// `len` bytes of a chunk, from `offset` on.
    Chunk { fingerprint: Fingerprint, offset: u64, len: u64 },
    /// `len` zeros.
    Zeros { len: u64 },
    /// Bytes that stand in the tree entry.
    Raw(Vec<u8>),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Chunk { len, .. } | Piece::Zeros { len } => *len,
            Piece::Raw(bytes) => bytes.len() as u64,
        }
    }

    /// Removes the first `count` bytes, of which there are that many.
    fn advance(&mut self, count: u64) {
        match self {
            Piece::Chunk { offset, len, .. } => {
                *offset = offset.saturating_add(count);
                *len -= count;
            }
            Piece::Zeros { len } => *len -= count,
            Piece::Raw(bytes) => {
                bytes.drain(..usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len()));
            }
        }
    }

    /// Returns `true` if the first `count` bytes of both pieces are equal.
    fn begins_like(&self, other: &Piece, count: u64, reader: &Reader) -> Result<bool> {
        match (self, other) {
            (
                Piece::Chunk { fingerprint, offset, .. },
                Piece::Chunk { fingerprint: other_fingerprint, offset: other_offset, .. },
            ) if fingerprint == other_fingerprint && offset == other_offset => Ok(true),
            (Piece::Zeros { .. }, Piece::Zeros { .. }) => Ok(true),
            (Piece::Zeros { .. }, piece) | (piece, Piece::Zeros { .. }) => {
                Ok(piece.load(reader)?.first(count)?.iter().all(|&byte| byte == 0))
            }
            _ => {
                let (bytes, other) = (self.load(reader)?, other.load(reader)?);
                Ok(bytes.first(count)? == other.first(count)?)
            }
        }
    }

    /// Reads the bytes of a piece that is not `Zeros`.
    fn load<'a>(&'a self, reader: &Reader) -> Result<Loaded<'a>> {
        Ok(match self {
            Piece::Chunk { fingerprint, offset, .. } => {
                Loaded::Chunk(reader.chunk(Class::Data, fingerprint)?, *offset)
            }
            Piece::Raw(bytes) => Loaded::Raw(bytes),
            Piece::Zeros { .. } => Loaded::Raw(&[]),
        })
    }
}

/// The bytes of a piece.
enum Loaded<'a> {
    /// The bytes of a chunk, from an offset on.
    Chunk(ChunkBytes, u64),
    Raw(&'a [u8]),
}

impl Loaded<'_> {
    /// Returns the first `count` bytes.
    fn first(&self, count: u64) -> Result<&[u8]> {
        let (bytes, start) = match self {
            Loaded::Chunk(bytes, start) => (&bytes[..], *start),
            Loaded::Raw(bytes) => (*bytes, 0),
        };
        let range = usize::try_from(start).ok().zip(usize::try_from(count).ok());
        range.and_then(|(start, count)| bytes.get(start..start.checked_add(count)?)).ok_or_else(
            || {
                let len = bytes.len();
                let message = format!("has {len} bytes (expected {count} at offset {start})");
                Error::corrupt("data chunk", message)
            },
        )
    }
}

/// A position in the content of a file.
struct Cursor<'a> {
    segments: Segments<'a>,
    /// The part before the next segment.
    piece: Option<Piece>,
}

impl<'a> Cursor<'a> {
    fn new(reader: &'a Reader, content: &Content) -> Cursor<'a> {
        let piece = match content {
            Content::Raw(bytes) => Some(Piece::Raw(bytes.clone())),
            _ => None,
        };
        Cursor { segments: reader.segments(content), piece }
    }

    /// Returns the current piece, which is not empty; `None` at the end.
    fn fill(&mut self) -> Result<Option<&Piece>> {
        while self.piece.as_ref().is_none_or(|piece| piece.len() == 0) {
            let Some(segment) = self.segments.next().transpose()? else { return Ok(None) };
            self.piece = Some(match segment {
                Segment::Chunk { fingerprint, offset, length } => {
                    Piece::Chunk { fingerprint, offset, len: length }
                }
                Segment::Hole { length } | Segment::Zeros { length } => {
                    Piece::Zeros { len: length }
                }
            });
        }
        Ok(self.piece.as_ref())
    }
}
