//! The values that all attempts of a backup share.

use std::sync::Arc;

use cutpoint_chunking::{Chunker, KeyMaterial, Spec, SpecError};
use cutpoint_repository::{Index, MemoryUse, Repository};
use cutpoint_storage::{Error, Kind, Result};

use super::monitor::BackupMonitor;
use super::options::BackupOptions;

/// Number of workers for which a memory limit has to suffice besides the last regions of the run.
/// Below that, new chunks are not compared with those of the run. The number of workers that are
/// wanted does not count, because the stored bytes must not depend on it.
const RECENT_WORKERS_MIN: usize = 4;

/// The values that all attempts of a backup share.
pub(super) struct BackupContext<'a> {
    pub(super) repository: &'a Arc<Repository>,
    pub(super) options: &'a BackupOptions,
    pub(super) monitor: &'a dyn BackupMonitor,
    /// The cut specification of the repository.
    pub(super) cut: Spec,
    pub(super) chunker: Box<dyn Chunker>,
}

impl<'a> BackupContext<'a> {
    /// Creates the chunker of `repository`.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` if this version does not know the cut specification.
    pub(super) fn new(
        repository: &'a Arc<Repository>,
        options: &'a BackupOptions,
        monitor: &'a dyn BackupMonitor,
    ) -> Result<BackupContext<'a>> {
        let unsupported =
            |error| Error::new(Kind::Unsupported, "config", format!("cut specification: {error}"));
        let cut = repository.config().cut.parse().and_then(Spec::bounded).map_err(unsupported)?;
        let chunker = chunker(repository, &cut).map_err(unsupported)?;
        Ok(BackupContext { repository, options, monitor, cut, chunker })
    }

    /// Returns the number of workers of a run that has `index`, and `true` if new chunks are compared
    /// with those of the same run, for which the memory limit has to suffice.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the memory limit does not suffice for one worker.
    pub(super) fn threads(&self, index: &Index) -> Result<(usize, bool)> {
        let chunk_max = self.chunker.needed_size_max().unwrap_or(0) as u64;
        let memory = MemoryUse::backup(self.repository.part_sizes(chunk_max));
        let index_bytes = index.statistics().memory_bytes;
        let limit = self.repository.memory();
        let config = self.repository.config();
        let with_recent = memory.with_recent_regions();
        let count = limit.thread_count(RECENT_WORKERS_MIN, &with_recent, index_bytes);
        let compares = config.uses_delta_chunks()
            && config.burst().is_none()
            && count.is_ok_and(|count| count == RECENT_WORKERS_MIN);
        let memory = if compares { with_recent } else { memory };
        Ok((limit.thread_count(self.options.threads, &memory, index_bytes)?, compares))
    }
}

/// Creates the chunker of the repository, which is keyed if the repository has a secret for it.
fn chunker(repository: &Repository, cut: &Spec) -> Result<Box<dyn Chunker>, SpecError> {
    if repository.config().cut_is_keyed {
        let material = repository.keys().cut_material::<{ KeyMaterial::SIZE }>();
        cut.keyed_chunker(&KeyMaterial::new(material))
    } else {
        Ok(cut.chunker())
    }
}
