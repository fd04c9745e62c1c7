//! Backup: from files or a stream to a snapshot.
//!
//! A [`backup`] makes attempts until one of them commits a snapshot. Each attempt begins a ticket,
//! chooses the previous versions to compare with, and runs the pipeline. A byte range of a file
//! goes through the stages of the pipeline in this order:
//!
//! 1. **Source** (`source_stage`): `finder` finds the file, and `comparison` its previous version.
//!    An unchanged file is taken over without being read. Others are opened, and read if they are
//!    small, by several threads (`files_ahead`). In order, `walk_saver` takes them, and `cutter`
//!    reads the bytes into a batch and cuts them into chunks; `changed_file` reads only what a map lists. `stream_saver` does the same for a stream, and
//!    `snapshot_saver` for a snapshot that is copied, and `tar_saver` for a tar archive.
//! 2. **Workers** (`worker_stage`): fingerprint the chunks of a batch. `bundle` joins small files
//!    into one chunk before.
//! 3. **Dedup** (`dedup_stage`): drops the chunks that the index knows, appends the new ones to a
//!    region, as deltas where that is smaller, and builds recipes and trees. `chunk_rebuilder` makes
//!    damaged chunks of older snapshots again.
//! 4. **Workers** again: compress the regions that are full.
//! 5. **Containers** (`container_stage`): seals the regions and appends them to a container.
//! 6. **Put** (`put_stage`): puts complete containers and index segments into the storage.
//!
//! Threads send batches and regions to each other through `channels`, and share `run_state`. The
//! end of a run, including its failures, belongs to `shutdown`.

mod as_path;
mod attempt;
mod backup;
mod base_segments;
mod batch;
mod batch_filler;
mod bundle;
mod changed_blocks;
mod changed_file;
mod channels;
mod chunk_rebuilder;
mod comparison;
mod container_stage;
mod context;
mod copy_ahead;
pub(crate) mod copy_steps;
mod cutter;
mod decision;
mod dedup_stage;
mod dry_run;
#[cfg(feature = "faults")]
pub mod faults;
mod files_ahead;
mod finder;
mod foreign;
pub(crate) mod foreign_plan;
mod in_order;
mod lookahead;
mod member_stage;
mod monitor;
mod moved_folders;
mod options;
mod parent;
mod pipeline;
mod previous_version;
mod put_stage;
mod report;
mod run_state;
mod shutdown;
mod snapshot_saver;
mod snapshot_source;
mod source;
mod source_counts;
pub(crate) mod source_reader;
mod source_run;
mod source_stage;
mod stream_saver;
mod tar_saver;
mod walk_saver;
mod worker_stage;

pub use backup::backup;
pub use changed_blocks::ChangedBlocks;
pub use decision::{FileDecision, ReadReason};
pub use dry_run::dry_run;
pub use foreign::{ForeignFolder, ForeignRepository};
pub use monitor::{BackupMonitor, BackupProgress};
pub use options::{BackupOptions, IgnoredProperties, Parent};
pub use report::BackupReport;
pub use snapshot_source::{CopyForm, SnapshotSource};
pub use source::Source;
pub use source_reader::SourceRepository;
