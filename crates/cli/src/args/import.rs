//! The arguments of `import`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};

use super::{CopyOptions, Global, S3Args};

/// A program whose repositories can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportTool {
    /// Borg 1
    Borg,
    /// Restic, or rustic
    Restic,
}

/// Import snapshots from a repository of restic or Borg
///
/// Saves the snapshots of the other program that this repository lacks, oldest first, with their
/// files, metadata, hosts, times and tags. Nothing is written to the other repository. Files and
/// folders that are equal in an earlier snapshot are not read again. After an interruption, the
/// same command continues; run again later, it imports only new snapshots.
///
/// Every command accepts the ID of the other program for an imported snapshot, too, and `cutpoint
/// snapshots` shows it. A snapshot that was forgotten or rewritten here does not come back, unless
/// --again is given.
///
/// For restic, the password comes from RESTIC_PASSWORD, RESTIC_PASSWORD_FILE or
/// RESTIC_PASSWORD_COMMAND, else from the terminal. REPO is a folder, or an address as of --repo:
/// s3://, sftp://, rest: or rclone:. The program restic is not needed.
///
/// For Borg, the passphrase comes from BORG_PASSPHRASE or BORG_PASSCOMMAND, else from the terminal,
/// and a key file from BORG_KEY_FILE or the folder in which Borg keeps it. REPO is a folder,
/// ssh://USER@HOST:PORT/PATH or USER@HOST:PATH. The program `borg` (1.1 or later) is needed where
/// the repository is; BORG_RSH and BORG_REMOTE_PATH name ssh and that program.
///
/// A file that cannot be read, because the other repository is damaged, is reported, and the rest
/// of the snapshot is imported. The exit code is 1 then.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint import restic /mnt/disk/restic --dry-run
      Shows the snapshots, and the number of bytes to read.
  cutpoint import restic /mnt/disk/restic
  cutpoint import restic sftp://me@nas/restic --host laptop
  cutpoint import restic s3://bucket/restic latest 5f3a91c0
  cutpoint import borg ssh://me@nas/./borg --dry-run")]
pub(crate) struct Import {
    /// The program of the other repository
    #[arg(value_name = "PROGRAM")]
    pub(crate) tool: ImportTool,
    /// The other repository
    #[arg(value_name = "REPO", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) from: PathBuf,
    /// Import these snapshots only
    ///
    /// SNAPSHOT is an ID of the other program, the name of an archive, `latest`, `latest~1` or a date
    /// (see `cutpoint help selection`).
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<OsString>,
    /// Use the S3 server at URL for REPO, as --s3-endpoint does for --repo
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(crate) from_s3_endpoint: Option<String>,
    /// Set the region of the bucket of REPO
    #[arg(long, value_name = "REGION", hide_short_help = true)]
    pub(crate) from_s3_region: Option<String>,
    /// The rules of the imports.
    #[command(flatten)]
    pub(crate) options: CopyOptions,
}

impl Import {
    /// Returns the options that open the storage of the other repository.
    #[cfg_attr(not(feature = "import"), expect(dead_code, reason = "only an import reads it"))]
    pub(crate) fn source(&self, global: &Global) -> Global {
        Global {
            repo: Some(self.from.clone()),
            s3: S3Args {
                s3_endpoint: self.from_s3_endpoint.clone(),
                s3_region: self.from_s3_region.clone(),
            },
            ..global.clone()
        }
    }
}
