//! Saves files and streams as snapshots in a repository, and restores them.
//!
//! [`backup()`] walks the sources, reads the files that have changed, stores the chunks that are
//! new, and commits a snapshot. [`restore()`] writes the tree of a snapshot into a folder. Both
//! report events to a monitor, and need a [`Repository`](cutpoint_repository::Repository) from
//! `cutpoint-repository`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cutpoint_backup::{BackupOptions, RestoreOptions, Source, WalkOptions, backup, restore};
//! use cutpoint_repository::{CipherSuite, InitOptions, Reader, Repository, Unlock, View};
//! use cutpoint_storage::{Memory, System};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = InitOptions { suite: CipherSuite::None, ..InitOptions::default() };
//! let storage = Arc::new(Memory::new());
//! let repository = Repository::init(storage, Arc::new(System), &Unlock::Nothing, &settings)?;
//! let repository = Arc::new(repository);
//!
//! let scratch = tempfile::tempdir()?;
//! let folder = scratch.path().canonicalize()?.join("documents");
//! std::fs::create_dir(&folder)?;
//! std::fs::write(folder.join("letter"), "Dear reader")?;
//!
//! // The monitor `()` ignores every event.
//! let source = Source::Files { paths: vec![folder.clone()], options: WalkOptions::default() };
//! let report = backup(&repository, source, &BackupOptions::default(), &())?;
//! let id = report.snapshot.ok_or("no snapshot")?;
//! assert_eq!(report.statistics.file_count, 1);
//!
//! let reader = Reader::open(repository.clone(), View::list(&repository)?)?;
//! let view = reader.view();
//! let snapshot = view.commits[&id].snapshot().ok_or("no snapshot")?;
//! let target = scratch.path().join("restored");
//! let report = restore(&reader, &snapshot.root, &target, &RestoreOptions::default(), &())?;
//! assert_eq!((report.written_files, report.failed_entries), (1, 0));
//! // The tree of a snapshot begins at the root of the file system.
//! let restored = target.join(folder.strip_prefix("/")?).join("letter");
//! assert_eq!(std::fs::read(restored)?, b"Dear reader");
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! * [`source`] walks the sources and reads them.
//! * [`save`] stores what is new and commits a snapshot.
//! * [`restore`](mod@restore) writes the tree of a snapshot into a folder.
//! * [`archive`] writes it as a tar or zip archive.
//! * [`browse`] answers the questions of a read-only file system that shows all snapshots.
//! * [`copy`](mod@copy) saves snapshots again: in another repository, or without some entries.
#![forbid(unsafe_code)]

pub mod archive;
pub mod browse;
pub mod copy;
mod platform;
pub mod restore;
pub mod save;
pub mod source;
mod tar_input;
mod trees;

pub use restore::{
    Overwrite, RestoreMonitor, RestoreOptions, RestoreReport, SnapshotReader, restore,
};
pub use save::{
    BackupMonitor, BackupOptions, BackupProgress, BackupReport, FileDecision, IgnoredProperties,
    Parent, ReadReason, Source, backup, dry_run,
};
pub use source::WalkOptions;
