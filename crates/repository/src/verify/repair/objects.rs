//! Repair of objects of which all significant bytes can still be read, or of which there is a
//! second copy. The original bytes of each object follow from these, and are put in its place.
//!
//! The repair cannot change the content of an object: header and sealed parts are authenticated,
//! and padding and trailer follow from them. The two copies of settings and keyrings have the same
//! bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::crypto::open_object;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::ContainerRecord;
use crate::index::Index;
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::util::tolerance::Tolerance;
use crate::verify::check::{CheckMonitor, CheckOptions, Finding, FindingKind, Portion, check};
use crate::verify::original::{OriginalBytes, is_newer, original_bytes, other_copy};

/// The options of a repair of objects.
#[derive(Clone, Debug, Default)]
pub struct ObjectsOptions {
    /// Set to write nothing.
    pub dry_run: bool,
    /// The portion of the containers that is read to look for damage; `None` to use only damage
    /// that shows without reading data.
    pub read_data: Option<Portion>,
    /// Number of threads that read containers; 0 for one per processor.
    pub threads: usize,
    /// Settings that no key opens, and that are to be deleted. The previous settings count then.
    pub removed: BTreeSet<ObjectName>,
}

/// The results of a repair of objects; in a dry run, the expected ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsRepair {
    /// Objects that have their original bytes again.
    pub mended: Vec<ObjectName>,
    /// Objects that are damaged or gone, that something needs, and that cannot be restored.
    pub left: Vec<ObjectName>,
    /// Objects that were deleted on request.
    pub removed: Vec<ObjectName>,
}

/// Restores each object that a check reports and whose original bytes follow from the remaining
/// ones. All other damage is left to other repairs.
///
/// # Errors
///
/// Returns any error of [`check`](crate::verify::check::check), and any error of the storage if it
/// does not accept an object. Returns an `Invalid` error if an object that is to be removed does
/// not exist, opens, or is of a kind that cannot be removed; nothing was done in that case. Returns
/// `WrongKey` if such an object has a newer key epoch, and `Unsupported` if it has a newer version,
/// because another client may open it.
pub fn repair_objects(
    repository: &Arc<Repository>,
    options: &ObjectsOptions,
    monitor: &dyn CheckMonitor,
) -> Result<ObjectsRepair> {
    for name in &options.removed {
        require_useless(repository, *name)?;
    }
    let damaged = DamagedObjects { monitor, objects: Mutex::default() };
    let check_options = CheckOptions {
        read_data: options.read_data,
        threads: options.threads,
        ..CheckOptions::default()
    };
    check(repository, &check_options, &damaged)?;
    let mut damaged = damaged.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
    damaged.retain(|name, _| !options.removed.contains(name));
    let mut done = ObjectsRepair::default();
    let mut tolerance = Tolerance::default();
    let mut records: Option<Records> = None;
    for (name, is_needed) in damaged {
        if monitor.cancelled() {
            return Err(Error::new(Kind::Interrupted, "repair", "interrupted"));
        }
        let record = match name {
            ObjectName::Container(class, part) => {
                let records = match &mut records {
                    Some(records) => records,
                    none => none.insert(containers(repository)?),
                };
                records.get(&(class, part)).copied()
            }
            _ => None,
        };
        match original_bytes(repository, name, record) {
            OriginalBytes::Intact => {}
            OriginalBytes::Restorable(bytes) => {
                if options.dry_run || put_again(repository, name, bytes)? {
                    done.mended.push(name);
                }
            }
            OriginalBytes::Unknown(error) => {
                error.map(|error| tolerance.of_one(error)).transpose()?;
                done.left.extend(is_needed.then_some(name));
            }
        }
    }
    for name in &options.removed {
        if !options.dry_run {
            repository.storage().delete(&name.to_string())?;
        }
        done.removed.push(*name);
    }
    Ok(done)
}

/// Puts the original bytes of an object. A key whose other copy has disappeared meanwhile was
/// removed, and stays removed: the client that removes a key looks for restored copies after it has
/// deleted both. Returns `true` if the object exists now.
fn put_again(repository: &Repository, name: ObjectName, bytes: Bytes) -> Result<bool> {
    let storage = repository.storage();
    storage.replace(&name.to_string(), bytes)?;
    if name.kind() == ObjectKind::Key
        && let Some(copy) = other_copy(name)
        && storage.head(&copy.to_string())?.is_none()
    {
        storage.delete(&name.to_string())?;
        return Ok(false);
    }
    Ok(true)
}

/// Requires that no client can open the object, and that nothing depends on it.
fn require_useless(repository: &Repository, name: ObjectName) -> Result<()> {
    let ObjectName::Config { number, .. } = name else {
        let message =
            "not a settings object; other objects are given up by the commands that `check` names";
        return Err(Error::invalid(name, message));
    };
    if number == repository.config_number() {
        return Err(Error::invalid(name, "belongs to the settings in use"));
    }
    let bytes = repository.storage().get(&name.to_string())?;
    match open_object(repository.keys(), name, &bytes) {
        Ok(_) => Err(Error::invalid(name, "readable, and not removed")),
        Err(error) if is_newer(repository, name) => Err(error),
        Err(_) => Ok(()),
    }
}

/// Collects the objects that findings name, and for each whether a finding is an error.
struct DamagedObjects<'a> {
    monitor: &'a dyn CheckMonitor,
    objects: Mutex<BTreeMap<ObjectName, bool>>,
}

impl CheckMonitor for DamagedObjects<'_> {
    fn expected(&self, containers: u64, bytes: u64) {
        self.monitor.expected(containers, bytes);
    }

    fn progress(&self, containers: u64, bytes: u64) {
        self.monitor.progress(containers, bytes);
    }

    fn finding(&self, finding: &Finding) {
        let is_damage = !matches!(finding.kind, FindingKind::Unfinished | FindingKind::Affected);
        if let Ok(name) = ObjectName::parse(&finding.object)
            && is_damage
        {
            let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            *objects.entry(name).or_default() |= finding.is_error();
        }
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

/// The records of containers in the index.
type Records = HashMap<(Class, PartName), ContainerRecord>;

fn containers(repository: &Arc<Repository>) -> Result<Records> {
    let view = View::list(repository)?;
    let index = Index::open_without_cache(repository.clone(), &view)?;
    let records = index.containers().into_iter();
    Ok(records.map(|record| ((record.class, record.name), record)).collect())
}
