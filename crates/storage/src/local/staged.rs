//! Files that become objects once they are complete.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::files::{folder_of, object_error, sync_folder};
use crate::error::{Error, Result};
use crate::storage::{Put, Staged};
use crate::system;

/// A file next to the place of its future object, under a name that listings hide.
#[derive(Debug)]
pub(super) struct StagedFile {
    pub(super) name: String,
    pub(super) target: PathBuf,
    pub(super) staged: PathBuf,
    pub(super) file: File,
}

impl StagedFile {
    /// Converts the error of a put. The staged file or its folder may be gone, but a put is never
    /// `Missing`.
    pub(super) fn failed(&self, error: std::io::Error) -> Error {
        object_error(&self.name, &self.target, error).of_put()
    }
}

impl Staged for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.failed(error))
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let failed = |error| self.failed(error);
        self.file.sync_all().map_err(failed)?;
        match std::fs::hard_link(&self.staged, &self.target) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A network file system may retry the link by itself, and find its own first
                // attempt.
                let there = std::fs::metadata(&self.target).map_err(failed)?;
                let own = self.file.metadata().map_err(failed)?;
                if !system::is_same_file(&there, &own) {
                    return Ok(Put::Exists);
                }
            }
            Err(error) => return Err(failed(error)),
        }
        sync_folder(folder_of(&self.target)).map(|()| Put::Created).map_err(Error::of_put)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // A file that cannot be removed is cleaned up later.
        std::fs::remove_file(&self.staged).ok();
    }
}
