//! Checks of index segments, and of the existence of the containers that they name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cutpoint_storage::{ObjectKind, Result};

use super::context::{Check, Need};
use super::finding::FindingKind;
use super::inventory::Inventory;
use super::objects::{names, open_unless};
use crate::format::commit::Damage;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::toc::ChunkRecord;

/// Maximum number of new listings for segments that are gone, because a malicious client can name a
/// million of them.
const LISTED_AGAIN_MAX: u32 = 100;

/// A container to be checked, and its record in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) class: Class,
    pub(super) name: PartName,
    /// The record of the container in a segment; `None` if no segment names it.
    pub(super) record: Option<ContainerRecord>,
    pub(super) need: Need,
}

impl Task {
    /// Returns the record of damage of a chunk in this container.
    pub(super) fn damage(&self, chunk: &ChunkRecord) -> Damage {
        Damage { class: self.class, container: self.name, fingerprint: chunk.fingerprint }
    }
}

/// Checks every segment. Returns the containers that the readable segments name.
pub(super) fn check_segments(check: &Check<'_>, inventory: &mut Inventory) -> Result<Vec<Task>> {
    let mut tasks: BTreeMap<(Class, PartName), Task> = BTreeMap::new();
    let mut take = |name: ObjectName, segment: Segment, need: Need| {
        for record in segment.containers {
            let task = Task { class: record.class, name: record.name, record: Some(record), need };
            let before = tasks.entry((record.class, record.name)).or_insert(task);
            if before.record != Some(record) {
                let container = ObjectName::Container(record.class, record.name);
                let message = format!("contradicts another segment about {container}");
                check.report(FindingKind::Corrupt, name, message);
            }
        }
    };
    let mut unreadable: Vec<ObjectName> =
        inventory.view.unresolved().map(|(name, _)| *name).collect();
    let mut live = BTreeSet::new();
    let mut listed_again_count = 0;
    loop {
        let segments = inventory.view.segments();
        let new: Vec<PartName> = segments.difference(&live).copied().collect();
        if new.is_empty() {
            break;
        }
        live.extend(segments);
        for part in new {
            let name = ObjectName::Segment(part);
            if let Some(segment) = inventory.view.embedded_segment(&part) {
                take(name, segment.clone(), Need::Named);
                continue;
            }
            let mut is_gone = false;
            // A prune may have superseded the segment after the listing, and a sweep may have
            // deleted it. The segments that the prune has published in its place are read next.
            let may_be_gone = || {
                if listed_again_count < LISTED_AGAIN_MAX {
                    listed_again_count += 1;
                    inventory.list_again(check)?;
                }
                is_gone = !inventory.view.segments().contains(&part);
                Ok(is_gone)
            };
            match open_unless(check, name, Need::Named, Segment::decode, may_be_gone)? {
                Some(segment) => take(name, segment, Need::Named),
                None if is_gone => {}
                None => unreadable.push(name),
            }
        }
    }
    inventory.hidden = inventory.view.hidden(&unreadable);
    // Segments of a writer that has not ended will be named when the writer is ended, and those of
    // an unreadable commit are named by that commit. All others were superseded, or came too late.
    for name in names(check, ObjectKind::Segment) {
        let ObjectName::Segment(part) = name else { continue };
        if live.contains(&part) {
            continue;
        }
        let need = inventory.need(part.ticket);
        if let Some(segment) = open_unless(check, name, need, Segment::decode, || Ok(true))?
            && need == Need::Named
        {
            take(name, segment, need);
        }
    }
    Ok(tasks.into_values().collect())
}

/// Checks that the containers exist and have the right lengths. Returns those that exist, including
/// those that no segment names.
pub(super) fn check_containers(
    check: &Check<'_>,
    inventory: &mut Inventory,
    tasks: Vec<Task>,
) -> Result<Vec<Task>> {
    let path = |task: &Task| ObjectName::Container(task.class, task.name);
    let listed = |task: &Task| check.listing.get(&path(task).to_string()).copied();
    check.count(|report| report.container_count = tasks.len() as u64);
    let known: HashSet<(Class, PartName)> =
        tasks.iter().map(|task| (task.class, task.name)).collect();
    let mut condemned = inventory.view.condemned();
    let is_gone =
        |task: &Task| listed(task).is_none() && !condemned.contains(&(task.class, task.name));
    // A sweep may have deleted the container after the view was read.
    if tasks.iter().any(is_gone) && inventory.list_again(check)? {
        condemned = inventory.view.condemned();
    }
    let mut checked = Vec::new();
    for mut task in tasks {
        task.need = inventory.need_of_container(task.class, task.name, task.need);
        let name = path(&task);
        let put_len = task.record.map_or(0, |record| u64::from(record.stored_len));
        match listed(&task) {
            None if condemned.contains(&(task.class, task.name)) => {
                check.count(|report| report.container_count -= 1);
                inventory.gone.insert((task.class, task.name));
                continue;
            }
            None => {
                // A container that a newer segment names may have been put after the listing; the
                // next check reads it.
                let found = check.repository.storage().head(&name.to_string());
                if !matches!(found, Ok(Some(_))) {
                    inventory.gone.insert((task.class, task.name));
                }
                match found {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        let message = "not found, but listed in the index".to_owned();
                        check.report_by_need(FindingKind::Missing, name, message, task.need);
                    }
                    Err(error) => check.report_error(name, error, task.need)?,
                }
                continue;
            }
            Some(len) if len != put_len => {
                let message = format!("wrong length (expected {put_len} bytes, found {len})");
                check.report_by_need(FindingKind::Corrupt, name, message, task.need);
            }
            Some(_) => {}
        }
        // A container that is too short may still hold chunks.
        checked.push(task);
    }
    for name in names(check, ObjectKind::Data).into_iter().chain(names(check, ObjectKind::Meta)) {
        let ObjectName::Container(class, part) = name else { continue };
        if !known.contains(&(class, part)) {
            let need = inventory.need_of_container(class, part, inventory.need(part.ticket));
            let task = Task { class, name: part, record: None, need };
            let len = listed(&task).unwrap_or(0);
            check.count(|report| {
                // The index includes such containers, using their own tables of contents.
                if inventory.hidden.may_name(part.ticket) {
                    report.container_count += 1;
                } else {
                    report.unreferenced_count += 1;
                    report.unreferenced_bytes += len;
                }
            });
            checked.push(task);
        }
    }
    inventory.condemned = condemned;
    Ok(checked)
}
