//! The folder of remembered states: one file per repository, `<repository id>.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::record::{StateRecord, canonical};
use crate::format::repository_id::RepositoryId;
use crate::util::private_file::replace_private_file;

/// The folder in which a machine remembers the states of repositories. It is created at the first
/// save, for its owner only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder(PathBuf);

/// A file of remembered state that does not count, because it cannot be read.
#[derive(Debug)]
pub struct UnreadRecord {
    /// The path of the file.
    pub file: PathBuf,
    /// The reason.
    pub cause: UnreadCause,
}

/// The reason why a file of remembered state does not count.
#[derive(Debug)]
pub enum UnreadCause {
    /// The file system refuses the file.
    Io(io::Error),
    /// The content is damaged, or of another version.
    Damaged(String),
}

impl StateFolder {
    /// Returns the folder of this path, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> StateFolder {
        StateFolder(path.into())
    }

    /// Returns the path of the file of a repository.
    pub fn file(&self, repository: RepositoryId) -> PathBuf {
        self.0.join(format!("{repository}.json"))
    }

    /// Returns the location at which a repository was last found, if that is remembered.
    pub fn location_of(&self, repository: RepositoryId) -> Option<String> {
        read_if_intact(&self.file(repository)).map(|record| record.location)
    }

    /// Returns the keys that last opened the repositories found at `location`, for
    /// [`OpenOptions::first_keys`](crate::OpenOptions::first_keys).
    pub fn keys_of(&self, location: &Path) -> Vec<[u8; 16]> {
        let records = self.records_at(&canonical(location)).into_iter();
        records.filter_map(|(_, record)| record.parsed_key_id()).collect()
    }

    /// Returns the remembered states of the repositories found at `location`, with the paths of
    /// their files.
    pub(super) fn records_at(&self, location: &str) -> Vec<(PathBuf, StateRecord)> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        files
            .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
            .filter_map(|file| {
                let record = read_if_intact(&file)?;
                (record.location == location).then_some((file, record))
            })
            .collect()
    }
}

/// Reads a file. Returns `None` if there is none.
pub(super) fn read(file: &Path) -> Result<Option<StateRecord>, UnreadRecord> {
    let unread = |cause| UnreadRecord { file: file.to_path_buf(), cause };
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unread(UnreadCause::Io(error))),
    };
    let record = StateRecord::decode(&bytes);
    record.map(Some).map_err(|error| unread(UnreadCause::Damaged(error)))
}

/// Reads a file. Returns `None` if there is none, or if it cannot be read.
pub(super) fn read_if_intact(file: &Path) -> Option<StateRecord> {
    StateRecord::decode(&fs::read(file).ok()?).ok()
}

/// Replaces the file atomically.
pub(super) fn write(file: &Path, record: &StateRecord) -> io::Result<()> {
    replace_private_file(file, &record.encode()?)
}
