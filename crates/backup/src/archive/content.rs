//! The bytes of a file, from its segments.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::Bytes;
use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::{Content, Entry};
use cutpoint_storage::{Error, Result};

use crate::restore::{RestoreMonitor, SnapshotReader};

/// The number of bytes that are read before the header of a file is written.
const AHEAD_LEN: u64 = 4 << 20;

/// The number of bytes after which progress is reported.
const REPORTED_LEN: u64 = 1 << 20;

/// A part of a file.
enum Part {
    Data(Bytes),
    Zeros(u64),
}

/// A file as a stream of exactly [`Entry::size`] bytes. What cannot be read becomes zeros. Progress is
/// reported while a large file is read.
pub(super) struct FileStream<'a> {
    reader: &'a dyn SnapshotReader,
    monitor: &'a dyn RestoreMonitor,
    segments: Box<dyn Iterator<Item = Result<Segment>> + 'a>,
    /// The bytes that follow what was read from `segments`.
    rest: u64,
    parts: VecDeque<Part>,
    /// The number of bytes that were read since the last report of progress.
    pub(super) unreported_len: u64,
    /// The number of bytes that could not be read.
    pub(super) lost_len: u64,
    /// The first error.
    pub(super) error: Option<Error>,
}

impl<'a> FileStream<'a> {
    /// Begins with the file `entry`, and reads its first 4 MiB.
    ///
    /// # Errors
    ///
    /// Fails if the recipe or a chunk of these cannot be read.
    pub(super) fn open(
        reader: &'a dyn SnapshotReader,
        entry: &Entry,
        monitor: &'a dyn RestoreMonitor,
    ) -> Result<FileStream<'a>> {
        let mut parts = VecDeque::new();
        let segments: Box<dyn Iterator<Item = Result<Segment>> + 'a> = match &entry.content {
            Content::Empty => Box::new(std::iter::empty()),
            Content::Segments(segments) => Box::new(segments.clone().into_iter().map(Ok)),
            Content::Recipe(_) => reader.segments(&entry.content)?,
            Content::Raw(bytes) => {
                parts.push_back(Part::Data(Bytes::copy_from_slice(bytes)));
                Box::new(std::iter::empty())
            }
        };
        let in_entry =
            if let Content::Raw(bytes) = &entry.content { bytes.len() as u64 } else { 0 };
        let rest = entry.size.checked_sub(in_entry).ok_or_else(|| wrong_size(entry.size))?;
        let mut stream = FileStream {
            reader,
            monitor,
            segments,
            rest,
            parts,
            unreported_len: 0,
            lost_len: 0,
            error: None,
        };
        let end = stream.rest.saturating_sub(AHEAD_LEN);
        while stream.rest > end {
            let part = stream.next_part()?;
            stream.parts.push_back(part);
        }
        Ok(stream)
    }

    /// Reads the next part. `rest` is above 0. After an error, `rest` tells from where on the next
    /// call continues.
    fn next_part(&mut self) -> Result<Part> {
        let size = self.rest;
        let segment = self.segments.next().unwrap_or_else(|| Err(wrong_size(size)));
        let segment = match segment.and_then(|segment| match segment.length() {
            0 => Err(wrong_size(size)),
            length if length > size => Err(wrong_size(size)),
            _ => Ok(segment),
        }) {
            Ok(segment) => segment,
            Err(error) => {
                self.rest = 0;
                return Err(error);
            }
        };
        self.rest -= segment.length();
        let Segment::Chunk { fingerprint, offset, length } = segment else {
            return Ok(Part::Zeros(segment.length()));
        };
        let chunk = self.reader.chunk(&fingerprint)?;
        let range = range_in_chunk(&fingerprint, chunk.len() as u64, offset, length)?;
        Ok(Part::Data(chunk.slice(range)))
    }
}

fn wrong_size(rest: u64) -> Error {
    Error::corrupt("", format!("the recipe does not have the size of the file ({rest} bytes)"))
}

impl Read for FileStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let (len, is_over) = match self.parts.front_mut() {
                Some(Part::Data(bytes)) => {
                    let len = bytes.len().min(buffer.len());
                    buffer[..len].copy_from_slice(&bytes.split_to(len));
                    (len, bytes.is_empty())
                }
                Some(Part::Zeros(rest)) => {
                    let len = usize::try_from(*rest).unwrap_or(usize::MAX).min(buffer.len());
                    buffer[..len].fill(0);
                    *rest -= len as u64;
                    (len, *rest == 0)
                }
                None if self.rest == 0 => return Ok(0),
                None => {
                    let before = self.rest;
                    let part = self.next_part().unwrap_or_else(|error| {
                        self.lost_len += before - self.rest;
                        self.error.get_or_insert(error);
                        Part::Zeros(before - self.rest)
                    });
                    self.parts.push_back(part);
                    continue;
                }
            };
            if is_over {
                self.parts.pop_front();
            }
            if len > 0 || buffer.is_empty() {
                self.unreported_len += len as u64;
                if self.unreported_len >= REPORTED_LEN {
                    self.monitor.progress(0, std::mem::take(&mut self.unreported_len));
                }
                return Ok(len);
            }
        }
    }
}
