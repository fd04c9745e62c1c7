//! The file system as a source: its tree, the bytes of its files, their attributes.
//!
//! [`Walk`] finds everything below the sources, in the order of the trees of a snapshot.
//! [`open_file`] opens a file for reading, and [`xattrs`] reads extended attributes.
//! [`FileSystems`] describes how far the times of files can be trusted. `Helpers` are threads that ask
//! the file system ahead of a walk (`names_ahead`) and of the reading of files.
//!
//! Every system call names one component below an open folder and follows no symbolic link.
//! Therefore neither the length of a path nor a concurrent change of the folders can lead a call
//! astray.

mod devices;
mod entry_builder;
mod exclusion;
pub(crate) mod folder;
mod helpers;
mod ignore_files;
mod mounts;
mod names;
mod names_ahead;
mod owners;
mod path_pattern;
mod pattern_set;
mod read;
mod sources;
mod walk;
mod walk_options;
mod walk_step;
pub mod xattrs;

use cutpoint_repository::{EntryKind, Time};
use rustix::fs::{FileType, Stat};

pub use exclusion::{ExclusionRule, check_pattern, every_folder_hint, implied_root_name};
pub use folder::Handle;
pub(crate) use folder::born_before;
pub(crate) use helpers::{Answer, Helpers, Urgency};
pub use mounts::{FileSystem, FileSystems, Kernel};
pub(crate) use owners::OwnerIds;
pub use path_pattern::PathPattern;
pub(crate) use pattern_set::PatternSet;
pub(crate) use read::read_ahead;
pub use read::{FileExtent, FileExtents, SourceFile, open_file};
pub use sources::resolve;
pub use walk::Walk;
pub use walk_options::{FolderTag, WalkOptions};
pub use walk_step::WalkStep;

/// The time of the last change of the content.
pub(crate) fn mtime(stat: &Stat) -> Time {
    Time { seconds: stat.st_mtime, nanoseconds: nanoseconds(stat.st_mtime_nsec) }
}

/// The time of the last change of content or metadata.
pub(crate) fn ctime(stat: &Stat) -> Time {
    Time { seconds: stat.st_ctime, nanoseconds: nanoseconds(stat.st_ctime_nsec) }
}

/// Converts the nanoseconds of a time. Some file systems deliver values of a second or more, which
/// no format can store; such a value becomes 0.
fn nanoseconds(value: impl TryInto<u32>) -> u32 {
    value.try_into().ok().filter(|&value| value < 1_000_000_000).unwrap_or(0)
}

/// The size in bytes.
pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// The number of hard links.
#[allow(clippy::useless_conversion, reason = "the field has 32 bits on some systems")]
pub(crate) fn links(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}

/// The twelve permission bits.
#[allow(clippy::useless_conversion, reason = "the field has 16 bits on some systems")]
pub(crate) fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

/// The kind of entry; `None` if no entry can describe the file.
pub(crate) fn kind(stat: &Stat) -> Option<EntryKind> {
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Symlink,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::Unknown => return None,
    })
}

/// Packs the number of a device in the form that entries store.
pub(crate) fn device_number(device: &Stat) -> u64 {
    let device = device.st_rdev;
    u64::from(rustix::fs::major(device)) << 32 | u64::from(rustix::fs::minor(device))
}
