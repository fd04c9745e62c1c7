//! Repair of the index: rebuilds it from the tables of contents of the containers, which are
//! authoritative.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, ObjectKind, Result};

use super::attempts::{is_damage, is_missing_or_damaged, persist, restart_if_ended};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::prune::Prune;
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::ticket::{Purpose, Ticket};
use crate::index::ContainerToc;
use crate::repo::liveness::require_alone;
use crate::repo::repository::Repository;
use crate::repo::view::{Hidden, View};
use crate::util::tolerance::Tolerance;
use crate::verify::check::CheckMonitor;
use crate::verify::original::{OriginalBytes, is_newer, original_bytes};
use crate::write::prune_log::{self, AppendResult};
use crate::write::{Writer, end_writer};

/// Number of hints at which a segment is put: 12 MB.
const HINTS_MAX: usize = 1_000_000;

/// The options of a repair of the index.
#[derive(Clone, Debug, Default)]
pub struct IndexOptions {
    /// Set to write nothing.
    pub dry_run: bool,
    /// Missing commits that are given up, so that no client misses them any more. The data that
    /// their writers had stored stays.
    pub given_up: BTreeSet<TicketId>,
    /// Missing or damaged prune records that are given up. Such a record does not count any more,
    /// even if it comes back. Containers that it condemned and that still exist count again, and
    /// snapshots that it took are listed again; a check finds which of their data is gone. No other
    /// client may be at work, because one that is deleting what the record condemned would go on.
    pub given_up_prunes: BTreeSet<u64>,
}

/// The results of a repair of the index; in a dry run, the expected ones.
#[derive(Debug, Default)]
pub struct IndexRepair {
    /// The number of the record that published the index; `None` in a dry run.
    pub record: Option<u64>,
    /// Number of containers in the new index.
    pub container_count: u64,
    /// Number of chunks in these containers.
    pub chunk_count: u64,
    /// Number of segments that were written.
    pub segment_count: u64,
    /// Number of segments that do not count any more.
    pub superseded_count: u64,
    /// The errors of superseded segments that could not be read.
    pub unreadable_segments: Vec<Error>,
    /// Containers that no readable object named before.
    pub found: Vec<ObjectName>,
    /// Containers that were named, and do not exist.
    pub gone: Vec<ObjectName>,
    /// The errors of containers that exist and cannot be read; the index does not name them any
    /// more.
    pub unreadable: Vec<Error>,
    /// The errors of unreadable containers that neither a readable nor an unreadable object can
    /// have named, so that nothing is given up with them.
    pub unnamed: Vec<Error>,
    /// Writers that were ended because their tickets cannot be read.
    pub ended: Vec<TicketId>,
}

/// Writes index segments for all containers of writers that have ended, condemned or not, and
/// publishes them by a numbered record that supersedes the existing segments. Even the hints of
/// readable segments are not trusted; the table of contents of every container is read.
///
/// If the storage refuses to read the table of contents of a container, the readable segments that
/// name the container stay.
///
/// # Errors
///
/// Returns a `Corrupt` error if a prune record cannot be read, because nothing can be written
/// safely then; `Interrupted` if the monitor asks to stop; `Invalid` if a prune record that is to
/// be given up is not missing; and `Conflict` if a ticket cannot be read and its writer may be at
/// work on a storage that does not create atomically. Also returns any error of the storage.
pub fn repair_index(
    repository: &Arc<Repository>,
    options: &IndexOptions,
    monitor: &dyn CheckMonitor,
) -> Result<IndexRepair> {
    repository.view_cache().bypass();
    let missing = &missing_prunes(repository, &options.given_up_prunes)?;
    if options.dry_run {
        let view = View::without(missing.clone()).list_again(repository)?;
        let unreadable = unreadable_writers(repository, &view)?;
        let mut builder = IndexBuilder::new(repository, None);
        builder.report.ended = unreadable;
        builder.build(&view, monitor)?;
        return Ok(builder.report);
    }
    if !repository.creates_atomically()?
        && !unreadable_writers(repository, &View::list(repository)?)?.is_empty()
    {
        // On such a storage, no client may end the ticket of a writer that may be at work.
        require_alone(repository, None)?;
    }
    persist("the new index", || {
        let mut writer =
            Writer::begin_without(repository.clone(), Purpose::Other, missing.clone())?;
        match rebuild(&mut writer, options, monitor) {
            Ok(done) => Ok(done),
            // The objects that were put are correct, and may count.
            Err(error) => restart_if_ended(writer.fail(error)),
        }
    })
}

/// Returns all missing prune records, if some of them are given up. The others do not prevent that,
/// because a rebuild names the containers that exist but makes no new references to them, whatever
/// the records condemned. They are still reported as missing.
///
/// # Errors
///
/// Returns an `Invalid` error if one of `given_up` is not missing, because it can be restored, or
/// another client can read it.
fn missing_prunes(repository: &Repository, given_up: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
    if given_up.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut view = View::list(repository)?;
    view.attest(repository)?;
    let damaged = view.unresolved().filter_map(|(name, error)| match name {
        ObjectName::Prune(number)
            if is_missing_or_damaged(error) && !is_newer(repository, *name) =>
        {
            Some(*number)
        }
        _ => None,
    });
    let mut missing: BTreeSet<u64> = damaged.chain(view.missing_prunes()).collect();
    missing.retain(|number| {
        let original = original_bytes(repository, ObjectName::Prune(*number), None);
        !matches!(original, OriginalBytes::Intact | OriginalBytes::Restorable(_))
    });
    match given_up.difference(&missing).next() {
        None => Ok(missing),
        Some(number) => {
            let message = "not missing, and cannot be given up";
            Err(Error::invalid(ObjectName::Prune(*number), message)
                .with_remedy("omit this --give-up; `cutpoint check` names the missing records"))
        }
    }
}

/// Makes one attempt; returns `None` if another client had ended the ticket.
fn rebuild(
    writer: &mut Writer,
    options: &IndexOptions,
    monitor: &dyn CheckMonitor,
) -> Result<Option<IndexRepair>> {
    let repository = writer.repository().clone();
    let mut view = writer.view().clone();
    let mut ended = unreadable_writers(&repository, &view)?;
    ended.retain(|ticket| *ticket != writer.ticket());
    for ticket in &ended {
        end_writer(&repository, *ticket)?;
    }
    if !ended.is_empty() {
        view = view.list_again(&repository)?;
    }
    let mut builder = IndexBuilder::new(&repository, Some(writer));
    builder.report.ended = ended;
    let (published, superseded) = builder.build(&view, monitor)?;
    let mut report = builder.report;
    let taken = options.given_up.iter().copied().collect();
    let given_up = options.given_up_prunes.iter().copied().collect();
    let record = Prune { published, superseded, taken, given_up, ..Prune::default() };
    // The record names existing containers and condemns none, so that it holds whatever other
    // clients did meanwhile: containers that they condemned are never referred to, although a
    // segment names them, and segments that they superseded stay superseded.
    let put = prune_log::append(writer, &view, record, &BTreeSet::new(), |_, _, it| Ok(Some(it)))?;
    let AppendResult::Done(number) = put else { return Ok(None) };
    report.record = Some(number);
    for ticket in &options.given_up {
        if !view.unreadable.contains_key(&ObjectName::Commit(*ticket)) {
            // No client needs to wait for this writer any more.
            end_writer(&repository, *ticket)?;
        }
    }
    Ok(Some(report))
}

/// Returns the writers without a commit whose last ticket is damaged, so that no client can
/// determine whether they are at work. Writers whose commit existed and was deleted are not
/// included.
fn unreadable_writers(repository: &Repository, view: &View) -> Result<Vec<TicketId>> {
    let mut newest: BTreeMap<TicketId, u32> = BTreeMap::new();
    for (path, _) in repository.storage().list(ObjectKind::Ticket.folder())? {
        let Ok(ObjectName::Ticket { ticket, renewal }) = ObjectName::parse(&path) else { continue };
        let last = newest.entry(ticket).or_default();
        *last = renewal.max(*last);
    }
    let (seen, taken) = (view.seen(), view.taken());
    newest.retain(|ticket, _| !has_ended(view, &taken, *ticket) && !seen.contains(ticket));
    let is_unreadable = |(ticket, renewal)| {
        let name = ObjectName::Ticket { ticket, renewal };
        let read = repository.read(name, Ticket::decode);
        let is_missing_or_damaged =
            read.is_err_and(|error| is_damage(&error)) && !is_newer(repository, name);
        is_missing_or_damaged.then_some(ticket)
    };
    Ok(newest.into_iter().filter_map(is_unreadable).collect())
}

/// Returns `true` if the writer has a commit in `view`, or had one that is among the `taken` ones.
fn has_ended(view: &View, taken: &HashSet<TicketId>, ticket: TicketId) -> bool {
    view.commits.contains_key(&ticket)
        || view.unreadable.contains_key(&ObjectName::Commit(ticket))
        || taken.contains(&ticket)
}

/// The new index under construction.
struct IndexBuilder<'a> {
    repository: &'a Arc<Repository>,
    /// The writer of the segments; `None` in a dry run.
    writer: Option<&'a mut Writer>,
    open: Segment,
    published: Vec<PartName>,
    report: IndexRepair,
}

/// The contents of the readable segments.
#[derive(Default)]
struct OldSegments {
    /// The record of each container in one of the segments that name it.
    records: BTreeMap<(Class, PartName), ContainerRecord>,
    /// The readable segments and the containers that they name.
    segments: Vec<(PartName, Vec<(Class, PartName)>)>,
    unreadable: Vec<PartName>,
}

impl OldSegments {
    /// Returns the segments that the new ones supersede: all but those that name one of the
    /// containers that the storage has refused to read.
    fn superseded(self, refused: &HashSet<(Class, PartName)>) -> Vec<PartName> {
        let replaced = self.segments.into_iter().filter(|(_, containers)| {
            !containers.iter().any(|container| refused.contains(container))
        });
        let mut superseded: Vec<PartName> = replaced.map(|(name, _)| name).collect();
        superseded.extend(self.unreadable);
        superseded.sort_unstable();
        superseded
    }
}

/// The state of reading all containers.
struct ContainerScan<'a> {
    view: &'a View,
    /// The writers whose containers an unreadable object may name.
    hidden: Hidden,
    condemned: HashSet<(Class, PartName)>,
    /// The containers of the listing.
    existing: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    refused: HashSet<(Class, PartName)>,
    tolerance: Tolerance,
}

impl<'a> IndexBuilder<'a> {
    fn new(repository: &'a Arc<Repository>, writer: Option<&'a mut Writer>) -> IndexBuilder<'a> {
        let (open, published, report) = (Segment::default(), Vec::new(), IndexRepair::default());
        IndexBuilder { repository, writer, open, published, report }
    }

    /// Writes all segments for the state of `view`. Returns them, and the segments that they
    /// supersede.
    fn build(
        &mut self,
        view: &View,
        monitor: &dyn CheckMonitor,
    ) -> Result<(Vec<PartName>, Vec<PartName>)> {
        // The listing comes after the view. A commit is put after the containers that bear its
        // name, so that the listing is complete for any writer whose commit is in the view. A
        // ticket is put before the containers, so that a writer that begins or ends meanwhile is in
        // the last listing; the writer's segments are not superseded.
        let mut listed = Vec::new();
        for kind in [ObjectKind::Data, ObjectKind::Meta] {
            listed.extend(self.repository.storage().list(kind.folder())?);
        }
        let active = self.active_writers(view)?;
        let mut tolerance = Tolerance::default();
        let old = self.read_old(view, &mut tolerance)?;
        let unreadable = old.unreadable.iter().map(|part| ObjectName::Segment(*part));
        let unreadable: Vec<_> =
            view.unresolved().map(|(name, _)| *name).chain(unreadable).collect();
        let mut scan = ContainerScan {
            view,
            hidden: view.hidden(&unreadable),
            condemned: view.condemned(),
            existing: HashSet::new(),
            refused: HashSet::new(),
            tolerance,
        };
        monitor.expected(listed.len() as u64, 0);
        for (path, stored_len) in listed {
            if monitor.cancelled() {
                return Err(Error::new(Kind::Interrupted, "repair", "interrupted"));
            }
            let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&path) else {
                continue;
            };
            scan.existing.insert((class, part));
            let record = old.records.get(&(class, part)).copied();
            if record.is_none() && active.contains(&part.ticket) {
                continue;
            }
            // This puts objects of the repair, so that an error says nothing about the container.
            if let Some(writer) = &mut self.writer {
                writer.renew()?;
            }
            self.add_listed(&mut scan, (class, part), stored_len, record)?;
            monitor.progress(1, 0);
            self.put_segment_at(HINTS_MAX)?;
        }
        self.put_segment_at(1)?;
        let ContainerScan { condemned, existing, refused, .. } = scan;
        let gone = old.records.keys();
        let gone = gone.filter(|it| !existing.contains(*it) && !condemned.contains(*it));
        self.report.gone = gone.map(|(class, part)| ObjectName::Container(*class, *part)).collect();
        let superseded = old.superseded(&refused);
        self.report.superseded_count = superseded.len() as u64;
        Ok((std::mem::take(&mut self.published), superseded))
    }

    /// Returns the writers that may be at work. A writer whose commit others have seen is not, even
    /// if the commit is gone.
    fn active_writers(&self, view: &View) -> Result<HashSet<TicketId>> {
        let tickets = self.repository.storage().list(ObjectKind::Ticket.folder())?;
        let writers = tickets.iter().filter_map(|(path, _)| match ObjectName::parse(path) {
            Ok(ObjectName::Ticket { ticket, .. }) => Some(ticket),
            _ => None,
        });
        let ended: &[TicketId] = if self.writer.is_none() { &self.report.ended } else { &[] };
        let (seen, taken) = (view.seen(), view.taken());
        let is_active = |ticket: &TicketId| {
            !has_ended(view, &taken, *ticket) && !ended.contains(ticket) && !seen.contains(ticket)
        };
        Ok(writers.filter(is_active).collect())
    }

    /// Adds a listed container, or reports the error of reading it. A condemned container is added
    /// as well: as long as it exists, late snapshots need it, and their sweep finds it by the
    /// index.
    fn add_listed(
        &mut self,
        scan: &mut ContainerScan<'_>,
        container: (Class, PartName),
        stored_len: u64,
        record: Option<ContainerRecord>,
    ) -> Result<()> {
        let (class, part) = container;
        let is_condemned = scan.condemned.contains(&container);
        match self.add_container(class, part, stored_len, record) {
            Ok(()) if record.is_none() && !is_condemned => {
                self.report.found.push(ObjectName::Container(class, part));
            }
            Ok(()) => {}
            // A sweep has deleted the container after the listing.
            Err(error)
                if error.kind() == Kind::Missing
                    && scan.view.list_again(self.repository)?.condemned().contains(&container) => {}
            Err(error) => {
                let error = scan.tolerance.of_one(error)?;
                if error.kind() == Kind::Storage {
                    scan.refused.insert(container);
                }
                if record.is_some() || scan.hidden.may_name(part.ticket) {
                    if !is_condemned {
                        self.report.unreadable.push(error);
                    }
                } else {
                    self.report.unnamed.push(error);
                }
            }
        }
        Ok(())
    }

    /// Reads the segments that count now.
    fn read_old(&mut self, view: &View, tolerance: &mut Tolerance) -> Result<OldSegments> {
        let mut old = OldSegments::default();
        for part in view.segments() {
            let read = match view.embedded_segment(&part) {
                Some(segment) => Ok(segment.clone()),
                None => self.repository.read(ObjectName::Segment(part), Segment::decode),
            };
            match read {
                Ok(segment) => {
                    let names = segment.containers.iter().map(|each| (each.class, each.name));
                    old.segments.push((part, names.collect()));
                    let records = segment.containers.into_iter();
                    old.records.extend(records.map(|each| ((each.class, each.name), each)));
                }
                Err(error) => {
                    self.report.unreadable_segments.push(tolerance.of_one(error)?);
                    old.unreadable.push(part);
                }
            }
        }
        Ok(old)
    }

    /// Adds the contents of a container's own table of contents.
    fn add_container(
        &mut self,
        class: Class,
        part: PartName,
        stored_len: u64,
        record: Option<ContainerRecord>,
    ) -> Result<()> {
        // The trailer tells where the table of contents is. If it is damaged, the old index may
        // know.
        let by_trailer = ContainerToc::read(self.repository, class, part, stored_len);
        let loaded = match (by_trailer, record) {
            (Err(_), Some(record)) => ContainerToc::at(self.repository, record)?,
            (by_trailer, _) => by_trailer?,
        };
        let segment = loaded.segment();
        self.report.container_count += 1;
        self.report.chunk_count += segment.hints.len() as u64;
        self.open.append(&segment);
        Ok(())
    }

    /// Puts the open segment if it has at least `count` hints or containers.
    fn put_segment_at(&mut self, count: usize) -> Result<()> {
        if self.open.hints.len().max(self.open.containers.len()) < count {
            return Ok(());
        }
        let mut segment = std::mem::take(&mut self.open);
        self.report.segment_count += 1;
        if let Some(writer) = &mut self.writer {
            self.published.push(writer.put_segment(&mut segment)?);
        }
        Ok(())
    }
}
