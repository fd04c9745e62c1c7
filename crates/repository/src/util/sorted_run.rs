//! Sorted records in unnamed temporary files, which are verified as they are read, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use cutpoint_storage::{Error, Kind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::private_file::create_unnamed_file;

/// Buffer size for reading and writing one temporary file, in bytes.
const BUFFER_LEN: usize = 64 * 1024;

/// A temporary file with a sorted part of the records.
#[derive(Debug)]
pub(super) struct SortedRun {
    pub(super) file: File,
    pub(super) count: u64,
    digest: u64,
}

/// A run that is being written.
pub(super) struct RunWriter {
    out: BufWriter<File>,
    hasher: Xxh3,
}

/// A run that is being read.
pub(super) struct RunReader<'a> {
    reader: BufReader<&'a File>,
    left: u64,
    hasher: Box<Xxh3>,
    digest: u64,
}

fn failed(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => Kind::Full,
        _ => Kind::Storage,
    };
    Error::new(kind, "temporary file", &error).with_source(error)
}

fn changed() -> Error {
    Error::corrupt("temporary file", "content differs from what was written")
}

impl RunWriter {
    /// Creates the file of a run in `folder`.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if the file cannot be created.
    pub(super) fn create(folder: &Path) -> Result<RunWriter> {
        let file = create_unnamed_file(folder).map_err(failed)?;
        let out = BufWriter::with_capacity(BUFFER_LEN, file);
        Ok(RunWriter { out, hasher: Xxh3::new() })
    }

    /// Appends a part of a record.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if the file cannot be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes).map_err(failed)
    }

    /// Completes a run of `count` records.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if the file cannot be written.
    pub(super) fn finish(self, count: usize) -> Result<SortedRun> {
        let file = self.out.into_inner().map_err(|error| failed(error.into_error()))?;
        Ok(SortedRun { file, count: count as u64, digest: self.hasher.digest() })
    }
}

impl SortedRun {
    /// Returns a reader from the beginning of the run. Only one reader may be in use at a time.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the file cannot be read.
    pub(super) fn read(&self) -> Result<RunReader<'_>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(RunReader {
            reader: BufReader::with_capacity(BUFFER_LEN, file),
            left: self.count,
            hasher: Box::new(Xxh3::new()),
            digest: self.digest,
        })
    }
}

impl RunReader<'_> {
    /// Begins the next record. Returns `false` at the end. A change of the file is an error then at
    /// the latest, because sorted records decide which objects are deleted.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the file has changed.
    pub(super) fn begin(&mut self) -> Result<bool> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None if self.hasher.digest() == self.digest => return Ok(false),
            None => return Err(changed()),
        }
        Ok(true)
    }

    /// Reads a part of the record that has begun.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the file cannot be read.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(failed)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// Reads a part of `len` bytes of the record that has begun. Allocates by what is there, because
    /// the length may have changed.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the file cannot be read, and `Corrupt` if it ends before.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(len).read_to_end(&mut bytes).map_err(failed)?;
        if read as u64 != len {
            return Err(changed());
        }
        self.hasher.update(&bytes);
        Ok(bytes)
    }
}

/// Sorted records, each of a key and a value, from memory or from a run.
pub(super) trait SortedPart {
    type Key: Ord;
    type Value: Ord;

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    fn next(&mut self) -> Result<Option<(Self::Key, Self::Value)>>;
}

/// The next record of a part, with the number of the part.
type NextRecord<P> = (<P as SortedPart>::Key, usize, <P as SortedPart>::Value);

/// The records of several parts in ascending order of their keys. Of equal keys, those of earlier parts
/// come first.
pub(super) struct Merge<P: SortedPart> {
    parts: Vec<P>,
    heap: BinaryHeap<Reverse<NextRecord<P>>>,
}

impl<P: SortedPart> Merge<P> {
    /// Begins the merge of `parts`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`SortedPart::next`].
    pub(super) fn new(parts: Vec<P>) -> Result<Merge<P>> {
        let mut merge = Merge { heap: BinaryHeap::with_capacity(parts.len()), parts };
        for number in 0..merge.parts.len() {
            merge.advance(number)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, number: usize) -> Result<()> {
        if let Some((key, value)) = self.parts[number].next()? {
            self.heap.push(Reverse((key, number, value)));
        }
        Ok(())
    }

    /// Returns the next record; `None` at the end. A changed file may be noticed only at its end, so
    /// the records count only when the end has come without an error.
    ///
    /// # Errors
    ///
    /// Returns any error of [`SortedPart::next`].
    pub(super) fn next(&mut self) -> Result<Option<(P::Key, P::Value)>> {
        let Some(Reverse((key, number, value))) = self.heap.pop() else { return Ok(None) };
        self.advance(number)?;
        Ok(Some((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_distinguished_from_a_failing_one() {
        let kind = |kind: io::ErrorKind| failed(kind.into()).kind();
        assert_eq!(kind(io::ErrorKind::StorageFull), Kind::Full);
        assert_eq!(kind(io::ErrorKind::PermissionDenied), Kind::Storage);
    }
}
