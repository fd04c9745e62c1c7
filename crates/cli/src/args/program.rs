//! The arguments of the commands about the program itself.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::units::parse_large_size;

/// Print the version, and the commit that the program was built from
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint version
  cutpoint version --json")]
pub(crate) struct Version {}

/// Print a script that completes commands and options in a shell
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint completions bash > \\
    ~/.local/share/bash-completion/completions/cutpoint
  cutpoint completions zsh > ~/.zfunc/_cutpoint
  cutpoint completions fish > \\
    ~/.config/fish/completions/cutpoint.fish
  cutpoint completions nu > cutpoint.nu
      For Nushell; add `use cutpoint.nu *` to config.nu.")]
pub(crate) struct Completions {
    /// Shell that runs the script
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
    /// Nushell
    Nu,
}

/// Show the local copies of indexes, and bound their size
///
/// A copy of the index of each repository is kept on this machine, so that commands need not read it
/// again. Nothing is lost with a copy: the next command that needs it builds it anew. Needs no
/// repository and no secret.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint cache
  cutpoint cache --max-size 10G
      Keeps the copies changed last, up to 10 GiB.
  cutpoint cache --max-size 0
      Removes all copies.")]
pub(crate) struct Cache {
    /// Remove copies until the others take at most SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_large_size)]
    pub(crate) max_size: Option<u64>,
}

/// Write the manual pages into a folder
///
/// One page for the program, and one for each command, such as cutpoint-backup.1. Pages of the same
/// names are replaced.
#[derive(Debug, ClapArgs)]
#[command(before_help = "\
Examples:
  cutpoint man ~/.local/share/man/man1
  man cutpoint-backup")]
pub(crate) struct Man {
    /// Folder for the pages; it is created if it does not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Write the pages of commands and topics in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}
