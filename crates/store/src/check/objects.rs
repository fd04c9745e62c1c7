//! Every object but containers: does it open, and is what it names there?

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::{Check, FindingKind, Need, plain};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::commit::{Commit, Damage};
use crate::format::config::Config;
use crate::format::directory::ChunkRecord;
use crate::format::ends::Hints;
use crate::format::prune::Prune;
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::ticket::Ticket;
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::repository::Repository;
use crate::seal::{Header, object_is_intact, open_object};
use crate::view::{Hidden, View};

/// Lists every object.
pub(super) fn list(repository: &Repository) -> Result<BTreeMap<String, u64>> {
    let mut listing = BTreeMap::new();
    for kind in ObjectKind::ALL {
        listing.extend(repository.media().list(kind.folder())?);
    }
    Ok(listing)
}

/// So often it is listed again for the sake of segments that are gone: anybody can name a million.
const LISTED_AGAIN_MAX: u32 = 100;

/// What is named, and what stands in its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Commits and prunes.
    pub(super) view: View,
    /// Writers that have not ended.
    unfinished: BTreeSet<TicketId>,
    /// Whose containers may be named only by what cannot be read.
    hidden: Hidden,
    /// Containers that are gone.
    pub(super) gone: HashSet<(Class, PartName)>,
    /// Commits that a later writer has seen, and that are gone.
    pub(super) lost_commits: BTreeSet<TicketId>,
    /// Containers that are going.
    condemned: HashSet<(Class, PartName)>,
    /// Containers of which it is recorded that chunks cannot be read from there.
    recorded: HashSet<(Class, PartName)>,
}

impl Seen {
    /// How much is known of what this writer has put and no segment or commit names.
    fn need(&self, ticket: TicketId) -> Need {
        let is_in_doubt = self.unfinished.contains(&ticket) || self.hidden.may_name(ticket);
        if is_in_doubt { Need::Named } else { Need::Unnamed }
    }

    /// Whether a container is going.
    pub(super) fn is_condemned(&self, container: &(Class, PartName)) -> bool {
        self.condemned.contains(container)
    }

    /// Whether it is recorded that chunks cannot be read from a container.
    pub(super) fn is_recorded(&self, container: &(Class, PartName)) -> bool {
        self.recorded.contains(container)
    }

    /// How much a container that is named, or may be, is needed.
    fn need_of_container(&self, class: Class, part: PartName, need: Need) -> Need {
        match need {
            Need::Named if self.recorded.contains(&(class, part)) => Need::Recorded(class, part),
            need => need,
        }
    }

    /// Takes up commits and prunes that have come since. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// As the medium. What cannot be read is passed over: the next check will name it.
    pub(super) fn list_again(&mut self, check: &Check<'_>) -> Result<bool> {
        let media = check.repository.media();
        let given_up = self.view.given_up_prunes();
        let mut is_newer = false;
        for kind in [ObjectKind::Commit, ObjectKind::Prune] {
            for (path, _) in media.list(kind.folder())? {
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

    /// Takes up what others have seen, no listing has shown, and is there by its name.
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

/// Gets an object and looks at its checksum. `None` where there is a finding, or where the object
/// has been deleted since the listing by somebody who may do so.
pub(super) fn get(check: &Check<'_>, name: ObjectName, need: Need) -> Result<Option<Bytes>> {
    get_unless(check, name, need, || Ok(may_go(name)))
}

/// Whether an object is of a kind that may go at any time: sweeps take tickets and commits; the owner
/// takes keys. What is missing for good, the next check finds, or what follows in this one.
fn may_go(name: ObjectName) -> bool {
    matches!(
        name.kind(),
        ObjectKind::Ticket
            | ObjectKind::Commit
            | ObjectKind::Key
            | ObjectKind::Hints
            | ObjectKind::Parity
    )
}

/// As [`get`]; where the object is missing, `may_be_gone` says whether that is right.
fn get_unless(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    may_be_gone: impl FnOnce() -> Result<bool>,
) -> Result<Option<Bytes>> {
    check.stop_if_cancelled()?;
    let bytes = match check.repository.media().get(&name.to_string()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == Kind::Missing && may_be_gone()? => return Ok(None),
        Err(error) => return check.failed(name, error, need).map(|()| None),
    };
    if !object_is_intact(&bytes) {
        // What is wrong in particular, where the seal can tell.
        let error = match open_object(check.repository.keys(), name, &bytes) {
            Err(error) if name.kind() != ObjectKind::Key => Error::corrupt("", error),
            _ => Error::corrupt("", "the checksum in its trailer does not match"),
        };
        check.failed(name, error, need)?;
    }
    Ok(Some(bytes))
}

/// Gets, opens and decodes an object of one part. `None` as [`get`], or where it cannot be read.
/// What is damaged in its padding only can be.
fn open<T>(
    check: &Check<'_>,
    name: ObjectName,
    need: Need,
    decode: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    open_unless(check, name, need, decode, || Ok(may_go(name)))
}

/// As [`open`]; where the object is missing, `may_be_gone` says whether that is right.
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
        // Named a moment ago.
        Err(_) if !object_is_intact(&bytes) => Ok(None),
        // It is whole, and says that a newer version wrote it. What a commit or a prune record says
        // every command needs.
        Err(error) if error.kind() == Kind::Unsupported && !is_of_view(name) => {
            check.finding(FindingKind::Foreign, name, plain(&name, error));
            Ok(None)
        }
        Err(error) => check.failed(name, error, need).map(|()| None),
    }
}

/// Returns `true` for an object that a view is made of.
fn is_of_view(name: ObjectName) -> bool {
    matches!(name.kind(), ObjectKind::Commit | ObjectKind::Prune)
}

/// Both copies of every settings object, from number 0 on.
pub(super) fn check_configs(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Config).into_iter().collect();
    let highest = check.repository.config_number();
    // The highest settings hold.
    let need = |number| if number < highest { Need::Past } else { Need::Named };
    for number in 0..=highest {
        for copy in [false, true] {
            let name = ObjectName::Config { number, copy };
            if !found.contains(&name) {
                check.wrong(FindingKind::Missing, name, "is not there".to_owned(), need(number));
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

/// Both copies of every keyring. What is in it only its own passphrase can tell.
pub(super) fn check_keys(check: &Check<'_>) -> Result<()> {
    let found: BTreeSet<ObjectName> = names(check, ObjectKind::Key).into_iter().collect();
    let mut copies: HashMap<[u8; 16], Bytes> = HashMap::new();
    for name in &found {
        let ObjectName::Key { id, copy } = *name else { continue };
        let other = ObjectName::Key { id, copy: !copy };
        if !found.contains(&other) {
            check.finding(FindingKind::Missing, other, "is not there");
        }
        let Some(bytes) = get(check, *name, Need::Named)? else { continue };
        if let Err(error) = Header::decode(name, &bytes) {
            if object_is_intact(&bytes) {
                check.failed(name, error, Need::Named)?;
            }
            continue;
        }
        // One that is damaged was named a moment ago.
        let is_whole = object_is_intact(&bytes);
        if is_whole && copies.insert(id, bytes.clone()).is_some_and(|first| first != bytes) {
            check.finding(FindingKind::Corrupt, name, "the two copies differ");
        }
    }
    if found.is_empty() {
        check.finding(FindingKind::Missing, "keys", "there is no keyring at all");
    }
    Ok(())
}

/// Hints may vanish at any time; those that are there should be whole.
pub(super) fn check_hints(check: &Check<'_>) -> Result<()> {
    for name in names(check, ObjectKind::Hints) {
        open(check, name, Need::Unnamed, Hints::decode)?;
    }
    Ok(())
}

/// Tickets, commits and prune records; what could be read of them is the view.
pub(super) fn check_view(check: &Check<'_>) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut given_up = BTreeSet::new();
    let mut unfound = Vec::new();
    for name in names(check, ObjectKind::Prune) {
        // Those that cannot be read are told below.
        if let Ok(prune) = check.repository.read(name, Prune::decode) {
            given_up.extend(prune.given_up);
        }
    }
    // What prunes have taken nobody reads: hence they come first.
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
        let message = "a writer that has not ended: at work, or interrupted";
        check.finding(FindingKind::Unfinished, name, message);
    }
    // A listing may pass over what came during it, lag, or have lost an entry.
    if !seen.view.gone_commits().is_empty() {
        seen.list_again(check)?;
    }
    seen.look_by_name(check);
    check_named_commits(check, &mut seen);
    check_prune_numbers(check, &seen);
    Ok(seen)
}

/// Commits that were listed and are not there: a sweep deletes what a record has taken, and nothing else
/// does.
fn name_unfound(check: &Check<'_>, seen: &mut Seen, unfound: &[ObjectName]) -> Result<()> {
    if unfound.is_empty() {
        return Ok(());
    }
    seen.list_again(check)?;
    let taken = seen.view.taken();
    for name in unfound {
        let ObjectName::Commit(ticket) = name else { continue };
        if !taken.contains(ticket) {
            let message = "the storage lists it, and does not have it";
            check.finding(FindingKind::Missing, name, message);
            seen.lost_commits.insert(*ticket);
        }
    }
    Ok(())
}

/// Commits that a later writer has seen must be there, unless a prune has taken them.
fn check_named_commits(check: &Check<'_>, seen: &mut Seen) {
    let message = "a later writer has seen it, and no prune has taken it: it was deleted";
    for ticket in seen.view.gone_commits() {
        check.finding(FindingKind::Missing, ObjectName::Commit(ticket), message);
        seen.lost_commits.insert(ticket);
    }
}

fn check_prune_numbers(check: &Check<'_>, seen: &Seen) {
    for number in seen.view.missing_prunes() {
        let message =
            "is gone, and prune records are never deleted: what it condemned is not known";
        check.finding(FindingKind::Missing, ObjectName::Prune(number), message);
    }
}

/// A container that is to be checked, and where it stands in an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) class: Class,
    pub(super) name: PartName,
    /// What a segment says of it; `None` where none does.
    pub(super) record: Option<ContainerRecord>,
    pub(super) need: Need,
}

impl Task {
    /// Returns the record of damage of a chunk in this container.
    pub(super) fn damage(&self, chunk: &ChunkRecord) -> Damage {
        Damage { class: self.class, container: self.name, fingerprint: chunk.fingerprint }
    }
}

/// Every segment. Returns what those that can be read say of containers.
pub(super) fn check_segments(check: &Check<'_>, seen: &mut Seen) -> Result<Vec<Task>> {
    let mut tasks: BTreeMap<(Class, PartName), Task> = BTreeMap::new();
    let mut take = |name: ObjectName, segment: Segment, need: Need| {
        for record in segment.containers {
            let task = Task { class: record.class, name: record.name, record: Some(record), need };
            let before = tasks.entry((record.class, record.name)).or_insert(task);
            if before.record != Some(record) {
                let container = ObjectName::Container(record.class, record.name);
                let message = format!("says of {container} what another segment does not");
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
            // A prune may have superseded it since, and a sweep taken it: what the prune has
            // published in its place is read next.
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
    // Those of a writer that has not ended are named by whoever ends it, those of a commit that
    // cannot be read by that. The others were superseded, or came too late.
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

/// Are the containers there, with the right lengths? Returns those that are, and those that no
/// segment names.
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
    // A sweep may have taken it since the view.
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
                // What a newer segment names may have come since the listing: the next check reads it.
                let found = check.repository.media().head(&name.to_string());
                if !matches!(found, Ok(Some(_))) {
                    seen.gone.insert((task.class, task.name));
                }
                match found {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        let message = "is not there; the index names it".to_owned();
                        check.wrong(FindingKind::Missing, name, message, task.need);
                    }
                    Err(error) => check.failed(name, error, task.need)?,
                }
                continue;
            }
            Some(len) if len != put_len => {
                let message = format!("has {len} bytes; {put_len} were put");
                check.wrong(FindingKind::Corrupt, name, message, task.need);
            }
            Some(_) => {}
        }
        // What is too short may hold chunks all the same.
        checked.push(task);
    }
    for name in names(check, ObjectKind::Data).into_iter().chain(names(check, ObjectKind::Meta)) {
        let ObjectName::Container(class, part) = name else { continue };
        if !known.contains(&(class, part)) {
            let need = seen.need_of_container(class, part, seen.need(part.ticket));
            let task = Task { class, name: part, record: None, need };
            let len = listed(&task).unwrap_or(0);
            check.count(|report| {
                // The index takes these up by their own directories.
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
