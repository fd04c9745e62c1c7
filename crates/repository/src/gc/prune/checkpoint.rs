//! Extends the view checkpoint: the copies of many commits and prune records in few objects, from
//! which a client without a cache reads the repository.
//!
//! A part that is at least half full of objects that still exist stays as it is. All others are
//! replaced by newer versions, which the copies of new objects fill up. A sweep deletes the older
//! versions. Nothing depends on the checkpoint, so an interruption at any point does no harm.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use crate::crypto::{claimed_view_name, seal_object};
use crate::format::commit::Commit;
use crate::format::names::ObjectName;
use crate::format::prune::Prune;
use crate::format::view_part::{OBJECT_LEN_LEN, ViewPart};
use crate::gc::monitor::{PruneMonitor, stop_if_cancelled};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::repo::view::checkpoint::{PartListing, read_part};

/// Minimum number of objects that the checkpoint lacks for which it is extended.
const NEW_COUNT_MIN: usize = 128;
/// The size at which a part is complete, in bytes. A reader holds one part in memory.
const PART_BYTES: usize = 8 << 20;
/// Maximum length of an object in the checkpoint, in bytes. A longer one is read by itself, because
/// its transfer takes longer than the answer to a request.
const OBJECT_LEN_MAX: u64 = 256 << 10;
/// Maximum number of parts that are replaced at a time, because their objects are held in memory.
const REPLACED_COUNT_MAX: usize = 4;

/// Extends the checkpoint by the objects of `view` that it lacks, if there are enough of them.
///
/// Every object that is put into a part has the content that the view has read from the object
/// itself.
///
/// # Errors
///
/// Returns any error of the storage, and `Interrupted` if the monitor cancels. The checkpoint is
/// usable in any case.
pub(super) fn extend(
    repository: &Repository,
    view: &View,
    monitor: &dyn PruneMonitor,
) -> Result<()> {
    if view.commits.len() + view.prunes.len() < NEW_COUNT_MIN {
        return Ok(());
    }
    let parts = Parts::survey(repository, view, monitor)?;
    let commits = view.commits.keys().map(|ticket| ObjectName::Commit(*ticket));
    let names = commits.chain(view.prunes.keys().map(|number| ObjectName::Prune(*number)));
    let new: Vec<ObjectName> = names.filter(|name| !parts.covered.contains(name)).collect();
    if new.len() < NEW_COUNT_MIN && parts.replaced_count < 2 {
        return Ok(());
    }
    let mut extension = Extension {
        repository,
        view,
        monitor,
        names: parts.names,
        next_position: parts.next_position,
        filled: Vec::new(),
        filled_bytes: 0,
    };
    for (name, object) in parts.carried {
        extension.add(name, object)?;
    }
    extension.add_new(&new)?;
    extension.finish()
}

/// What becomes of the existing parts.
#[derive(Default)]
struct Parts {
    /// The objects in the parts that stay, and those that are carried over.
    covered: BTreeSet<ObjectName>,
    /// The objects that still exist of the parts that are replaced.
    carried: Vec<(ObjectName, Bytes)>,
    /// The names of the versions that replace parts, and whether the present version has anything.
    names: VecDeque<(ObjectName, bool)>,
    /// The number of parts with objects that are replaced.
    replaced_count: usize,
    next_position: u32,
}

impl Parts {
    /// Reads the parts and decides which are replaced.
    fn survey(repository: &Repository, view: &View, monitor: &dyn PruneMonitor) -> Result<Parts> {
        let mut parts = Parts::default();
        for (name, len) in PartListing::of_storage(repository)?.current() {
            stop_if_cancelled(monitor)?;
            let ObjectName::View { position, version } = name else { continue };
            parts.next_position = parts.next_position.max(position.saturating_add(1));
            let part = match read_part(repository, name, len) {
                Ok(part) => part,
                // A damaged part is replaced.
                Err(error) if error.is_loss() || error.kind() == Kind::Unsupported => {
                    parts.replace(position, version, true);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut live: Vec<(ObjectName, Bytes)> = Vec::new();
            for object in part.objects {
                let name = claimed_view_name(&object).filter(|name| exists(view, *name));
                live.extend(name.map(|name| (name, object)));
            }
            let live_bytes: usize = live.iter().map(|(_, object)| object.len()).sum();
            let is_full = live_bytes >= PART_BYTES / 2;
            if !is_full && parts.replaced_count < REPLACED_COUNT_MAX {
                parts.replaced_count += usize::from(!live.is_empty());
                let has_any = !live.is_empty();
                parts.replace(position, version, has_any);
                live.retain(|(name, object)| is_as_read(repository, view, *name, object));
                parts.covered.extend(live.iter().map(|(name, _)| *name));
                parts.carried.append(&mut live);
            } else {
                parts.covered.extend(live.into_iter().map(|(name, _)| name));
            }
        }
        Ok(parts)
    }

    fn replace(&mut self, position: u32, version: u32, has_any: bool) {
        if let Some(version) = version.checked_add(1) {
            self.names.push_front((ObjectName::View { position, version }, has_any));
        }
    }
}

/// Returns `true` if the view has an object of this name.
fn exists(view: &View, name: ObjectName) -> bool {
    match name {
        ObjectName::Commit(ticket) => view.commits.contains_key(&ticket),
        ObjectName::Prune(number) => view.prunes.contains_key(&number),
        _ => false,
    }
}

/// Returns `true` if the sealed bytes open to what the view has read from the object itself.
fn is_as_read(repository: &Repository, view: &View, name: ObjectName, object: &Bytes) -> bool {
    match name {
        ObjectName::Commit(ticket) => {
            let opened = repository.open_bytes(name, object, Commit::decode);
            let read = view.commits.get(&ticket).map(|commit| (view.epoch_of(ticket), &**commit));
            opened.is_ok_and(|(epoch, commit)| read == Some((epoch, &commit)))
        }
        ObjectName::Prune(number) => {
            let opened = repository.open_bytes(name, object, Prune::decode);
            let read = view.prunes.get(&number);
            opened.is_ok_and(|(_, prune)| read.is_some_and(|read| **read == prune))
        }
        _ => false,
    }
}

/// The parts that are being put.
struct Extension<'a> {
    repository: &'a Repository,
    view: &'a View,
    monitor: &'a dyn PruneMonitor,
    /// See [`Parts::names`].
    names: VecDeque<(ObjectName, bool)>,
    next_position: u32,
    /// The objects of the part that is being filled.
    filled: Vec<Bytes>,
    filled_bytes: usize,
}

impl Extension<'_> {
    /// Adds the `new` objects, from the view cache or from the storage.
    fn add_new(&mut self, new: &[ObjectName]) -> Result<()> {
        let cache = self.repository.view_cache();
        let mut absent = Vec::new();
        for &name in new {
            match cache.bytes_up_to(name, OBJECT_LEN_MAX) {
                Some(object) if is_as_read(self.repository, self.view, name, &object) => {
                    self.add(name, object)?;
                }
                _ => absent.push((name, OBJECT_LEN_MAX)),
            }
        }
        self.repository.get_many(&absent, |name, object| match object {
            Ok(object) => {
                stop_if_cancelled(self.monitor)?;
                let is_as_read = is_as_read(self.repository, self.view, name, &object);
                if is_as_read { self.add(name, object) } else { Ok(()) }
            }
            // A sweep has deleted it meanwhile, or it is too long.
            Err(error) if error.is_loss() => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn add(&mut self, name: ObjectName, object: Bytes) -> Result<()> {
        assert!(matches!(name.kind(), ObjectKind::Commit | ObjectKind::Prune), "{name}");
        let len = OBJECT_LEN_LEN + object.len();
        if self.filled_bytes + len > PART_BYTES {
            self.put()?;
        }
        self.filled_bytes += len;
        // A slice of another part would keep that part in memory.
        self.filled.push(Bytes::copy_from_slice(&object));
        Ok(())
    }

    /// Puts the objects so far as a part.
    fn put(&mut self) -> Result<()> {
        stop_if_cancelled(self.monitor)?;
        let name = match self.names.pop_front() {
            Some((name, _)) => name,
            None => {
                let position = self.next_position;
                self.next_position = position
                    .checked_add(1)
                    .ok_or_else(|| Error::invalid(ObjectKind::View.folder(), "too many parts"))?;
                ObjectName::View { position, version: 0 }
            }
        };
        self.filled_bytes = 0;
        let objects = std::mem::take(&mut self.filled);
        let body = ViewPart { objects, ..ViewPart::default() }.encode();
        let repository = self.repository;
        let sealed = seal_object(repository.keys(), name, repository.salt()?, &body);
        match repository.put(name, sealed.clone()) {
            // Another prune has put this version.
            Err(error) if error.kind() == Kind::Conflict => Ok(()),
            put => {
                put?;
                repository.view_cache().keep_part(name, &sealed);
                Ok(())
            }
        }
    }

    /// Puts the last part, and empty parts in place of those whose objects were moved.
    fn finish(mut self) -> Result<()> {
        if !self.filled.is_empty() {
            self.put()?;
        }
        self.names.retain(|(_, has_any)| *has_any);
        while !self.names.is_empty() {
            self.put()?;
        }
        Ok(())
    }
}
