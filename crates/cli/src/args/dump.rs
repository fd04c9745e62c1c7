//! The arguments of `dump`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_backup::archive::ArchiveFormat;

use super::Selection;

/// Write a folder of a snapshot to standard output, as tar or zip
///
/// Paths in the archive start in the folder PATH, which is itself the member `./` of a tar archive.
/// If PATH is a file, it is the only member. `cutpoint cat` writes a file without an archive.
///
/// A tar archive keeps what a restore restores, except holes (written as zeros) and sockets:
/// owners, permissions, times in nanoseconds, hard links, devices, extended attributes and ACLs.
/// GNU tar extracts the last two with `--xattrs --xattrs-include='*' --acls`. A zip archive keeps
/// files, folders and symbolic links, their permissions and times.
///
/// The archive is valid even if something cannot be read. A damaged file is left out; one of more
/// than 4 MiB has zeros where it is damaged. Each is reported, and the exit code is 1.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint dump latest:/srv/shop > shop.tar
  cutpoint dump latest:/home/me/docs --format zip > docs.zip
  cutpoint dump latest~1:/etc | tar -x -C /tmp/etc
  cutpoint dump 2026-11-20:. --host web1 | ssh web1 tar -x")]
pub(crate) struct Dump {
    /// Snapshot, or folder or file in it
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Path of the folder or file in the snapshot
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Write an archive of this format
    #[arg(long, value_enum, default_value = "tar", value_name = "FORMAT")]
    pub(crate) format: FormatArg,
    /// Write the archive even to a terminal
    #[arg(long)]
    pub(crate) force: bool,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// The format of an archive.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    /// tar with PAX headers, not compressed
    Tar,
    /// zip, compressed
    Zip,
}

impl FormatArg {
    /// Returns the name of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FormatArg::Tar => "tar",
            FormatArg::Zip => "zip",
        }
    }
}

impl From<FormatArg> for ArchiveFormat {
    fn from(arg: FormatArg) -> ArchiveFormat {
        match arg {
            FormatArg::Tar => ArchiveFormat::Tar,
            FormatArg::Zip => ArchiveFormat::Zip,
        }
    }
}
