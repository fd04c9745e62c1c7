//! The record of the earlier runs of a profile, and the lock that keeps its runs apart.
//!
//! Both are files in `XDG_STATE_HOME/cutpoint/profiles`, named after the profile and its place. The
//! repository has no part in it: a run that cannot reach it is remembered, too.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use cutpoint_repository::repo::remembered::replace_private_file;
use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::state::xdg;

/// The record of the earlier runs of a profile. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HistoryRecord {
    /// The start of the last run.
    pub(super) last_run_ns: Option<i64>,
    /// The exit code of the last run.
    pub(super) exit_code: Option<u8>,
    /// The start of the last run whose backup has succeeded.
    pub(super) last_backup_ns: Option<i64>,
    /// The start of the last run with exit code 0.
    pub(super) last_success_ns: Option<i64>,
    /// The time since which the stored data that was not read for longest is unread, as far as the
    /// last run could find out.
    pub(super) oldest_unread_ns: Option<i64>,
}

/// The record of a profile, with its place.
#[derive(Debug)]
pub(super) struct History {
    /// The folder of the record and its name without an ending; `None` if there is no folder.
    place: Option<(PathBuf, String)>,
    pub(super) record: HistoryRecord,
}

/// Another run of the same profile is at work.
#[derive(Debug)]
pub(super) struct Overlap;

impl History {
    /// Loads the record of the profile `name`, which is the file `profile`. A damaged record counts
    /// as none.
    pub(super) fn load(name: &str, profile: &Path, report: &Report) -> History {
        let folder = xdg("XDG_STATE_HOME", ".local/state");
        let Some(folder) = folder else {
            report.warn(
                "earlier runs are not known, and this one is not remembered: HOME is not set",
            );
            return History { place: None, record: HistoryRecord::default() };
        };
        let path = fs::canonicalize(profile).unwrap_or_else(|_| profile.to_path_buf());
        let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        let place = (folder.join("profiles"), format!("{name}-{}", &hash[..8]));
        let mut history = History { place: Some(place), record: HistoryRecord::default() };
        history.read(report);
        history
    }

    fn file(&self, ending: &str) -> Option<PathBuf> {
        self.place.as_ref().map(|(folder, name)| folder.join(format!("{name}.{ending}")))
    }

    fn read(&mut self, report: &Report) {
        let record = self.file("json").and_then(|file| read(&file, report));
        self.record = record.unwrap_or_default();
    }

    /// Locks the profile until the result is dropped. If that is not possible, the run is not kept
    /// from overlapping with others, which is only a warning. Reads the record again, because
    /// another run may have ended meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if another run has locked the profile.
    pub(super) fn lock(&mut self, report: &Report) -> Result<Option<File>, Overlap> {
        let Some(path) = self.file("lock") else { return Ok(None) };
        let unlocked = |error: io::Error| {
            report.warning(&path, &format!("cannot be locked: {error}; runs may overlap"));
            Ok(None)
        };
        if let Some(Err(error)) = path.parent().map(fs::create_dir_all) {
            return unlocked(error);
        }
        let lock = match File::options().create(true).truncate(false).write(true).open(&path) {
            Ok(lock) => lock,
            Err(error) => return unlocked(error),
        };
        match lock.try_lock() {
            Ok(()) => {
                self.read(report);
                Ok(Some(lock))
            }
            Err(TryLockError::WouldBlock) => Err(Overlap),
            Err(TryLockError::Error(error)) => unlocked(error),
        }
    }

    /// Saves the record. A failure is only a warning, because runs work without it.
    pub(super) fn save(&self, report: &Report) {
        let Some(file) = self.file("json") else { return };
        let saved = serde_json::to_vec(&self.record)
            .map_err(io::Error::from)
            .and_then(|bytes| replace_private_file(&file, &bytes));
        if let Err(error) = saved {
            report.warn(&format!("cannot remember this run: {}: {error}", file.display()));
        }
    }
}

fn read(file: &Path, report: &Report) -> Option<HistoryRecord> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            report.warning(file, &format!("earlier runs are not known: {error}"));
            return None;
        }
    };
    let record = serde_json::from_slice(&bytes);
    if let Err(error) = &record {
        report.warning(file, &format!("the record of earlier runs is damaged: {error}"));
    }
    record.ok()
}
