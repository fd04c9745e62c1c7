//! Entries and bytes of snapshots by their paths, for a caller that keeps no nodes.

use std::sync::Arc;

use cutpoint_repository::format::recipe::{Segment, range_in_chunk};
use cutpoint_repository::read::ChunkBytes;
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint, Reader, thread_count};
use cutpoint_storage::{Error, Result};

use super::chunks::Chunks;
use super::read_ahead::ReadAhead;
use super::recipes::Recipes;
use crate::trees::Trees;

/// The maximum number of threads that read ahead from a remote storage.
pub(super) const AHEAD_THREADS_MAX: usize = 8;

/// The entries of snapshots, and the bytes of files. Can be shared by threads. All caches are bounded.
#[derive(Debug)]
pub struct Contents {
    reader: Arc<Reader>,
    trees: Trees,
    recipes: Recipes,
    chunks: Arc<Chunks>,
    ahead: ReadAhead,
}

impl Contents {
    /// Creates a source of entries and bytes that reads by `reader`.
    pub fn new(reader: Arc<Reader>) -> Contents {
        let requests = reader.repository().storage().requests_ahead_max().min(AHEAD_THREADS_MAX);
        let chunks = Arc::new(Chunks::new(Arc::clone(&reader)));
        Contents {
            trees: Trees::new(Arc::clone(&reader)),
            recipes: Recipes::new(Arc::clone(&reader)),
            ahead: ReadAhead::new(&chunks, thread_count(0).max(requests)),
            chunks,
            reader,
        }
    }

    /// Returns the reader.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Returns the entry that the names of `path` lead to from the folder with the tree `root`; `None`
    /// if there is none. Symbolic links are not followed. An empty path leads to an entry without a
    /// name.
    ///
    /// # Errors
    ///
    /// Returns an error if a tree on the way cannot be read.
    pub fn find(&self, root: &Content, path: &[&[u8]]) -> Result<Option<Entry>> {
        let mut found = Entry::new("", EntryKind::Folder);
        found.content = root.clone();
        for name in path {
            if found.kind != EntryKind::Folder {
                return Ok(None);
            }
            match self.trees.find(&found.content, name)? {
                Some(entry) => found = Entry::clone(&entry),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// Returns `len` bytes of the file `entry` from `offset` on, or fewer at its end. What follows is
    /// decoded ahead if the same `reading`, a number that the caller chooses, reads in sequence.
    ///
    /// # Errors
    ///
    /// Returns an error if any of the bytes cannot be read.
    pub fn read(
        &self,
        reading: u64,
        entry: &Entry,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, Arc<Error>> {
        read_ahead((&self.recipes, &self.chunks, &self.ahead), reading, entry, offset, len)
    }
}

/// Returns `len` bytes of the file `entry` from `offset` on, or fewer at its end, and decodes ahead what
/// follows if the same `reading` reads in sequence.
pub(super) fn read_ahead(
    (recipes, chunks, ahead): (&Recipes, &Chunks, &ReadAhead),
    reading: u64,
    entry: &Entry,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, Arc<Error>> {
    let end = entry.size.min(offset.saturating_add(len as u64));
    if offset >= end {
        return Ok(Vec::new());
    }
    let segment_at = |offset| recipes.segment_at(&entry.content, offset).ok().flatten();
    ahead.note(reading, (offset, end), entry.size, segment_at);
    let mut bytes = Vec::with_capacity(usize::try_from(end - offset).unwrap_or(len));
    fill((recipes, chunks), entry, (offset, end), &mut None, &mut bytes)?;
    Ok(bytes)
}

/// Appends the bytes `offset..end` of the file `entry`. Keeps the last chunk in `verified`, because
/// small files share chunks.
pub(super) fn fill(
    (recipes, chunks): (&Recipes, &Chunks),
    entry: &Entry,
    (mut offset, end): (u64, u64),
    verified: &mut Option<(Fingerprint, ChunkBytes)>,
    bytes: &mut Vec<u8>,
) -> Result<(), Arc<Error>> {
    if let Content::Raw(content) = &entry.content {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let range = content.get(place(offset)..place(end));
        bytes.extend_from_slice(range.ok_or_else(|| wrong_size(entry.size))?);
        return Ok(());
    }
    while offset < end {
        let found = recipes.segment_at(&entry.content, offset)?;
        let (start, segment) = found.ok_or_else(|| wrong_size(entry.size))?;
        let segment_end = end.min(start + segment.length());
        let len = usize::try_from(segment_end - offset).unwrap_or(usize::MAX);
        match segment {
            Segment::Hole { .. } | Segment::Zeros { .. } => bytes.resize(bytes.len() + len, 0),
            Segment::Chunk { fingerprint, offset: in_chunk, .. } => {
                let chunk = match verified.take() {
                    Some((known, chunk)) if known == fingerprint => chunk,
                    _ => chunks.get(&fingerprint)?,
                };
                let (_, chunk) = verified.insert((fingerprint, chunk));
                let begin = in_chunk.saturating_add(offset - start);
                let range = range_in_chunk(&fingerprint, chunk.len() as u64, begin, len as u64)?;
                bytes.extend_from_slice(&chunk[range]);
            }
        }
        offset = segment_end;
    }
    Ok(())
}

/// Returns the error of a file whose content does not have its size.
pub(super) fn wrong_size(size: u64) -> Error {
    Error::corrupt("", format!("the file has {size} bytes, but its recipe has other"))
}
