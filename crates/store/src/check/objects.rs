//! Every object but containers: does it open, and is what it names there?

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::{Check, FindingKind};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::commit::Commit;
use crate::format::config::Config;
use crate::format::prune::Prune;
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::ticket::Ticket;
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::repository::Repository;
use crate::seal::{Header, object_is_intact, open_object};
use crate::view::View;

/// Lists every object.
pub(super) fn list(repository: &Repository) -> Result<BTreeMap<String, u64>> {
    let mut listing = BTreeMap::new();
    for kind in ObjectKind::ALL {
        listing.extend(repository.media().list(kind.folder())?);
    }
    Ok(listing)
}

/// The names of one kind.
fn names(check: &Check<'_>, kind: ObjectKind) -> Vec<ObjectName> {
    let folder = format!("{}/", kind.folder());
    let paths = check.listing.range(folder.clone()..).map(|(path, _)| path);
    paths
        .take_while(|path| path.starts_with(&folder))
        .filter_map(|path| ObjectName::parse(path).ok())
        .collect()
}

/// Names what no version of cutpoint has put there.
pub(super) fn check_names(check: &Check<'_>) {
    for path in check.listing.keys() {
        if ObjectName::parse(path).is_err() {
            check.finding(FindingKind::Foreign, path, "cutpoint has not written this");
        }
    }
}

/// Gets an object and looks at its checksum. `None` where there is a finding.
fn get(check: &Check<'_>, name: ObjectName) -> Result<Option<Bytes>> {
    let bytes = match check.repository.media().get(&name.to_string()) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), Kind::Missing | Kind::Corrupt) => {
            check.failed(name, &error);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if object_is_intact(&bytes) {
        Ok(Some(bytes))
    } else {
        // What is wrong in particular, where the seal can tell.
        match open_object(check.repository.keys(), name, &bytes) {
            Err(error) if name.kind() != ObjectKind::Key => check.failed(name, &error),
            _ => check.finding(FindingKind::Corrupt, name, "the checksum does not match"),
        }
        Ok(None)
    }
}

/// Gets, opens and decodes an object of one part. `None` where there is a finding.
fn open<T>(
    check: &Check<'_>,
    name: ObjectName,
    decode: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let Some(bytes) = get(check, name)? else { return Ok(None) };
    match open_object(check.repository.keys(), name, &bytes).and_then(|body| decode(&body)) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            check.failed(name, &error);
            Ok(None)
        }
    }
}

/// Both copies of every settings object, from number 0 on.
pub(super) fn check_configs(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Config).into_iter().collect();
    for number in 0..=check.repository.config_number() {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            if !found.contains(&name) {
                check.finding(FindingKind::Missing, name, "is not there");
                continue;
            }
            if let Some(config) = open(check, name, Config::decode)?
                && config.repository != check.repository.keys().repository()
            {
                check.finding(FindingKind::Corrupt, name, "belongs to another repository");
            }
        }
    }
    Ok(())
}

/// Both copies of every keyring. What is in it only its own passphrase can tell.
pub(super) fn check_keys(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Key).into_iter().collect();
    let mut contents: HashMap<[u8; 16], Bytes> = HashMap::new();
    for name in &found {
        let ObjectName::Key { id, copy } = *name else { continue };
        let other = ObjectName::Key { id, copy: !copy };
        if !found.contains(&other) {
            check.finding(FindingKind::Missing, other, "is not there");
        }
        let Some(bytes) = get(check, *name)? else { continue };
        if let Err(error) = Header::decode(name, &bytes) {
            check.failed(name, &error);
            continue;
        }
        if let Some(first) = contents.insert(id, bytes.clone())
            && first != bytes
        {
            check.finding(FindingKind::Corrupt, name, "the two copies differ");
        }
    }
    if found.is_empty() {
        check.finding(FindingKind::Missing, "keys", "there is no keyring at all");
    }
    Ok(())
}

/// Tickets, commits and prune records; what could be read of them is the view.
pub(super) fn check_view(check: &Check<'_>) -> Result<View> {
    let mut view = View::default();
    let mut unreadable: HashSet<TicketId> = HashSet::new();
    for name in names(check, ObjectKind::Commit) {
        let ObjectName::Commit(ticket) = name else { continue };
        match open(check, name, Commit::decode)? {
            Some(commit) => {
                view.commits.insert(ticket, Arc::new(commit));
            }
            None => {
                unreadable.insert(ticket);
            }
        }
    }
    for name in names(check, ObjectKind::Prune) {
        let ObjectName::Prune(number) = name else { continue };
        if let Some(prune) = open(check, name, Prune::decode)? {
            view.prunes.insert(number, Arc::new(prune));
        }
    }
    let mut unfinished: BTreeSet<TicketId> = BTreeSet::new();
    for name in names(check, ObjectKind::Ticket) {
        let ObjectName::Ticket { ticket, .. } = name else { continue };
        open(check, name, Ticket::decode)?;
        if !view.commits.contains_key(&ticket) && !unreadable.contains(&ticket) {
            unfinished.insert(ticket);
        }
    }
    for ticket in unfinished {
        let message = "a writer that has not ended: at work, or interrupted";
        check.finding(FindingKind::Unfinished, ObjectName::Ticket { ticket, renewal: 0 }, message);
    }
    let taken = view.taken();
    let named: BTreeSet<TicketId> =
        view.commits.values().flat_map(|commit| commit.view.new.iter().copied()).collect();
    for ticket in named {
        let is_there = view.commits.contains_key(&ticket) || unreadable.contains(&ticket);
        if !is_there && !taken.contains(&ticket) {
            let message = "a later writer has seen it, and no prune has taken it: it was deleted";
            check.finding(FindingKind::Missing, ObjectName::Commit(ticket), message);
        }
    }
    let highest = view.commits.values().map(|commit| commit.view.prune).max().unwrap_or(0);
    let highest = highest.max(view.prunes.keys().next_back().copied().unwrap_or(0));
    for number in 1..=highest {
        let name = ObjectName::Prune(number);
        if !check.listing.contains_key(&name.to_string()) {
            check.finding(FindingKind::Missing, name, "prune records are never deleted");
        }
    }
    Ok(view)
}

/// The segments of the view. Returns the view without those that cannot be read, and what the
/// others name.
pub(super) fn check_segments(
    check: &Check<'_>,
    mut view: View,
) -> Result<(View, Vec<ContainerRecord>)> {
    let mut lost: HashSet<PartName> = HashSet::new();
    let mut containers: BTreeMap<(Class, PartName), ContainerRecord> = BTreeMap::new();
    for segment in view.segments() {
        check.stop_if_cancelled()?;
        match open(check, ObjectName::Segment(segment), Segment::decode)? {
            Some(content) => {
                let records = content.containers.into_iter();
                containers.extend(records.map(|record| ((record.class, record.name), record)));
            }
            None => {
                lost.insert(segment);
            }
        }
    }
    if !lost.is_empty() {
        for commit in view.commits.values_mut() {
            Arc::make_mut(commit).segments.retain(|segment| !lost.contains(segment));
        }
        for prune in view.prunes.values_mut() {
            Arc::make_mut(prune).published.retain(|segment| !lost.contains(segment));
        }
    }
    // Segments that no commit names were put by writers that have not ended, or died.
    Ok((view, containers.into_values().collect()))
}

/// Are the containers there, with the right lengths? Returns those that are.
pub(super) fn check_containers(
    check: &Check<'_>,
    containers: Vec<ContainerRecord>,
) -> Vec<ContainerRecord> {
    check.count(|report| report.container_count = containers.len() as u64);
    let is_there = |record: &ContainerRecord| {
        let name = ObjectName::Container(record.class, record.name);
        match check.listing.get(&name.to_string()) {
            Some(len) if *len == u64::from(record.stored_len) => true,
            Some(len) => {
                let message = format!("has {len} bytes; {} were put", record.stored_len);
                check.failed(name, &Error::corrupt("", message));
                false
            }
            None => {
                check.finding(FindingKind::Missing, name, "is not there; the index names it");
                false
            }
        }
    };
    containers.into_iter().filter(is_there).collect()
}

/// Counts containers that nothing names.
pub(super) fn count_unreferenced(
    check: &Check<'_>,
    table: &HashMap<(Class, PartName), ContainerRecord>,
) {
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for name in names(check, kind) {
            let ObjectName::Container(class, part) = name else { continue };
            if !table.contains_key(&(class, part)) {
                let len = check.listing.get(&name.to_string()).copied().unwrap_or(0);
                check.count(|report| {
                    report.unreferenced_count += 1;
                    report.unreferenced_bytes += len;
                });
            }
        }
    }
}
