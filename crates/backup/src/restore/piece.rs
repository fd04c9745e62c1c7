//! Pieces: runs of segments of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry};
use cutpoint_storage::{Error, Result};

use super::options::PIECE_LEN;
use super::snapshot_reader::SnapshotReader;

/// The maximum number of segments in a piece, however short they are.
pub(super) const PIECE_SEGMENTS_MAX: usize = 8192;

/// A run of segments of a file.
#[derive(Debug)]
pub(super) struct Piece {
    /// The segments, with their offsets in bytes from the start of the file.
    pub(super) segments: Vec<(u64, Segment)>,
}

impl Piece {
    /// Returns the number of bytes in chunks.
    pub(super) fn data_len(&self) -> u64 {
        let is_chunk = |segment: &Segment| matches!(segment, Segment::Chunk { .. });
        self.segments.iter().filter(|(_, it)| is_chunk(it)).map(|(_, it)| it.length()).sum()
    }
}

/// An iterator over the segments of a file, in pieces.
pub(super) struct Pieces<'a> {
    segments: Box<dyn Iterator<Item = Result<Segment>> + 'a>,
    offset: u64,
    size: u64,
    ended: bool,
}

impl<'a> Pieces<'a> {
    /// Begins with the content of the file `entry`. For `Raw`, there are no pieces.
    pub(super) fn open(reader: &'a dyn SnapshotReader, entry: &Entry) -> Result<Pieces<'a>> {
        let segments: Box<dyn Iterator<Item = Result<Segment>> + 'a> = match &entry.content {
            Content::Segments(segments) => Box::new(segments.clone().into_iter().map(Ok)),
            Content::Recipe(_) => reader.segments(&entry.content)?,
            Content::Empty | Content::Raw(_) => Box::new(std::iter::empty()),
        };
        Ok(Pieces { segments, offset: 0, size: entry.size, ended: false })
    }

    fn read(&mut self) -> Result<Option<Piece>> {
        let mut piece = Piece { segments: Vec::new() };
        let mut data_len = 0;
        while data_len < PIECE_LEN && piece.segments.len() < PIECE_SEGMENTS_MAX {
            let Some(segment) = self.segments.next() else {
                self.ended = true;
                break;
            };
            let segment = segment?;
            let length = segment.length();
            let start = self.offset;
            let end = start.checked_add(length).filter(|&end| end <= self.size);
            self.offset = match end {
                Some(end) if length > 0 => end,
                _ => return Err(wrong_size(self.size, "other")),
            };
            if matches!(segment, Segment::Chunk { .. }) {
                data_len += length;
            }
            piece.segments.push((start, segment));
        }
        if self.ended && self.offset != self.size {
            return Err(wrong_size(self.size, "fewer"));
        }
        Ok((!piece.segments.is_empty()).then_some(piece))
    }
}

/// Returns the error of a file whose content has another size than its entry says.
pub(super) fn wrong_size(size: u64, what: &str) -> Error {
    Error::corrupt("", format!("the file has {size} bytes, but its recipe has {what}"))
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        if self.ended {
            return None;
        }
        let piece = self.read().transpose();
        self.ended |= !matches!(piece, Some(Ok(_)));
        piece
    }
}

/// Reads `length` bytes at `offset` into `buffer`.
pub(super) fn read(file: &File, offset: u64, length: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
    buffer.clear();
    buffer.resize(length, 0);
    file.read_exact_at(buffer, offset)
}
