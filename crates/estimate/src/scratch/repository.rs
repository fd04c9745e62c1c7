//! A scratch repository, and the backups into it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cutpoint_backup::save::{BackupMonitor, BackupOptions, Parent, Source, backup};
use cutpoint_backup::source::WalkOptions;
use cutpoint_repository::{
    InitOptions, MemoryLimit, Reader, Repository, Secret, Statistics, TicketId, Unlock, View,
};
use cutpoint_storage::{Environment, Error, Kind, Result};

use super::storage::{ScratchStorage, StoredSizes};

/// The options of a scratch repository.
#[derive(Clone, Debug, Default)]
pub struct ScratchOptions {
    /// The folder in which the objects are kept, in a file without a name; `None` if only their sizes
    /// are kept, which is enough for one backup.
    pub folder: Option<PathBuf>,
    /// The folder for temporary files without names, in which the index and sorted lists are kept;
    /// `None` to keep them in memory.
    pub temporary_folder: Option<PathBuf>,
    /// The maximum memory of a backup.
    pub memory: MemoryLimit,
    /// The number of threads that fingerprint and compress; 0 stands for as many as the machine
    /// has.
    pub threads: usize,
    /// The exclusions from what is saved.
    pub walk: WalkOptions,
}

/// The result of a backup into a scratch repository.
#[derive(Clone, Copy, Debug)]
pub struct ScratchBackup {
    /// The content of the snapshot, and how much of it was new.
    pub statistics: Statistics,
    /// The size that the backup has added to the repository, in bytes. The first backup adds the size of
    /// the empty repository, too.
    pub added_bytes: u64,
    /// The sizes of the repository after the backup.
    pub stored: StoredSizes,
}

/// A repository with the settings of a new one, which exists as long as this value.
#[derive(Debug)]
pub struct ScratchRepository {
    storage: Arc<ScratchStorage>,
    repository: Arc<Repository>,
    options: ScratchOptions,
    previous: Option<TicketId>,
    sizes: StoredSizes,
}

impl ScratchRepository {
    /// Creates an empty repository.
    ///
    /// # Errors
    ///
    /// Returns a `Storage` or `Full` error if there can be no file in the folder, and any error of
    /// [`Repository::init`].
    pub fn create(
        options: &ScratchOptions,
        environment: Arc<dyn Environment>,
    ) -> Result<ScratchRepository> {
        let storage = match &options.folder {
            Some(folder) => {
                ScratchStorage::in_folder(folder).map_err(|error| no_file(folder, error))?
            }
            None => ScratchStorage::counting(),
        };
        // What is kept, temporary lists of fingerprints included, is of use only with random secrets that
        // are never stored. The cut-points are random as well, as those of any new repository.
        let mut key = Secret([0; 32]);
        environment.random(&mut key.0)?;
        let storage = Arc::new(storage);
        let (unlock, init) = (Unlock::KeyFile(key), InitOptions::default());
        let repository = Repository::init(storage.clone(), environment, &unlock, &init)?
            .with_memory_limit(options.memory);
        let repository = match &options.temporary_folder {
            Some(folder) => repository.with_temporary_folder(folder.clone()),
            None => repository,
        };
        Ok(ScratchRepository {
            storage,
            repository: Arc::new(repository),
            options: options.clone(),
            previous: None,
            sizes: StoredSizes::default(),
        })
    }

    /// Returns a reader of the backups; `None` if their data is not kept.
    ///
    /// # Errors
    ///
    /// Returns any error of [`View::list`] or [`Reader::open`].
    pub fn reader(&self) -> Result<Option<Reader>> {
        if self.options.folder.is_none() {
            return Ok(None);
        }
        let view = View::list(&self.repository)?;
        Reader::open(Arc::clone(&self.repository), view).map(Some)
    }

    /// Makes a backup of `paths`, and compares it with the one before. `as_path` is the absolute path that
    /// the only one of them gets in the snapshot, in place of its own.
    ///
    /// # Errors
    ///
    /// Returns any error of [`backup`], a `Full` error if the scratch repository does not fit into its
    /// folder, and a `Storage` error if it would have to be read and keeps only sizes.
    pub fn back_up(
        &mut self,
        paths: &[PathBuf],
        as_path: Option<&Path>,
        monitor: &dyn BackupMonitor,
    ) -> Result<ScratchBackup> {
        let source = Source::Files { paths: paths.to_vec(), options: self.options.walk.clone() };
        let options = BackupOptions {
            parent: self.previous.map_or(Parent::None, Parent::Snapshot),
            as_path: as_path.map(Path::to_path_buf),
            threads: self.options.threads,
            ..BackupOptions::default()
        };
        let report = backup(&self.repository, source, &options, monitor)?;
        self.storage.require_kept()?;
        self.previous = report.snapshot;
        let stored = self.storage.sizes();
        let added_bytes = stored.total().saturating_sub(self.sizes.total());
        self.sizes = stored;
        Ok(ScratchBackup { statistics: report.statistics, added_bytes, stored })
    }
}

/// Returns the error of a folder in which no file can be created.
fn no_file(folder: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
        _ => Kind::Storage,
    };
    let object = format!("temporary data in {}", folder.display());
    Error::new(kind, object, &error).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use cutpoint_storage::{Process, Storage, System};
    use cutpoint_testing::SplitMix64;

    use super::*;

    const HOUR_NS: u64 = 3600 * 1_000_000_000;

    /// The system, whose clock a test moves on.
    #[derive(Debug, Default)]
    struct Clock(AtomicU64);

    impl Environment for Clock {
        fn now_ns(&self) -> i64 {
            System.now_ns()
        }

        fn elapsed_ns(&self) -> u64 {
            System.elapsed_ns() + self.0.load(Ordering::SeqCst)
        }

        fn random(&self, bytes: &mut [u8]) -> Result<()> {
            System.random(bytes)
        }

        fn process(&self) -> Process {
            System.process()
        }

        fn may_be_alive(&self, _: &Process) -> bool {
            true
        }
    }

    /// Lets 22 hours pass in two steps, the second one once the ticket was renewed after the first.
    struct Ages {
        clock: Arc<Clock>,
        storage: Arc<ScratchStorage>,
        call_count: AtomicU64,
        step_count: AtomicU64,
    }

    impl BackupMonitor for Ages {
        fn cancelled(&self) -> bool {
            let tickets = self.storage.list("tickets").expect("it lists");
            let renewals = tickets.iter().filter(|(name, _)| name.contains('.')).count() as u64;
            let steps = self.step_count.load(Ordering::SeqCst);
            let is_begun = self.call_count.fetch_add(1, Ordering::SeqCst) > 4;
            if is_begun && steps < 2 && renewals == steps {
                self.clock.0.fetch_add(11 * HOUR_NS, Ordering::SeqCst);
                self.step_count.fetch_add(1, Ordering::SeqCst);
            }
            // The pause lets the data read so far be put.
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    }

    #[test]
    fn backup_of_more_than_a_day_needs_a_folder() {
        let source = tempfile::tempdir().expect("made");
        std::fs::write(source.path().join("file"), SplitMix64::bytes(1, 80 << 20))
            .expect("written");
        let scratch = tempfile::tempdir().expect("made");
        let back_up = |folder: Option<&Path>| {
            let folder = folder.map(Path::to_path_buf);
            let options = ScratchOptions { folder, threads: 2, ..ScratchOptions::default() };
            let clock = Arc::new(Clock::default());
            let mut repository =
                ScratchRepository::create(&options, clock.clone()).expect("created");
            let monitor = Ages {
                clock,
                storage: repository.storage.clone(),
                call_count: AtomicU64::new(0),
                step_count: AtomicU64::new(0),
            };
            repository.back_up(&[source.path().to_path_buf()], None, &monitor)
        };
        let error = back_up(None).expect_err("the checkpoint cannot be read");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("--scratch")), "{error}");
        let backup = back_up(Some(scratch.path())).expect("it continues from the checkpoint");
        assert_eq!(backup.statistics.size, 80 << 20, "all of it");
        assert!(backup.stored.total() < 81 << 20, "nothing is stored twice: {backup:?}");
    }
}
