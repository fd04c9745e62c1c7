//! External sort of records of any length in bounded memory. Records that do not fit are spilled to
//! unnamed temporary files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use cutpoint_storage::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::util::extsort::failed;
use crate::util::private_file::create_unnamed_file;

/// Buffer size for reading and writing one temporary file, in bytes.
const BUFFER_LEN: usize = 64 * 1024;

/// Accepts records in any order. Records with equal keys keep the order in which they were added.
#[derive(Debug)]
pub struct RecordSort {
    /// The bytes of the records in memory: each key, followed by its value.
    bytes: Vec<u8>,
    records: Vec<Placed>,
    memory_len_max: usize,
    folder: Option<PathBuf>,
    runs: Vec<SortedRun>,
}

/// A record in the bytes of a [`RecordSort`].
#[derive(Clone, Debug)]
struct Placed {
    key: Range<usize>,
    end: usize,
}

/// A temporary file with a sorted part of the records.
#[derive(Debug)]
struct SortedRun {
    file: File,
    count: u64,
    digest: u64,
}

/// A key and its value.
pub type KeyedRecord = (Vec<u8>, Vec<u8>);

impl RecordSort {
    /// Creates a sorter that uses about `memory_bytes` of memory, and temporary files in `folder`
    /// beyond that. Without a folder, all records stay in memory.
    pub fn new(folder: Option<PathBuf>, memory_bytes: usize) -> RecordSort {
        RecordSort {
            bytes: Vec::new(),
            records: Vec::new(),
            memory_len_max: memory_bytes,
            folder,
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// Returns `Full` or `Storage` if a temporary file cannot be written.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.records.push(Placed { key: start..key_end, end: self.bytes.len() });
        let len = self.bytes.len() + self.records.len() * size_of::<Placed>();
        match self.folder.clone() {
            Some(folder) if len >= self.memory_len_max => self.spill(&folder),
            _ => Ok(()),
        }
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.records.sort_by(|a, b| bytes[a.key.clone()].cmp(&bytes[b.key.clone()]));
    }

    fn spill(&mut self, folder: &Path) -> Result<()> {
        self.sort();
        let file = create_unnamed_file(folder).map_err(failed)?;
        let mut out = BufWriter::with_capacity(BUFFER_LEN, file);
        let mut hasher = Xxh3::new();
        for Placed { key, end } in &self.records {
            let lengths = [key.len() as u64, (end - key.end) as u64];
            for part in [&lengths[0].to_le_bytes(), &lengths[1].to_le_bytes()] {
                hasher.update(part);
                out.write_all(part).map_err(failed)?;
            }
            let record = &self.bytes[key.start..*end];
            hasher.update(record);
            out.write_all(record).map_err(failed)?;
        }
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        let count = self.records.len() as u64;
        self.runs.push(SortedRun { file, count, digest: hasher.digest() });
        self.bytes.clear();
        self.records.clear();
        Ok(())
    }

    /// Returns the records in ascending order of their keys. Can be called several times.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if a temporary file cannot be read.
    pub fn sorted(&mut self) -> Result<SortedRecords<'_>> {
        self.sort();
        let mut parts = Vec::with_capacity(self.runs.len() + 1);
        for run in &self.runs {
            let mut file = &run.file;
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
            parts.push(SortedPart::File {
                reader: BufReader::with_capacity(BUFFER_LEN, file),
                left: run.count,
                hasher: Box::new(Xxh3::new()),
                digest: run.digest,
            });
        }
        parts.push(SortedPart::Memory { bytes: &self.bytes, records: self.records.iter() });
        let mut records = SortedRecords { heap: BinaryHeap::with_capacity(parts.len()), parts };
        for number in 0..records.parts.len() {
            records.advance(number)?;
        }
        Ok(records)
    }
}

enum SortedPart<'a> {
    Memory { bytes: &'a [u8], records: std::slice::Iter<'a, Placed> },
    File { reader: BufReader<&'a File>, left: u64, hasher: Box<Xxh3>, digest: u64 },
}

impl SortedPart<'_> {
    fn next(&mut self) -> Result<Option<KeyedRecord>> {
        let changed = || Error::corrupt("temporary file", "content differs from what was written");
        match self {
            SortedPart::Memory { bytes, records } => {
                Ok(records.next().map(|Placed { key, end }| {
                    (bytes[key.clone()].to_vec(), bytes[key.end..*end].to_vec())
                }))
            }
            SortedPart::File { left: 0, hasher, digest, .. } => {
                if hasher.digest() == *digest {
                    Ok(None)
                } else {
                    Err(changed())
                }
            }
            SortedPart::File { reader, left, hasher, .. } => {
                let mut next = || {
                    let mut len = [0; 8];
                    reader.read_exact(&mut len).map_err(failed)?;
                    hasher.update(&len);
                    Ok(u64::from_le_bytes(len))
                };
                let (key_len, value_len): (u64, u64) = (next()?, next()?);
                let mut read = |len: u64| {
                    let mut bytes = Vec::new();
                    // Allocates by what is there, because the file may have changed.
                    let read = reader.by_ref().take(len).read_to_end(&mut bytes).map_err(failed)?;
                    if read as u64 != len {
                        return Err(changed());
                    }
                    hasher.update(&bytes);
                    Ok(bytes)
                };
                let record = (read(key_len)?, read(value_len)?);
                *left -= 1;
                Ok(Some(record))
            }
        }
    }
}

/// The next record of a part: its key, the number of the part, and its value.
type NextRecord = (Vec<u8>, usize, Vec<u8>);

/// The records in ascending order of their keys, merged from memory and the temporary files.
pub struct SortedRecords<'a> {
    parts: Vec<SortedPart<'a>>,
    heap: BinaryHeap<Reverse<NextRecord>>,
}

impl fmt::Debug for SortedRecords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRecords").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

impl SortedRecords<'_> {
    fn advance(&mut self, number: usize) -> Result<()> {
        if let Some((key, value)) = self.parts[number].next()? {
            self.heap.push(Reverse((key, number, value)));
        }
        Ok(())
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    pub fn next_record(&mut self) -> Result<Option<KeyedRecord>> {
        let Some(Reverse((key, number, value))) = self.heap.pop() else { return Ok(None) };
        self.advance(number)?;
        Ok(Some((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_and_equal_keys_keep_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        for (place, memory) in [(None, 10), (Some(folder.path()), 300), (Some(folder.path()), 1)] {
            let mut sort = RecordSort::new(place.map(Path::to_owned), memory);
            let mut expected = Vec::new();
            for number in 0_u32..500 {
                let key = (number * 7919 % 50).to_string().repeat(number as usize % 3).into_bytes();
                let value = number.to_le_bytes().repeat(number as usize % 5);
                sort.push(&key, &value).expect("added");
                expected.push((key, value));
            }
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(sort.runs.is_empty(), place.is_none(), "temporary files, {memory}");
            for pass in 0..2 {
                let mut records = sort.sorted().expect("sorted");
                for record in &expected {
                    let next = records.next_record().expect("read");
                    assert_eq!(next.as_ref(), Some(record), "pass {pass}, {memory}");
                }
                assert_eq!(records.next_record().expect("read"), None, "the end");
            }
        }
    }

    #[test]
    fn changed_temporary_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sort = RecordSort::new(Some(folder.path().to_owned()), 1);
        sort.push(b"key", b"value").expect("added");
        std::os::unix::fs::FileExt::write_at(&sort.runs[0].file, b"x", 20).expect("written");
        let mut records = sort.sorted().expect("opened");
        let error = std::iter::from_fn(|| records.next_record().transpose()).find_map(Result::err);
        assert!(error.is_some(), "the change is noticed");
    }
}
