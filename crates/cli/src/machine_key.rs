//! The key file of a machine, for backups that no one watches.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::escape;
use crate::exit::Failure;
use crate::state::xdg;

/// Returns `XDG_CONFIG_HOME/cutpoint/machine.key`, whose folder is created if it does not exist.
///
/// # Errors
///
/// Fails if the home folder is not known, and returns the error of the file system.
pub(crate) fn file() -> Result<PathBuf> {
    let folder = xdg("XDG_CONFIG_HOME", ".config").ok_or_else(|| {
        Failure::failed("no folder for the key file: HOME is not set")
            .with_remedy("set HOME, or name a file with --key-file")
    })?;
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    created.with_context(|| folder.display().to_string())?;
    Ok(folder.join("machine.key"))
}

/// Returns what the owner of the key file at `path` has to know.
pub(crate) fn advice(path: &Path) -> String {
    let shown = escape::for_terminal(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    format!(
        "The key file {shown} opens the repository without a question: name it with --key-file, or \
         with the key key-file of a profile. Keep a copy of it, or a recovery kit, away from this \
         machine: without one of them, nothing can be restored once the machine is lost."
    )
}
