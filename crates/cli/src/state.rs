//! The remembered state of a repository: its encryption, the numbers of its newest settings and
//! keys, its highest prune record, and its newest snapshots. Without it, an attacker with write
//! access to the storage could substitute an older state or another repository.
//!
//! There is one file per repository, `XDG_STATE_HOME/cutpoint/<repository id>.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_repository::{CipherSuite, ObjectName, Repository, TicketId, View};
use cutpoint_storage::{ObjectKind, Storage};
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::report::Report;
use crate::{escape, key_id, private, units};

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    version: u32,
    repository: String,
    /// The place where the repository was last seen, for messages and for [`State::check`].
    location: String,
    suite: u8,
    /// The newest key epoch.
    epoch: u32,
    config_number: u64,
    /// The number of the highest prune record that was opened. Prune records are never deleted.
    prune_number: u64,
    /// The newest snapshot of each host.
    heads: BTreeMap<String, Head>,
    /// The `keys/` object that last opened the repository, in hexadecimal; empty if there was none.
    #[serde(default)]
    key_id: String,
}

/// A snapshot of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    snapshot: String,
    started_ns: i64,
}

/// The version of the file. A file of another version is ignored.
const VERSION: u32 = 2;

/// The mode of the folders of this program.
const PRIVATE_MODE: u32 = 0o700;
/// The permission bits of all users but the owner.
const OTHERS_MODE: u32 = 0o077;

/// The age from which on a staged file is left over, because no process writes to it any more.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The treatment of a repository in an older state than the remembered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rollback {
    /// Refuse every operation.
    Refuse,
    /// Report the older state as a problem and remember nothing, for commands that look for damage.
    Tell,
    /// Accept the older state and remember it from now on.
    Accept,
}

/// The result of comparing a view with the remembered state.
#[derive(Debug)]
struct Compared {
    /// The state of the view.
    found: Memory,
    /// The remembered snapshots that the view should have, but lacks.
    gone: BTreeMap<String, Head>,
    /// The remembered snapshots that exist, but cannot be opened.
    damaged: BTreeMap<String, Head>,
}

/// The remembered state of one repository, and its present state.
#[derive(Debug)]
pub(crate) struct State {
    /// The path of the file; `None` if the state cannot be stored anywhere.
    file: Option<PathBuf>,
    saved: Option<Memory>,
    now: Memory,
    rollback: Rollback,
    /// Set if the repository was found in an older state.
    is_older: bool,
    /// The numbers of settings that exist, but cannot be opened.
    unopened_settings: BTreeSet<u64>,
}

/// Returns `XDG_STATE_HOME/cutpoint`, or its default.
fn folder() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// Returns the folder of this program in a base directory of the XDG specification. Relative paths
/// are ignored, as the specification demands.
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
            key_id: repository.key_id().map(|id| escape::hex(&id)).unwrap_or_default(),
        }
    }

    fn is_open(&self) -> bool {
        self.suite == CipherSuite::None.code()
    }

    /// Describes the state, with `head` as its snapshot.
    fn in_words(&self, head: Option<(&String, &Head)>) -> String {
        let head = head.map_or_else(
            || "no snapshot".to_owned(),
            |(host, head)| {
                let id = head.snapshot.get(..8).unwrap_or_default();
                let time = units::date_time(head.started_ns.div_euclid(1_000_000_000));
                format!("snapshot {id} of {time} UTC, host {host:?}")
            },
        );
        format!(
            "settings {}, key epoch {}, prune {}, {head}",
            self.config_number, self.epoch, self.prune_number
        )
    }

    /// Merges the state that another process has written meanwhile. For each item, the newer one is
    /// kept.
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

/// The command that accepts an older state.
pub(crate) const ACCEPT: &str = "cutpoint snapshots --accept-rollback";
/// The effect of this command, as a clause with a verb in the third person.
pub(crate) const ACCEPT_EFFECT: &str =
    "accepts the present state as the newest, once its cause is known";

/// Describes the reason of an older state, as far as it is known: the objects `damaged` exist, but
/// cannot be opened, and snapshots are gone if `has_gone`.
fn reason(damaged: &[ObjectName], has_gone: bool) -> String {
    const ROLLBACK: &str = "An older copy was put back, or newer objects were deleted";
    let names: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    let are = if names.len() == 1 { "exists" } else { "exist" };
    match (names.is_empty(), has_gone) {
        (true, _) => ROLLBACK.to_owned(),
        (false, gone) => {
            let rest = if gone { format!(". {ROLLBACK}") } else { String::new() };
            format!("{} {are}, but cannot be opened: damaged or replaced{rest}", names.join(", "))
        }
    }
}

/// Returns the newest of some snapshots, with its host.
fn newest(heads: &BTreeMap<String, Head>) -> Option<(&String, &Head)> {
    heads.iter().max_by_key(|(_, head)| head.started_ns)
}

impl State {
    /// Returns the state of a repository that was just created.
    pub(crate) fn new(repository: &Repository, location: &Path) -> State {
        let now = Memory::of(repository, location);
        let file = folder().map(|folder| folder.join(format!("{}.json", now.repository)));
        State {
            file,
            saved: None,
            now,
            rollback: Rollback::Refuse,
            is_older: false,
            unopened_settings: BTreeSet::new(),
        }
    }

    /// Compares `repository`, found at `location`, with the remembered state.
    ///
    /// # Errors
    ///
    /// Fails if the repository was encrypted before and is not now; if its settings or keys are
    /// older than the remembered ones, unless `rollback` permits it; and if another client changes
    /// the settings at the same time.
    pub(crate) fn check(
        repository: &Repository,
        location: &Path,
        rollback: Rollback,
        report: &Report,
    ) -> Result<State> {
        let mut state = State { rollback, ..State::new(repository, location) };
        let unopened = repository.unopened().iter();
        state.unopened_settings = unopened
            .filter_map(|(name, _)| match name {
                ObjectName::Config { number, .. } => Some(*number),
                _ => None,
            })
            .collect();
        state.saved = state.file.as_deref().and_then(|file| read(file, report));
        let Some(saved) = state.saved.clone() else {
            state.meet(report)?;
            return Ok(state);
        };
        state.now.heads.clone_from(&saved.heads);
        state.now.prune_number = saved.prune_number;
        if state.now.is_open() && !saved.is_open() {
            return Err(state
                .refuse("not encrypted, but was encrypted before; the repository was replaced"));
        }
        if state.now.config_number < saved.config_number || state.now.epoch < saved.epoch {
            refuse_overtaken(repository)?;
            let view = View::list(repository)?;
            state.see(&view, report)?;
        }
        Ok(state)
    }

    /// Handles a repository without a remembered state, by looking for another repository
    /// remembered at the same place.
    fn meet(&mut self, report: &Report) -> Result<()> {
        let others = self.file.as_deref().and_then(Path::parent).map(known).unwrap_or_default();
        let others: Vec<_> =
            others.into_iter().filter(|(_, other)| other.location == self.now.location).collect();
        if self.now.is_open()
            && let Some((file, _)) = others.iter().find(|(_, other)| !other.is_open())
        {
            self.file = Some(file.clone());
            return Err(self.refuse("not encrypted, but the previous repository at this place was"));
        }
        if let Some((file, other)) = others.first() {
            report.warn(&format!(
                "{}: the repository was {} at its last use on this machine ({}), and is {} now",
                self.now.location,
                other.repository,
                file.display(),
                self.now.repository
            ));
        } else {
            report.note(&format!(
                "First use of repository {} on this machine: a rollback cannot be detected yet.",
                self.now.repository
            ));
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> anyhow::Error {
        let file = self.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        Failure::new(Exit::WrongKey, format!("{}: {why}", self.now.location))
            .with_remedy(format!("if this change is intended, remove {file}"))
            .into()
    }

    /// Compares `view` with the remembered state, and remembers what is new.
    ///
    /// # Errors
    ///
    /// Fails if the view is older and `rollback` is [`Rollback::Refuse`]. A view is older if a
    /// prune record is gone, if a snapshot is gone that no prune has taken, or if settings or keys
    /// are older.
    pub(crate) fn see(&mut self, view: &View, report: &Report) -> Result<()> {
        let Compared { found, gone, damaged } = self.compare(view);
        self.tell_damaged(&damaged, &found, report);
        let is_older = self.saved.as_ref().is_some_and(|saved| {
            found.config_number < saved.config_number
                || found.epoch < saved.epoch
                || found.prune_number < saved.prune_number
        });
        if is_older || !gone.is_empty() {
            self.tell_older(view, &found, &gone, report)?;
        }
        if self.rollback == Rollback::Accept {
            self.now.heads.retain(|host, _| !gone.contains_key(host));
            self.now.prune_number = found.prune_number;
        } else {
            self.now.prune_number = self.now.prune_number.max(found.prune_number);
        }
        let is_newer = |host: &String, head: &Head| {
            damaged.get(host).is_none_or(|damaged| damaged.started_ns < head.started_ns)
        };
        self.now.heads.extend(found.heads.into_iter().filter(|(host, head)| is_newer(host, head)));
        Ok(())
    }

    /// Compares `view` with the remembered state. Only objects that a key has opened count, because
    /// an attacker with write access to the storage can put objects of any number that do not open.
    fn compare(&self, view: &View) -> Compared {
        let found = Memory {
            prune_number: view.prunes.keys().next_back().copied().unwrap_or(0),
            heads: heads_of(view),
            ..self.now.clone()
        };
        let taken = view.taken();
        // A commit of another outcome may have the name, because another client has ended the
        // ticket of a writer whose commit was gone.
        let is_snapshot =
            |id: &TicketId| view.commits.get(id).is_some_and(|commit| commit.snapshot().is_some());
        let mut gone = self.now.heads.clone();
        gone.retain(|_, head| {
            TicketId::parse(&head.snapshot)
                .is_none_or(|id| !is_snapshot(&id) && !taken.contains(&id))
        });
        // A snapshot that exists and cannot be opened may be damaged. This is reported, and does
        // not stop a restore of the rest. The snapshot stays remembered, so that its deletion
        // counts as an older state.
        let is_damaged = |head: &Head| {
            TicketId::parse(&head.snapshot)
                .is_some_and(|id| view.unreadable.contains_key(&ObjectName::Commit(id)))
        };
        let (damaged, gone) = gone.into_iter().partition(|(_, head)| is_damaged(head));
        Compared { found, gone, damaged }
    }

    /// Returns an object that exists, but is missing from `view`, if the view would be older than
    /// the remembered state without it. The listing lags behind then.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn unlisted(
        &self,
        view: &View,
        storage: &dyn Storage,
    ) -> Result<Option<ObjectName>> {
        let Compared { found, gone, .. } = self.compare(view);
        let lost = gone.values().filter_map(|head| TicketId::parse(&head.snapshot));
        let mut names: Vec<ObjectName> = lost.map(ObjectName::Commit).collect();
        if found.prune_number < self.now.prune_number {
            names.push(ObjectName::Prune(self.now.prune_number));
        }
        if !names.is_empty()
            && let Some(next) = found.prune_number.checked_add(1)
        {
            // This is the record that has taken a snapshot whose commit a sweep may already have
            // deleted.
            names.push(ObjectName::Prune(next));
        }
        // An object that was listed and cannot be read is damaged, and is reported as such. A
        // commit that was listed and is not a snapshot has replaced one.
        let is_listed = |name: &ObjectName| match name {
            ObjectName::Commit(id) => view.commits.contains_key(id),
            _ => false,
        };
        names.retain(|name| !view.unreadable.contains_key(name) && !is_listed(name));
        for name in names {
            if storage.head(&name.to_string())?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Reports remembered snapshots that exist and cannot be opened, if their host has no newer
    /// one. The snapshot that is taken for the newest is older then.
    fn tell_damaged(&self, damaged: &BTreeMap<String, Head>, found: &Memory, report: &Report) {
        for (host, head) in damaged {
            if found.heads.get(host).is_some_and(|found| found.started_ns >= head.started_ns) {
                continue;
            }
            let id = head.snapshot.get(..8).unwrap_or_default();
            let time = units::date_time(head.started_ns.div_euclid(1_000_000_000));
            report.problem(
                Path::new("latest"),
                &format!(
                    "the newest snapshot of {host:?} known on this machine, {id} of {time} UTC, \
                     exists, but cannot be opened (damaged or replaced); an older snapshot is \
                     shown and restored as the latest"
                ),
            );
        }
    }

    fn tell_older(
        &mut self,
        view: &View,
        found: &Memory,
        gone: &BTreeMap<String, Head>,
        report: &Report,
    ) -> Result<()> {
        let damaged = self.damaged_names(view, found);
        let was_told = std::mem::replace(&mut self.is_older, true);
        let saved = self.saved.as_ref().unwrap_or(&self.now);
        let missed = newest(gone);
        let host = missed.map(|(host, _)| host);
        // The newest snapshot of the same host shows best how old the state is.
        let there = host.and_then(|host| found.heads.get_key_value(host));
        let text = format!(
            "{}: the repository is older than at its last use on this machine{}. Expected: {}. \
             Found: {}. {}",
            self.now.location,
            match gone.len() {
                0 => String::new(),
                count => format!(
                    "; {} of {count} {} missing, and no prune has removed {}",
                    if count == 1 { "the newest snapshot" } else { "the newest snapshots" },
                    if count == 1 { "host is" } else { "hosts are" },
                    if count == 1 { "it" } else { "them" },
                ),
            },
            saved.in_words(missed.or_else(|| newest(&saved.heads))),
            found.in_words(there.or_else(|| newest(&found.heads))),
            reason(&damaged, !gone.is_empty()),
        );
        match self.rollback {
            Rollback::Refuse => Err(Failure::new(Exit::WrongKey, text)
                .with_remedy(
                    "`cutpoint check` examines the repository without accepting its state. If an \
                     older copy was put back on purpose, or the cause is known, `cutpoint \
                     snapshots --accept-rollback` accepts the present state as the newest, and \
                     every command works again. Otherwise find out first which other client can \
                     write to the storage",
                )
                .into()),
            _ if was_told => Ok(()),
            Rollback::Tell => {
                report.problem_with(Path::new("rollback"), &text, &[ACCEPT]);
                Ok(())
            }
            Rollback::Accept => {
                report.warn(&format!("{text}. The present state is accepted as the newest"));
                Ok(())
            }
        }
    }

    /// Returns the remembered objects that exist and cannot be opened, and are newer than those
    /// that can.
    fn damaged_names(&self, view: &View, found: &Memory) -> Vec<ObjectName> {
        let Some(saved) = &self.saved else { return Vec::new() };
        let config = ObjectName::Config { number: saved.config_number, copy: false };
        let prune = ObjectName::Prune(saved.prune_number);
        let mut names = Vec::new();
        if found.config_number < saved.config_number
            && self.unopened_settings.contains(&saved.config_number)
        {
            names.push(config);
        }
        if found.prune_number < saved.prune_number && view.unreadable.contains_key(&prune) {
            names.push(prune);
        }
        names
    }

    /// Returns `true` if an older state was reported as a problem and not accepted.
    pub(crate) fn is_rollback_told(&self) -> bool {
        self.is_older && self.rollback == Rollback::Tell
    }

    /// Returns `true` if an older state was accepted, so that it must be saved.
    pub(crate) fn is_rollback_accepted(&self) -> bool {
        self.is_older && self.rollback == Rollback::Accept
    }

    /// Returns the remembered snapshots.
    pub(crate) fn heads(&self) -> impl Iterator<Item = TicketId> {
        self.now.heads.values().filter_map(|head| TicketId::parse(&head.snapshot))
    }

    /// Returns `true` if all remembered objects are among `commits` and `prunes`, by their names. A
    /// commit of that name may have another outcome than a snapshot: see
    /// [`Session::look_for_heads`].
    ///
    /// [`Session::look_for_heads`]: crate::session::Session::look_for_heads
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

    /// Remembers the number of a prune record that was just made.
    pub(crate) fn add_prune(&mut self, number: u64) {
        self.now.prune_number = self.now.prune_number.max(number);
    }

    /// Remembers the settings and the key epoch that were just made.
    pub(crate) fn set_settings(&mut self, repository: &Repository) {
        self.now.config_number = repository.config_number();
        self.now.epoch = repository.keys().epoch();
        self.now.key_id = repository.key_id().map(|id| escape::hex(&id)).unwrap_or_default();
    }

    /// Saves the state if it has changed. A failure is only a warning, because commands work
    /// without it.
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
            report.warn(&format!("cannot record the state of the repository: {error:#}"));
        }
        self.saved = Some(self.now.clone());
    }
}

/// Returns the remembered settings of `repository` if they are newer than those it was opened with
/// and exist. The listing lags behind then.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn unlisted_settings(repository: &Repository) -> Result<Option<ObjectName>> {
    let file =
        folder().map(|folder| folder.join(format!("{}.json", repository.keys().repository())));
    // A file that cannot be read is reported when the whole state is compared.
    let saved = file.and_then(|file| decode(&fs::read(file).ok()?).ok());
    let Some(saved) = saved else { return Ok(None) };
    unlisted_number(repository, saved.config_number)
}

/// Returns the settings of this number if the repository was opened with older ones, no listing
/// shows them, and they exist.
fn unlisted_number(repository: &Repository, number: u64) -> Result<Option<ObjectName>> {
    if number <= repository.config_number() {
        return Ok(None);
    }
    let name = ObjectName::Config { number, copy: false };
    let path = name.to_string();
    let storage = repository.storage();
    let is_listed =
        storage.list(ObjectKind::Config.folder())?.iter().any(|(each, _)| *each == path);
    Ok((!is_listed && storage.head(&path)?.is_some()).then_some(name))
}

/// Fails if the settings were changed meanwhile. The remembered state was read after the repository
/// was opened, so another process of this machine may have changed the settings and remembered that
/// in between.
fn refuse_overtaken(repository: &Repository) -> Result<()> {
    if repository.newest_config_number().is_ok_and(|newest| newest > repository.config_number()) {
        let message = "settings: changed by another client meanwhile";
        return Err(Failure::new(Exit::Conflict, message)
            .with_remedy("run the same command again")
            .into());
    }
    Ok(())
}

/// Returns the newest snapshot of each host.
fn heads_of(view: &View) -> BTreeMap<String, Head> {
    let snapshots = view.snapshots().into_iter().map(|(id, snapshot)| {
        let head = Head { snapshot: id.to_string(), started_ns: snapshot.started_ns };
        (snapshot.host.clone(), head)
    });
    // The snapshots come in the order of their times.
    snapshots.collect()
}

/// Reads a file. A file that cannot be read protects nothing, but must not stop a restore either.
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
                "{}: the recorded state of the repository is damaged and ignored: {error}",
                file.display()
            ));
            None
        }
    }
}

/// Returns the keys that last opened the repositories found at `location`.
pub(crate) fn keys_of(location: &Path) -> Vec<[u8; 16]> {
    let location = fs::canonicalize(location).unwrap_or_else(|_| location.to_path_buf());
    let location = location.to_string_lossy();
    let known = folder().map(|folder| known(&folder)).unwrap_or_default();
    known
        .into_iter()
        .filter(|(_, memory)| memory.location == location)
        .filter_map(|(_, memory)| key_id::parse(&memory.key_id))
        .collect()
}

fn decode(bytes: &[u8]) -> Result<Memory, String> {
    let memory: Memory = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match memory.version {
        VERSION => Ok(memory),
        version => Err(format!("unknown version (expected {VERSION}, found {version})")),
    }
}

/// Returns all remembered states, with the paths of their files.
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

/// Replaces the file atomically.
fn write(file: &Path, memory: &Memory) -> Result<()> {
    let context = || file.display().to_string();
    let folder = file.parent().context("a file has a folder")?;
    make_private_folder(folder).with_context(context)?;
    let staged = file.with_extension(format!("json.{}", std::process::id()));
    // An earlier process of the same number may have left the file, with any mode.
    fs::remove_file(&staged).ok();
    let result = private::create(&staged)
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

/// Creates a folder of this program, including missing parents, with access for its owner only. If
/// an existing folder is accessible to other users, removes their permissions.
pub(crate) fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE_MODE).create(folder)?;
    let mode = fs::metadata(folder)?.mode();
    if mode & OTHERS_MODE != 0 {
        // A failure is ignored: the owner of the folder may be another user, and the folder holds
        // no secrets.
        fs::set_permissions(folder, fs::Permissions::from_mode(mode & !OTHERS_MODE & 0o7777)).ok();
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
        let age = || fs::metadata(&path)?.modified()?.elapsed().map_err(std::io::Error::other);
        if is_staged && age().is_ok_and(|age| age > STAGED_AGE_MAX) {
            fs::remove_file(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::cutpoint_storage;
    use clap::Parser;
    use cutpoint_repository::InitOptions;
    use cutpoint_repository::Snapshot;
    use cutpoint_repository::Unlock;
    use cutpoint_repository::format::commit::{Commit, Outcome, ViewRecord};
    use cutpoint_repository::format::prune::Prune;
    use cutpoint_storage::Error;
    use cutpoint_storage::System;

    use super::*;
    use crate::args::Args;
    use crate::lag;
    use crate::report::PROGRAM;

    fn report() -> Report {
        Report::new(PROGRAM, &Args::parse_from(["cutpoint", "stats", "--quiet"]).global.output)
    }

    fn id(number: u8) -> TicketId {
        TicketId([number; 12])
    }

    /// Returns a view of these snapshots of one host, in ascending order of time.
    fn view(snapshots: &[u8]) -> View {
        let commit = |number: u8| Commit {
            segments: Vec::new(),
            view: ViewRecord::default(),
            time_ns: 0,
            outcome: Outcome::Snapshot(Box::new(Snapshot {
                host: "a".to_owned(),
                started_ns: i64::from(number),
                ..Snapshot::empty()
            })),
            extra: Vec::new(),
        };
        let commits = snapshots.iter().map(|number| (id(*number), Arc::new(commit(*number))));
        let mut view = View::default();
        view.commits = commits.collect();
        view
    }

    fn with_prune(mut view: View, number: u64, forgotten: &[u8]) -> View {
        let forgotten = forgotten.iter().map(|number| id(*number)).collect();
        view.prunes.insert(number, Arc::new(Prune { forgotten, ..Prune::default() }));
        view
    }

    fn state(rollback: Rollback) -> State {
        let now = Memory { version: VERSION, ..Memory::default() };
        State {
            file: None,
            saved: Some(now.clone()),
            now,
            rollback,
            is_older: false,
            unopened_settings: BTreeSet::new(),
        }
    }

    /// Returns the state that has seen `first` and then `second`.
    fn after(first: &View, second: &View, rollback: Rollback) -> Result<State> {
        let mut state = state(rollback);
        state.see(first, &report())?;
        state.saved = Some(state.now.clone());
        state.see(second, &report())?;
        Ok(state)
    }

    #[test]
    fn missing_prune_record_is_detected() {
        let pruned = with_prune(with_prune(view(&[2]), 1, &[1]), 2, &[]);
        let older = with_prune(view(&[1, 2]), 1, &[1]);
        let error = after(&pruned, &older, Rollback::Refuse).expect_err("prune 2 is gone");
        let text = error.to_string();
        assert!(text.contains("prune 2, snapshot") && text.contains("prune 1, snapshot"), "{text}");
        let accepted = after(&pruned, &older, Rollback::Accept).expect("it is meant");
        assert_eq!(accepted.now.prune_number, 1, "the older state is remembered");
        let report = report();
        let mut told = after(&pruned, &pruned, Rollback::Tell).expect("nothing is older");
        told.see(&older, &report).expect("it is only told");
        assert_eq!((report.problem_count(), told.now.prune_number), (1, 2), "told, not remembered");

        // A record that cannot be opened does not count, because anyone with access to the storage
        // can put some bytes in its place.
        let mut damaged = older;
        let error = Arc::new(Error::corrupt("prunes/2", "is damaged"));
        damaged.unreadable.insert(ObjectName::Prune(2), error);
        assert!(after(&pruned, &damaged, Rollback::Refuse).is_err(), "prune 2 does not open");
    }

    /// An object that does not open is neither remembered, nor an excuse for missing objects.
    #[test]
    fn junk_prune_changes_nothing() {
        let (all, one) = (view(&[1, 2]), view(&[1]));
        for number in [1, u64::MAX] {
            let error = Arc::new(Error::corrupt("x", "does not begin as an object does"));
            let mut rolled_back = one.clone();
            rolled_back.unreadable.insert(ObjectName::Prune(number), error.clone());
            assert!(after(&all, &rolled_back, Rollback::Refuse).is_err(), "prune {number}");
            let mut junk = all.clone();
            junk.unreadable.insert(ObjectName::Prune(number), error);
            let seen = after(&all, &junk, Rollback::Refuse).expect("nothing is gone");
            assert_eq!(seen.now.prune_number, 0, "prune {number}");
            assert!(after(&junk, &all, Rollback::Refuse).is_ok(), "the junk was taken away");
        }
    }

    #[test]
    fn snapshot_taken_by_prune_is_not_missed() {
        let (all, one) = (view(&[1, 2]), view(&[1]));
        assert!(after(&all, &one, Rollback::Refuse).is_err(), "nobody has taken it");
        // A sweep has deleted the commit of the snapshot.
        let swept = with_prune(one.clone(), 1, &[2]);
        let seen = after(&all, &swept, Rollback::Refuse).expect("a prune has taken it");
        assert_eq!(seen.now.heads["a"].snapshot, id(1).to_string(), "the newest that is left");
        // The snapshot exists and cannot be opened. It is reported as damaged, and stays
        // remembered.
        let mut damaged = one.clone();
        let error = Arc::new(Error::corrupt("x", "is damaged"));
        damaged.unreadable.insert(ObjectName::Commit(id(2)), error);
        let report = report();
        let mut state = state(Rollback::Refuse);
        state.see(&all, &report).expect("nothing is older");
        state.see(&damaged, &report).expect("it is there");
        assert_eq!(report.problem_count(), 1, "it is told");
        assert_eq!(state.now.heads["a"].snapshot, id(2).to_string(), "it is remembered");
        assert!(state.see(&one, &report).is_err(), "now it is gone");
    }

    #[test]
    fn commits_are_not_read_if_all_are_listed() {
        let mut state = state(Rollback::Refuse);
        state.see(&with_prune(view(&[1, 2]), 3, &[]), &report()).expect("nothing is older");
        let names =
            |names: &[String]| names.iter().map(|name| (name.clone(), 1)).collect::<Vec<_>>();
        let commits = names(&[format!("commits/{}", id(1)), format!("commits/{}", id(2))]);
        let prunes = names(&[ObjectName::Prune(2).to_string(), ObjectName::Prune(3).to_string()]);
        assert!(state.is_among(&commits, &prunes), "all is there");
        assert!(!state.is_among(&commits[..1], &prunes), "the snapshot is gone");
        assert!(!state.is_among(&commits, &prunes[..1]), "the prune is gone");
    }

    /// Another process changes the settings and remembers them after this process has opened the
    /// repository. This is not an older state.
    #[test]
    fn settings_changed_meanwhile_are_not_older() {
        let storage = Arc::new(cutpoint_storage::Memory::new());
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed:size=4096".to_owned(),
            region_size: 65_536,
            container_size: 4 << 20,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
        };
        let system = Arc::new(System);
        Repository::init(storage.clone(), system.clone(), &Unlock::Nothing, &options)
            .expect("an empty memory takes a repository");
        let open = || Repository::open(storage.clone(), system.clone(), &Unlock::Nothing);
        let early = open().expect("it opens");
        let mut other = open().expect("it opens");
        assert!(refuse_overtaken(&early).is_ok(), "nobody has changed anything");
        other.set_config(other.config().clone()).expect("memory takes settings");
        let error = refuse_overtaken(&early).expect_err("somebody has");
        assert_eq!(Exit::of(&error), Exit::Conflict, "{error}");
        assert!(refuse_overtaken(&other).is_ok(), "that was the other itself");
    }

    #[test]
    fn state_in_lagging_listing_is_not_older() {
        let storage = cutpoint_storage::Memory::new();
        let mut state = state(Rollback::Refuse);
        let newest = with_prune(view(&[1, 2]), 2, &[]);
        state.see(&newest, &report()).expect("nothing is older");
        let listed = with_prune(view(&[1]), 1, &[]);
        let unlisted = |state: &State| state.unlisted(&listed, &storage).expect("memory answers");
        assert_eq!(unlisted(&state), None, "nothing lies there: that is an older state");
        let put = |name: ObjectName| {
            storage.put_new(&name.to_string(), bytes::Bytes::new()).expect("memory takes it");
        };
        put(ObjectName::Prune(2));
        assert_eq!(unlisted(&state), Some(ObjectName::Prune(2)), "the record lies there");
        put(ObjectName::Commit(id(2)));
        assert_eq!(unlisted(&state), Some(ObjectName::Commit(id(2))), "the snapshot lies there");
        assert_eq!(
            state.unlisted(&newest, &storage).expect("memory answers"),
            None,
            "all is listed"
        );
        // The object was listed, and is damaged.
        let mut damaged = with_prune(view(&[1, 2]), 1, &[]);
        let error = Arc::new(Error::corrupt("x", "is damaged"));
        damaged.unreadable.insert(ObjectName::Prune(2), error);
        assert_eq!(state.unlisted(&damaged, &storage).expect("memory answers"), None, "damage");
    }

    /// A prune that has taken a snapshot is not listed yet, nor is its deletion by a sweep.
    #[test]
    fn snapshot_taken_by_unlisted_prune_is_awaited() {
        let storage = cutpoint_storage::Memory::new();
        let mut state = state(Rollback::Refuse);
        state.see(&view(&[1, 2]), &report()).expect("nothing is older");
        let name = ObjectName::Prune(1);
        storage.put_new(&name.to_string(), bytes::Bytes::new()).expect("memory takes it");
        assert_eq!(state.unlisted(&view(&[1]), &storage).expect("memory answers"), Some(name));
    }

    #[test]
    fn settings_in_lagging_listing_are_awaited() {
        let storage = lag::tests::Lagging::new("config/00000000000000000001");
        let mut changed = lag::tests::init(storage.clone());
        changed.set_config(changed.config().clone()).expect("memory takes settings");
        storage.lag(u64::MAX);
        let open = || {
            Repository::open(storage.clone(), Arc::new(System), &Unlock::Nothing).expect("it opens")
        };
        let early = open();
        assert_eq!(early.config_number(), 0, "the listing lags");
        let name = ObjectName::Config { number: 1, copy: false };
        assert_eq!(unlisted_number(&early, 1).expect("memory answers"), Some(name));
        assert_eq!(unlisted_number(&early, 2).expect("memory answers"), None, "really older");
        // The settings are listed by now, but the repository was opened with older ones. This is
        // damage, or a concurrent change.
        storage.lag(0);
        assert_eq!(unlisted_number(&early, 1).expect("memory answers"), None, "it is listed");
        assert_eq!(unlisted_number(&open(), 1).expect("memory answers"), None, "nothing is older");
    }

    /// A damaged file counts either completely or not at all.
    #[test]
    fn damaged_state_files_are_ignored() {
        let mut memory = Memory { version: VERSION, ..Memory::default() };
        let head = Head { snapshot: id(1).to_string(), started_ns: i64::MIN };
        memory.heads.insert("host".to_owned(), head);
        let whole = serde_json::to_vec(&memory).expect("it is plain data");
        assert_eq!(decode(&whole), Ok(memory), "what is written is read");
        let palette = b"\"\\{}[],:-0129eE.un\xff\xf0\0a";
        let mut random = cutpoint_testing::SplitMix64::new(1);
        for len in 0..whole.len() {
            assert!(decode(&whole[..len]).is_err(), "the first {len} bytes");
        }
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let place = random.below(bytes.len());
                bytes[place] = palette[random.below(palette.len())];
            }
            let Ok(memory) = decode(&bytes) else { continue };
            memory.in_words(newest(&memory.heads));
            let again = serde_json::to_vec(&memory).expect("it is plain data");
            assert_eq!(decode(&again), Ok(memory), "what is read is written the same");
        }
    }

    /// Two processes save the state that they have seen. The later one keeps what the other one has
    /// seen.
    #[test]
    fn state_seen_by_another_process_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("x.json");
        let own = |mut state: State, config_number, snapshot| {
            state.file = Some(file.clone());
            state.now.config_number = config_number;
            state.add_head("a", id(snapshot), i64::from(snapshot));
            state.save(&report());
            decode(&fs::read(&file).expect("it is written")).expect("it is whole")
        };
        own(state(Rollback::Refuse), 5, 2);
        let kept = own(state(Rollback::Refuse), 4, 1);
        assert_eq!((kept.config_number, kept.heads["a"].started_ns), (5, 2), "the newer of both");
        let meant = own(state(Rollback::Accept), 3, 1);
        assert_eq!((meant.config_number, meant.heads["a"].started_ns), (3, 1), "as was meant");
    }
}
