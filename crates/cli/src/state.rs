//! What must not be forgotten of a repository: how it was sealed, how new its settings and keys were,
//! its highest prune record, its newest snapshots. Who can write to the storage could else put an older state, or another
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
use crate::units;

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    version: u32,
    repository: String,
    /// Where it was seen last, for messages and for [`State::check`].
    location: String,
    suite: u8,
    /// The newest key epoch.
    epoch: u32,
    config_number: u64,
    /// The highest prune record; none is ever deleted.
    prune_number: u64,
    /// The newest snapshot of each host.
    heads: BTreeMap<String, Head>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    snapshot: String,
    started_ns: i64,
}

/// The version of the file. A file of another version does not count.
const VERSION: u32 = 2;

/// Nobody is still writing what was staged so long ago.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What to do about a repository that is in an older state than is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rollback {
    /// Nothing may be done with it.
    Refuse,
    /// Tell it as a problem and remember nothing: for who looks for what is wrong.
    Tell,
    /// It is meant: remember that state from now on.
    Accept,
}

/// What is remembered of one repository.
#[derive(Debug)]
pub(crate) struct State {
    /// `None` where there is no place to remember anything.
    file: Option<PathBuf>,
    saved: Option<Memory>,
    now: Memory,
    rollback: Rollback,
    /// Whether it was found in an older state.
    is_older: bool,
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

impl Memory {
    fn of(repository: &Repository, location: &Path) -> Memory {
        let location = fs::canonicalize(location).unwrap_or_else(|_| location.to_path_buf());
        Memory {
            version: VERSION,
            repository: repository.keys().repository().to_string(),
            location: location.to_string_lossy().into_owned(),
            suite: repository.config().suite.code(),
            epoch: repository.keys().epoch(),
            config_number: repository.config_number(),
            prune_number: 0,
            heads: BTreeMap::new(),
        }
    }

    fn is_open(&self) -> bool {
        self.suite == Suite::None.code()
    }

    /// The state in words; of the snapshots one.
    fn in_words(&self, head: Option<(&String, &Head)>) -> String {
        let head = head.map_or_else(
            || "no snapshot".to_owned(),
            |(host, head)| {
                let id = head.snapshot.get(..8).unwrap_or_default();
                let time = units::date_time(head.started_ns.div_euclid(1_000_000_000));
                format!("snapshot {id} of {time} UTC by {host:?}")
            },
        );
        format!(
            "settings {}, key epoch {}, prune {}, {head}",
            self.config_number, self.epoch, self.prune_number
        )
    }

    /// What is newer of both, where another process has written meanwhile what it has seen.
    fn merge(&mut self, other: &Memory) {
        self.epoch = self.epoch.max(other.epoch);
        self.config_number = self.config_number.max(other.config_number);
        self.prune_number = self.prune_number.max(other.prune_number);
        for (host, head) in &other.heads {
            let own = self.heads.entry(host.clone()).or_insert_with(|| head.clone());
            if own.started_ns < head.started_ns {
                own.clone_from(head);
            }
        }
    }
}

/// The newest of some snapshots, with its host.
fn newest(heads: &BTreeMap<String, Head>) -> Option<(&String, &Head)> {
    heads.iter().max_by_key(|(_, head)| head.started_ns)
}

impl State {
    /// What is remembered of a repository that was just made: itself.
    pub(crate) fn new(repository: &Repository, location: &Path) -> State {
        let now = Memory::of(repository, location);
        let file = folder().map(|folder| folder.join(format!("{}.json", now.repository)));
        State { file, saved: None, now, rollback: Rollback::Refuse, is_older: false }
    }

    /// Compares `repository`, found at `location`, with what is remembered.
    ///
    /// # Errors
    ///
    /// Where it is not encrypted, and was; where it has older settings or keys than it had, unless
    /// `rollback` says otherwise.
    pub(crate) fn check(
        repository: &Repository,
        location: &Path,
        rollback: Rollback,
        report: &Report,
    ) -> Result<State> {
        let mut state = State { rollback, ..State::new(repository, location) };
        state.saved = state.file.as_deref().and_then(|file| read(file, report));
        let Some(saved) = state.saved.clone() else {
            state.meet(report)?;
            return Ok(state);
        };
        state.now.heads.clone_from(&saved.heads);
        state.now.prune_number = saved.prune_number;
        if state.now.is_open() && !saved.is_open() {
            return Err(state.refuse("is not encrypted, but was; somebody has replaced it"));
        }
        if state.now.config_number < saved.config_number || state.now.epoch < saved.epoch {
            let view = View::list(repository)?;
            state.see(&view, report)?;
        }
        Ok(state)
    }

    /// Nothing is remembered of this repository. What is remembered of the place?
    fn meet(&mut self, report: &Report) -> Result<()> {
        let others = self.file.as_deref().and_then(Path::parent).map(known).unwrap_or_default();
        let others: Vec<_> =
            others.into_iter().filter(|(_, other)| other.location == self.now.location).collect();
        if self.now.is_open()
            && let Some((file, _)) = others.iter().find(|(_, other)| !other.is_open())
        {
            self.file = Some(file.clone());
            return Err(self.refuse("is not encrypted; what was there before was"));
        }
        if let Some((file, other)) = others.first() {
            report.warn(&format!(
                "{}: was the repository {} when it was last used from here ({}), and is {} now",
                self.now.location,
                other.repository,
                file.display(),
                self.now.repository
            ));
        } else {
            report.note(&format!(
                "Nothing is remembered of the repository {} here: whether it is in an older state \
                 than it was cannot be told this time.",
                self.now.repository
            ));
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> anyhow::Error {
        let file = self.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        Failure::new(Exit::WrongKey, format!("{} {why}", self.now.location))
            .with_remedy(format!("if you know why, remove {file}"))
            .into()
    }

    /// Compares what `view` has with what is remembered, and remembers what is new.
    ///
    /// # Errors
    ///
    /// Where it is older, unless that is accepted or only to be told: a prune record is gone, or a
    /// snapshot that no prune has taken; settings or keys are older.
    pub(crate) fn see(&mut self, view: &View, report: &Report) -> Result<()> {
        let is_prune = |name: &ObjectName| match name {
            ObjectName::Prune(number) => Some(*number),
            _ => None,
        };
        let unreadable = view.unreadable.keys().filter_map(is_prune);
        let there = unreadable.clone().chain(view.prunes.keys().copied());
        let found = Memory {
            prune_number: there.max().unwrap_or(0),
            heads: heads_of(view),
            ..self.now.clone()
        };
        let taken = view.taken();
        let mut gone = self.now.heads.clone();
        gone.retain(|_, head| {
            TicketId::parse(&head.snapshot).is_none_or(|id| {
                !view.commits.contains_key(&id)
                    && !taken.contains(&id)
                    && !view.unreadable.contains_key(&ObjectName::Commit(id))
            })
        });
        // What a record that cannot be read has taken nobody knows; its damage is told elsewhere.
        if unreadable.count() > 0 {
            gone.clear();
        }
        let is_older = self.saved.as_ref().is_some_and(|saved| {
            found.config_number < saved.config_number
                || found.epoch < saved.epoch
                || found.prune_number < saved.prune_number
        });
        if is_older || !gone.is_empty() {
            self.tell_older(&found, &gone, report)?;
        }
        if self.rollback == Rollback::Accept {
            self.now.heads.retain(|host, _| !gone.contains_key(host));
            self.now.prune_number = found.prune_number;
        } else {
            self.now.prune_number = self.now.prune_number.max(found.prune_number);
        }
        self.now.heads.extend(found.heads);
        Ok(())
    }

    fn tell_older(
        &mut self,
        found: &Memory,
        gone: &BTreeMap<String, Head>,
        report: &Report,
    ) -> Result<()> {
        let was_told = std::mem::replace(&mut self.is_older, true);
        let saved = self.saved.as_ref().unwrap_or(&self.now);
        let missed = newest(gone);
        let host = missed.map(|(host, _)| host);
        // The same host's newest says most: how far back the state is.
        let there = host.and_then(|host| found.heads.get_key_value(host));
        let text = format!(
            "{}: is in an older state than it was when it was last used from here{}. Remembered: {}. \
             There: {}. Somebody has put back an older copy, or deleted what is newer",
            self.now.location,
            match gone.len() {
                0 => String::new(),
                count => format!(
                    "; {} of {count} {} gone, and no prune has taken {}",
                    if count == 1 { "the newest snapshot" } else { "the newest snapshots" },
                    if count == 1 { "host is" } else { "hosts are" },
                    if count == 1 { "it" } else { "them" },
                ),
            },
            saved.in_words(missed.or_else(|| newest(&saved.heads))),
            found.in_words(there.or_else(|| newest(&found.heads))),
        );
        match self.rollback {
            Rollback::Refuse => Err(Failure::new(Exit::WrongKey, text)
                .with_remedy(
                    "if you have put back a copy yourself, --accept-rollback goes on with what is \
                     there; else find out who else can write to the storage. `cutpoint check` looks \
                     without changing anything that is remembered",
                )
                .into()),
            _ if was_told => Ok(()),
            Rollback::Tell => {
                report.problem(Path::new("rollback"), &text);
                Ok(())
            }
            Rollback::Accept => {
                report.warn(&format!("{text}. From now on that state is remembered"));
                Ok(())
            }
        }
    }

    /// Whether everything remembered is among `commits` and `prunes`: then nothing has to be read to
    /// know it.
    pub(crate) fn is_among(&self, commits: &[(String, u64)], prunes: &[(String, u64)]) -> bool {
        let has = |names: &[(String, u64)], name: String| {
            names.binary_search_by(|(path, _)| path.as_str().cmp(&name)).is_ok()
        };
        let mut heads = self.now.heads.values();
        let prune = self.now.prune_number;
        heads.all(|head| has(commits, format!("commits/{}", head.snapshot)))
            && (prune == 0 || has(prunes, ObjectName::Prune(prune).to_string()))
    }

    /// Remembers a snapshot that was just made.
    pub(crate) fn add_head(&mut self, host: &str, snapshot: TicketId, started_ns: i64) {
        let head = Head { snapshot: snapshot.to_string(), started_ns };
        self.now.heads.insert(host.to_owned(), head);
    }

    /// Remembers the settings and the key epoch that were just made.
    pub(crate) fn set_settings(&mut self, repository: &Repository) {
        self.now.config_number = repository.config_number();
        self.now.epoch = repository.keys().epoch();
    }

    /// Writes down what is new. A machine that can remember nothing can still do its work.
    pub(crate) fn save(&mut self, report: &Report) {
        let Some(file) = &self.file else { return };
        if self.is_older && self.rollback == Rollback::Tell {
            return;
        }
        if self.saved.as_ref() == Some(&self.now) {
            return;
        }
        if self.rollback != Rollback::Accept
            && let Some(other) = fs::read(file).ok().and_then(|bytes| decode(&bytes).ok())
        {
            self.now.merge(&other);
        }
        if let Err(error) = write(file, &self.now) {
            report.warn(&format!("cannot remember the state of the repository: {error:#}"));
        }
        self.saved = Some(self.now.clone());
    }
}

/// The newest snapshot of each host.
fn heads_of(view: &View) -> BTreeMap<String, Head> {
    let snapshots = view.snapshots().into_iter().map(|(id, snapshot)| {
        let head = Head { snapshot: id.to_string(), started_ns: snapshot.started_ns };
        (snapshot.host.clone(), head)
    });
    // They come in the order of their times.
    snapshots.collect()
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
    match decode(&bytes) {
        Ok(memory) => Some(memory),
        Err(error) => {
            report.warn(&format!(
                "{}: what was remembered of the repository is damaged and does not count: {error}",
                file.display()
            ));
            None
        }
    }
}

fn decode(bytes: &[u8]) -> Result<Memory, String> {
    let memory: Memory = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match memory.version {
        VERSION => Ok(memory),
        version => Err(format!("it is of version {version}, not {VERSION}")),
    }
}

/// All that is remembered of repositories, with the files that have it.
fn known(folder: &Path) -> Vec<(PathBuf, Memory)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|file| {
            let memory = decode(&fs::read(&file).ok()?).ok()?;
            Some((file, memory))
        })
        .collect()
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
