//! The arguments of `diff`.

use std::ffi::OsString;

use clap::Args as ClapArgs;
use cutpoint_terminal::Exclusion;

use super::Selection;

/// List the differences between two snapshots, or to the disk
///
/// Each line begins with a letter: `+` added, `-` removed, `M` content changed, `T` type changed,
/// `U` only metadata changed (with --metadata). A summary follows on standard error. Paths are those
/// of OLD. A snapshot is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
///
/// Two snapshots: contents are compared exactly, whatever the times of the files say; what both
/// snapshots share is not read. A snapshot without PATH takes the path of the other one.
///
/// A snapshot and the disk: NEW is a file or folder on the disk if it is `.` or `..`, or has a `/`
/// before any colon. Without PATH, OLD takes the path of NEW. A file with the size and the
/// modification time of the snapshot counts as unchanged, unless --force-read is given; another file
/// of this size is read and compared. Folders are searched as by `cutpoint backup`, and what
/// PATTERN excludes is not compared.
///
/// The exit code is 0 whether there are differences or not, and 1 if something could not be
/// compared.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint diff 5f3a91c0 latest
  cutpoint diff 5f3a91c0 latest:/home/me
      Compares one folder.
  cutpoint diff latest~1 latest --path ~/docs
      Shows what the last backup of a folder has changed.
  cutpoint diff latest:/srv/a latest:/srv/b --metadata
      Compares two folders, with permissions, owners and times.
  cutpoint diff latest ~/docs
      Lists what changed on the disk since the backup.
  cutpoint diff latest:/home/me /mnt/restored --force-read
      Compares a restored folder, byte for byte.")]
pub(crate) struct Diff {
    /// Older snapshot, or folder or file in it
    #[arg(value_name = "OLD[:PATH]")]
    pub(crate) old: OsString,
    /// Newer snapshot, or folder or file in it; or file or folder on the disk
    #[arg(value_name = "NEW[:PATH]")]
    pub(crate) new: OsString,
    /// List changes of metadata as well
    ///
    /// Metadata is the permissions, the owner and group, the modification time and the extended
    /// attributes. Without this option, the summary only counts the entries with such changes.
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Read every file on the disk, even if it seems unchanged
    #[arg(long)]
    pub(crate) force_read: bool,
    /// The files on the disk that are not compared.
    #[command(flatten)]
    pub(crate) exclusion: Exclusion,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}
