//! The arguments of the everyday commands: make a repository, save and list files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use cutpoint_repository::format::tree::check_name;
use cutpoint_terminal::{Exclusion, Threads};

use super::Settings;
use crate::defaults::DEFAULT_CUT;

/// Create a repository
#[derive(Debug, ClapArgs)]
#[command(long_about = format!("\
Create a repository

Without options, the settings are --cut {DEFAULT_CUT} --region-size 2M --container-size 16M \
--compression-level 3 --delta on --parity 0%. `cutpoint config` changes them later.

A bucket of an object storage must exist. The command tests whether the storage creates objects \
atomically, and reports if it does not."),
before_help = "\
Examples:
  cutpoint init --repo /mnt/disk/backup
      Asks for a passphrase, and shows a recovery kit: print it and keep it away from the computer.
  cutpoint init --for-machine --recovery-kit kit.txt
      For backups that no one watches: creates a key file instead of asking for a passphrase, and \
writes the recovery kit to kit.txt.
  cutpoint init --encryption none
  cutpoint init --repo /mnt/team2 --like /mnt/team1
      A second repository with keys of its own, whose chunks are comparable with the first.
  cutpoint init -r s3://bucket/backup --s3-region eu-north-1")]
pub(crate) struct Init {
    /// The settings of the repository.
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Write the recovery kit to the new file FILE
    ///
    /// Without this option, the recovery kit is printed on the terminal, and the command waits for
    /// Enter.
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
    /// Create a key file for this machine instead of asking for a passphrase
    ///
    /// The file is ~/.config/cutpoint/machine.key (in XDG_CONFIG_HOME), readable by its owner alone.
    /// If it exists, its key is used. Keep a copy of it, or the recovery kit, away from the machine:
    /// without one of them, nothing can be restored once the machine is lost.
    #[arg(long)]
    pub(crate) for_machine: bool,
    /// Share the repository with the group of the folder
    ///
    /// All members of the group may use the repository (mode 2770). Without this option, only its
    /// owner may (mode 0700). Files below a folder of the repository get the group and permissions
    /// of that folder.
    #[arg(long)]
    pub(crate) shared: bool,
    /// Cut and fingerprint data as the repository REPO does
    ///
    /// The new repository gets REPO's settings and the secret from which REPO derives cut-points
    /// and fingerprints, so that equal chunks can be recognized across both. Encryption keys and
    /// passphrases are its own. Both repositories are encrypted, or neither is.
    #[arg(long, value_name = "REPO", conflicts_with_all = ["cut", "mode"])]
    pub(crate) like: Option<PathBuf>,
    /// Open the repository of --like with this key file or recovery kit
    ///
    /// Without this option and --like-passphrase-file, the passphrase of REPO is asked for.
    #[arg(long, value_name = "FILE", requires = "like", hide_short_help = true)]
    pub(crate) like_key_file: Option<PathBuf>,
    /// Open the repository of --like with the passphrase in FILE
    #[arg(
        long,
        value_name = "FILE",
        requires = "like",
        conflicts_with = "like_key_file",
        hide_short_help = true
    )]
    pub(crate) like_passphrase_file: Option<PathBuf>,
}

/// Save files, folders or a stream as a snapshot
///
/// A file is not read again if its size, times and inode are those of the previous snapshot. A file
/// that cannot be read, or that changes while it is read, is reported, and the exit code is 1;
/// everything else is saved. The same holds for a PATH that does not exist or cannot be opened:
/// `cutpoint snapshots` shows such a snapshot as incomplete, and the next backup compares that PATH
/// with the last snapshot that has it.
///
/// A block device, or a link to one, that is named as a PATH is saved as a file with its content:
/// `/dev/sda1`, `/dev/vg/home`. The whole device is read each time. It should not be in use: save a
/// snapshot of a mounted LVM volume. Devices inside folders are saved as devices, without content.
///
/// `cutpoint help patterns` explains the patterns of --exclude and --exclude-file.
///
/// -v prints each file that is read, with the reason: `new`, or what differs from the previous
/// snapshot (`type`, `size`, `mtime`, `ctime`, `inode`, `file system`), or `too fresh`, `weak times`
/// or `forced` (see --force-read), or what is wrong with the previous version (`damaged`,
/// `incomplete`). It also names devices, pipes and sockets. -vv prints all files, and the values that
/// differ. -q prints only the ID of the snapshot.
///
/// Ctrl-C and SIGTERM end a backup: data in progress is stored and published within 30 seconds, and
/// the next run uses it. A second signal ends the program at once.
#[derive(Debug, ClapArgs)]
#[command(
    before_help = "\
Examples:
  cutpoint backup ~ --exclude-caches --exclude '*.iso'
  cutpoint backup ~ --dry-run -v
      Lists all files, and measures how much is new.
  cutpoint backup /etc /home --init --key-file /etc/cut.key
      For a script: creates the repository if there is none.
  cutpoint backup --stdin-filename shop.sql \\
    --stdin-from-command -- pg_dump shop
      Saves the output of a command.",
    before_long_help = "\
Examples:
  cutpoint backup ~ --exclude-caches --exclude '*.iso'
  cutpoint backup ~ --dry-run -v
      Lists all files with the reasons for reading them, and measures how much is new.
  cutpoint backup /etc /home --init --key-file /etc/cut.key
      For a script: creates the repository if there is none.
  cutpoint backup --stdin-filename shop.sql \\
    --stdin-from-command -- pg_dump shop
      Saves the output of a command, which is run without a shell. If the command fails, no \
snapshot is made.
  cutpoint backup --stdin-filename shop.gz \\
    --stdin-from-command -- \\
    bash -o pipefail -c 'pg_dump shop | gzip --rsyncable'
      Saves the output of a pipe. Without pipefail, a failure of the first program is not detected.
  cutpoint backup /dev/vg/home-snapshot --as-path /home.img
      Saves the content of an LVM volume.
  rbd diff --from-snap mon pool/vm@tue --format json | \\
    cutpoint backup /dev/rbd0 --changed-blocks -
      Reads only what has changed since the last backup.
  cutpoint backup /mnt/snapshot/home --as-path /home
      Saves a mounted snapshot of a file system under its usual path.
  tar -c . | cutpoint backup --stdin --stdin-filename a.tar
      Saves standard input as one file. A failure of tar is not detected: its output so far \
becomes a snapshot.
  cutpoint backup --stdin-tar --as-path /srv \\
    --stdin-from-command -- ssh web1 tar -C /srv -c .
      Saves the members of an archive as folders and files.
  find . -newer stamp -print0 | \\
    cutpoint backup --files-from0 -
      Saves the files that another program selects."
)]
pub(crate) struct Backup {
    /// Files and folders to save; or the command to run, with its arguments (--stdin-from-command)
    #[arg(value_name = "PATH", conflicts_with = "stdin")]
    #[arg(required_unless_present_any = ["stream", "stdin_tar", "files_from", "files_from0"])]
    pub(crate) paths: Vec<PathBuf>,
    /// Save the paths listed in FILE, too; repeatable
    ///
    /// Each line is a path; empty lines and lines that begin with # are skipped. Relative paths
    /// start in the current folder. `-` is standard input. A folder is saved with everything in it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stream", "stdin_tar"])]
    pub(crate) files_from: Vec<PathBuf>,
    /// Save the paths listed in FILE, each ended by a zero byte, too
    ///
    /// For lists that programs write, such as `find -print0`: a path can have any bytes.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["stream", "stdin_tar"],
        hide_short_help = true
    )]
    pub(crate) files_from0: Vec<PathBuf>,
    /// Create the repository if there is none
    #[arg(long)]
    pub(crate) init: bool,
    /// Write a new repository's recovery kit to FILE
    ///
    /// FILE must not exist. It is written only if the command creates the repository.
    #[arg(long, value_name = "FILE")]
    pub(crate) recovery_kit: Option<PathBuf>,
    /// Save standard input as one file
    ///
    /// A failure of the program that writes to standard input is not detected; prefer
    /// --stdin-from-command.
    #[arg(long, group = "stream")]
    pub(crate) stdin: bool,
    /// Save the output of a command, given after `--`
    ///
    /// The output is saved as one file. No snapshot is made if the command fails.
    #[arg(long, group = "stream")]
    pub(crate) stdin_from_command: bool,
    /// Save the members of a tar archive from standard input
    ///
    /// With --stdin-from-command, the archive is the output of the command. Folders, files, links,
    /// devices, owners, times, extended attributes, ACLs and holes are saved as a backup of the files
    /// would save them, for ustar, PAX and GNU archives that are not compressed. Every member is
    /// read; equal data is stored once. Of several members with the same name, the last one counts.
    /// A leading `/` is removed; names with `..`, and names below a link or a file, are reported and
    /// not saved. A truncated archive makes no snapshot. The snapshot has the source `/`, or the path
    /// of --as-path, so that it is told apart from others. Entries are sorted in temporary files. The
    /// archive must end within 20 hours.
    #[arg(long, conflicts_with = "stdin")]
    pub(crate) stdin_tar: bool,
    /// Name the file of a saved stream
    #[arg(
        long,
        value_name = "NAME",
        requires = "stream",
        conflicts_with = "stdin_tar",
        default_value = "stdin"
    )]
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_file_name))]
    pub(crate) stdin_filename: OsString,
    /// Save the PATH under another path in the snapshot
    ///
    /// For a copy or a file-system snapshot that is mounted elsewhere. There must be one PATH. The
    /// backup compares with the newest snapshot of the path AS. Patterns match the paths on the
    /// disk. With --stdin-tar, AS is the folder of the archive's members.
    #[arg(long, value_name = "AS", conflicts_with = "stdin")]
    pub(crate) as_path: Option<PathBuf>,
    /// Read only the changed blocks of a device or image, listed in FILE
    ///
    /// Each line of FILE is an offset and a length in bytes, decimal or as 0x...; text behind `#` is
    /// skipped. The JSON of `rbd diff --format json` and of `nbdinfo --json
    /// --map=qemu:dirty-bitmap:NAME` is understood as well. `-` is standard input. Everything else
    /// is taken over from the previous snapshot of the same PATH, or the one of --parent, which must
    /// have the same size. FILE must list all changes since the device was in the state of that
    /// snapshot: a change that it does not list is not saved, and is missing in all later snapshots
    /// until the device is read completely. One in 64 chunks that are taken over is read and
    /// compared; a difference fails the backup. Back up without this option from time to time.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["stdin", "stdin_tar", "force_read", "files_from", "files_from0"],
        hide_short_help = true
    )]
    pub(crate) changed_blocks: Option<PathBuf>,
    /// Add a tag to the snapshot; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Add a description to the snapshot
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// Set the host of the snapshot [default: host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Compare with this snapshot, or with `none`
    ///
    /// Without this option, the backup compares with the newest snapshot of the same host and
    /// paths, or else with the newest one of the host that has any of the paths.
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) parent: Option<String>,
    /// Read every file, even if it seems unchanged
    ///
    /// Without this option, a file is taken from the previous snapshot if its size, times, inode
    /// and file system are the same, and if its times were at least a minute old when that backup
    /// began (a day on servers; longer where pages stay in memory longer). Where times prove
    /// nothing (FUSE, FAT, images), every file is read. On tmpfs, no time shows stores through a
    /// shared mapping: use this option there.
    #[arg(long)]
    pub(crate) force_read: bool,
    /// Do not compare inode numbers with the previous snapshot
    ///
    /// For file systems that number files anew at each mount, such as sshfs. The size and the times
    /// of a file then decide.
    #[arg(long, hide_short_help = true)]
    pub(crate) ignore_inode: bool,
    /// Compare only mtime, not ctime, with the previous snapshot
    ///
    /// For file systems and programs that change ctime without a change of the content. A change
    /// after which a program has set the old modification time again is then missed until the next
    /// backup with --force-read. With this option, files are also taken over from file systems
    /// whose times prove nothing, if they were modified at least a day before the previous backup.
    #[arg(long, hide_short_help = true)]
    pub(crate) ignore_ctime: bool,
    /// Store nothing: measure what is new
    ///
    /// Files are read, cut and looked up as in a backup, so that the size of the new data is exact,
    /// before delta encoding and compression. The space that it would take in the repository is not
    /// measured. Nothing is written to the repository. With -v, every file is listed with the
    /// reason for reading it, or with `unchanged`. About 100 bytes of memory are needed for each new
    /// chunk: 1.6 GB for 1 TB of new data.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Make no snapshot if nothing has changed
    #[arg(long)]
    pub(crate) skip_if_unchanged: bool,
    /// The files that are excluded.
    #[command(flatten)]
    pub(crate) exclusion: Exclusion,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Verify all compressed data before storing it
    ///
    /// Everything that was compressed is decoded and compared. Without this option, only a part of
    /// it is.
    #[arg(long)]
    pub(crate) verify_write: bool,
}

/// List snapshots
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint snapshots
  cutpoint snapshots --tag database --json | jq .id
  cutpoint snapshots --forgotten
      Lists what `cutpoint forget --undo` can still bring back.")]
pub(crate) struct Snapshots {
    /// List forgotten snapshots instead
    ///
    /// These are the forgotten snapshots that no prune has removed yet.
    #[arg(long)]
    pub(crate) forgotten: bool,
    /// List only snapshots of interrupted runs
    ///
    /// A backup that takes longer than 20 hours makes such a snapshot before it continues. Files are
    /// missing in it, and its last file may be cut short.
    #[arg(long)]
    pub(crate) partial: bool,
    /// The snapshots to list.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// The snapshots that count: those that are listed, or among which `latest` and dates are searched.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Selection {
    /// Select only snapshots of this host
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Select only snapshots with this tag; repeatable
    ///
    /// If the option is repeated, a snapshot must have all of the tags.
    #[arg(long = "tag", id = "only_tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Select only snapshots of this path; repeatable
    ///
    /// PATH is a source of the backup, a file or folder that was given to `cutpoint backup`. If the
    /// option is repeated, a snapshot must have all of the paths.
    #[arg(long = "path", id = "only_path", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Set if a snapshot must have no other paths, which a profile asks for.
    #[arg(skip)]
    pub(crate) has_all_paths: bool,
}

/// List the contents of a snapshot
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint ls latest
      Lists the root of the snapshot.
  cutpoint ls latest:/home/me -l
      Adds permissions, owners, sizes and times.
  cutpoint ls latest:/home/me --tree
      Shows everything below a folder, with total sizes.
  cutpoint ls latest:/home/me -R0 | xargs -0 -n 1 echo
      Passes names of any bytes to another program.
  cutpoint ls latest~1:. --host laptop
      Lists this folder in the snapshot before the newest.
  cutpoint ls 5f3a91c0 -R --json
      Lists everything, for a program.")]
pub(crate) struct Ls {
    /// Snapshot, or folder or file in it
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Print permissions, owners, sizes and times
    #[arg(long, short)]
    pub(crate) long: bool,
    /// List subfolders recursively
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    /// Print an indented tree with sizes
    ///
    /// The size of a folder is the total size of the files below it, in which a file with several
    /// names counts with each of them.
    #[arg(long, conflicts_with_all = ["long", "recursive"])]
    pub(crate) tree: bool,
    /// End each name with a zero byte, and escape nothing
    ///
    /// For `xargs -0` and other programs. Otherwise each name is on a line, and control characters,
    /// invisible characters and invalid UTF-8 are escaped as in C.
    #[arg(long, short = '0', conflicts_with_all = ["long", "tree"])]
    pub(crate) null: bool,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Write a file of a snapshot to standard output
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint cat latest:/etc/fstab
  cutpoint cat 5f3a91c0 /home/me/disk.img > disk.img
  cutpoint cat 2026-11-20T14:30:./notes.txt
      Prints a file of this folder as it was at that time.
  cutpoint cat latest:shop.sql --tag database | psql shop")]
pub(crate) struct Cat {
    /// Snapshot with the path of the file, or followed by PATH
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub(crate) snapshot: OsString,
    /// Path of the file in the snapshot
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// The snapshots among which `latest` and dates are searched.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Refuses names that a file cannot have.
fn parse_file_name(name: OsString) -> Result<OsString, String> {
    match check_name(name.as_bytes()) {
        Ok(()) => Ok(name),
        Err(_) => {
            Err(format!("{name:?} is not the name of a file (expected a form such as a.tar)"))
        }
    }
}
