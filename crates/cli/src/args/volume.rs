//! The arguments of `volume`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use cutpoint_terminal::units::parse_large_size;

use super::access::NewSecrets;
use super::volume_transfer::{VolumeChanged, VolumeImport};

/// Create, serve, snapshot and check virtual disks
///
/// A volume has virtual disks in a folder of its own, and is no repository. Equal blocks of all its disks
/// are stored once, and similar blocks as their differences. `cutpoint volume serve` offers the disks to
/// clients of the NBD protocol: the kernel (`nbd-client`), QEMU, `nbdfuse`, `nbdcopy`.
///
/// While a process serves the volume, most other commands ask it. `import`, `key`, `rollback` and the
/// deletion of a disk need a volume that is not served.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    before_help = "\
Examples:
  cutpoint volume create disk --size 20G
  cutpoint volume serve disk
  cutpoint volume snapshot disk main before-upgrade
  cutpoint volume clone disk main@before-upgrade test
  cutpoint volume list disk
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
    Import(VolumeImport),
    Changed(VolumeChanged),
    Serve(VolumeServe),
    Connect(VolumeConnect),
    List(VolumeList),
    Snapshot(VolumeSnapshot),
    Clone(VolumeClone),
    Rollback(VolumeRollback),
    Resize(VolumeResize),
    Delete(VolumeDelete),
    Stats(VolumeStats),
    Check(VolumeCheck),
    Key(VolumeKey),
}

/// Create a volume with a virtual disk, or a disk in a volume
///
/// The disk is all zeros, and takes no space until it is written. The size of a block stays as it is.
/// Smaller blocks find more that is equal, and their tables are larger: 82 to 132 bytes for each block
/// that is stored, and up to 4 of these in memory.
///
/// A new volume is encrypted with a passphrase, as a repository is; `--encryption none` leaves it in the
/// clear. If DIR has a volume, the command adds a disk to it.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume create disk --size 20G
  cutpoint volume create vms --size 1T --block-size 16k \\
    --mode exact --compression zstd
  cutpoint volume create vms --disk second --size 100G")]
pub(crate) struct VolumeCreate {
    /// Folder of the volume; must be empty, not exist, or have a volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Size of the disk
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) size: u64,
    /// Name of the disk
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) disk: String,
    /// Size of a block: 4k, 8k, 16k, 32k or 64k
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_large_size)]
    pub(crate) block_size: u64,
    /// Compare written blocks with stored ones in this way
    ///
    /// `off` stores every block by itself. `exact` stores equal blocks once. `burst` does, too, and
    /// stores a block that has its beginning or its end in common with a stored one as the difference
    /// to that. `burst:c_max=N` allows N differences to each beginning or end (default 255), and
    /// `burst:tau=T` sets the length of these: `1/N` of a block (default 1/8), or bytes. `burst-head`
    /// compares beginnings only; `burst-raw` and `burst-head-raw` compare 32 bytes without a hash.
    /// `delta` finds blocks that resemble the new one, and copies from up to four of them.
    #[arg(long, value_name = "MODE", default_value = "burst")]
    pub(crate) mode: String,
    /// Compress blocks: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "METHOD", default_value = "none")]
    pub(crate) compression: String,
    /// Compare a block with the stored one before it counts as a duplicate
    ///
    /// Without this, blocks with the same fingerprint (a keyed hash of 256 bits) count as equal. With
    /// it, each duplicate costs a read, and a stored block that is damaged is found and stored anew.
    #[arg(long, value_enum, value_name = "SWITCH", default_value = "off")]
    pub(crate) verify_duplicates: Switch,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// Offer the disks of a volume to NBD clients
///
/// The name of an export is that of a disk, or DISK@SNAPSHOT, which cannot be written; the empty name is
/// the disk `main`, or the only one.
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
  cutpoint volume serve disk --listen tcp:10809
  cutpoint volume serve disk --listen tcp:0.0.0.0:10809 \\
    --tls-certificates /etc/cutpoint/tls
  nbd-client -unix disk/nbd.socket /dev/nbd0
      Connects the kernel to the disk, as root, in another terminal.")]
pub(crate) struct VolumeServe {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Listen at ADDRESS: unix:PATH, tcp:PORT or tcp:IP:PORT [default: unix:DIR/nbd.socket]
    ///
    /// Only the user who runs the command can use a socket unix:PATH. Every user of this machine can
    /// use tcp:PORT, and no other machine can. An IP address of a network, such as tcp:0.0.0.0:10809,
    /// needs --tls-certificates. Port 0 is a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Demand TLS with the certificates in FOLDER: server-cert.pem, server-key.pem, ca-cert.pem
    ///
    /// Clients need a certificate that the authority of ca-cert.pem has signed.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Accept clients without a certificate
    ///
    /// Whoever reaches the port can then read and write all disks.
    #[arg(long, requires = "tls_certificates")]
    pub(crate) tls_any_client: bool,
    /// Compare blocks that are written from now on in this way
    ///
    /// MODE is that of `cutpoint volume create`. Stored blocks stay as they are.
    #[arg(long, value_name = "MODE", conflicts_with = "read_only")]
    pub(crate) mode: Option<String>,
    /// Compress blocks that are written from now on: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "METHOD", conflicts_with = "read_only")]
    pub(crate) compression: Option<String>,
    /// Read stored blocks before new ones count as duplicates
    #[arg(long, value_enum, value_name = "SWITCH", conflicts_with = "read_only")]
    pub(crate) verify_duplicates: Option<Switch>,
    /// Use up to SIZE of memory for changes and pages of the tables
    ///
    /// 2 bytes (exact) to 6 bytes (delta) for each stored block come to it. Less memory means more checkpoints and reads.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_large_size)]
    pub(crate) memory: u64,
    /// Refuse writes as a full disk does when all files take SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) limit: Option<u64>,
    /// Leave SIZE of the storage free, for trimming and cleaning
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = parse_large_size)]
    pub(crate) reserve: u64,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// Show the sizes of a volume, and what is saved
///
/// `ratio` is the size of all blocks that are not zeros, divided by what is stored for them, with
/// differences rounded up to 512 bytes; what disks and snapshots share counts once. `on disk` also counts
/// headers, tables, and space that is not freed yet.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume stats disk
  cutpoint volume stats disk --prometheus > disk.prom
  cutpoint volume stats disk --json")]
pub(crate) struct VolumeStats {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Print all counters in the text format of Prometheus, for a collector of text files
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
}

/// Read a volume, and name what is damaged
///
/// Reads every stored block and compares it with its fingerprint. Nothing is changed. The exit code is 1
/// if something is damaged.
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

/// Make a served disk a device of this machine
///
/// Connects the kernel's NBD client if there is one (`modprobe nbd`, `nbd-client`, as root), or else
/// `nbdfuse`, whose file becomes a loop device if root runs the command. Prints the path of the device or
/// file. Ctrl-C or SIGTERM disconnects it; unmount it before.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume connect disk
  cutpoint volume connect disk main@monday --read-only
  cutpoint volume connect disk --socket /run/disk.socket")]
pub(crate) struct VolumeConnect {
    /// Folder of the volume, which another process serves
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Disk, or DISK@SNAPSHOT [default: main, or the only one]
    #[arg(value_name = "DISK", default_value = "")]
    pub(crate) disk: String,
    /// Socket at which the disk is served [default: DIR/nbd.socket]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Make a device that cannot be written
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// List disks and snapshots
///
/// `of its own` is what was written to a disk since its last snapshot, or to a snapshot since the one
/// before.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume list disk
  cutpoint volume list disk --json")]
pub(crate) struct VolumeList {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Take a snapshot of a disk
///
/// Takes the same time for any size, and no space at first. A file system that is mounted is in the
/// state that a power cut would leave; `fsfreeze` or `sync` before brings it into a better one.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume snapshot disk main before-upgrade
  cutpoint volume snapshot disk main clean
      Better between `fsfreeze -f DIR` and `fsfreeze -u DIR`.")]
pub(crate) struct VolumeSnapshot {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Name of the disk
    #[arg(value_name = "DISK")]
    pub(crate) disk: String,
    /// Name of the new snapshot
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Create a disk with the contents of another one or of a snapshot
///
/// Takes the same time for any size, and no space at first.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume clone disk main@before-upgrade test
  cutpoint volume clone disk main copy")]
pub(crate) struct VolumeClone {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Disk, or DISK@SNAPSHOT
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Name of the new disk
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Give a disk the contents of one of its snapshots again
///
/// What was written since is lost, unless another snapshot has it. The volume must not be served.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume rollback disk main@before-upgrade")]
pub(crate) struct VolumeRollback {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Snapshot: DISK@SNAPSHOT
    #[arg(value_name = "DISK@SNAPSHOT")]
    pub(crate) snapshot: String,
}

/// Change the size of a disk
///
/// Clients see the new size when they connect again.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume resize disk main 40G")]
pub(crate) struct VolumeResize {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Name of the disk
    #[arg(value_name = "DISK")]
    pub(crate) disk: String,
    /// New size
    #[arg(value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) size: u64,
    /// Allow a smaller size; what lies behind it is lost
    #[arg(long)]
    pub(crate) shrink: bool,
}

/// Delete a snapshot, or a disk without snapshots
///
/// The space comes back while the volume is served. A disk can be deleted only while it is not served.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint volume delete disk main@before-upgrade
  cutpoint volume delete disk test")]
pub(crate) struct VolumeDelete {
    /// Folder of the volume
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Disk, or DISK@SNAPSHOT
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// List, add and remove the passphrases of an encrypted volume
///
/// The volume must not be served meanwhile.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    before_help = "\
Examples:
  cutpoint volume key list disk
  cutpoint volume key add disk --label laptop
  cutpoint volume key remove disk 1"
)]
pub(crate) struct VolumeKey {
    /// The command about passphrases.
    #[command(subcommand)]
    pub(crate) command: VolumeKeyCommand,
}

/// A command about passphrases. The documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeKeyCommand {
    /// List passphrases: number, time of creation, label
    #[command(before_help = "\
Examples:
  cutpoint volume key list disk")]
    List {
        /// Folder of the volume
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Add a passphrase
    ///
    /// Without options, asks for it.
    #[command(before_help = "\
Examples:
  cutpoint volume key add disk --label laptop")]
    Add {
        /// Folder of the volume
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The source of the new passphrase.
        #[command(flatten)]
        secrets: NewSecrets,
        /// Label the passphrase with TEXT in `cutpoint volume key list`
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
    },
    /// Remove a passphrase, but never the last one
    #[command(before_help = "\
Examples:
  cutpoint volume key remove disk 1")]
    Remove {
        /// Folder of the volume
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Number of the passphrase
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
}
