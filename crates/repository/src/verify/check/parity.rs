//! Checks of parity objects: that each one opens, and belongs to its container.

use std::collections::HashSet;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Result};

use super::containers::Task;
use super::context::{Check, Need, plain};
use super::finding::FindingKind;
use super::inventory::Inventory;
use super::objects::get;
use crate::crypto::object_is_intact;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::parity::{Parity, encode_again, read_table};

/// The state of a container at the time its parity is checked.
#[derive(Clone, Debug)]
pub(super) enum ContainerState {
    /// The bytes were not read; only the length of the container as put is known.
    Unread(u64),
    /// The container is undamaged.
    Intact(Bytes),
    /// A part of the container is damaged.
    Damaged,
}

/// Checks the parity of one container. If several objects protect it, one usable object is enough.
pub(super) fn check_container(
    check: &Check<'_>,
    inventory: &Inventory,
    task: &Task,
    container: &ContainerState,
) -> Result<()> {
    let key = (task.class, task.name);
    let mut failures = Vec::new();
    let mut is_protected = false;
    for (name, stored_len) in check.parity.get(&key).into_iter().flatten() {
        check.stop_if_cancelled()?;
        match look(check, *name, *stored_len, container) {
            Ok(()) => is_protected = true,
            // A sweep has deleted the object together with its container.
            Err(error) if error.kind() == Kind::Missing => {}
            Err(error) => failures.push((*name, error)),
        }
    }
    let is_asked_for = check.repository.config().parity_percent > 0;
    // Data that is recorded as damaged is stored elsewhere, or will be.
    let is_of_use = is_asked_for
        && task.need == Need::Named
        && !inventory.is_recorded(&key)
        && !inventory.is_condemned(&key);
    for (name, error) in failures {
        if error.kind() == Kind::Unsupported {
            check.report(FindingKind::Foreign, name, plain(&name, error));
            continue;
        }
        let is_needed = is_of_use && !is_protected;
        check.report_error(name, error, if is_needed { Need::Named } else { Need::Obsolete })?;
    }
    if is_protected {
        check.lock().protected.insert(key);
    } else if is_of_use {
        let len = check.listing.get(&ObjectName::Container(key.0, key.1).to_string());
        check.count(|report| {
            report.unprotected_count += 1;
            report.unprotected_bytes += len.copied().unwrap_or(0);
        });
    }
    Ok(())
}

/// Checks one parity object.
///
/// # Errors
///
/// Returns an error if a part of the object is damaged, or if it does not belong to this container.
fn look(
    check: &Check<'_>,
    name: ObjectName,
    stored_len: u64,
    container: &ContainerState,
) -> Result<()> {
    let another = || Error::corrupt("", "not the parity of the content of its container");
    if let ContainerState::Unread(container_len) = container {
        let table = read_table(check.repository, name, stored_len)?;
        return if table.container_len == *container_len { Ok(()) } else { Err(another()) };
    }
    let bytes = check.repository.storage().get(&name.to_string())?;
    let parity = Parity::open(check.repository.keys(), name, &bytes)?;
    let damaged = parity.shards.iter().filter(|shard| shard.is_none()).count();
    if damaged > 0 {
        let count = parity.shards.len();
        return Err(Error::corrupt("", format!("{damaged} of {count} shards are damaged")));
    }
    if !object_is_intact(&bytes) {
        return Err(Error::corrupt("", "wrong checksum in the trailer"));
    }
    if let ContainerState::Intact(container) = container {
        let again = encode_again(container, &parity.table)?;
        if !again.iter().map(Some).eq(parity.shards.iter().map(Option::as_ref)) {
            return Err(another());
        }
    }
    Ok(())
}

/// Checks the parity objects of containers that are not among `tasks`.
pub(super) fn check_others(check: &Check<'_>, inventory: &Inventory, tasks: &[Task]) -> Result<()> {
    let known: HashSet<(Class, PartName)> =
        tasks.iter().map(|task| (task.class, task.name)).collect();
    let others = check.parity.iter().filter(|(container, _)| !known.contains(container));
    for (container, listed) in others {
        for (name, _) in listed {
            // A sweep that was cut off has left the object, or the object came late; the next sweep
            // deletes it.
            if inventory.is_condemned(container) {
                get(check, *name, Need::Obsolete)?;
                continue;
            }
            let container = ObjectName::Container(container.0, container.1);
            let message = format!("belongs to {container}, which does not exist");
            check.report(FindingKind::Foreign, name, message);
        }
    }
    Ok(())
}
