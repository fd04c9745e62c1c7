//! External sort: fixed-width records, sorted in bounded memory. Records that do not fit are
//! spilled to unnamed temporary files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use cutpoint_storage::{Error, Kind, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::util::private_file::create_unnamed_file;

/// Buffer size for reading and writing one temporary file, in bytes.
const BUFFER_LEN: usize = 64 * 1024;

/// Accepts records of `N` bytes in any order, and drops duplicates.
#[derive(Debug)]
pub(crate) struct ExternalSort<const N: usize> {
    buffer: Vec<[u8; N]>,
    buffer_len_max: usize,
    folder: Option<PathBuf>,
    files: Vec<SortedRun>,
}

/// A temporary file with one sorted part of the records.
#[derive(Debug)]
struct SortedRun {
    file: File,
    count: u64,
    digest: u64,
}

/// The records in ascending order without duplicates. Can be iterated several times.
#[derive(Debug)]
pub(crate) struct SortedRecords<const N: usize> {
    buffer: Vec<[u8; N]>,
    files: Vec<SortedRun>,
}

pub(super) fn failed(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => Kind::Full,
        _ => Kind::Storage,
    };
    Error::new(kind, "temporary file", &error).with_source(error)
}

impl<const N: usize> ExternalSort<N> {
    /// Creates a sorter that uses about `memory_bytes` of memory, and temporary files in `folder`
    /// beyond that. Without a folder, all records stay in memory.
    pub(crate) fn new(folder: Option<&Path>, memory_bytes: usize) -> ExternalSort<N> {
        ExternalSort {
            buffer: Vec::new(),
            buffer_len_max: (memory_bytes / N).max(2),
            folder: folder.map(Path::to_owned),
            files: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if a temporary file cannot be written.
    pub(crate) fn push(&mut self, record: [u8; N]) -> Result<()> {
        if self.buffer.len() == self.buffer.capacity() {
            // Grown by fixed steps, because doubling would take twice the memory at the end.
            let more = (self.buffer_len_max / 8).clamp(1024, self.buffer_len_max.max(1024));
            self.buffer.reserve_exact(more);
        }
        self.buffer.push(record);
        if self.buffer.len() < self.buffer_len_max {
            return Ok(());
        }
        self.sort();
        match self.folder.clone() {
            Some(folder) if self.buffer.len() > self.buffer_len_max / 2 => self.spill(&folder),
            Some(_) => Ok(()),
            None => {
                self.buffer_len_max = self.buffer_len_max.max(self.buffer.len() * 2);
                Ok(())
            }
        }
    }

    fn sort(&mut self) {
        self.buffer.sort_unstable();
        self.buffer.dedup();
    }

    fn spill(&mut self, folder: &Path) -> Result<()> {
        let file = create_unnamed_file(folder).map_err(failed)?;
        let mut out = BufWriter::with_capacity(BUFFER_LEN, file);
        let mut hasher = Xxh3::new();
        for record in &self.buffer {
            hasher.update(record);
            out.write_all(record).map_err(failed)?;
        }
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        let count = self.buffer.len() as u64;
        self.files.push(SortedRun { file, count, digest: hasher.digest() });
        self.buffer.clear();
        Ok(())
    }

    /// Returns the sorted records.
    pub(crate) fn finish(mut self) -> SortedRecords<N> {
        self.sort();
        self.buffer.shrink_to_fit();
        SortedRecords { buffer: self.buffer, files: self.files }
    }
}

impl<const N: usize> SortedRecords<N> {
    /// Returns an iterator over the records in ascending order. Only one iterator may be in use at
    /// a time.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if a temporary file cannot be read.
    pub(crate) fn iter(&self) -> Result<Iter<'_, N>> {
        let mut parts = vec![SortedPart::Memory(self.buffer.iter())];
        for file in &self.files {
            let mut handle = &file.file;
            handle.seek(SeekFrom::Start(0)).map_err(failed)?;
            parts.push(SortedPart::File {
                reader: BufReader::with_capacity(BUFFER_LEN, handle),
                left: file.count,
                hasher: Box::new(Xxh3::new()),
                digest: file.digest,
            });
        }
        let mut iter = Iter { heap: BinaryHeap::with_capacity(parts.len()), parts, last: None };
        for number in 0..iter.parts.len() {
            iter.advance(number)?;
        }
        Ok(iter)
    }
}

enum SortedPart<'a, const N: usize> {
    Memory(std::slice::Iter<'a, [u8; N]>),
    File { reader: BufReader<&'a File>, left: u64, hasher: Box<Xxh3>, digest: u64 },
}

impl<const N: usize> SortedPart<'_, N> {
    fn next(&mut self) -> Result<Option<[u8; N]>> {
        match self {
            SortedPart::Memory(records) => Ok(records.next().copied()),
            SortedPart::File { reader, left, hasher, digest } => {
                if *left == 0 {
                    // Verified because these records decide which objects are deleted.
                    return if hasher.digest() == *digest {
                        Ok(None)
                    } else {
                        Err(Error::corrupt(
                            "temporary file",
                            "content differs from what was written",
                        ))
                    };
                }
                let mut record = [0; N];
                reader.read_exact(&mut record).map_err(failed)?;
                hasher.update(&record);
                *left -= 1;
                Ok(Some(record))
            }
        }
    }
}

/// An iterator over sorted records, merged from memory and the temporary files.
pub(crate) struct Iter<'a, const N: usize> {
    parts: Vec<SortedPart<'a, N>>,
    heap: BinaryHeap<Reverse<([u8; N], usize)>>,
    last: Option<[u8; N]>,
}

impl<const N: usize> Iter<'_, N> {
    fn advance(&mut self, number: usize) -> Result<()> {
        if let Some(next) = self.parts[number].next()? {
            self.heap.push(Reverse((next, number)));
        }
        Ok(())
    }

    /// Returns the next record.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed. A changed
    /// file is noticed only at its end, so the records count only when the iterator has ended
    /// without an error.
    pub(crate) fn next(&mut self) -> Result<Option<[u8; N]>> {
        while let Some(Reverse((record, number))) = self.heap.pop() {
            self.advance(number)?;
            if self.last != Some(record) {
                self.last = Some(record);
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn records(count: u64) -> impl Iterator<Item = [u8; 9]> {
        (0..count).map(move |number| {
            let mut record = [0; 9];
            let mixed = (number % (count * 2 / 3).max(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            record[..8].copy_from_slice(&mixed.to_be_bytes());
            record
        })
    }

    fn all(sorted: &SortedRecords<9>) -> Result<Vec<[u8; 9]>> {
        let mut found = Vec::new();
        let mut iter = sorted.iter()?;
        while let Some(record) = iter.next()? {
            found.push(record);
        }
        Ok(found)
    }

    #[test]
    fn records_come_back_sorted_and_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for (folder, memory) in
            [(None, 100), (Some(folder.path()), 100), (Some(folder.path()), 1 << 20)]
        {
            for count in [0, 1, 2, 3, 10_000] {
                let mut sorter = ExternalSort::new(folder, memory);
                records(count).for_each(|record| sorter.push(record).expect("pushed"));
                let sorted = sorter.finish();
                assert_eq!(sorted.files.is_empty(), folder.is_none() || count < 11 || memory > 100);
                let expected: BTreeSet<[u8; 9]> = records(count).collect();
                let expected: Vec<_> = expected.into_iter().collect();
                assert_eq!(all(&sorted).expect("read"), expected, "{count} of {memory}");
                assert_eq!(all(&sorted).expect("read"), expected, "a second time");
            }
        }
    }

    #[test]
    fn repeated_records_stay_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sorter = ExternalSort::new(Some(folder.path()), 900);
        for number in 0..10_000_u64 {
            let mut record = [0; 9];
            record[0] = u8::try_from(number % 20).expect("small");
            sorter.push(record).expect("pushed");
        }
        let sorted = sorter.finish();
        assert!(sorted.files.is_empty());
        assert_eq!(all(&sorted).expect("read").len(), 20);
    }

    #[test]
    fn changed_temporary_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sorter = ExternalSort::new(Some(folder.path()), 9000);
        records(5000).for_each(|record| sorter.push(record).expect("pushed"));
        let sorted = sorter.finish();
        assert_eq!(sorted.files[0].count, 1000, "as many as fit in memory");
        sorted.files[0].file.write_all_at(&[7], 8).expect("written");
        assert!(all(&sorted).is_err_and(|error| error.kind() == Kind::Corrupt));
        sorted.files[0].file.set_len(100).expect("cut");
        assert!(all(&sorted).is_err());
    }

    #[test]
    fn full_disk_is_distinguished_from_a_failing_one() {
        let kind = |kind: io::ErrorKind| failed(kind.into()).kind();
        assert_eq!(kind(io::ErrorKind::StorageFull), Kind::Full);
        assert_eq!(kind(io::ErrorKind::PermissionDenied), Kind::Storage);
    }
}
