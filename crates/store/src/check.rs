//! Checking: is everything there, and is it what was written?
//!
//! A check takes no ticket and changes nothing; [`record`] writes down what it found, so that the
//! next backup stores it again. A check goes on after every finding: what is damaged
//! must not hide what else is. Others may write, prune and sweep meanwhile: what is gone is looked
//! for in a second listing before it is said to be missing.
//!
//! What it cannot see by design stands in `docs/reliability.md`, which a test compares with what it
//! finds.

mod affected;
mod composites;
mod coverage;
mod data;
mod known;
mod objects;
pub(crate) mod original;
mod parity;
mod remedy;
mod snapshots;
mod walk;
mod wholes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Kind, Result, Tolerance};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::{Damage, Outcome};
use crate::format::segment::ContainerRecord;
use crate::index::Index;
use crate::lifecycle::commit_alone;
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::parity::Listed;
use crate::reader::Reader;
use crate::repository::Repository;

pub use coverage::{Coverage, Covered, Portion};
pub use remedy::Remedy;
pub(crate) use snapshots::Lost;

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions<'a> {
    /// How much of the containers is read, every byte of it; without, only what says where things
    /// are.
    pub read_data: Option<Portion>,
    /// What was read when, by earlier checks: of a part, what was not read for longest comes first.
    /// What is read is noted there, as soon as it is.
    pub coverage: Option<&'a Mutex<Coverage>>,
    /// How many threads read containers; 0 is as many as the machine has.
    pub threads: usize,
}

/// What is wrong, or worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes are not what was written, or the storage does not give them.
    Corrupt,
    /// Something that is named is not there.
    Missing,
    /// A file or folder of a snapshot cannot be restored, because of another finding.
    Affected,
    /// Something that this cutpoint has not written, or that is damaged but that nothing names. No
    /// error.
    Foreign,
    /// Something is damaged or gone, and that is known: no snapshot that is listed needs it any
    /// more. No error; a prune clears it away.
    Unneeded,
    /// A writer that has neither ended nor been ended. No error: it may be at work.
    Unfinished,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing is wrong.
    pub kind: FindingKind,
    /// The object, or the snapshot and path.
    pub object: String,
    /// What was found there.
    pub message: String,
    /// The commands that end this finding, in the order in which they are to be tried: what is named
    /// is as it was then, or nothing misses it any more. None where it is no error, or where there is
    /// none.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// Whether something is lost or damaged.
    pub fn is_error(&self) -> bool {
        use FindingKind::{Affected, Corrupt, Missing};
        matches!(self.kind, Corrupt | Missing | Affected)
    }
}

/// Hears of what a check does. Methods can be called from several threads.
pub trait CheckMonitor: Sync {
    /// So many containers and bytes are to be read.
    fn expected(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// So many more have been read.
    fn progress(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// Something was found.
    fn finding(&self, finding: &Finding) {
        let _ = finding;
    }

    /// Whether to stop. Asked often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that hears nothing.
impl CheckMonitor for () {}

/// What a check has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Findings that are errors.
    pub error_count: u64,
    /// Findings that are not.
    pub note_count: u64,
    /// Snapshots walked.
    pub snapshot_count: u64,
    /// References to chunks that were followed; each tree and recipe was read once.
    pub reference_count: u64,
    /// Containers that the index names, or may have named before parts of it became unreadable.
    pub container_count: u64,
    /// Containers that nothing names, nor anything unreadable can have named: what interrupted runs
    /// left.
    pub unreferenced_count: u64,
    /// Their size in bytes.
    pub unreferenced_bytes: u64,
    /// The size of the containers that there are, in bytes.
    pub container_bytes: u64,
    /// Containers that have no parity that can be used, though the settings ask for it.
    pub unprotected_count: u64,
    /// Their size in bytes.
    pub unprotected_bytes: u64,
    /// Bytes of containers read, with `read_data`.
    pub read_bytes: u64,
    /// How much this check and those before have read, as far as it is remembered.
    pub covered: Covered,
    /// Chunks whose fingerprints were verified, with `read_data`.
    pub chunk_count: u64,
    /// Chunks that listed snapshots need and that cannot be read from anywhere.
    pub lost_count: u64,
    /// The key epochs that are over, each with the number of commits that are sealed with its key. Those
    /// who were shut out by a newer epoch can have written them.
    pub old_epochs: BTreeMap<u32, u64>,
    /// Where chunks cannot be read, sorted: for [`record`]. Without what was recorded before, unless a
    /// snapshot that was made since by somebody who knew needs such a chunk all the same.
    pub damages: Vec<Damage>,
}

/// At most so many lost chunks and affected paths are named; the rest is counted.
const NAMED_MAX: u64 = 1000;
/// At most so many chunks are recorded in one commit: 5 MB.
const RECORDED_MAX: usize = 100_000;

/// Whether anything could need an object. Decides how bad it is when it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A commit, a prune or a writer that has not ended names it.
    Named,
    /// The same of a container of which it is recorded that it is damaged. Whether something needs
    /// it all the same the snapshots will tell.
    Recorded(Class, PartName),
    /// Nothing names it.
    Unnamed,
    /// It has been of use, and nobody reads it any more.
    Past,
}

/// A finding of a container that was known to be damaged.
struct Deferred {
    container: (Class, PartName),
    finding: Finding,
}

/// What the parts of a check share.
struct Check<'a> {
    repository: &'a Arc<Repository>,
    monitor: &'a dyn CheckMonitor,
    /// Every object: its name and length.
    listing: BTreeMap<String, u64>,
    /// Those of them that are parity.
    parity: Listed,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    report: CheckReport,
    tolerance: Tolerance,
    /// Objects of which an error was found.
    named: HashSet<String>,
    /// What the index says of containers.
    records: HashMap<(Class, PartName), ContainerRecord>,
    /// Records whose chunk cannot be read.
    bad: HashSet<Damage>,
    /// Records whose chunk can be read, though their container is damaged elsewhere: what it holds
    /// should be stored again.
    weak: HashSet<Damage>,
    /// Composites that lack a whole. What is stored of them themselves is well.
    unbuilt: HashSet<Damage>,
    /// Wholes that composites lack, and why.
    lacking: HashMap<(Class, Fingerprint), Error>,
    /// Containers of which every byte was read.
    read: HashSet<(Class, PartName)>,
    /// Containers of which a parity object can be used.
    protected: HashSet<(Class, PartName)>,
    /// Containers that the storage did not give when they were to be read.
    refused: HashSet<(Class, PartName)>,
    /// Findings whose weight is not known yet.
    deferred: Vec<Deferred>,
    /// Remedies by the object that was damaged: a container can have thousands of findings.
    remedies: HashMap<String, Vec<Remedy>>,
    /// The key epochs that the headers of commits give.
    epochs: BTreeMap<TicketId, u32>,
}

impl Check<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finding(&self, kind: FindingKind, object: impl ToString, message: impl ToString) {
        let object = object.to_string();
        let mut finding =
            Finding { kind, object, message: message.to_string(), remedies: Vec::new() };
        if finding.is_error() {
            finding.remedies = self.remedies(&finding.object);
        }
        {
            let mut state = self.lock();
            if finding.is_error() {
                state.report.error_count += 1;
                state.named.insert(finding.object.clone());
            } else {
                state.report.note_count += 1;
            }
        }
        self.monitor.finding(&finding);
    }

    /// The commands that end an error that was found of `object`; which these are is found out once.
    fn remedies(&self, object: &str) -> Vec<Remedy> {
        if let Some(known) = self.lock().remedies.get(object) {
            return known.clone();
        }
        let remedies = remedy::remedies(self, object);
        if ObjectName::parse(object).is_ok() {
            self.lock().remedies.insert(object.to_owned(), remedies.clone());
        }
        remedies
    }

    /// Names `object` and what is wrong with it, and goes on.
    ///
    /// # Errors
    ///
    /// Where the check was cancelled, or so much cannot be read that the storage is to blame.
    fn failed(&self, object: impl ToString, error: Error, need: Need) -> Result<()> {
        let kind = match error.kind() {
            Kind::Interrupted => return Err(error),
            Kind::Missing => FindingKind::Missing,
            _ => FindingKind::Corrupt,
        };
        let mut message = plain(&object, &error);
        if error.newer().is_some() && is_commit(&object) {
            message.push_str(
                "; `cutpoint repair snapshots --forget --ignore-newer` gives up a commit that was planted",
            );
        }
        if error.kind() == Kind::Media {
            message.push_str(
                "; if the storage goes on refusing it, delete it there, and check again: then it \
                 counts as gone",
            );
        }
        self.wrong(kind, object, message, need);
        self.lock().tolerance.of_one(error).map(drop)
    }

    /// Names what is wrong with `object`, as heavily as it is needed.
    fn wrong(&self, kind: FindingKind, object: impl ToString, message: String, need: Need) {
        match need {
            Need::Named => self.finding(kind, object, message),
            Need::Recorded(class, part) => {
                let object = object.to_string();
                let finding = Finding { kind, object, message, remedies: Vec::new() };
                let mut state = self.lock();
                state.named.insert(finding.object.clone());
                state.deferred.push(Deferred { container: (class, part), finding });
            }
            Need::Unnamed => {
                let message = format!("nothing names it; {message}");
                self.finding(FindingKind::Foreign, object, message);
            }
            Need::Past => {
                let message = format!("nothing needs it any more; {message}");
                self.finding(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Names what was put off: it is an error still where something of the container is `needed`.
    fn name_deferred(&self, needed: &HashSet<(Class, PartName)>) {
        let deferred = std::mem::take(&mut self.lock().deferred);
        for Deferred { container, finding: Finding { kind, object, message, .. } } in deferred {
            if needed.contains(&container) {
                self.finding(kind, object, message);
            } else {
                let message =
                    format!("{message}; no snapshot that is listed needs what is damaged");
                self.finding(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Whether the object that `error` is about has been named.
    fn is_named(&self, error: &Error) -> bool {
        let object = error.object();
        let object = object.split_once(": ").map_or(object, |(object, _)| object);
        self.lock().named.contains(object)
    }

    fn stop_if_cancelled(&self) -> Result<()> {
        if self.monitor.cancelled() {
            Err(Error::new(Kind::Interrupted, "check", "interrupted"))
        } else {
            Ok(())
        }
    }

    fn count(&self, change: impl FnOnce(&mut CheckReport)) {
        change(&mut self.lock().report);
    }
}

fn is_commit(object: &impl ToString) -> bool {
    ObjectName::parse(&object.to_string()).is_ok_and(|name| name.kind() == ObjectKind::Commit)
}

/// A message without the object that it begins with: most errors name it themselves.
fn plain(object: &impl ToString, message: impl ToString) -> String {
    let message = message.to_string();
    let prefix = format!("{}: ", object.to_string());
    message.strip_prefix(&prefix).map_or_else(|| message.clone(), str::to_owned)
}

/// Checks a repository.
///
/// # Errors
///
/// Only where the check itself cannot go on: `Media`, and `Interrupted` where the monitor says so.
/// What is wrong with the repository are findings.
pub fn check(
    repository: &Arc<Repository>,
    options: &CheckOptions<'_>,
    monitor: &dyn CheckMonitor,
) -> Result<CheckReport> {
    Ok(find_lost(repository, options, monitor)?.0)
}

/// As [`check`]; returns the chunks that cannot be read, too.
pub(crate) fn find_lost(
    repository: &Arc<Repository>,
    options: &CheckOptions<'_>,
    monitor: &dyn CheckMonitor,
) -> Result<(CheckReport, Lost)> {
    let listing = objects::list(repository)?;
    let parity = crate::parity::sorted(listing.iter().map(|(path, len)| (path.clone(), *len)));
    let check = Check { repository, monitor, listing, parity, state: Mutex::default() };
    objects::check_names(&check);
    objects::check_configs(&check)?;
    objects::check_keys(&check)?;
    objects::check_hints(&check)?;
    let mut seen = objects::check_view(&check)?;
    let containers = objects::check_segments(&check, &mut seen)?;
    let records = containers.iter().filter_map(|task| task.record);
    check.lock().records = records.map(|record| ((record.class, record.name), record)).collect();
    let tasks = objects::check_containers(&check, &mut seen, containers)?;
    parity::check_others(&check, &seen, &tasks)?;
    // What this machine has cached must not be taken for damage of the repository.
    let index = Arc::new(Index::open_without_cache(repository.clone(), &seen.view)?);
    let reader = Reader::new(repository.clone(), index, seen.view.clone());
    data::check(&check, &seen, &reader, &tasks, options)?;
    let (damages, lost) = snapshots::check(&check, &mut seen, &reader)?;
    let mut report = check.lock().report.clone();
    report.damages = damages.into_iter().collect();
    let mut state = check.lock();
    for (commit, epoch) in std::mem::take(&mut state.epochs) {
        if seen.view.commits.contains_key(&commit) && epoch < repository.keys().epoch() {
            *report.old_epochs.entry(epoch).or_default() += 1;
        }
    }
    let protected = std::mem::take(&mut state.protected);
    let refused_containers = std::mem::take(&mut state.refused);
    Ok((report, Lost { protected, refused_containers, ..lost }))
}

/// Records that chunks cannot be read from where they are said to be, in `damage` commits: from
/// then on no writer refers to them (W2), and files that need them are read again (W3). `recorded`
/// hears of each commit that was made, and how many of `damages` it has: those before a failure count.
///
/// # Errors
///
/// As [`crate::writer::Writer::commit`]; `Conflict` where others ended the ticket every time.
pub fn record(
    repository: &Arc<Repository>,
    damages: &[Damage],
    mut recorded: impl FnMut(TicketId, usize),
) -> Result<()> {
    for part in damages.chunks(RECORDED_MAX) {
        let commit = commit_alone(repository, "the record of what is damaged", |_| {
            Ok::<_, Error>(Some(Outcome::Damage(part.to_vec())))
        })?;
        commit.into_iter().for_each(|commit| recorded(commit, part.len()));
    }
    Ok(())
}
