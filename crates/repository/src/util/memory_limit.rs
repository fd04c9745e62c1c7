//! The maximum memory of an operation, which decides how many threads it gets.

use cutpoint_storage::{Error, Result};

use super::threads::thread_count;

const MIB: u64 = 1 << 20;
/// The maximum number of bytes that a copy holds ahead under a limit.
const AHEAD_BYTES_LIMITED: usize = 16 << 20;

/// The maximum memory of the operations on a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The maximum in bytes; `None` for no limit.
    bytes_max: Option<u64>,
}

/// The memory that an operation takes, without the index, which grows with the repository.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// The operation, with its article, for messages.
    operation: &'static str,
    /// The memory of an operation without threads: the program, caches, sorted lists, what is read
    /// ahead and what is being put.
    fixed_bytes: u64,
    /// The memory of each thread.
    thread_bytes: u64,
}

/// The sizes of a repository on which the memory of an operation depends, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PartSizes {
    /// The size of a region.
    pub region: u64,
    /// The size of a container.
    pub container: u64,
    /// The maximum size of a chunk.
    pub chunk_max: u64,
}

impl MemoryUse {
    /// A backup, a copy, an import or a rewrite. A thread has a batch and two regions, each as it is
    /// and encoded; open and waiting containers may be in memory.
    pub fn backup(sizes: PartSizes) -> MemoryUse {
        let batch = MIB.max(sizes.chunk_max.saturating_mul(2));
        MemoryUse {
            operation: "a backup",
            fixed_bytes: 96 * MIB + 5 * sizes.container + 3 * batch + 4 * sizes.region,
            thread_bytes: batch + 4 * sizes.region + 3 * MIB,
        }
    }

    /// Adds what a backup takes that compares chunks with those of the same run: the last regions,
    /// encoded, some of them decoded, and what finds chunks in them.
    #[must_use]
    pub fn with_recent_regions(self) -> MemoryUse {
        MemoryUse { fixed_bytes: self.fixed_bytes + 144 * MIB, ..self }
    }

    /// A restore. A thread decodes a region and writes a piece.
    pub fn restore(sizes: PartSizes) -> MemoryUse {
        MemoryUse {
            operation: "a restore",
            fixed_bytes: 160 * MIB,
            thread_bytes: 3 * sizes.region + sizes.chunk_max + 2 * MIB,
        }
    }

    /// A check. A thread has a container and its decoded regions.
    pub fn check(sizes: PartSizes) -> MemoryUse {
        MemoryUse {
            operation: "a check",
            fixed_bytes: 128 * MIB,
            thread_bytes: sizes.container + sizes.container / 4 + 3 * sizes.region,
        }
    }

    /// A prune or an optimization of a repository with this number of containers.
    pub fn prune(sizes: PartSizes, container_count: u64) -> MemoryUse {
        MemoryUse {
            operation: "a prune",
            fixed_bytes: 224 * MIB + 3 * sizes.container + container_count.saturating_mul(200),
            thread_bytes: 0,
        }
    }
}

impl MemoryLimit {
    /// Creates a limit of `bytes_max`.
    pub fn new(bytes_max: u64) -> MemoryLimit {
        MemoryLimit { bytes_max: Some(bytes_max) }
    }

    /// Returns `true` if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// Returns the maximum number of bytes that a copy holds ahead: `bytes_max` without a limit, and less
    /// with one, which [`MemoryUse::backup`] includes.
    pub fn ahead_bytes(&self, bytes_max: usize) -> usize {
        if self.is_limited() { bytes_max.min(AHEAD_BYTES_LIMITED) } else { bytes_max }
    }

    /// Returns the number of threads of an operation that takes `memory`, besides an index of
    /// `index_bytes`: as [`thread_count`] of `wanted`, but no more than the limit allows.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the limit does not allow a single thread.
    pub fn thread_count(
        &self,
        wanted: usize,
        memory: &MemoryUse,
        index_bytes: u64,
    ) -> Result<usize> {
        let wanted = thread_count(wanted);
        let Some(bytes_max) = self.bytes_max else { return Ok(wanted) };
        let fixed_bytes = memory.fixed_bytes.saturating_add(index_bytes);
        let min_bytes = fixed_bytes.saturating_add(memory.thread_bytes);
        if bytes_max < min_bytes {
            let mib = |bytes: u64| bytes.div_ceil(MIB);
            let (max, min, index) = (bytes_max / MIB, mib(min_bytes), mib(index_bytes));
            let message = format!(
                "{max} MiB do not suffice for {} in this repository (expected at least {min} MiB, \
                 {index} MiB of them for the index)",
                memory.operation
            );
            let error = Error::invalid("memory limit", message);
            return Err(error.with_remedy("give a larger --memory-max"));
        }
        let count_max = (bytes_max - fixed_bytes).checked_div(memory.thread_bytes);
        let count_max = count_max.and_then(|count| usize::try_from(count).ok());
        Ok(wanted.min(count_max.unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: PartSizes =
        PartSizes { region: 2 * MIB, container: 16 * MIB, chunk_max: 256 << 10 };

    #[test]
    fn limit_reduces_threads_and_refuses_less_than_one() {
        let memory = MemoryUse { operation: "a test", fixed_bytes: 10, thread_bytes: 7 };
        let none = MemoryLimit::default();
        assert_eq!(none.thread_count(50, &memory, u64::MAX).expect("no limit"), 50);
        let count = |max, index| MemoryLimit::new(max).thread_count(50, &memory, index);
        assert_eq!(count(10 + 3 * 7 + 6, 0).expect("enough"), 3);
        assert_eq!(count(10 + 3 * 7 + 6, 8).expect("enough"), 2, "the index takes a part");
        assert_eq!(count(1 << 40, 0).expect("enough"), 50, "no more than wanted");
        for (max, index) in [(16, 0), (30, 14), (30, u64::MAX)] {
            let error = count(max, index).expect_err("too little");
            assert!(error.to_string().contains("a test"), "{error}");
        }
        assert_eq!(none.ahead_bytes(64 << 20), 64 << 20);
        assert_eq!(MemoryLimit::new(1 << 40).ahead_bytes(64 << 20), 16 << 20);
        let prune = MemoryUse::prune(SIZES, 1000);
        assert_eq!(MemoryLimit::new(1 << 30).thread_count(4, &prune, 0).expect("enough"), 4);
    }

    #[test]
    fn refusal_names_the_minimum() {
        let error = MemoryLimit::new(100 * MIB)
            .thread_count(4, &MemoryUse::check(SIZES), 9 * MIB)
            .expect_err("too little");
        let expected = "memory limit: 100 MiB do not suffice for a check in this repository \
                        (expected at least 163 MiB, 9 MiB of them for the index)";
        assert_eq!(error.to_string(), expected);
        let enough = MemoryLimit::new(163 * MIB);
        assert_eq!(enough.thread_count(4, &MemoryUse::check(SIZES), 9 * MIB).expect("enough"), 1);
    }
}
