//! The arguments of `diff`.

use std::ffi::OsString;

use clap::Args as ClapArgs;

use super::Selection;

/// List the differences between two snapshots
///
/// Each line begins with a letter: `+` added, `-` removed, `M` content changed, `T` type changed,
/// `U` only metadata changed (with --metadata). A summary follows on standard error. Paths are those
/// of OLD. Contents are compared exactly, whatever the times of the files say; what both snapshots
/// share is not read.
///
/// A snapshot without PATH takes the path of the other one. OLD and NEW are IDs, `latest`, `latest~1`
/// or dates (see `cutpoint help selection`).
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
      Compares two folders, with permissions, owners and times.")]
pub(crate) struct Diff {
    /// Older snapshot, or folder or file in it
    #[arg(value_name = "OLD[:PATH]")]
    pub(crate) old: OsString,
    /// Newer snapshot, or folder or file in it
    #[arg(value_name = "NEW[:PATH]")]
    pub(crate) new: OsString,
    /// List changes of metadata as well
    ///
    /// Metadata is the permissions, the owner and group, the modification time and the extended
    /// attributes. Without this option, the summary only counts the entries with such changes.
    #[arg(long)]
    pub(crate) metadata: bool,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}
