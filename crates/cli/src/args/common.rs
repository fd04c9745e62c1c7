//! The options common to all commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use cutpoint_repository::{CipherSuite, InitOptions, KdfLimits};
use cutpoint_terminal::report::Output;

use crate::key_id;
use crate::units::{number, parse_large_size, parse_rate};

/// The options of every command.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Use the repository at LOCATION: a folder, s3://BUCKET/PREFIX, azure://CONTAINER/PREFIX,
    /// gs://BUCKET/PREFIX, sftp://USER@HOST/PATH, rclone:REMOTE:PATH or rest:URL
    ///
    /// `cutpoint help s3`, `help clouds`, `help sftp` and `help rclone` describe these addresses.
    /// file:///FOLDER is a folder, too.
    // An empty CUTPOINT_REPO counts as unset, which the usual parser of paths does not let through.
    #[arg(long, short, global = true, env = "CUTPOINT_REPO", hide_env_values = true,
        value_name = "LOCATION", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) repo: Option<PathBuf>,
    /// The output.
    #[command(flatten)]
    pub(crate) output: Output,
    /// Use UTC instead of local time
    ///
    /// This applies to the times that are printed, and to the hours, days, weeks, months and years
    /// of `cutpoint forget`. With --json, all times are in UTC.
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Do not keep a copy of the index on this machine
    ///
    /// The index is then read anew by each command, into unnamed temporary files below TMPDIR,
    /// /var/tmp or /tmp, whichever is first on a disk. If none is, it is kept in memory: 13 bytes
    /// for each chunk.
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Accept a repository in an older state than this machine remembers
    ///
    /// The older state is remembered from then on. Use this option after restoring an older copy of
    /// the repository.
    #[arg(long, global = true)]
    pub(crate) accept_rollback: bool,
    /// Ignore objects that claim a newer key epoch or format
    ///
    /// These are objects of a key epoch or format that this key or program does not know. Nothing
    /// that they say is used. Use this option if such an object was planted.
    #[arg(long, global = true)]
    pub(crate) ignore_newer: bool,
    /// The load on the network and on the machine.
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The source of the secret.
    #[command(flatten)]
    pub(crate) secrets: Secrets,
    /// The address of an object storage.
    #[command(flatten)]
    pub(crate) s3: S3Args,
    /// The way to a server.
    #[command(flatten)]
    pub(crate) sftp: SftpArgs,
    /// The program behind remotes of rclone.
    #[command(flatten)]
    pub(crate) rest: RestArgs,
}

/// The load on the network and on the machine.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Send at most RATE bytes per second to the repository, such as 5MiB/s
    ///
    /// All connections of the command share the limit, which holds for folders, too. It counts the
    /// bytes of objects, and no headers. Each second keeps it, except that up to 0.1 s of it are
    /// saved during pauses. 0 is no limit.
    #[arg(long, global = true, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) limit_upload: Option<u64>,
    /// Receive at most RATE bytes per second from the repository
    ///
    /// As --limit-upload.
    #[arg(long, global = true, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) limit_download: Option<u64>,
    /// Keep a backup, restore, check or prune within SIZE of memory, such as 512MiB
    ///
    /// The command then uses fewer threads, or fails before it begins and says how much it needs at
    /// least: some 200 MiB, and 1.5 to 2.5 bytes for each chunk of the repository. Caches are part of
    /// that minimum and have fixed sizes, so that a larger SIZE adds threads only. The limit holds
    /// for copy, import, rewrite, repair data and optimize, too, for the default mode of estimate, and
    /// for no other command. The derivation of a key from a passphrase takes 64 MiB at the beginning.
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_large_size, hide_short_help = true)]
    pub(crate) memory_max: Option<u64>,
    /// Let other programs use processors and disks first
    ///
    /// The program then runs as with `nice -n 19` and `ionice -c idle`, and so do the commands that
    /// it starts.
    #[arg(long, global = true)]
    pub(crate) low_priority: bool,
}

/// The program behind remotes of rclone.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Rclone")]
pub(crate) struct RestArgs {
    /// Serve rclone: locations by COMMAND instead of `rclone`
    ///
    /// COMMAND is a word of a shell with its arguments, such as `rclone --config FILE --bwlimit
    /// 5M`. The arguments of `rclone serve restic` follow it.
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        env = "CUTPOINT_RCLONE_COMMAND",
        hide_env_values = true
    )]
    pub(crate) rclone_command: Option<String>,
    /// Set for a repository that is only read to make another one: that of `cutpoint copy --from`,
    /// or of `cutpoint init --like`. It has an account of its own.
    #[arg(skip)]
    #[cfg_attr(not(feature = "rest"), expect(dead_code, reason = "only a REST client reads it"))]
    pub(crate) is_source: bool,
}

/// The way to an SSH server.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "SFTP")]
pub(crate) struct SftpArgs {
    /// Connect to sftp:// locations by COMMAND instead of `ssh`
    ///
    /// COMMAND is a word of a shell with its arguments, such as `ssh -i FILE -J JUMPHOST`. The
    /// arguments of `ssh` follow it.
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        env = "CUTPOINT_SSH_COMMAND",
        hide_env_values = true
    )]
    pub(crate) ssh_command: Option<String>,
}

/// The address of an object storage. Credentials are never given on the command line, where other
/// users can read them.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "S3")]
pub(crate) struct S3Args {
    /// Use the S3 server at URL instead of AWS: https://HOST, or http://HOST without TLS
    ///
    /// Without this option, the address comes from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the
    /// profile.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,
    /// Set the region of the bucket
    ///
    /// Without this option, the region comes from AWS_REGION, AWS_DEFAULT_REGION or the profile,
    /// else it is us-east-1.
    #[arg(long, global = true, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,
}

/// The sources of secrets.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Secrets")]
pub(crate) struct Secrets {
    /// Read the passphrase from FILE, without a line break at its end
    #[arg(long, global = true, value_name = "FILE", group = "secret")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Run COMMAND with `sh -c` and use its output as the passphrase
    #[arg(long, global = true, value_name = "COMMAND", group = "secret")]
    pub(crate) passphrase_command: Option<OsString>,
    /// Use the key in FILE, a key file or a recovery kit
    ///
    /// `cutpoint init` creates the key file if it does not exist.
    #[arg(long, global = true, value_name = "FILE", group = "secret")]
    pub(crate) key_file: Option<PathBuf>,
    /// Try only the key with this ID: 32 digits, as printed by `cutpoint key list --json`
    ///
    /// Without this option, the key that last opened the repository is tried first; with a
    /// passphrase, at most 64 keys are tried.
    #[arg(long, global = true, value_name = "ID", value_parser = parse_key_id)]
    pub(crate) key_id: Option<[u8; 16]>,
    /// Accept keys with up to TIMES the usual cost of Argon2id
    ///
    /// The cost is memory and passes. New keys have the usual cost: 64 MiB and 3 passes.
    #[arg(long, global = true, value_name = "TIMES", default_value_t = KdfLimits::TIMES,
        value_parser = number(1..=64_u32))]
    pub(crate) kdf_limit: u32,
    /// Encrypt a new repository with this cipher [default: auto]
    ///
    /// If an existing repository has another encryption, the command fails. With `none`, the
    /// command asks for no secret.
    #[arg(long, global = true, value_enum, value_name = "CIPHER")]
    pub(crate) encryption: Option<Encryption>,
    /// Set for the repository that `cutpoint copy` reads.
    #[arg(skip)]
    pub(crate) is_source: bool,
}

fn parse_key_id(text: &str) -> Result<[u8; 16], String> {
    key_id::parse(&text.to_ascii_lowercase())
        .ok_or_else(|| format!("{text:?} is not the ID of a key (expected 32 hexadecimal digits)"))
}

/// The encryption of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encryption {
    /// The fastest cipher on this machine
    Auto,
    /// AES-256-GCM
    #[value(name = "aes256-gcm")]
    Aes256Gcm,
    /// ChaCha20-Poly1305
    #[value(name = "chacha20-poly1305")]
    ChaCha20Poly1305,
    /// No encryption: everyone with access to the repository can read it
    None,
}

impl Encryption {
    /// Returns the cipher suite.
    pub(crate) fn suite(self) -> CipherSuite {
        match self {
            Encryption::Auto => InitOptions::default().suite,
            Encryption::Aes256Gcm => CipherSuite::Aes256Gcm,
            Encryption::ChaCha20Poly1305 => CipherSuite::ChaCha20Poly1305,
            Encryption::None => CipherSuite::None,
        }
    }
}
