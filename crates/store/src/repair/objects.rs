//! Repair of objects of which all significant bytes can still be read, or of which there is a
//! second copy. The original bytes of each object follow from these, and are put in its place.
//!
//! The repair cannot change the content of an object: header and sealed parts are authenticated,
//! and padding and trailer follow from them. The two copies of settings and keyrings have the same
//! bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::is_newer;
use crate::check::{CheckMonitor, CheckOptions, Finding, FindingKind, Portion, check};
use crate::error::{Error, Kind, Result, Tolerance};
use crate::fingerprint::Class;
use crate::format::directory::Directory;
use crate::format::segment::ContainerRecord;
use crate::index::Index;
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::repository::Repository;
use crate::seal::{
    HEADER_LEN, KdfLimits, KeyAbout, KeyMethod, Keys, Opener, PartKind, Trailer, Unlock,
    object_as_put, object_is_intact, open_object, unwrap_keyring, with_tail_anew,
};
use crate::view::View;
#[cfg(feature = "mutants")]
use crate::writer::mutant::{self, Mutant};

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
/// Returns any error of [`check`](crate::check::check), and any error of the medium if it does not
/// accept an object. Returns an `Invalid` error if an object that is to be removed does not exist,
/// opens, or is of a kind that cannot be removed; nothing was done in that case. Returns `WrongKey`
/// if such an object has a newer key epoch, and `Unsupported` if it has a newer version, because
/// another client may open it.
pub fn repair_objects(
    repository: &Arc<Repository>,
    options: &ObjectsOptions,
    monitor: &dyn CheckMonitor,
) -> Result<ObjectsRepair> {
    for name in &options.removed {
        require_useless(repository, *name)?;
    }
    let named = Named { monitor, objects: Mutex::default() };
    let check_options = CheckOptions {
        read_data: options.read_data,
        threads: options.threads,
        ..CheckOptions::default()
    };
    check(repository, &check_options, &named)?;
    let mut named = named.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
    named.retain(|name, _| !options.removed.contains(name));
    let mut done = ObjectsRepair::default();
    let mut tolerance = Tolerance::default();
    let mut records: Option<Records> = None;
    for (name, is_needed) in named {
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
        match again(repository, name, record) {
            Again::Whole => {}
            Again::AsPut(bytes) => {
                if options.dry_run || put_again(repository, name, bytes)? {
                    done.mended.push(name);
                }
            }
            Again::Unknown(error) => {
                error.map(|error| tolerance.of_one(error)).transpose()?;
                done.left.extend(is_needed.then_some(name));
            }
        }
    }
    for name in &options.removed {
        if !options.dry_run {
            repository.media().delete(&name.to_string())?;
        }
        done.removed.push(*name);
    }
    Ok(done)
}

/// Puts the original bytes of an object. A key whose other copy has disappeared meanwhile was
/// removed, and stays removed: the client that removes a key looks for restored copies after it has
/// deleted both. Returns `true` if the object exists now.
fn put_again(repository: &Repository, name: ObjectName, bytes: Bytes) -> Result<bool> {
    let media = repository.media();
    media.replace(&name.to_string(), bytes)?;
    if name.kind() == ObjectKind::Key
        && let Some(twin) = twin(name)
        && media.head(&twin.to_string())?.is_none()
    {
        media.delete(&name.to_string())?;
        return Ok(false);
    }
    Ok(true)
}

/// Requires that no client can open the object, and that nothing depends on it.
fn require_useless(repository: &Repository, name: ObjectName) -> Result<()> {
    let ObjectName::Config { number, .. } = name else {
        let message =
            "is no settings object; others are given up by the commands that a check names";
        return Err(Error::invalid(name, message));
    };
    if number == repository.config_number() {
        return Err(Error::invalid(name, "is of the settings that hold"));
    }
    let bytes = repository.media().get(&name.to_string())?;
    match open_object(repository.keys(), name, &bytes) {
        Ok(_) => Err(Error::invalid(name, "can be read, and is not removed")),
        Err(error) if is_newer(repository, name) => Err(error),
        Err(_) => Ok(()),
    }
}

/// Collects the objects that findings name, and for each whether a finding is an error.
struct Named<'a> {
    monitor: &'a dyn CheckMonitor,
    objects: Mutex<BTreeMap<ObjectName, bool>>,
}

impl CheckMonitor for Named<'_> {
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

/// The result of reconstructing an object that a check has reported.
pub(crate) enum Again {
    /// The object has its original bytes.
    Whole,
    /// The original bytes, which differ from the present ones.
    AsPut(Bytes),
    /// The original bytes cannot be determined; with the error of reading the object, if any.
    Unknown(Option<Error>),
}

/// Finds the original bytes of an object. `record` is the index record of a container.
pub(crate) fn again(
    repository: &Repository,
    name: ObjectName,
    record: Option<ContainerRecord>,
) -> Again {
    let (found, error) = match repository.media().get(&name.to_string()) {
        Ok(bytes) => (Some(bytes), None),
        // An object that cannot be read may have a copy that can.
        Err(error) => (None, Some(error)),
    };
    let keys = repository.keys();
    let alone = found.as_ref().and_then(|bytes| match name {
        ObjectName::Container(..) => container_as_put(keys, name, bytes, record),
        ObjectName::Parity { .. } => None,
        ObjectName::Key { .. } => keyring_as_put(keys, name, bytes),
        _ => object_as_put(keys, name, bytes),
    });
    match alone.or_else(|| from_copy(repository, name)) {
        Some(bytes) if found.as_ref() == Some(&bytes) => Again::Whole,
        Some(bytes) => Again::AsPut(bytes),
        None => Again::Unknown(error.filter(|error| error.kind() != Kind::Missing)),
    }
}

/// Returns the original bytes of a keyring. A keyring cannot be opened without its secret, so that
/// it must be intact. Padding and checksum can be restored only for one that opens without a
/// secret.
fn keyring_as_put(keys: &Keys, name: ObjectName, bytes: &Bytes) -> Option<Bytes> {
    if object_is_intact(bytes) && KeyMethod::of_object(name, bytes).is_ok() {
        return Some(bytes.clone());
    }
    let opened = unwrap_keyring(name, bytes, &Unlock::Nothing, KdfLimits::default()).ok()??;
    KeyAbout::of_object(keys, name, bytes).ok()?;
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok()?;
    let is_own = opened.0 == *keys.keyring();
    is_own.then(|| with_tail_anew(name, bytes, trailer.offset, trailer.length))?
}

/// Returns the name of the other copy of settings or of a keyring.
fn twin(name: ObjectName) -> Option<ObjectName> {
    match name {
        ObjectName::Config { number, copy } => Some(ObjectName::Config { number, copy: !copy }),
        ObjectName::Key { id, copy } => Some(ObjectName::Key { id, copy: !copy }),
        _ => None,
    }
}

/// Returns the bytes of an object from its other copy, which has the same bytes.
fn from_copy(repository: &Repository, name: ObjectName) -> Option<Bytes> {
    let twin = twin(name)?;
    let bytes = repository.media().get(&twin.to_string()).ok()?;
    if twin.kind() == ObjectKind::Key {
        return keyring_as_put(repository.keys(), twin, &bytes);
    }
    object_as_put(repository.keys(), twin, &bytes)
}

/// Returns the original bytes of a container whose regions and directory are undamaged.
fn container_as_put(
    keys: &Keys,
    name: ObjectName,
    bytes: &Bytes,
    record: Option<ContainerRecord>,
) -> Option<Bytes> {
    let opener = Opener::new(keys, name, bytes).ok()?;
    let (offset, length) = match record {
        Some(record) => (u64::from(record.directory_offset), record.directory_len),
        None => {
            let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok()?;
            (trailer.offset, trailer.length)
        }
    };
    let part = |kind, offset: u64, length: u32| {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let mut part = bytes.get(start..end)?.to_vec();
        opener.open(kind, &mut part).ok()?;
        Some(part)
    };
    let directory = part(PartKind::Directory, offset, length)?;
    let directory = Directory::decode(&directory, offset).ok()?;
    let mut end = HEADER_LEN as u64;
    for (region, number) in directory.regions.iter().zip(0..) {
        let begin = u64::from(region.offset);
        if begin != end {
            return None;
        }
        let is_read = part(PartKind::Region(number), begin, region.stored_len).is_some();
        #[cfg(feature = "mutants")]
        let is_read = is_read || mutant::is_active(Mutant::MendsUnread);
        if !is_read {
            return None;
        }
        end = begin + u64::from(region.stored_len);
    }
    if end != offset {
        return None;
    }
    with_tail_anew(name, bytes, offset, length)
}
