//! What must not be forgotten of a repository: how it was sealed, how new its settings were, its
//! newest snapshots. Who can write to the storage could else put an older state, or another
//! repository, in its place.
//!
//! One file a repository, `XDG_STATE_HOME/cutpoint/<repository id>.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_store::name::{ObjectName, TicketId};
use cutpoint_store::repository::Repository;
use cutpoint_store::seal::Suite;
use cutpoint_store::view::View;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::report::Report;

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    version: u32,
    repository: String,
    /// Where it was seen last, for messages and for [`State::check`].
    location: String,
    suite: u8,
    config_number: u64,
    /// The newest snapshot of each host.
    heads: BTreeMap<String, String>,
}

/// The version of the file.
const VERSION: u32 = 1;

/// Nobody is still writing what was staged so long ago.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What is remembered of one repository.
#[derive(Debug)]
pub(crate) struct State {
    /// `None` where there is no place to remember anything.
    file: Option<PathBuf>,
    saved: Option<Memory>,
    now: Memory,
}

/// `XDG_STATE_HOME/cutpoint`, or where that is by default.
fn folder() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// A folder of the XDG base directory specification: relative paths do not count.
pub(crate) fn xdg(variable: &str, default: &str) -> Option<PathBuf> {
    let absolute = |value| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    std::env::var_os(variable)
        .and_then(absolute)
        .or_else(|| std::env::var_os("HOME").and_then(absolute).map(|home| home.join(default)))
        .map(|folder| folder.join("cutpoint"))
}

impl State {
    /// Compares `repository`, found at `location`, with what is remembered.
    ///
    /// # Errors
    ///
    /// Where it has a lower suite or older settings than it had.
    pub(crate) fn check(
        repository: &Repository,
        location: &Path,
        report: &Report,
    ) -> Result<State> {
        let folder = folder();
        let id = repository.keys().repository().to_string();
        let location = fs::canonicalize(location).unwrap_or_else(|_| location.to_path_buf());
        let now = Memory {
            version: VERSION,
            repository: id.clone(),
            location: location.to_string_lossy().into_owned(),
            suite: repository.config().suite.code(),
            config_number: repository.config_number(),
            heads: BTreeMap::new(),
        };
        let file = folder.as_ref().map(|folder| folder.join(format!("{id}.json")));
        let saved = file.as_deref().and_then(|file| read(file, report));
        let mut state = State { file, saved, now };
        if let Some(saved) = &state.saved {
            state.now.heads.clone_from(&saved.heads);
            let is_open = |suite| suite == Suite::None.code();
            if is_open(state.now.suite) && !is_open(saved.suite) {
                return Err(state.refuse("is not encrypted, but was; somebody has replaced it"));
            }
            if state.now.config_number < saved.config_number {
                return Err(state.refuse(&format!(
                    "has the settings {}, but had {} when it was last used from here; somebody has \
                     put back an older state",
                    state.now.config_number, saved.config_number
                )));
            }
        } else if state.now.suite == Suite::None.code()
            && let Some(folder) = folder
            && let Some(other) = encrypted_at(&folder, &state.now.location)
        {
            state.file = Some(other);
            return Err(state.refuse("is not encrypted; what was there before was"));
        }
        Ok(state)
    }

    fn refuse(&self, why: &str) -> anyhow::Error {
        let file = self.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        Failure::new(Exit::WrongKey, format!("{} {why}", self.now.location))
            .with_remedy(format!("if you know why, remove {file}"))
            .into()
    }

    /// Compares the newest snapshots with those that are remembered, and remembers the new ones.
    pub(crate) fn see(&mut self, view: &View, report: &Report) {
        let taken = view.taken();
        for (host, head) in &self.now.heads {
            let is_gone = TicketId::parse(head).is_none_or(|id| {
                !view.commits.contains_key(&id)
                    && !taken.contains(&id)
                    && !view.unreadable.contains_key(&ObjectName::Commit(id))
            });
            if is_gone {
                report.warn(&format!(
                    "{}: snapshot {head} of {host:?} was there when the repository was last used \
                     from here; it is gone, and no prune says that it has taken it",
                    self.now.location
                ));
            }
        }
        for (id, snapshot) in view.snapshots() {
            self.now.heads.insert(snapshot.host.clone(), id.to_string());
        }
    }

    /// Whether every remembered snapshot is among `commits`: then nothing has to be read to know it.
    pub(crate) fn heads_are_among(&self, commits: &[(String, u64)]) -> bool {
        self.now.heads.values().all(|head| {
            let name = format!("commits/{head}");
            commits.binary_search_by(|(path, _)| path.as_str().cmp(&name)).is_ok()
        })
    }

    /// Remembers a snapshot that was just made.
    pub(crate) fn add_head(&mut self, host: &str, snapshot: TicketId) {
        self.now.heads.insert(host.to_owned(), snapshot.to_string());
    }

    /// Remembers the number of the settings.
    pub(crate) fn set_config_number(&mut self, number: u64) {
        self.now.config_number = number;
    }

    /// Writes down what is new. A machine that can remember nothing can still do its work.
    pub(crate) fn save(&mut self, report: &Report) {
        let Some(file) = &self.file else { return };
        if self.saved.as_ref() == Some(&self.now) {
            return;
        }
        if let Err(error) = write(file, &self.now) {
            report.warn(&format!("cannot remember the state of the repository: {error:#}"));
        }
        self.saved = Some(self.now.clone());
    }
}

/// A file that cannot be read protects nothing, but must not stop a restore either.
fn read(file: &Path, report: &Report) -> Option<Memory> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            report.warn(&format!("{}: {error}", file.display()));
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(memory) => Some(memory),
        Err(error) => {
            report.warn(&format!("{}: is damaged and does not count: {error}", file.display()));
            None
        }
    }
}

/// The file of an encrypted repository that was at `location`.
fn encrypted_at(folder: &Path, location: &str) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(|file| {
        file.extension().is_some_and(|extension| extension == "json")
            && fs::read(file)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Memory>(&bytes).ok())
                .is_some_and(|memory| {
                    memory.location == location && memory.suite != Suite::None.code()
                })
    })
}

/// Writes the whole file or nothing.
fn write(file: &Path, memory: &Memory) -> Result<()> {
    let context = || file.display().to_string();
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(context)?;
    let staged = file.with_extension(format!("json.{}", std::process::id()));
    let result = fs::File::create(&staged)
        .and_then(|mut out| {
            out.write_all(&serde_json::to_vec(memory)?)?;
            out.sync_all()
        })
        .and_then(|()| fs::rename(&staged, file));
    if result.is_err() {
        fs::remove_file(&staged).ok();
    }
    clear_staged(folder);
    result.with_context(context)
}

/// Removes what processes that were killed had staged. What cannot be removed is in nobody's way.
fn clear_staged(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_staged = path
            .file_name()
            .and_then(|name| name.to_str()?.split_once(".json."))
            .is_some_and(|(_, process)| process.parse::<u32>().is_ok());
        let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(std::io::Error::other);
        if is_staged && age().is_ok_and(|age| age > STAGED_AGE_MAX) {
            fs::remove_file(&path).ok();
        }
    }
}
