//! External sort of records of any length in bounded memory. Records that do not fit are spilled to
//! unnamed temporary files.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cutpoint_storage::Result;

use super::sorted_run::{Merge, RunReader, RunWriter, SortedPart, SortedRun};

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
        let mut run = RunWriter::create(folder)?;
        for Placed { key, end } in &self.records {
            for len in [key.len(), end - key.end] {
                run.write(&(len as u64).to_le_bytes())?;
            }
            run.write(&self.bytes[key.start..*end])?;
        }
        self.runs.push(run.finish(self.records.len())?);
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
            parts.push(Part::Run(run.read()?));
        }
        parts.push(Part::Memory { bytes: &self.bytes, records: self.records.iter() });
        Ok(SortedRecords(Merge::new(parts)?))
    }
}

enum Part<'a> {
    Memory { bytes: &'a [u8], records: std::slice::Iter<'a, Placed> },
    Run(RunReader<'a>),
}

impl SortedPart for Part<'_> {
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn next(&mut self) -> Result<Option<KeyedRecord>> {
        match self {
            Part::Memory { bytes, records } => Ok(records.next().map(|Placed { key, end }| {
                (bytes[key.clone()].to_vec(), bytes[key.end..*end].to_vec())
            })),
            Part::Run(run) => {
                if !run.begin()? {
                    return Ok(None);
                }
                let [key_len, value_len] = [run.array()?, run.array()?].map(u64::from_le_bytes);
                Ok(Some((run.bytes(key_len)?, run.bytes(value_len)?)))
            }
        }
    }
}

/// The records in ascending order of their keys, merged from memory and the temporary files.
pub struct SortedRecords<'a>(Merge<Part<'a>>);

impl fmt::Debug for SortedRecords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRecords").finish_non_exhaustive()
    }
}

impl SortedRecords<'_> {
    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed.
    pub fn next_record(&mut self) -> Result<Option<KeyedRecord>> {
        self.0.next()
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
