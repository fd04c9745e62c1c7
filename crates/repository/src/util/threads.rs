//! The number of threads of an operation.

use std::thread::available_parallelism;

/// The maximum number of threads of an operation. More threads need more memory, and do not make an
/// operation faster.
const THREAD_COUNT_MAX: usize = 1024;

/// Returns the number of threads for a request of `wanted`, in which 0 stands for the number of
/// processors: at least 1, and at most 1024.
pub fn thread_count(wanted: usize) -> usize {
    let count = match wanted {
        0 => available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    };
    count.min(THREAD_COUNT_MAX)
}
