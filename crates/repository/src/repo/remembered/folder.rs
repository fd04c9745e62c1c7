//! The folder of remembered states: one file per repository, `<repository id>.json`.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::{StateRecord, canonical};
use crate::format::repository_id::RepositoryId;

/// The mode of the folder.
const PRIVATE_MODE: u32 = 0o700;
/// The permission bits of all users but the owner.
const OTHERS_MODE: u32 = 0o077;

/// The age from which on a staged file is left over, because no process writes to it any more.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

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
    let folder = file.parent().ok_or_else(|| io::Error::other("a file has a folder"))?;
    make_private_folder(folder)?;
    let staged = file.with_extension(format!("json.{}", std::process::id()));
    // An earlier process of the same number may have left the file, with any mode.
    fs::remove_file(&staged).ok();
    let result = create_private(&staged)
        .and_then(|mut out| {
            out.write_all(&record.encode()?)?;
            out.sync_all()
        })
        .and_then(|()| fs::rename(&staged, file));
    if result.is_err() {
        fs::remove_file(&staged).ok();
    }
    clear_staged(folder);
    result
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a folder, including missing parents, with access for its owner only. If an existing
/// folder is accessible to other users, removes their permissions.
///
/// # Errors
///
/// Returns any error of the file system, except that permissions cannot be changed.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_MODE).create(folder)?;
    let mode = fs::metadata(folder)?.mode();
    if mode & OTHERS_MODE != 0 {
        // A failure is ignored: the owner of the folder may be another user, and the folder holds
        // no secrets.
        fs::set_permissions(folder, Permissions::from_mode(mode & !OTHERS_MODE & 0o7777)).ok();
    }
    Ok(())
}

/// Removes the staged files of processes that were killed. Files that cannot be removed do no harm.
fn clear_staged(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_staged = path
            .file_name()
            .and_then(|name| name.to_str()?.split_once(".json."))
            .is_some_and(|(_, process)| process.parse::<u32>().is_ok());
        let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(io::Error::other);
        if is_staged && age().is_ok_and(|age| age > STAGED_AGE_MAX) {
            fs::remove_file(&path).ok();
        }
    }
}
