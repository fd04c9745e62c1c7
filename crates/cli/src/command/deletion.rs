//! Deletion at a place: the permission for it, objects that are only hidden, and locked objects.

use std::path::Path;

use anyhow::Result;
use cutpoint_repository::gc::sweep::LockedObjects;
use cutpoint_storage::{Deletion, Lock, System, try_deletion};

use crate::exit::Failure;
use crate::report::Report;
use crate::session::Session;
use crate::{s3, units};

const SECOND_NS: i64 = 1_000_000_000;

/// Requires a storage that deletes objects, before anything is condemned or stored again.
///
/// # Errors
///
/// Fails with the missing permission if the credentials may not delete objects, or may not ask
/// whether objects are locked, and with any other error of [`try_deletion`].
pub(super) fn require_deletion(session: &Session, report: &Report) -> Result<Deletion> {
    let storage = session.repository.storage();
    let deletion =
        try_deletion(&**storage, &System).map_err(|error| match s3::lacking(&error) {
            None => anyhow::Error::new(error),
            Some(permission) => {
                let message =
                    format!("{error}; nothing was condemned or deleted, and nothing is lost");
                let remedy = format!(
                    "backup, restore and check work without the permission {permission}; run this \
                 command with credentials that have it"
                );
                Failure::failed(message).with_remedy(remedy).into()
            }
        })?;
    if deletion.hides {
        report.note(&format!("{}: {HIDES}", storage.describe()));
    }
    Ok(deletion)
}

/// Describes a bucket with versions.
pub(super) const HIDES: &str = "the bucket keeps deleted objects as older versions, so their space \
                                is not free until a lifecycle rule for noncurrent versions removes \
                                them";

/// Reports the condemned objects that the storage keeps, as a problem.
pub(super) fn report_locked(locked: &LockedObjects, session: &Session, report: &Report) {
    let Some(last_lock) = locked.last_lock else { return };
    let mut names = locked.first.join(", ");
    match locked.count - locked.first.len() as u64 {
        0 => {}
        count => names.push_str(&format!(" and {}", units::count(count, "other"))),
    }
    let end = match last_lock {
        Lock::Until(ns) => {
            let end = units::date_time(ns.div_euclid(SECOND_NS));
            format!("the last lock ends at {end}, and a prune after that deletes what is left")
        }
        Lock::Held => {
            "a lock without an end is among them (a legal hold), and a prune after its removal \
             deletes what is left"
                .to_owned()
        }
    };
    let message = format!(
        "{} locked by the bucket, and not deleted: {names}; {end}",
        units::count(locked.count, "condemned object")
    );
    report.problem(Path::new(&session.repository.storage().describe()), &message);
}

/// Returns the end of the last lock for JSON, if all locks have an end.
pub(super) fn locked_until(locked: &LockedObjects) -> Option<String> {
    match locked.last_lock? {
        Lock::Until(ns) => Some(units::rfc3339_ns(ns)),
        Lock::Held => None,
    }
}
