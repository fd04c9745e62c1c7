//! External sort: fixed-width records, sorted in bounded memory. Records that do not fit are
//! spilled to unnamed temporary files.

use std::path::{Path, PathBuf};

use cutpoint_storage::Result;

use super::sorted_run::{Merge, RunReader, RunWriter, SortedPart, SortedRun};

/// Accepts records of `N` bytes in any order, and drops duplicates.
#[derive(Debug)]
pub(crate) struct ExternalSort<const N: usize> {
    buffer: Vec<[u8; N]>,
    buffer_len_max: usize,
    folder: Option<PathBuf>,
    runs: Vec<SortedRun>,
}

/// The records in ascending order without duplicates. Can be iterated several times.
#[derive(Debug)]
pub(crate) struct SortedRecords<const N: usize> {
    buffer: Vec<[u8; N]>,
    runs: Vec<SortedRun>,
}

impl<const N: usize> ExternalSort<N> {
    /// Creates a sorter that uses about `memory_bytes` of memory, and temporary files in `folder`
    /// beyond that. Without a folder, all records stay in memory.
    pub(crate) fn new(folder: Option<&Path>, memory_bytes: usize) -> ExternalSort<N> {
        ExternalSort {
            buffer: Vec::new(),
            buffer_len_max: (memory_bytes / N).max(2),
            folder: folder.map(Path::to_owned),
            runs: Vec::new(),
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
        let mut run = RunWriter::create(folder)?;
        for record in &self.buffer {
            run.write(record)?;
        }
        self.runs.push(run.finish(self.buffer.len())?);
        self.buffer.clear();
        Ok(())
    }

    /// Returns the sorted records.
    pub(crate) fn finish(mut self) -> SortedRecords<N> {
        self.sort();
        self.buffer.shrink_to_fit();
        SortedRecords { buffer: self.buffer, runs: self.runs }
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
        let mut parts = vec![Part::Memory(self.buffer.iter())];
        for run in &self.runs {
            parts.push(Part::Run(run.read()?));
        }
        Ok(Iter { merge: Merge::new(parts)?, last: None })
    }
}

enum Part<'a, const N: usize> {
    Memory(std::slice::Iter<'a, [u8; N]>),
    Run(RunReader<'a>),
}

impl<const N: usize> SortedPart for Part<'_, N> {
    type Key = [u8; N];
    type Value = ();

    fn next(&mut self) -> Result<Option<([u8; N], ())>> {
        Ok(match self {
            Part::Memory(records) => records.next().map(|record| (*record, ())),
            Part::Run(run) => match run.begin()? {
                true => Some((run.array()?, ())),
                false => None,
            },
        })
    }
}

/// An iterator over sorted records, merged from memory and the temporary files.
pub(crate) struct Iter<'a, const N: usize> {
    merge: Merge<Part<'a, N>>,
    last: Option<[u8; N]>,
}

impl<const N: usize> Iter<'_, N> {
    /// Returns the next record.
    ///
    /// # Errors
    ///
    /// Returns `Storage` or `Corrupt` if a temporary file cannot be read or has changed. A changed
    /// file is noticed only at its end, so the records count only when the iterator has ended
    /// without an error.
    pub(crate) fn next(&mut self) -> Result<Option<[u8; N]>> {
        while let Some((record, ())) = self.merge.next()? {
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

    use cutpoint_storage::Kind;

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
                assert_eq!(sorted.runs.is_empty(), folder.is_none() || count < 11 || memory > 100);
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
        assert!(sorted.runs.is_empty());
        assert_eq!(all(&sorted).expect("read").len(), 20);
    }

    #[test]
    fn changed_temporary_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sorter = ExternalSort::new(Some(folder.path()), 9000);
        records(5000).for_each(|record| sorter.push(record).expect("pushed"));
        let sorted = sorter.finish();
        assert_eq!(sorted.runs[0].count, 1000, "as many as fit in memory");
        sorted.runs[0].file.write_all_at(&[7], 8).expect("written");
        assert!(all(&sorted).is_err_and(|error| error.kind() == Kind::Corrupt));
        sorted.runs[0].file.set_len(100).expect("cut");
        assert!(all(&sorted).is_err());
    }
}
