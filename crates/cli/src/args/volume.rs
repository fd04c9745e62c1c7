//! The arguments of `volume`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use cutpoint_terminal::units::parse_large_size;

/// Create, serve and check virtual disks
///
/// A volume is a virtual disk in a folder of its own, and no repository. Equal blocks are stored once,
/// and similar blocks as their differences. `cutpoint volume serve` offers the disk to clients of the
/// NBD protocol: the kernel (`nbd-client`), QEMU, `nbdfuse`, `nbdcopy`.
///
/// Volumes are not encrypted. Keep the folder on an encrypted disk if its contents are secret.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    before_help = "\
Examples:
  cutpoint volume create disk --size 20G
  cutpoint volume serve disk
  cutpoint volume stats disk
  cutpoint volume check disk"
)]
pub(crate) struct Volume {
    /// The command about volumes.
    #[command(subcommand)]
    pub(crate) command: VolumeCommand,
}

/// A command about volumes. The documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    Create(VolumeCreate),
    Serve(VolumeServe),
    Stats(VolumeStats),
    Check(VolumeCheck),
}

/// Create a virtual disk
///
/// The disk is all zeros, and takes no space until it is written. SIZE and the size of a block stay
/// as they are. Smaller blocks find more that is equal, and need more memory: about 300 bytes for each
/// block that is stored.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume create disk --size 20G
  cutpoint volume create vms --size 1T --block-size 16k \\
    --mode exact")]
pub(crate) struct VolumeCreate {
    /// Folder of the volume; must be empty or not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Size of the disk
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) size: u64,
    /// Size of a block: 4k, 8k, 16k, 32k or 64k
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_large_size)]
    pub(crate) block_size: u64,
    /// Compare written blocks with stored ones in this way
    ///
    /// `off` stores every block by itself. `exact` stores equal blocks once. `burst` does, too, and
    /// stores a block that has its beginning or its end in common with a stored one as the difference
    /// to that. `burst:c_max=N` allows N differences to each beginning or end (default 255), and
    /// `burst:tau=T` sets the length of these: `1/N` of a block (default 1/8), or bytes.
    #[arg(long, value_name = "MODE", default_value = "burst")]
    pub(crate) mode: String,
}

/// Offer a virtual disk to NBD clients
///
/// The command runs in the foreground. Ctrl-C or SIGTERM ends it, after the requests that have
/// arrived; what is on the disk is durable then. A client that flushes (fsync, sync, a file system
/// with barriers) has all that it wrote before the flush after a power cut as well.
///
/// Several clients may use the disk at once, and one may use several connections, but a file system
/// must be mounted by one of them only. A second `serve` of the same volume is refused.
///
/// A damaged block cannot be read (input/output error), and every other one can. `cutpoint volume
/// check` names damaged blocks.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume serve disk
  cutpoint volume serve disk --mode exact
  cutpoint volume serve disk --listen tcp:10809
  nbd-client -unix disk/nbd.socket /dev/nbd0
      Connects the kernel to the disk, as root, in another terminal.
  nbdcopy vm.img 'nbd+unix:///?socket=disk/nbd.socket'
      Copies an image to the disk.")]
pub(crate) struct VolumeServe {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Listen at ADDRESS: unix:PATH, or tcp:PORT of this machine [default: unix:DIR/nbd.socket]
    ///
    /// Only the user who runs the command can use a socket unix:PATH. Every user of this machine can
    /// use tcp:PORT, and no other machine can. tcp:0 takes a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Compare blocks that are written from now on in this way
    ///
    /// MODE is that of `cutpoint volume create`. Stored blocks stay as they are.
    #[arg(long, value_name = "MODE", conflicts_with = "read_only")]
    pub(crate) mode: Option<String>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// Show the size of a virtual disk, and what is saved
///
/// `ratio` is the size of all blocks that are not zeros, divided by what is stored for them, with
/// differences rounded up to 512 bytes. `on disk` also counts headers, tables, and space that is not
/// freed yet. The volume must not be served meanwhile.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume stats disk
  cutpoint volume stats disk --json")]
pub(crate) struct VolumeStats {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Read a virtual disk, and name what is damaged
///
/// Reads every stored block and compares it with its fingerprint. Nothing is changed. The volume must
/// not be served meanwhile. The exit code is 1 if something is damaged.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume check disk
  cutpoint volume check disk --json")]
pub(crate) struct VolumeCheck {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
