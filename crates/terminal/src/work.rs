//! The work of a run that is counted in files.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Work that a run has done, or that is expected of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of files.
    pub file_count: u64,
    /// The total size of these files in bytes.
    pub size: u64,
    /// The number of files among them that have to be read.
    pub read_file_count: u64,
    /// The number of bytes that have to be read.
    pub read_bytes: u64,
}

impl Work {
    /// Returns the work of files that all have to be read.
    pub fn of_files(file_count: u64, size: u64) -> Work {
        Work { file_count, size, read_file_count: file_count, read_bytes: size }
    }

    /// Returns the cost of the work, expressed in bytes.
    pub(crate) fn cost(&self) -> u128 {
        /// The cost of a file that is read, besides that of its bytes.
        const READ_FILE_COST: u128 = 16 * 1024;
        /// The cost of a file that is not read.
        const FILE_COST: u128 = 512;
        u128::from(self.read_bytes)
            + u128::from(self.read_file_count) * READ_FILE_COST
            + u128::from(self.file_count) * FILE_COST
    }
}

/// The sum of the work that threads have done on files that all had to be read.
#[derive(Debug, Default)]
pub struct WorkSum {
    file_count: AtomicU64,
    size: AtomicU64,
}

impl WorkSum {
    /// Adds `file_count` files of `size` bytes in total. Returns the new sum.
    pub fn add(&self, file_count: u64, size: u64) -> Work {
        Work::of_files(
            self.file_count.fetch_add(file_count, Relaxed) + file_count,
            self.size.fetch_add(size, Relaxed) + size,
        )
    }
}
