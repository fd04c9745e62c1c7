//! Checking: is everything there, and is it what was written?
//!
//! A check takes no ticket and changes nothing. It goes on after every finding: what is damaged
//! must not hide what else is. What it cannot see by design: the deletion of a commit that no later
//! writer has seen, or of a ticket whose writer has ended.

mod data;
mod objects;
mod snapshots;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::segment::ContainerRecord;
use crate::index::Index;
use crate::name::PartName;
use crate::reader::Reader;
use crate::repository::Repository;

/// How to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Read every byte of every container, not only what says where things are.
    pub read_data: bool,
    /// How many threads read containers; 0 is as many as the machine has.
    pub threads: usize,
}

/// What is wrong, or worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes are not what was written.
    Corrupt,
    /// Something that is named is not there.
    Missing,
    /// A file or folder of a snapshot cannot be restored, because of another finding.
    Affected,
    /// Something that cutpoint has not written. No error.
    Foreign,
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
}

impl Finding {
    /// Whether something is lost or damaged.
    pub fn is_error(&self) -> bool {
        !matches!(self.kind, FindingKind::Foreign | FindingKind::Unfinished)
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Findings that are errors.
    pub error_count: u64,
    /// Findings that are not.
    pub note_count: u64,
    /// Snapshots walked.
    pub snapshot_count: u64,
    /// Distinct references to chunks that were followed.
    pub reference_count: u64,
    /// Containers that the index names.
    pub container_count: u64,
    /// Containers that nothing names: what interrupted runs left.
    pub unreferenced_count: u64,
    /// Their size in bytes.
    pub unreferenced_bytes: u64,
    /// Bytes of containers read, with `read_data`.
    pub read_bytes: u64,
}

/// At most so many affected paths are named; the rest is counted.
const AFFECTED_MAX: u64 = 1000;

/// What the parts of a check share.
struct Check<'a> {
    repository: &'a Arc<Repository>,
    monitor: &'a dyn CheckMonitor,
    /// Every object: its name and length.
    listing: BTreeMap<String, u64>,
    report: Mutex<CheckReport>,
    /// Chunks that cannot be read.
    bad: Mutex<HashSet<(Class, Fingerprint)>>,
}

impl Check<'_> {
    fn finding(&self, kind: FindingKind, object: impl ToString, message: impl ToString) {
        let finding = Finding { kind, object: object.to_string(), message: message.to_string() };
        {
            let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
            if finding.is_error() {
                report.error_count += 1;
            } else {
                report.note_count += 1;
            }
        }
        self.monitor.finding(&finding);
    }

    /// Names `object` and what is wrong with it.
    fn failed(&self, object: impl ToString, error: &Error) {
        let kind = match error.kind() {
            Kind::Missing => FindingKind::Missing,
            _ => FindingKind::Corrupt,
        };
        // Most errors name the object themselves.
        let (object, message) = (object.to_string(), error.to_string());
        let message = message.strip_prefix(&format!("{object}: ")).unwrap_or(&message);
        self.finding(kind, &object, message);
    }

    fn bad(&self, class: Class, fingerprint: Fingerprint) -> bool {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).insert((class, fingerprint))
    }

    fn is_bad(&self, class: Class, fingerprint: Fingerprint) -> bool {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).contains(&(class, fingerprint))
    }

    fn stop_if_cancelled(&self) -> Result<()> {
        if self.monitor.cancelled() {
            Err(Error::new(Kind::Interrupted, "check", "interrupted"))
        } else {
            Ok(())
        }
    }

    fn count(&self, change: impl FnOnce(&mut CheckReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Checks a repository.
///
/// # Errors
///
/// Only where the check itself cannot go on: `Media`, and `Interrupted` where the monitor says so.
/// What is wrong with the repository are findings.
pub fn check(
    repository: &Arc<Repository>,
    options: &CheckOptions,
    monitor: &dyn CheckMonitor,
) -> Result<CheckReport> {
    let listing = objects::list(repository)?;
    let check =
        Check { repository, monitor, listing, report: Mutex::default(), bad: Mutex::default() };
    objects::check_names(&check);
    objects::check_configs(&check)?;
    objects::check_keys(&check)?;
    let view = objects::check_view(&check)?;
    let (view, containers) = objects::check_segments(&check, view)?;
    let containers = objects::check_containers(&check, containers);
    let table: HashMap<(Class, PartName), ContainerRecord> =
        containers.iter().map(|record| ((record.class, record.name), *record)).collect();
    objects::count_unreferenced(&check, &table);
    data::check(&check, &containers, options)?;
    let index = Arc::new(Index::open(repository.clone(), &view)?);
    let reader = Reader::new(repository.clone(), index, view);
    snapshots::check(&check, &reader, &table)?;
    let report = check.report.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report)
}
