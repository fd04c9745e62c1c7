//! Virtual disks that store equal blocks once and similar blocks by their differences.
//!
//! A [`Volume`] is a folder with a log and sorted files of tables, both of which are opened from a
//! checkpoint and the end of the log. `docs/volume-format.md` has the bytes and the rules of crashes,
//! `docs/volume.md` the use.
//!
//! Source: Peng, Wu, Zhang, Yao and Liu, "BURST: A Chunk-Based Data Deduplication System with
//! Burst-Encoded Fingerprint Matching", sections III and IV, with the corrections of
//! `docs/notes/burst.md`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cutpoint_volume::{
//!     Access, CreateOptions, Disk, FaultyFolder, Folder, Mode, OpenOptions, Volume,
//! };
//!
//! let folder: Arc<dyn Folder> = Arc::new(FaultyFolder::default());
//! Volume::create(&folder, &CreateOptions::new(1 << 20, 4096, Mode::default()))?;
//! let volume = Arc::new(Volume::open(folder, &OpenOptions::new(Access::Write))?);
//! let disk = Disk::open(&volume, "main")?;
//! disk.write(8192, &[7; 4096])?;
//! volume.snapshot("main", "first")?;
//! disk.write(8192, &[8; 4096])?;
//! let mut bytes = [0; 2];
//! Disk::open(&volume, "main@first")?.read(8191, &mut bytes)?;
//! assert_eq!(bytes, [0, 7]);
//! # Ok::<(), cutpoint_volume::Error>(())
//! ```

#![forbid(unsafe_code)]

mod cache;
mod codec;
mod core;
mod device;
mod error;
mod folder;
mod format;
mod key_slots;
mod keys;
mod log;
mod mode;
pub mod nbd;
mod reader;
mod rules;
mod spares;
mod tables;
mod tree;
mod volume;
mod zeros;

pub use device::Device;
pub use error::{Error, Kind, Result};
pub use folder::{Access, FaultyFolder, Folder, Kept, LocalFolder, Survival};
pub use key_slots::{KeySlot, Secret};
pub use mode::{Burst, Compression, Mode};
#[cfg(feature = "mutants")]
pub use rules::{Mutant, activate};
pub use tables::{Counters, TableBytes};
pub use volume::{
    CheckSummary, CreateOptions, DISK_NAME_DEFAULT, Disk, DiskInfo, Extent, Finding, NamedBlock,
    OpenOptions, SEGMENT_SIZE_DEFAULT, SnapshotInfo, Statistics, Volume,
};
