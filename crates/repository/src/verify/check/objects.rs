//! Checks of all objects except containers: that each one opens, and that the objects it names
//! exist.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::{Check, FindingKind, Need, plain};
use crate::crypto::{Header, object_is_intact, open_object};
use crate::format::commit::{Commit, Damage};
use crate::format::config::Config;
use crate::format::edges::SimilarityObject;
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::ticket::Ticket;
use crate::format::toc::ChunkRecord;
use crate::repo::repository::Repository;
use crate::repo::view::{Hidden, View};

/// Lists all objects.
pub(super) fn list(repository: &Repository) -> Result<BTreeMap<String, u64>> {
    let mut listing = BTreeMap::new();
    for kind in ObjectKind::ALL {
        listing.extend(repository.storage().list(kind.folder())?);
    }
    Ok(listing)
}

/// Maximum number of new listings for segments that are gone, because a malicious client can name a
/// million of them.
const LISTED_AGAIN_MAX: u32 = 100;

/// The commits, prunes and writers that a check has seen, and the objects that are hidden or gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The commits and prunes.
    pub(super) view: View,
    /// The writers that have not ended.
    unfinished: BTreeSet<TicketId>,
    /// The writers whose containers may be named only by objects that cannot be read.
    hidden: Hidden,
    /// Containers that are gone.
    pub(super) gone: HashSet<(Class, PartName)>,
    /// Commits that a later writer has seen, and that are gone.
    pub(super) lost_commits: BTreeSet<TicketId>,
    /// Containers that are condemned.
    condemned: HashSet<(Class, PartName)>,
    /// Containers with chunks that are recorded as unreadable.
    recorded: HashSet<(Class, PartName)>,
}

impl Seen {
    /// Returns the need for an object that this writer has put and no segment or commit names.
    fn need(&self, ticket: TicketId) -> Need {
        let is_in_doubt = self.unfinished.contains(&ticket) || self.hidden.may_name(ticket);
        if is_in_doubt { Need::Named } else { Need::Unnamed }
    }

    /// Returns `true` if a container is condemned.
    pub(super) fn is_condemned(&self, container: &(Class, PartName)) -> bool {
        self.condemned.contains(container)
    }

    /// Returns `true` if chunks of a container are recorded as unreadable.
    pub(super) fn is_recorded(&self, container: &(Class, PartName)) -> bool {
        self.recorded.contains(container)
    }

    /// Returns the need for a container, given the need for the object that names it.
    fn need_of_container(&self, class: Class, part: PartName, need: Need) -> Need {
        match need {
            Need::Named if self.recorded.contains(&(class, part)) => Need::Appended(class, part),
            need => need,
        }
    }

    /// Adds commits and prunes that were put after the listing. Returns `true` if there were any.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. Objects that cannot be read are skipped; the next check
    /// reports them.
    pub(super) fn list_again(&mut self, check: &Check<'_>) -> Result<bool> {
        let storage = check.repository.storage();
        let given_up = self.view.given_up_prunes();
        let mut is_newer = false;
        for kind in [ObjectKind::Commit, ObjectKind::Prune] {
            for (path, _) in storage.list(kind.folder())? {
                let Ok(name) = ObjectName::parse(&path) else { continue };
                let is_known = match name {
                    ObjectName::Commit(ticket) => self.view.commits.contains_key(&ticket),
                    ObjectName::Prune(number) => {
                        self.view.prunes.contains_key(&number) || given_up.contains(&number)
                    }
                    _ => true,
                };
                if is_known || self.view.unreadable.contains_key(&name) {
                    continue;
                }
                let Ok(body) = check.repository.get(name) else { continue };
                is_newer |= self.take_up(name, &body).is_ok();
            }
        }
        Ok(is_newer)
    }

    /// Adds commits and prunes that other writers have seen, that no listing shows, and that can be
    /// read by their names.
    fn look_by_name(&mut self, check: &Check<'_>) {
        let mut was_found = true;
        while was_found {
            was_found = false;
            for name in self.view.missed() {
                let body = check.repository.get(name);
                was_found |= body.is_ok_and(|body| self.take_up(name, &body).is_ok());
            }
        }
    }

    fn take_up(&mut self, name: ObjectName, body: &[u8]) -> Result<()> {
        match name {
            ObjectName::Commit(ticket) => {
                self.view.commits.insert(ticket, Arc::new(Commit::decode(body)?));
            }
            ObjectName::Prune(number) => {
                self.view.prunes.insert(number, Arc::new(Prune::decode(body)?));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the listed names of one kind.
fn names(check: &Check<'_>, kind: ObjectKind) -> Vec<ObjectName> {
    let folder = format!("{}/", kind.folder());
    let paths = check.listing.range(folder.clone()..).map(|(path, _)| path);
    paths
        .take_while(|path| path.starts_with(&folder))
        .filter_map(|path| ObjectName::parse(path).ok())
        .collect()
}

/// Reports objects with names that no version of cutpoint uses.
pub(super) fn check_names(check: &Check<'_>) {
    for path in check.listing.keys() {
        if ObjectName::parse(path).is_err() {
            check.finding(FindingKind::Foreign, path, "not written by cutpoint");
        }
    }
}

/// Reads an object and verifies its checksum. Returns `None` if there is a finding, or if the
/// object was legitimately deleted after the listing.
pub(super) fn get(check: &Check<'_>, name: ObjectName, need: Need) -> Result<Option<Bytes>> {
    get_unless(check, name, need, || Ok(may_go(name)))
}

/// Returns `true` if an object is of a kind that may disappear at any time: sweeps delete tickets
/// and commits, and owners delete keys. An object that is missing for good is found by a later part
/// of this check, or by the next check.
fn may_go(name: ObjectName) -> bool {
    matches!(
        name.kind(),
        ObjectKind::Ticket
            | ObjectKind::Commit
            | ObjectKind::Key
            | ObjectKind::Similarity
            | ObjectKind::Parity
    )
}

/// Reads an object as [`get`] does; `may_be_gone` decides whether it is legitimate that the object
/// is missing.
fn get_unless(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    may_be_gone: impl FnOnce() -> Result<bool>,
) -> Result<Option<Bytes>> {
    check.stop_if_cancelled()?;
    let bytes = match check.repository.storage().get(&name.to_string()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == Kind::Missing && may_be_gone()? => return Ok(None),
        Err(error) => return check.failed(name, error, need).map(|()| None),
    };
    if !object_is_intact(&bytes) {
        // Opening the object gives a more specific error, if the seal is damaged.
        let error = match open_object(check.repository.keys(), name, &bytes) {
            Err(error) if name.kind() != ObjectKind::Key => Error::corrupt("", error),
            _ => Error::corrupt("", "wrong checksum in the trailer"),
        };
        check.failed(name, error, need)?;
    }
    Ok(Some(bytes))
}

/// Reads, opens and decodes an object of one part. Returns `None` as [`get`] does, or if the object
/// cannot be decoded. An object of which only the padding is damaged can be.
fn open<T>(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    decode: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    open_unless(check, name, need, decode, || Ok(may_go(name)))
}

/// Reads, opens and decodes an object as [`open`] does; `may_be_gone` decides whether it is
/// legitimate that the object is missing.
fn open_unless<T>(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    decode: impl FnOnce(&[u8]) -> Result<T>,
    may_be_gone: impl FnOnce() -> Result<bool>,
) -> Result<Option<T>> {
    let Some(bytes) = get_unless(check, name, need, may_be_gone)? else { return Ok(None) };
    if let ObjectName::Commit(ticket) = name
        && let Ok(header) = Header::decode(&name, &bytes)
    {
        check.lock().epochs.insert(ticket, header.epoch);
    }
    match open_object(check.repository.keys(), name, &bytes).and_then(|body| decode(&body)) {
        Ok(value) => Ok(Some(value)),
        // The damage was reported by `get_unless`.
        Err(_) if !object_is_intact(&bytes) => Ok(None),
        // The object is intact, and claims to be of a newer version. Commits and prune records are
        // excluded, because every command needs their contents.
        Err(error) if error.kind() == Kind::Unsupported && !is_of_view(name) => {
            check.finding(FindingKind::Foreign, name, plain(&name, error));
            Ok(None)
        }
        Err(error) => check.failed(name, error, need).map(|()| None),
    }
}

/// Returns `true` if views are made of objects like this one.
fn is_of_view(name: ObjectName) -> bool {
    matches!(name.kind(), ObjectKind::Commit | ObjectKind::Prune)
}

/// Checks both copies of every settings object, from number 0.
pub(super) fn check_configs(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Config).into_iter().collect();
    let highest = check.repository.config_number();
    // The settings with the highest number count.
    let need = |number| if number < highest { Need::Past } else { Need::Named };
    for number in 0..=highest {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            if !found.contains(&name) {
                check.wrong(FindingKind::Missing, name, "not found".to_owned(), need(number));
            }
        }
    }
    let mut copies: HashMap<u64, Config> = HashMap::new();
    for name in found {
        let ObjectName::Config { number, .. } = name else { continue };
        let need = need(number);
        let Some(config) = open(check, name, need, Config::decode)? else { continue };
        let wrong = |message: &str| {
            check.wrong(FindingKind::Corrupt, name, message.to_owned(), need);
        };
        if config.repository != check.repository.keys().repository() {
            wrong("belongs to another repository");
        }
        if copies.insert(number, config.clone()).is_some_and(|first| first != config) {
            wrong("the two copies differ");
        }
    }
    Ok(())
}

/// Checks both copies of every keyring. The wrapped contents can be verified only with the key's
/// own secret.
pub(super) fn check_keys(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Key).into_iter().collect();
    let mut copies: HashMap<[u8; 16], Bytes> = HashMap::new();
    for name in &found {
        let ObjectName::Key { id, copy } = *name else { continue };
        let other = ObjectName::Key { id, copy: !copy };
        if !found.contains(&other) {
            check.finding(FindingKind::Missing, other, "not found");
        }
        let Some(bytes) = get(check, *name, Need::Named)? else { continue };
        if let Err(error) = Header::decode(name, &bytes) {
            if object_is_intact(&bytes) {
                check.failed(name, error, Need::Named)?;
            }
            continue;
        }
        // A damaged one was reported a moment ago.
        let is_full = object_is_intact(&bytes);
        if is_full && copies.insert(id, bytes.clone()).is_some_and(|first| first != bytes) {
            check.finding(FindingKind::Corrupt, name, "the two copies differ");
        }
    }
    if found.is_empty() {
        check.finding(FindingKind::Missing, "keys", "no keyring found");
    }
    Ok(())
}

/// Checks hints. They may disappear at any time, but those that exist should be intact.
pub(super) fn check_hints(check: &Check<'_>) -> Result<()> {
    for name in names(check, ObjectKind::Similarity) {
        open(check, name, Need::Unnamed, SimilarityObject::decode)?;
    }
    Ok(())
}

/// Checks tickets, commits and prune records. The readable ones make up the view.
pub(super) fn check_view(check: &Check<'_>) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut given_up = BTreeSet::new();
    let mut unfound = Vec::new();
    for name in names(check, ObjectKind::Prune) {
        // Records that cannot be read are reported below.
        if let Ok(prune) = check.repository.read(name, Prune::decode) {
            given_up.extend(prune.given_up);
        }
    }
    // Prunes come first, because commits that they have taken are not needed any more.
    for kind in [ObjectKind::Prune, ObjectKind::Commit] {
        let taken = seen.view.taken();
        for name in names(check, kind) {
            let need = match name {
                ObjectName::Commit(ticket) if taken.contains(&ticket) => Need::Past,
                ObjectName::Prune(number) if given_up.contains(&number) => Need::Past,
                _ => Need::Named,
            };
            let decode = |body: &[u8]| seen.take_up(name, body);
            let taken_up = open_unless(check, name, need, decode, || {
                unfound.extend(may_go(name).then_some(name));
                Ok(may_go(name))
            })?;
            if taken_up.is_none() {
                let error = Error::corrupt(name, "cannot be read");
                seen.view.unreadable.insert(name, Arc::new(error));
            }
        }
        seen.view.drop_given_up();
    }
    for name in names(check, ObjectKind::Ticket) {
        let ObjectName::Ticket { ticket, .. } = name else { continue };
        let has_ended = check.listing.contains_key(&ObjectName::Commit(ticket).to_string());
        let need = if has_ended { Need::Past } else { Need::Named };
        open(check, name, need, Ticket::decode)?;
        if !has_ended {
            seen.unfinished.insert(ticket);
        }
    }
    let damaged = seen.view.damaged();
    seen.recorded = damaged.into_iter().map(|damage| (damage.class, damage.container)).collect();
    name_unfound(check, &mut seen, &unfound)?;
    for ticket in &seen.unfinished {
        let name = ObjectName::Ticket { ticket: *ticket, renewal: 0 };
        let message = "a writer that has not ended (active or interrupted)";
        check.finding(FindingKind::Unfinished, name, message);
    }
    // A listing may miss an object that was put during it, lag, or have lost an entry.
    if !seen.view.gone_commits().is_empty() {
        seen.list_again(check)?;
    }
    seen.look_by_name(check);
    check_named_commits(check, &mut seen);
    check_prune_numbers(check, &seen);
    Ok(seen)
}

/// Reports commits that were listed and do not exist, unless a record has taken them, because a
/// sweep deletes only such commits.
fn name_unfound(check: &Check<'_>, seen: &mut Seen, unfound: &[ObjectName]) -> Result<()> {
    if unfound.is_empty() {
        return Ok(());
    }
    seen.list_again(check)?;
    let taken = seen.view.taken();
    for name in unfound {
        let ObjectName::Commit(ticket) = name else { continue };
        if !taken.contains(ticket) {
            let message = "listed by the storage, but not found";
            check.finding(FindingKind::Missing, name, message);
            seen.lost_commits.insert(*ticket);
        }
    }
    Ok(())
}

/// Reports commits that a later writer has seen and that are gone, although no prune has taken
/// them.
fn check_named_commits(check: &Check<'_>, seen: &mut Seen) {
    let message = "deleted: a later writer has seen it, and no prune has removed it";
    for ticket in seen.view.gone_commits() {
        check.finding(FindingKind::Missing, ObjectName::Commit(ticket), message);
        seen.lost_commits.insert(ticket);
    }
}

fn check_prune_numbers(check: &Check<'_>, seen: &Seen) {
    for number in seen.view.missing_prunes() {
        let message =
            "missing, although prune records are never deleted; what it condemned is unknown";
        check.finding(FindingKind::Missing, ObjectName::Prune(number), message);
    }
}

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
pub(super) fn check_segments(check: &Check<'_>, seen: &mut Seen) -> Result<Vec<Task>> {
    let mut tasks: BTreeMap<(Class, PartName), Task> = BTreeMap::new();
    let mut take = |name: ObjectName, segment: Segment, need: Need| {
        for record in segment.containers {
            let task = Task { class: record.class, name: record.name, record: Some(record), need };
            let before = tasks.entry((record.class, record.name)).or_insert(task);
            if before.record != Some(record) {
                let container = ObjectName::Container(record.class, record.name);
                let message = format!("contradicts another segment about {container}");
                check.finding(FindingKind::Corrupt, name, message);
            }
        }
    };
    let mut unreadable: Vec<ObjectName> = seen.view.unresolved().map(|(name, _)| *name).collect();
    let mut live = BTreeSet::new();
    let mut listed_again_count = 0;
    loop {
        let segments = seen.view.segments();
        let new: Vec<PartName> = segments.difference(&live).copied().collect();
        if new.is_empty() {
            break;
        }
        live.extend(segments);
        for part in new {
            let name = ObjectName::Segment(part);
            let mut is_gone = false;
            // A prune may have superseded the segment after the listing, and a sweep may have
            // deleted it. The segments that the prune has published in its place are read next.
            let may_be_gone = || {
                if listed_again_count < LISTED_AGAIN_MAX {
                    listed_again_count += 1;
                    seen.list_again(check)?;
                }
                is_gone = !seen.view.segments().contains(&part);
                Ok(is_gone)
            };
            match open_unless(check, name, Need::Named, Segment::decode, may_be_gone)? {
                Some(segment) => take(name, segment, Need::Named),
                None if is_gone => {}
                None => unreadable.push(name),
            }
        }
    }
    seen.hidden = seen.view.hidden(&unreadable);
    // Segments of a writer that has not ended will be named when the writer is ended, and those of
    // an unreadable commit are named by that commit. All others were superseded, or came too late.
    for name in names(check, ObjectKind::Segment) {
        let ObjectName::Segment(part) = name else { continue };
        if live.contains(&part) {
            continue;
        }
        let need = seen.need(part.ticket);
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
    seen: &mut Seen,
    tasks: Vec<Task>,
) -> Result<Vec<Task>> {
    let path = |task: &Task| ObjectName::Container(task.class, task.name);
    let listed = |task: &Task| check.listing.get(&path(task).to_string()).copied();
    check.count(|report| report.container_count = tasks.len() as u64);
    let known: HashSet<(Class, PartName)> =
        tasks.iter().map(|task| (task.class, task.name)).collect();
    let mut condemned = seen.view.condemned();
    let is_gone =
        |task: &Task| listed(task).is_none() && !condemned.contains(&(task.class, task.name));
    // A sweep may have deleted the container after the view was read.
    if tasks.iter().any(is_gone) && seen.list_again(check)? {
        condemned = seen.view.condemned();
    }
    let mut checked = Vec::new();
    for mut task in tasks {
        task.need = seen.need_of_container(task.class, task.name, task.need);
        let name = path(&task);
        let put_len = task.record.map_or(0, |record| u64::from(record.stored_len));
        match listed(&task) {
            None if condemned.contains(&(task.class, task.name)) => {
                seen.gone.insert((task.class, task.name));
                continue;
            }
            None => {
                // A container that a newer segment names may have been put after the listing; the
                // next check reads it.
                let found = check.repository.storage().head(&name.to_string());
                if !matches!(found, Ok(Some(_))) {
                    seen.gone.insert((task.class, task.name));
                }
                match found {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        let message = "not found, but listed in the index".to_owned();
                        check.wrong(FindingKind::Missing, name, message, task.need);
                    }
                    Err(error) => check.failed(name, error, task.need)?,
                }
                continue;
            }
            Some(len) if len != put_len => {
                let message = format!("wrong length (expected {put_len} bytes, found {len})");
                check.wrong(FindingKind::Corrupt, name, message, task.need);
            }
            Some(_) => {}
        }
        // A container that is too short may still hold chunks.
        checked.push(task);
    }
    for name in names(check, ObjectKind::Data).into_iter().chain(names(check, ObjectKind::Meta)) {
        let ObjectName::Container(class, part) = name else { continue };
        if !known.contains(&(class, part)) {
            let need = seen.need_of_container(class, part, seen.need(part.ticket));
            let task = Task { class, name: part, record: None, need };
            let len = listed(&task).unwrap_or(0);
            check.count(|report| {
                // The index includes such containers, using their own tables of contents.
                if seen.hidden.may_name(part.ticket) {
                    report.container_count += 1;
                } else {
                    report.unreferenced_count += 1;
                    report.unreferenced_bytes += len;
                }
            });
            checked.push(task);
        }
    }
    seen.condemned = condemned;
    Ok(checked)
}
