//! The arguments of the commands about access: keys, and storage locations.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// The examples of `doctor`, which has no arguments of its own.
pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  cutpoint doctor --repo /mnt/disk/backup
  cutpoint doctor --repo s3://bucket/backup \\
    --s3-endpoint https://s3.example.org
  cutpoint doctor --repo sftp://me@nas/backup
  cutpoint doctor --json | jq -c 'select(.trial)'";

/// List, add, remove or change keys
///
/// Removing a key does not lock out a person who knows its secret and has a copy of the key: that
/// person can still read existing data and, with access to the storage, new data, because it is
/// encrypted with the same keys as before. `cutpoint key rotate` begins a new epoch: new data is
/// encrypted with keys that only the kept secrets open. Existing data is not encrypted again.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    before_help = "\
Examples:
  cutpoint key list
  cutpoint key add --label laptop
      Asks for another passphrase.
  cutpoint key passwd
      Replaces the passphrase in use.
  cutpoint key remove 5f3a91c0"
)]
pub(crate) struct Key {
    /// The command about keys.
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// A command about keys. The documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List keys
    ///
    /// Shows the ID of each key, the kind of secret that opens it, its creation time and its label,
    /// and marks the key in use.
    #[command(before_help = "\
Examples:
  cutpoint key list
  cutpoint key list --json")]
    List,
    Add(KeyAdd),
    Remove(KeyRemove),
    /// Replace the key in use
    ///
    /// Adds and tests the new key, then removes the old one. Without options, asks for a
    /// passphrase.
    #[command(before_help = "\
Examples:
  cutpoint key passwd
  cutpoint key passwd --new-key-file /etc/cutpoint.key")]
    Passwd(NewSecrets),
    Rotate(KeyRotate),
}

/// The source of the secret of a new key.
#[derive(Debug, ClapArgs)]
pub(crate) struct NewSecrets {
    /// Read the new passphrase from FILE
    ///
    /// Without any of these options, the new passphrase comes from the variable
    /// CUTPOINT_NEW_PASSPHRASE, else from the terminal.
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    /// Run COMMAND with `sh -c` and use its output as the new passphrase
    #[arg(long, value_name = "COMMAND", group = "new")]
    pub(crate) new_passphrase_command: Option<OsString>,
    /// Use the key file FILE, and create it if it does not exist
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_key_file: Option<PathBuf>,
}

/// Add a passphrase, a key file or a recovery kit
///
/// Tests the new key at once. Without options, asks for a passphrase.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint key add --label laptop
  cutpoint key add --for-machine --label laptop
      Creates a key file, for backups that no one watches.
  cutpoint key add --new-recovery-kit kit.txt
      Writes the keys as text, to be printed.")]
pub(crate) struct KeyAdd {
    /// The source of the secret.
    #[command(flatten)]
    pub(crate) secrets: NewSecrets,
    /// Create the key file of this machine, or use it if it exists
    ///
    /// The file is ~/.config/cutpoint/machine.key (in XDG_CONFIG_HOME), readable by its owner alone.
    #[arg(long, group = "new")]
    pub(crate) for_machine: bool,
    /// Write a recovery kit to the new file FILE; `-` is standard output
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_recovery_kit: Option<PathBuf>,
    /// Label the key with TEXT in `cutpoint key list`
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
}

/// Remove a key
///
/// The last key is never removed.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint key remove 5f3a91c0")]
pub(crate) struct KeyRemove {
    /// ID of the key, or its first digits (at least four)
    #[arg(value_name = "KEY")]
    pub(crate) id: String,
    /// Remove even the key in use, or a key of unknown kind
    #[arg(long)]
    pub(crate) force: bool,
}

/// Encrypt new data with new keys
///
/// Begins a new epoch: new data is encrypted with keys that only the key in use and the keys of the
/// --keep options open. Existing data is not encrypted again. Earlier recovery kits no longer open
/// the repository.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint key rotate --new-recovery-kit kit.txt
  cutpoint key rotate --keep-key-file /etc/cutpoint.key \\
    --remove-others")]
pub(crate) struct KeyRotate {
    /// Keep the key that the passphrase in FILE opens; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) keep_passphrase_file: Vec<PathBuf>,
    /// Keep the key that the key file FILE opens; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) keep_key_file: Vec<PathBuf>,
    /// Remove all other keys
    ///
    /// Without this option, the command fails if there are other keys.
    #[arg(long)]
    pub(crate) remove_others: bool,
    /// Write a recovery kit to the new file FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) new_recovery_kit: Option<PathBuf>,
}
