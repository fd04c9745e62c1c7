//! What of a repository's data was read when, so that checks of a part take turns.
//!
//! One file a repository and place: a copy elsewhere is read for itself.
//! `XDG_STATE_HOME/cutpoint/<repository id>-<hash of the place>.read`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use cutpoint_store::check::Coverage;
use cutpoint_store::repository::Repository;
use cutpoint_store::seal::RepositoryId;

use crate::report::Report;
use crate::state::{make_private_folder, xdg};

/// What is remembered.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None` where there is no place to remember anything.
    file: Option<PathBuf>,
    repository: RepositoryId,
    /// What was read when.
    pub(crate) coverage: Mutex<Coverage>,
}

impl Memory {
    /// Reads what is remembered. Where that is damaged, nothing was read yet.
    pub(crate) fn open(repository: &Repository, report: &Report) -> Memory {
        let id = repository.keys().repository();
        let place = repository.media().describe();
        let place = fs::canonicalize(&place).unwrap_or_else(|_| place.into());
        let hash = blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex();
        let folder = xdg("XDG_STATE_HOME", ".local/state");
        let file = folder.map(|folder| folder.join(format!("{id}-{}.read", &hash[..8])));
        let coverage = file.as_deref().and_then(|file| read(file, id, report)).unwrap_or_default();
        Memory { file, repository: id, coverage: Mutex::new(coverage) }
    }

    /// Writes it down. A machine that can remember nothing can still check.
    pub(crate) fn save(&self, report: &Report) {
        let Some(file) = &self.file else { return };
        let coverage = self.coverage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write(file, &coverage.encode(self.repository)) {
            report.warn(&format!("cannot remember what was read: {error:#}"));
        }
    }
}

fn read(file: &Path, repository: RepositoryId, report: &Report) -> Option<Coverage> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            report.warn(&format!("{}: {error}", file.display()));
            return None;
        }
    };
    let coverage = Coverage::decode(repository, &bytes);
    if let Err(error) = &coverage {
        report.warn(&format!("{}: {error}; nothing counts as read yet", file.display()));
    }
    coverage.ok()
}

/// Writes the whole file or nothing.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    make_private_folder(folder).with_context(|| folder.display().to_string())?;
    // One name for all that write it: what a killed process has left the next one replaces.
    let staged = file.with_extension("read.new");
    let create = |path: &Path| {
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
    };
    let result = create(&staged)
        .and_then(|mut out| out.write_all(bytes).and_then(|()| out.sync_all()))
        .and_then(|()| fs::rename(&staged, file));
    result.with_context(|| file.display().to_string())
}
