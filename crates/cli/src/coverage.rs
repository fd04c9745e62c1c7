//! A record of which data of a repository was read at what time, so that partial checks rotate
//! through it.
//!
//! There is one file per repository and place, because a copy in another place is read separately:
//! `XDG_STATE_HOME/cutpoint/<repository id>-<hash of the place>.read`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cutpoint_repository::repo::remembered::replace_private_file;
use cutpoint_repository::verify::check::Coverage;
use cutpoint_repository::{Repository, RepositoryId};

use crate::report::Report;
use crate::state::xdg;

/// The record of one repository at one place.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The path of the file; `None` if the record cannot be stored anywhere.
    file: Option<PathBuf>,
    repository: RepositoryId,
    /// The data read, with the times of reading.
    pub(crate) coverage: Mutex<Coverage>,
}

impl Memory {
    /// Loads the record. If it is damaged, nothing counts as read.
    pub(crate) fn open(repository: &Repository, report: &Report) -> Memory {
        let id = repository.keys().repository();
        let place = repository.storage().describe();
        let place = fs::canonicalize(&place).unwrap_or_else(|_| place.into());
        let hash = blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex();
        let folder = xdg("XDG_STATE_HOME", ".local/state");
        let file = folder.map(|folder| folder.join(format!("{id}-{}.read", &hash[..8])));
        let coverage = file.as_deref().and_then(|file| read(file, id, report)).unwrap_or_default();
        Memory { file, repository: id, coverage: Mutex::new(coverage) }
    }

    /// Saves the record. A failure is only a warning, because a check works without the record.
    pub(crate) fn save(&self, report: &Report) {
        let Some(file) = &self.file else { return };
        let coverage = self.coverage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = replace_private_file(file, &coverage.encode(self.repository)) {
            let file = file.display();
            report.warn(&format!("cannot record which data was read: {file}: {error}"));
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
        report.warn(&format!("{}: {error}; all data counts as unread", file.display()));
    }
    coverage.ok()
}
