//! The arguments of `restore`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_backup::restore::Overwrite;
use cutpoint_terminal::Threads;

use super::Selection;

/// Restore files from a snapshot
///
/// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`). SNAPSHOT:PATH
/// restores the content of the folder PATH directly into TARGET. TARGET gets the permissions, times and other
/// metadata of PATH, unless TARGET already existed and nothing may be overwritten, or only some
/// paths are restored. Nothing outside of TARGET is ever written.
///
/// If PATH is a file, it is restored as by `cp`: into TARGET if that is an existing folder or ends
/// with a slash, and otherwise as the file TARGET.
///
/// An interrupted restore goes on when the same command is run again with --overwrite changed. What
/// it has written of a file above 8 MiB lies beside the place of the file, under a name such as
/// .cutpoint-restore-0123456789abcdef.partial, and is neither fetched nor written again.
///
/// A full disk ends the restore with exit code 14. A file that exceeds only the maximum file size
/// of the file system or of `ulimit -f` is reported; the other files are restored, and the exit
/// code is 1.
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "\
Examples:
  cutpoint restore latest --to /tmp/restored
  cutpoint restore latest:/home/me/a.txt --to ~/old.txt
  cutpoint restore latest --to restored --include '*.jpg'
  cutpoint restore latest:/srv --to /srv --delete \\
    --overwrite changed --dry-run
      Lists what it takes to go back to the snapshot.",
    before_long_help = "\
Examples:
  cutpoint restore latest --to /tmp/restored
      Restores everything.
  cutpoint restore latest:/home/me/photos --to ~/restored
      Restores the content of one folder.
  cutpoint restore latest:/home/me/a.txt --to ~/old.txt
      Restores one file, under another name.
  cutpoint restore 5f3a91c0 /etc/fstab /srv --to restored
      Restores some paths, below their folders.
  cutpoint restore 2026-11-20:./notes.txt --to old
      Restores a file of this folder as it was that day.
  cutpoint restore latest --to restored --include '*.jpg'
      Restores the files that match, below their folders.
  cutpoint restore latest --to restored --overwrite changed
      Continues a restore that was interrupted.
  cutpoint restore latest:/srv --to /srv --delete \\
    --overwrite changed --dry-run
      Lists what it takes to go back to the snapshot.
  cutpoint restore latest --to restored \\
    --map-owner user:alice=bob --map-owner group:100=staff
      Gives the files of alice to bob."
)]
pub(crate) struct Restore {
    /// Snapshot, or folder or file in it
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Restore only these paths, with everything below them
    ///
    /// After SNAPSHOT:PATH, they are below PATH.
    #[arg(value_name = "PATHS")]
    pub(crate) paths: Vec<PathBuf>,
    /// Write to this folder, and create it if it does not exist
    ///
    /// If a single file is restored, TARGET may also be the new name of that file.
    // The alias is the option of restic.
    #[arg(long, alias = "target", value_name = "TARGET")]
    pub(crate) to: PathBuf,
    /// Restore only what matches PATTERN; repeatable
    ///
    /// A folder that matches is restored with everything below it. Parents of what matches are
    /// created. `cutpoint help patterns` explains the patterns, which begin at the root of the
    /// snapshot, whatever part of it is restored.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out what matches PATTERN; repeatable
    ///
    /// A folder that matches is left out with everything below it, even if something there matches
    /// --include. A warning names each pattern that matches nothing.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Replace existing files
    #[arg(long, value_enum, default_value = "never", value_name = "RULE")]
    pub(crate) overwrite: OverwriteArg,
    /// Change existing files, instead of replacing them
    ///
    /// Only the blocks that differ are written. Until a file is complete, or if the restore is
    /// interrupted, the file is a mixture of old and new. A file with several names is replaced
    /// nevertheless. Needs --overwrite changed or replace.
    ///
    /// Without this option, a new file takes the place of the old one when it is complete. Bytes
    /// that a file above 8 MiB has at the same place are not fetched: they are shared with the old
    /// file on file systems that can do that (Btrfs, XFS), and copied on others.
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Delete what is not in the snapshot
    ///
    /// Deletes entries of TARGET that are not in the snapshot, below the folders that are restored
    /// completely, before anything is written. In folders above the sources of the snapshot, such as
    /// /home if /home/me was saved, everything stays. What --exclude matches stays, as does what --include
    /// does not match, and the folders of the repository and of the cache. Mount points are not
    /// entered, and symbolic links are not followed. Asks first; with --dry-run, only lists what
    /// would be deleted. Needs --overwrite changed or replace.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete without asking
    #[arg(long, short = 'y', requires = "delete")]
    pub(crate) yes: bool,
    /// List what would be done, and do nothing
    ///
    /// Standard output has a line for each change: `+` for a new entry, `M` for one that is
    /// replaced, `-` for one that is deleted. The totals follow. TARGET need not exist.
    #[arg(long, short = 'n', conflicts_with = "verify")]
    pub(crate) dry_run: bool,
    /// Read the restored files back, and compare them
    ///
    /// All files are compared with the snapshot, those that were left unchanged as well. Each
    /// difference is a problem.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Set owners by number instead of by name
    #[arg(long, conflicts_with = "no_owners")]
    pub(crate) numeric_owners: bool,
    /// Do not set owners; without root, they are never set
    #[arg(long)]
    pub(crate) no_owners: bool,
    /// Give files another owner or group; repeatable
    ///
    /// RULE is user:OLD=NEW or group:OLD=NEW. OLD is a name or number of the snapshot, NEW a name or
    /// number of this system. The first rule that matches counts; owners without a rule are set as
    /// usual.
    #[arg(long, value_name = "RULE", conflicts_with = "no_owners")]
    pub(crate) map_owner: Vec<String>,
    /// Leave out devices, pipes and sockets
    #[arg(long)]
    pub(crate) no_special: bool,
    /// Drop set-user-id and set-group-id bits, and capabilities of programs
    #[arg(long)]
    pub(crate) no_setuid: bool,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// The treatment of files that exist in the target of a restore.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverwriteArg {
    /// Keep the existing file, and report it as a problem
    Never,
    /// Replace the existing file unless size and time are those of the snapshot; set owner,
    /// permissions and extended attributes in any case
    Changed,
    /// Replace the existing file
    Replace,
}

impl From<OverwriteArg> for Overwrite {
    fn from(arg: OverwriteArg) -> Overwrite {
        match arg {
            OverwriteArg::Never => Overwrite::Never,
            OverwriteArg::Changed => Overwrite::Changed,
            OverwriteArg::Replace => Overwrite::Replace,
        }
    }
}
