//! Checks: verification that every object exists and holds what was written.
//!
//! A check takes no ticket and changes nothing; [`record`] records its findings, so that the next
//! backup stores the damaged data again. A check goes on after every finding, because one damage
//! must not hide another. Other clients may write, prune and sweep meanwhile, so an object that is
//! absent is looked for in a second listing before it is reported as missing.
//!
//! The damage that a check cannot detect by design is listed in `docs/reliability.md`, which a test
//! compares with the findings.

mod affected;
mod coverage;
mod data;
mod delta_chunks;
mod full_chunks;
mod known;
mod objects;
pub(crate) mod original;
mod parity;
mod remedy;
mod snapshots;
mod walk;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::format::commit::{Damage, Outcome};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::newer::Newer;
use crate::format::segment::ContainerRecord;
use crate::index::Index;
use crate::parity::ParityListing;
use crate::read::Reader;
use crate::repo::repository::Repository;
use crate::snapshots::commit_alone;
use crate::util::tolerance::Tolerance;

pub use coverage::{Coverage, Covered, Portion};
pub use remedy::Remedy;
pub(crate) use snapshots::Lost;

/// The options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions<'a> {
    /// The portion of the containers that is read completely; `None` to read only tables of contents and
    /// other metadata.
    pub read_data: Option<Portion>,
    /// The times at which earlier checks read containers. A check of a part begins with the
    /// containers that were not read for longest. Each container is noted here as soon as it is
    /// read.
    pub coverage: Option<&'a Mutex<Coverage>>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
}

/// The kind of a finding: an error, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes differ from those that were written, or the storage does not return them.
    Corrupt,
    /// An object that is named does not exist.
    Missing,
    /// A file or folder of a snapshot cannot be restored, because of another finding.
    Affected,
    /// An object that cutpoint has not written, or a damaged object that nothing names. Not an
    /// error.
    Foreign,
    /// An object that is damaged or gone, and that no listed snapshot needs any more. Not an error;
    /// a prune removes it.
    Unneeded,
    /// A writer that has neither ended nor been ended. Not an error, because the writer may be at
    /// work.
    Unfinished,
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The object, or the snapshot and path.
    pub object: String,
    /// A description of the problem.
    pub message: String,
    /// The commands that resolve the finding, in the order in which they should be tried. After
    /// them, the object is as it was, or nothing misses it any more. Empty if the finding is not an
    /// error, or if no command helps.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// Returns `true` if data is lost or damaged.
    pub fn is_error(&self) -> bool {
        use FindingKind::{Affected, Corrupt, Missing};
        matches!(self.kind, Corrupt | Missing | Affected)
    }
}

/// Receives the progress and the findings of a check. Methods can be called from several threads.
pub trait CheckMonitor: Sync {
    /// Announces the number of containers and bytes that will be read.
    fn expected(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// Reports the number of containers and bytes that were read since the last call.
    fn progress(&self, containers: u64, bytes: u64) {
        let _ = (containers, bytes);
    }

    /// Reports a finding.
    fn finding(&self, finding: &Finding) {
        let _ = finding;
    }

    /// Returns `true` to stop the check. Called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A monitor that ignores everything.
impl CheckMonitor for () {}

/// The results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of findings that are errors.
    pub error_count: u64,
    /// Number of findings that are not errors.
    pub note_count: u64,
    /// Number of snapshots walked.
    pub snapshot_count: u64,
    /// Number of references to chunks that were followed; each tree and recipe was read once.
    pub reference_count: u64,
    /// Number of containers that the index names, or may have named before parts of it became
    /// unreadable.
    pub container_count: u64,
    /// Number of containers that nothing names and nothing unreadable can have named: remains of
    /// interrupted runs.
    pub unreferenced_count: u64,
    /// The total size of the unreferenced containers in bytes.
    pub unreferenced_bytes: u64,
    /// The total size of all existing containers in bytes.
    pub container_bytes: u64,
    /// Number of containers that have no usable parity, although the settings ask for it.
    pub unprotected_count: u64,
    /// The total size of the unprotected containers in bytes.
    pub unprotected_bytes: u64,
    /// Number of container bytes read, with `read_data`.
    pub read_bytes: u64,
    /// The part of the containers that this check and remembered earlier checks have read.
    pub covered: Covered,
    /// Number of chunks whose fingerprints were verified, with `read_data`.
    pub chunk_count: u64,
    /// Number of chunks that listed snapshots need and that cannot be read from any place.
    pub lost_count: u64,
    /// The key epochs that are over, each with the number of commits that are sealed with its key.
    /// A client that a newer epoch has locked out can have written such commits.
    pub old_epochs: BTreeMap<u32, u64>,
    /// The places from which chunks cannot be read, sorted, for [`record`]. Places that were
    /// recorded earlier are omitted, unless a snapshot whose writer knew of the record needs such a
    /// chunk all the same.
    pub damages: Vec<Damage>,
}

/// Maximum number of lost chunks, and of affected paths, that are reported one by one; the rest is
/// counted.
const NAMED_MAX: u64 = 1000;
/// Maximum number of chunks that are recorded in one commit: 5 MB.
const RECORDED_MAX: usize = 100_000;

/// The degree to which an object is needed, which decides the severity of damage to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A commit, a prune or a writer that has not ended names the object.
    Named,
    /// A container that is named, and recorded as damaged. The walk through the snapshots decides
    /// whether anything still needs it.
    Appended(Class, PartName),
    /// Nothing names the object.
    Unnamed,
    /// The object has served its purpose, and no client reads it any more.
    Past,
}

/// A finding about a container that was recorded as damaged before.
struct Deferred {
    container: (Class, PartName),
    finding: Finding,
}

/// The state that the parts of a check share.
struct Check<'a> {
    repository: &'a Arc<Repository>,
    monitor: &'a dyn CheckMonitor,
    /// The name and the length of every object.
    listing: BTreeMap<String, u64>,
    /// The parity objects of the listing.
    parity: ParityListing,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    report: CheckReport,
    tolerance: Tolerance,
    /// Objects about which an error was found.
    named: HashSet<String>,
    /// The records of containers in the index.
    records: HashMap<(Class, PartName), ContainerRecord>,
    /// Places from which the chunk cannot be read.
    bad: HashSet<Damage>,
    /// Places from which the chunk can be read, although another part of their container is
    /// damaged. Their chunks should be stored again.
    weak: HashSet<Damage>,
    /// Delta chunks that lack a full chunk. The delta chunks themselves are stored correctly.
    unbuilt: HashSet<Damage>,
    /// Full chunks that delta chunks lack, each with the reason.
    lacking: HashMap<(Class, Fingerprint), Error>,
    /// Containers of which every byte was read.
    read: HashSet<(Class, PartName)>,
    /// Containers with a usable parity object.
    protected: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    refused: HashSet<(Class, PartName)>,
    /// Findings whose severity is not known yet.
    deferred: Vec<Deferred>,
    /// The remedies by damaged object, cached because a container can have thousands of findings.
    remedies: HashMap<String, Vec<Remedy>>,
    /// The key epochs in the headers of commits.
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

    /// Returns the commands that resolve an error about `object`. They are determined once per
    /// object.
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

    /// Reports `error` as a finding about `object`, so that the check can go on.
    ///
    /// # Errors
    ///
    /// Returns an `Interrupted` error if the check was cancelled, or `error` if more objects
    /// cannot be read than single bad sectors explain ([`Tolerance`]).
    fn failed(&self, object: impl ToString, error: Error, need: Need) -> Result<()> {
        let kind = match error.kind() {
            Kind::Interrupted => return Err(error),
            Kind::Missing => FindingKind::Missing,
            _ => FindingKind::Corrupt,
        };
        let mut message = plain(&object, &error);
        if Newer::of(&error).is_some() && is_commit(&object) {
            message.push_str(
                "; `cutpoint repair snapshots --forget --ignore-newer` gives up a planted commit",
            );
        }
        if error.kind() == Kind::Storage {
            message.push_str(
                "; if the storage still refuses the object, delete it there and check again: it \
                 then counts as missing",
            );
        }
        self.wrong(kind, object, message, need);
        self.lock().tolerance.of_one(error).map(drop)
    }

    /// Reports a problem of `object`, with a severity according to `need`.
    fn wrong(&self, kind: FindingKind, object: impl ToString, message: String, need: Need) {
        match need {
            Need::Named => self.finding(kind, object, message),
            Need::Appended(class, part) => {
                let object = object.to_string();
                let finding = Finding { kind, object, message, remedies: Vec::new() };
                let mut state = self.lock();
                state.named.insert(finding.object.clone());
                state.deferred.push(Deferred { container: (class, part), finding });
            }
            Need::Unnamed => {
                let message = format!("not referenced; {message}");
                self.finding(FindingKind::Foreign, object, message);
            }
            Need::Past => {
                let message = format!("no longer needed; {message}");
                self.finding(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Reports the deferred findings. They are errors if something in the container is `needed`.
    fn name_deferred(&self, needed: &HashSet<(Class, PartName)>) {
        let deferred = std::mem::take(&mut self.lock().deferred);
        for Deferred { container, finding: Finding { kind, object, message, .. } } in deferred {
            if needed.contains(&container) {
                self.finding(kind, object, message);
            } else {
                let message = format!("{message}; no listed snapshot needs the damaged part");
                self.finding(FindingKind::Unneeded, object, message);
            }
        }
    }

    /// Returns `true` if a finding about the object of `error` was reported.
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

/// Removes the name of the object from the beginning of a message, because most errors include it.
fn plain(object: &impl ToString, message: impl ToString) -> String {
    let message = message.to_string();
    let prefix = format!("{}: ", object.to_string());
    message.strip_prefix(&prefix).map_or_else(|| message.clone(), str::to_owned)
}

/// Checks a repository.
///
/// # Errors
///
/// Returns a `Storage` error if the storage fails, and `Interrupted` if the monitor asks to stop.
/// Problems of the repository are not errors, but findings.
pub fn check(
    repository: &Arc<Repository>,
    options: &CheckOptions<'_>,
    monitor: &dyn CheckMonitor,
) -> Result<CheckReport> {
    Ok(find_lost(repository, options, monitor)?.0)
}

/// Performs a [`check`], and also returns the chunks that cannot be read.
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
    // A damaged cache of this machine must not be taken for damage of the repository.
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

/// Records in `damage` commits that chunks cannot be read from their recorded places. From then on
/// no writer refers to them (W2), and files that need them are read again (W3). `recorded` is
/// called for each commit with the number of `damages` in it; commits made before a failure count.
///
/// # Errors
///
/// Returns any error of [`crate::write::Writer::commit`], and `Conflict` if other clients ended
/// the ticket in every attempt.
pub fn record(
    repository: &Arc<Repository>,
    damages: &[Damage],
    mut recorded: impl FnMut(TicketId, usize),
) -> Result<()> {
    for part in damages.chunks(RECORDED_MAX) {
        let commit = commit_alone(repository, "record of damage", |_| {
            Ok::<_, Error>(Some(Outcome::Damage(part.to_vec())))
        })?;
        commit.into_iter().for_each(|commit| recorded(commit, part.len()));
    }
    Ok(())
}
