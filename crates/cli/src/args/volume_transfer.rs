//! The arguments of `volume import` and `volume changed`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_terminal::units::parse_large_size;

use super::Selection;

/// Create a virtual disk from an image
///
/// If DIR has a volume, the disk is added to it, with the size of its blocks and its mode; otherwise a
/// volume is created as by `cutpoint volume create`.
///
/// IMAGE is a raw image, a block device, or a qcow2 image. The disk gets its size, rounded up to a
/// whole block, and its contents. Holes and zeros take no space. IMAGE must not be in use: shut the
/// machine down, or import a snapshot of the device.
///
/// A file is a qcow2 image if it begins like one, and raw if it does not begin like any other format.
/// Use `--format raw` for the raw disk of a machine that you do not trust, because its contents decide
/// how it begins. Snapshots within a qcow2 image are ignored. Encrypted images and external data files
/// are refused. `qemu-img convert -O raw` makes a raw image of any other format.
///
/// The image is not trusted: no file is read but those on the command line. If an image is based on
/// another one (its backing file), name that with --backing.
///
/// If the import fails or is interrupted, the disk is removed again.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume import disk vm.qcow2
  cutpoint volume import disk /dev/vg/vm --block-size 16k
  cutpoint volume import disk top.qcow2 --backing base.qcow2
  cutpoint volume import disk --from-snapshot latest:vm.img
      Brings a disk back from a repository.")]
pub(crate) struct VolumeImport {
    /// Folder of the volume; must be empty, not exist, or have a volume that is not served
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Image to import
    #[arg(value_name = "IMAGE", required_unless_present = "from_snapshot")]
    #[arg(conflicts_with = "from_snapshot")]
    pub(crate) image: Option<PathBuf>,
    /// Format of IMAGE [default: by its first bytes]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "from_snapshot")]
    pub(crate) format: Option<ImageFormat>,
    /// Backing file of IMAGE; repeatable, for the backing file of that
    ///
    /// The name in the image is not followed. The files are given in the order in which one is based
    /// on the next.
    #[arg(long, value_name = "FILE", conflicts_with = "from_snapshot")]
    pub(crate) backing: Vec<PathBuf>,
    /// Import a file of a snapshot in the repository instead
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`). PATH can be
    /// omitted if the snapshot has only one file, as that of a backup of a disk has.
    #[arg(long, value_name = "SNAPSHOT[:PATH]")]
    pub(crate) from_snapshot: Option<OsString>,
    /// Name of the disk
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) disk: String,
    /// Size of a block of a new volume: 4k, 8k, 16k, 32k or 64k
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_large_size)]
    pub(crate) block_size: u64,
    /// Compare written blocks of a new volume with stored ones in this way
    ///
    /// MODE is that of `cutpoint volume create`.
    #[arg(long, value_name = "MODE", default_value = "burst")]
    pub(crate) mode: String,
    /// Compress blocks of a new volume: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "METHOD", default_value = "none")]
    pub(crate) compression: String,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Print the parts of a disk that have changed since a snapshot
///
/// One line for each part: offset and length in bytes, as `cutpoint backup --changed-blocks` reads them. TO is a
/// disk or a later snapshot of it; FROM is an earlier snapshot. If TO does not come from FROM, the command
/// fails with exit code 2, and everything must be read.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume changed disk main@one main@two > map
  cutpoint volume connect disk main@two --read-only
      Prints the path of a device, such as /dev/loop0.
  cutpoint backup /dev/loop0 --changed-blocks map
      Saves what has changed since the backup of main@one.")]
pub(crate) struct VolumeChanged {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Earlier snapshot: DISK@SNAPSHOT
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Disk, or later snapshot
    #[arg(value_name = "TO")]
    pub(crate) to: String,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ImageFormat {
    /// The bytes of the disk, in a file or a block device
    Raw,
    /// An image of QEMU, version 2 or 3
    Qcow2,
}
