//! A file for a result that takes long to compute.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file that is open before its content is known, so that a file that cannot be written ends the
/// command at its beginning.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    /// Set if the file did not exist, and has no content yet.
    is_new: bool,
}

impl OutputFile {
    /// Opens the file `path`, and creates it if it does not exist. An existing file keeps its
    /// content until [`write`](OutputFile::write).
    ///
    /// # Errors
    ///
    /// Returns the error of the system, with the path.
    pub fn open(path: &Path) -> Result<OutputFile> {
        let is_new = fs::symlink_metadata(path).is_err();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(OutputFile { path: path.to_owned(), file, is_new })
    }

    /// Replaces the content of the file.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, with the path.
    pub fn write(mut self, text: &str) -> Result<()> {
        self.is_new = false;
        let written = self.replace(text);
        written.with_context(|| self.path.display().to_string())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // A pipe or a terminal has no content to remove.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new {
            // An empty file is no result.
            fs::remove_file(&self.path).ok();
        }
    }
}
