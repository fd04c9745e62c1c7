//! The messages about the remembered state of a repository, and the treatment of an older one. The
//! comparison itself is [`cutpoint_repository::repo::remembered`].
//!
//! There is one file per repository, `XDG_STATE_HOME/cutpoint/<repository id>.json`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use cutpoint_repository::repo::remembered::{
    self, Comparison, Head, Recognition, RememberedState, StateFolder, StateRecord, UnreadCause,
    UnreadRecord,
};
use cutpoint_repository::{ObjectName, Repository, TicketId, View};
use cutpoint_storage::Storage;

use crate::exit::{Exit, Failure};
use crate::place;
use crate::report::Report;
use crate::units;

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

/// The remembered state of one repository, and the treatment of an older one.
#[derive(Debug)]
pub(crate) struct State {
    remembered: RememberedState,
    rollback: Rollback,
    /// Set if the repository was found in an older state.
    is_older: bool,
}

/// Returns `XDG_STATE_HOME/cutpoint`, or its default.
pub(crate) fn folder() -> Option<StateFolder> {
    xdg("XDG_STATE_HOME", ".local/state").map(StateFolder::new)
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

/// The command that accepts an older state.
pub(crate) const ACCEPT: &str = "cutpoint snapshots --accept-rollback";
/// The effect of this command, as a clause with a verb in the third person.
pub(crate) const ACCEPT_EFFECT: &str =
    "accepts the present state as the newest, once its cause is known";

impl State {
    /// Returns the state of a repository that was just created.
    pub(crate) fn new(repository: &Repository, location: &Path) -> State {
        let remembered =
            RememberedState::new(folder().as_ref(), repository, &place::without_password(location));
        State { remembered, rollback: Rollback::Refuse, is_older: false }
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
        let folder = folder();
        let location = place::without_password(location);
        let (remembered, recognition) =
            RememberedState::load(folder.as_ref(), repository, &location);
        if let Some(unread) = remembered.unread() {
            warn_of_unread(unread, report);
        }
        let mut state = State { remembered, rollback, is_older: false };
        let StateRecord { location, repository: id, .. } = state.remembered.seen();
        match recognition {
            Recognition::Known => {}
            Recognition::OlderSettings => {
                refuse_overtaken(repository)?;
                let view = View::list(repository)?;
                state.see(&view, report)?;
            }
            Recognition::EncryptionLost { file } => {
                let why = "not encrypted, but was encrypted before; the repository was replaced";
                return Err(refuse(location, why, &file).into());
            }
            Recognition::OtherWasEncrypted { file } => {
                let why = "not encrypted, but the previous repository at this place was";
                return Err(refuse(location, why, &file).into());
            }
            Recognition::OtherRepository { file, repository: other } => report.warn(&format!(
                "{location}: the repository was {other} at its last use on this machine ({}), and \
                 is {id} now",
                file.display(),
            )),
            Recognition::FirstUse => report.note(&format!(
                "First use of repository {id} on this machine: a rollback cannot be detected yet.",
            )),
        }
        Ok(state)
    }

    /// Compares `view` with the remembered state, and remembers what is new.
    ///
    /// # Errors
    ///
    /// Fails if the view is older and `rollback` is [`Rollback::Refuse`]. A view is older if a
    /// prune record is gone, if a snapshot is gone that no prune has taken, or if settings or keys
    /// are older.
    pub(crate) fn see(&mut self, view: &View, report: &Report) -> Result<()> {
        let comparison = self.remembered.compare(view);
        tell_damaged(&comparison, report);
        if comparison.is_older() {
            self.tell_older(&comparison, report)?;
        }
        if self.rollback == Rollback::Accept {
            self.remembered.accept(comparison);
        } else {
            self.remembered.update(comparison);
        }
        Ok(())
    }

    fn tell_older(&mut self, comparison: &Comparison, report: &Report) -> Result<()> {
        let was_told = std::mem::replace(&mut self.is_older, true);
        let text = describe_older(comparison);
        match self.rollback {
            Rollback::Refuse => Err(Failure::new(Exit::RolledBack, text)
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
        Ok(self.remembered.unlisted(view, storage)?)
    }

    /// Returns `true` if an older state was reported as a problem and not accepted.
    pub(crate) fn is_rollback_told(&self) -> bool {
        self.is_older && self.rollback == Rollback::Tell
    }

    /// Returns `true` if an older state was accepted, so that it must be saved.
    pub(crate) fn is_rollback_accepted(&self) -> bool {
        self.is_older && self.rollback == Rollback::Accept
    }

    /// Returns `true` if every remembered object exists, by its name
    /// ([`RememberedState::is_present`]).
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn is_present(&self, repository: &Repository) -> Result<bool> {
        Ok(self.remembered.is_present(repository)?)
    }

    /// Remembers a snapshot that was just made.
    pub(crate) fn add_head(&mut self, host: &str, snapshot: TicketId, started_ns: i64) {
        self.remembered.add_head(host, snapshot, started_ns);
    }

    /// Remembers the number of a prune record that was just made.
    pub(crate) fn add_prune(&mut self, number: u64) {
        self.remembered.add_prune(number);
    }

    /// Remembers the settings and the key epoch that were just made.
    pub(crate) fn set_settings(&mut self, repository: &Repository) {
        self.remembered.set_settings(repository);
    }

    /// Saves the state if it has changed. A failure is only a warning, because commands work
    /// without it.
    pub(crate) fn save(&mut self, report: &Report) {
        if self.is_rollback_told() {
            return;
        }
        let result = match self.rollback {
            Rollback::Accept => self.remembered.overwrite(),
            Rollback::Refuse | Rollback::Tell => self.remembered.save(),
        };
        if let Err(error) = result {
            report.warn(&format!("cannot record the state of the repository: {error:#}"));
        }
    }
}

/// Returns the remembered settings of `repository` if they are newer than those it was opened with
/// and exist. The listing lags behind then.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn unlisted_settings(repository: &Repository) -> Result<Option<ObjectName>> {
    match folder() {
        Some(folder) => Ok(remembered::unlisted_settings(&folder, repository)?),
        None => Ok(None),
    }
}

/// Returns the keys that last opened the repositories found at `location`.
pub(crate) fn keys_of(location: &Path) -> Vec<[u8; 16]> {
    folder().map(|folder| folder.keys_of(&place::without_password(location))).unwrap_or_default()
}

/// Fails if the settings were changed meanwhile: this is a conflict, and not an older state.
fn refuse_overtaken(repository: &Repository) -> Result<()> {
    if remembered::is_overtaken(repository) {
        let message = "settings: changed by another client meanwhile";
        return Err(Failure::new(Exit::Conflict, message)
            .with_remedy("run the same command again")
            .into());
    }
    Ok(())
}

fn refuse(location: &str, why: &str, file: &Path) -> Failure {
    Failure::new(Exit::WrongKey, format!("{location}: {why}"))
        .with_remedy(format!("if this change is intended, remove {}", file.display()))
}

/// Warns of a file that cannot be read. It protects nothing, but must not stop a restore either.
fn warn_of_unread(UnreadRecord { file, cause }: &UnreadRecord, report: &Report) {
    let file = file.display();
    report.warn(&match cause {
        UnreadCause::Io(error) => format!("{file}: {error}"),
        UnreadCause::Damaged(error) => {
            format!("{file}: the recorded state of the repository is damaged and ignored: {error}")
        }
    });
}

/// Reports remembered snapshots that exist and cannot be opened, if their host has no newer one.
/// The snapshot that is taken for the newest is older then.
fn tell_damaged(comparison: &Comparison, report: &Report) {
    for (host, head) in comparison.damaged_newest() {
        report.problem(
            Path::new("latest"),
            &format!(
                "the newest snapshot of {host:?} known on this machine, {}, exists, but cannot be \
                 opened (damaged or replaced); an older snapshot is shown and restored as the \
                 latest",
                describe_head(head)
            ),
        );
    }
}

/// Describes a snapshot by its id and its time.
fn describe_head(head: &Head) -> String {
    let id = head.snapshot.get(..8).unwrap_or_default();
    let time = units::date_time(head.started_ns.div_euclid(1_000_000_000));
    format!("{id} of {time}")
}

/// Describes a state, with `head` as its snapshot.
fn describe_state(state: &StateRecord, head: Option<(&String, &Head)>) -> String {
    let head = head.or_else(|| state.newest_head()).map_or_else(
        || "no snapshot".to_owned(),
        |(host, head)| format!("snapshot {}, host {host:?}", describe_head(head)),
    );
    format!(
        "settings {}, key epoch {}, prune {}, {head}",
        state.config_number, state.epoch, state.prune_number
    )
}

/// Describes an older state, and the remembered one.
fn describe_older(comparison: &Comparison) -> String {
    let Comparison { expected, found, gone, .. } = comparison;
    let missing = comparison.newest_gone();
    let host = missing.map(|(host, _)| host);
    // The newest snapshot of the same host shows best how old the state is.
    let present = host.and_then(|host| found.heads.get_key_value(host));
    format!(
        "{}: the repository is older than at its last use on this machine{}. Expected: {}. Found: \
         {}. {}",
        found.location,
        match gone.len() {
            0 => String::new(),
            count => format!(
                "; {} of {count} {} missing, and no prune has removed {}",
                if count == 1 { "the newest snapshot" } else { "the newest snapshots" },
                if count == 1 { "host is" } else { "hosts are" },
                if count == 1 { "it" } else { "them" },
            ),
        },
        describe_state(expected, missing),
        describe_state(found, present),
        reason(&comparison.unopened, !gone.is_empty()),
    )
}

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use cutpoint_repository::format::commit::{Commit, Outcome, ViewRecord};
    use cutpoint_repository::format::prune::Prune;
    use cutpoint_repository::{CipherSuite, InitOptions, Snapshot, Unlock};
    use cutpoint_storage::{Error, Memory, System};

    use super::*;
    use crate::args::Args;
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
            embedded: None,
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

    fn with_prune(mut view: View, number: u64, taken: &[u8]) -> View {
        let taken = taken.iter().map(|number| id(*number)).collect();
        view.prunes.insert(number, Arc::new(Prune { taken, ..Prune::default() }));
        view
    }

    /// Creates a repository that is not encrypted, and returns two clients of it.
    fn two_clients() -> (Repository, Repository) {
        let storage = Arc::new(Memory::new());
        let options = InitOptions { suite: CipherSuite::None, ..InitOptions::default() };
        Repository::init(storage.clone(), Arc::new(System), &Unlock::Nothing, &options)
            .expect("an empty memory takes a repository");
        let open = || {
            Repository::open(storage.clone(), Arc::new(System), &Unlock::Nothing).expect("it opens")
        };
        (open(), open())
    }

    /// Returns the state of a new repository that has seen `first` and remembers it.
    fn after(first: &View, rollback: Rollback) -> State {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = StateFolder::new(folder.path());
        let (repository, _) = two_clients();
        let remembered = RememberedState::new(Some(&folder), &repository, Path::new("/repo"));
        let mut state = State { remembered, rollback, is_older: false };
        state.see(first, &report()).expect("nothing is older");
        state.save(&report());
        state
    }

    #[test]
    fn older_state_is_refused_or_told_or_accepted() {
        let pruned = with_prune(with_prune(view(&[2]), 1, &[1]), 2, &[]);
        let older = with_prune(view(&[1, 2]), 1, &[1]);
        let error = after(&pruned, Rollback::Refuse).see(&older, &report());
        let error = error.expect_err("prune 2 is gone");
        assert_eq!(Exit::of(&error), Exit::RolledBack, "{error}");
        let text = error.to_string();
        assert!(text.contains("prune 2, snapshot") && text.contains("prune 1, snapshot"), "{text}");
        let mut accepted = after(&pruned, Rollback::Accept);
        accepted.see(&older, &report()).expect("it is intended");
        assert_eq!(accepted.remembered.seen().prune_number, 1, "the older state is remembered");
        let report = report();
        let mut told = after(&pruned, Rollback::Tell);
        told.see(&older, &report).expect("it is only told");
        let prune_number = told.remembered.seen().prune_number;
        assert_eq!((report.problem_count(), prune_number), (1, 2), "told, not remembered");
    }

    #[test]
    fn damaged_newest_snapshot_is_told() {
        let mut damaged = view(&[1]);
        let error = Arc::new(Error::corrupt("x", "is damaged"));
        damaged.unreadable.insert(ObjectName::Commit(id(2)), error);
        let report = report();
        let mut state = after(&view(&[1, 2]), Rollback::Refuse);
        state.see(&damaged, &report).expect("it is there");
        assert_eq!(report.problem_count(), 1, "it is told");
        assert!(state.see(&view(&[1]), &report).is_err(), "now it is gone");
    }

    /// Another process changes the settings and remembers them after this process has opened the
    /// repository. This is not an older state.
    #[test]
    fn settings_changed_meanwhile_are_a_conflict() {
        let (early, mut other) = two_clients();
        assert!(refuse_overtaken(&early).is_ok(), "nothing has changed");
        other.set_config(other.config().clone()).expect("memory takes settings");
        let error = refuse_overtaken(&early).expect_err("the other client has changed them");
        assert_eq!(Exit::of(&error), Exit::Conflict, "{error}");
        assert!(refuse_overtaken(&other).is_ok(), "that was the other itself");
    }

    /// A file of remembered state can have any time and any id.
    #[test]
    fn any_head_is_described() {
        for (snapshot, started_ns) in [("", i64::MIN), ("\u{e4}\u{f6}\u{fc}", i64::MAX)] {
            let head = Head { snapshot: snapshot.to_owned(), started_ns };
            assert!(describe_head(&head).contains(" of "), "{snapshot:?}");
        }
    }
}
