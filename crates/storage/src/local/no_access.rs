//! The rights of everything in the folder of a repository on Windows, which each entry inherits from
//! the folder above it. They are neither read nor changed.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::Result;

/// Stands for the rights of a repository's folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access;

impl Access {
    pub(super) fn of(root: &Path) -> io::Result<Access> {
        std::fs::metadata(root).map(|_| Access)
    }

    /// Changes nothing.
    ///
    /// # Errors
    ///
    /// Always fails with `Unsupported`.
    pub(super) fn share(_root: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns `false`, because the rights are not read.
    pub(super) fn is_open_to_all(self) -> bool {
        false
    }

    /// Changes nothing.
    pub(super) fn give(self, _name: &str, _file: &File) -> Result<()> {
        Ok(())
    }

    /// Changes nothing.
    pub(super) fn give_folder(self, _name: &str, _folder: &Path) -> Result<()> {
        Ok(())
    }
}
