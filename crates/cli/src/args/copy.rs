//! The arguments of the commands that save snapshots again: in another repository, or without some
//! of their entries.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use cutpoint_terminal::Threads;

use super::common::SftpArgs;
use super::{Global, RestArgs, S3Args, Secrets, Selection};

/// Copy snapshots from another repository
///
/// Copies the snapshots that this repository lacks, oldest first, with all metadata, host, times,
/// tags and description. The repositories may differ in keys, encryption, cut, compression and
/// place. Data that this repository has is not stored again. After an interruption, the same
/// command continues; run again later, it copies only new snapshots. Forgotten snapshots are not
/// copied, and those of interrupted runs only if their IDs are given. Holds are not copied.
///
/// A copy that was forgotten or rewritten here does not come back, unless --again is given. Once
/// `cutpoint prune` has removed a forgotten copy, nothing is known of it: if this repository keeps
/// snapshots for a shorter time than the other one, use --only-newer.
///
/// A file that cannot be read, because the other repository is damaged, is reported, and the rest
/// of the snapshot is copied. The exit code is 1 then, and the next copy tries again. If a check has
/// found data of a copy damaged here, the copy is made again, and reads what is lost.
///
/// A copy has an ID of its own, but the ID of the original names it, too.
///
/// If this repository was created with `cutpoint init --like`, chunks are copied as they are, and
/// those that it has are not read from the other one.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint copy --from /mnt/disk/backup
      Copies all snapshots; asks for both passphrases.
  cutpoint copy --from s3://bucket/backup --host web1 \\
    --from-key-file web.key --key-file backup.key
  cutpoint copy --from /mnt/old 5f3a91c0 --dry-run
  cutpoint copy --from /mnt/disk/backup --only-newer
      Then, `cutpoint forget` and `prune` may be stricter here.")]
pub(crate) struct Copy {
    /// Copy these snapshots only
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<OsString>,
    /// Copy from the repository at LOCATION
    #[arg(long, value_name = "LOCATION",
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) from: PathBuf,
    /// Open the repository of --from with this key file or recovery kit
    ///
    /// Without any of these options, the passphrase comes from the variable
    /// CUTPOINT_FROM_PASSPHRASE, else from the terminal.
    #[arg(long, value_name = "FILE", group = "from_secret")]
    pub(crate) from_key_file: Option<PathBuf>,
    /// Open the repository of --from with the passphrase in FILE
    #[arg(long, value_name = "FILE", group = "from_secret")]
    pub(crate) from_passphrase_file: Option<PathBuf>,
    /// Run COMMAND with `sh -c` and use its output as the passphrase of --from
    #[arg(long, value_name = "COMMAND", group = "from_secret")]
    pub(crate) from_passphrase_command: Option<OsString>,
    /// Use the S3 server at URL for --from, as --s3-endpoint does for --repo
    ///
    /// Requests to both servers are signed with the same credentials. The secret key is not sent,
    /// but its ID and AWS_SESSION_TOKEN are.
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(crate) from_s3_endpoint: Option<String>,
    /// Set the region of the bucket of --from
    #[arg(long, value_name = "REGION", hide_short_help = true)]
    pub(crate) from_s3_region: Option<String>,
    /// The rules of the copies.
    #[command(flatten)]
    pub(crate) options: CopyOptions,
}

/// The options of the commands that save snapshots of another repository.
#[derive(Debug, ClapArgs)]
pub(crate) struct CopyOptions {
    /// Save again snapshots whose copies were forgotten or rewritten
    ///
    /// Copies that lack files which could not be read are made again without this option.
    #[arg(long)]
    pub(crate) again: bool,
    /// Leave out snapshots older than the newest copy
    ///
    /// The newest copy of the same host and paths counts. If a snapshot fails, newer ones of the
    /// same host and paths are not saved, because it would be left out from then on.
    #[arg(long)]
    pub(crate) only_newer: bool,
    /// Show what would be saved, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// The snapshots to copy.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The number of threads.
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Verify all compressed data before storing it
    #[arg(long)]
    pub(crate) verify_write: bool,
}

impl Copy {
    /// Returns the options that open the repository of `--from`.
    pub(crate) fn source(&self, global: &Global) -> Global {
        Global {
            repo: Some(self.from.clone()),
            output: global.output,
            utc: global.utc,
            no_cache: global.no_cache,
            accept_rollback: global.accept_rollback,
            ignore_newer: global.ignore_newer,
            load: global.load.clone(),
            secrets: Secrets {
                passphrase_file: self.from_passphrase_file.clone(),
                passphrase_command: self.from_passphrase_command.clone(),
                key_file: self.from_key_file.clone(),
                key_id: None,
                kdf_limit: global.secrets.kdf_limit,
                encryption: None,
                is_source: true,
            },
            s3: S3Args {
                s3_endpoint: self.from_s3_endpoint.clone(),
                s3_region: self.from_s3_region.clone(),
            },
            rest: RestArgs { is_source: true, ..global.rest.clone() },
            // One way to connect serves all servers, as `ssh` itself does.
            sftp: SftpArgs { ssh_command: global.sftp.ssh_command.clone() },
        }
    }
}

/// Remove files from snapshots
///
/// Saves snapshots again without the files and folders that the patterns match. No file is read,
/// and times, host and tags stay. The old snapshots stay as well, until --forget or `cutpoint
/// forget` removes them from the list. The files are gone for good after a prune has removed the
/// old snapshots.
///
/// Copies in other repositories keep the files: rewrite them there, too. A later `cutpoint copy`
/// does not bring the files back into a copy that was rewritten.
///
/// Without SNAPSHOT and options that select snapshots, all snapshots are examined. Those that have
/// nothing to remove are left as they are.
///
/// `cutpoint help patterns` explains the patterns.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint rewrite --exclude '*.iso' --dry-run
  cutpoint rewrite --exclude /home/me/Downloads/ --forget
      Then `cutpoint prune` frees the space.
  cutpoint rewrite 5f3a91c0 --exclude secret.txt")]
pub(crate) struct Rewrite {
    /// Rewrite these snapshots only
    ///
    /// SNAPSHOT is an ID, `latest`, `latest~1` or a date (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<OsString>,
    /// Remove files and folders that match PATTERN; repeatable
    #[arg(long, value_name = "PATTERN", required = true)]
    pub(crate) exclude: Vec<String>,
    /// Forget the old snapshots
    ///
    /// `cutpoint forget --undo --last` brings them back, until a prune removes them.
    #[arg(long)]
    pub(crate) forget: bool,
    /// Show what would be removed, and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// The snapshots to rewrite.
    #[command(flatten)]
    pub(crate) selection: Selection,
}
