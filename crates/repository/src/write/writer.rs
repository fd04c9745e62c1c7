//! The writer: a transaction, from its ticket to its commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::stop::{Hold, Stop};
use cutpoint_storage::{Error, Kind, ObjectKind, Result, Storage};

use super::commit::{CommitResult, OwnSegments, publishing, put_commit, void_commit};
use super::dead_writers::{end_dead_writers, end_writer};
use super::part::{CompletedObject, PublishedSegment};
use super::segment_writer::seal_segment;
use super::ticket::{OwnTicket, put_ticket};
use super::uploads::Upload;
use crate::format::commit::{Commit, Outcome, ViewRecord};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::ticket::Purpose;
use crate::parity;
use crate::repo::lagging_clients::{LAG_MAX, announce};
use crate::repo::liveness::{OpenTickets, listed_tickets, require_alone};
use crate::repo::repository::Repository;
use crate::repo::view::View;
use crate::rules;

/// A writer: a ticket, and the view that was taken after it.
#[derive(Debug)]
pub struct Writer {
    repository: Arc<Repository>,
    ticket: OwnTicket,
    view: View,
    ended: Vec<TicketId>,
    /// The index segment of the containers that were put and that no segment names yet.
    unpublished: Segment,
    /// The number of the next segment.
    segment_count: u32,
    /// The containers that the segments of this writer name. Not tracked for backups.
    named: BTreeSet<(Class, PartName)>,
    /// The containers and segments that this writer has put.
    stored: BTreeSet<ObjectName>,
    /// Set once the storage has lost one of them.
    has_lost: bool,
    /// Set once a commit with a result was sent, which may arrive later even if the put failed.
    has_tried_commit: bool,
    /// Makes the process, after a signal, wait until the writer has published or ended.
    _hold: Option<Hold>,
}

/// The circumstances in which a writer begins.
#[derive(Debug, Default)]
struct Beginning {
    /// Set if the caller vouches that no other client writes.
    is_alone: bool,
    /// The view whose commits and records are not read again, with the records that do not count.
    known: View,
    /// Set if the run has begun before. It keeps its key epoch.
    is_at_work: bool,
    /// Set if the caller has just ended the dead writers.
    leaves_dead: bool,
}

impl Writer {
    /// Begins a writer: announces that listings of this client may lag, if they may (W9; the first
    /// time in a repository, this takes five minutes), puts a ticket, then lists what exists (W1), and lists again if a dead writer
    /// had to be ended. On storage that, by the settings, lets several clients create one object, no
    /// other writer is ended.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` if this version must not write to the repository, `Corrupt` if a prune
    /// record cannot be read, and any error of [`announce`] and of the storage.
    pub fn begin(repository: Arc<Repository>, purpose: Purpose) -> Result<Writer> {
        Writer::begin_with(repository, purpose, Beginning::default())
    }

    /// Begins a writer for a run that continues with another ticket. A key epoch may have begun
    /// meanwhile; the run keeps its own.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::begin`].
    pub fn begin_again(repository: Arc<Repository>, purpose: Purpose) -> Result<Writer> {
        let beginning = Beginning { is_at_work: true, ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// Begins a writer for a repair that gives up the `missing` prune records, which do not count
    /// for this writer.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::begin`].
    pub(crate) fn begin_without(
        repository: Arc<Repository>,
        purpose: Purpose,
        missing: BTreeSet<u64>,
    ) -> Result<Writer> {
        let beginning = Beginning { known: View::without(missing), ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// Begins a writer for a client that has just ended the dead writers, and has listed before.
    /// Commits and records in `known` are not read again.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::begin`].
    pub(crate) fn begin_knowing(
        repository: Arc<Repository>,
        purpose: Purpose,
        known: View,
    ) -> Result<Writer> {
        let beginning = Beginning { known, leaves_dead: true, ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// Begins a writer for a caller that vouches that no other client writes. Dead writers are then
    /// ended even on storage that lets several clients create one object.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::begin`], and `Conflict` if another writer may be at work
    /// ([`crate::repo::liveness::others_at_work`]). In that case the writer's own ticket has been
    /// ended.
    pub fn begin_alone(repository: Arc<Repository>, purpose: Purpose) -> Result<Writer> {
        let beginning = Beginning { is_alone: true, ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    fn begin_with(
        repository: Arc<Repository>,
        purpose: Purpose,
        Beginning { is_alone, known, is_at_work, leaves_dead }: Beginning,
    ) -> Result<Writer> {
        repository.config().check_features(true)?;
        announce(&repository, LAG_MAX)?;
        let early =
            if rules::must_list_after_ticket() { None } else { Some(View::list(&repository)?) };
        let ticket = match put_ticket(&repository, purpose) {
            // A prune frees room, so it must be able to begin on a full disk.
            Err(error) if error.kind() == Kind::Full && purpose != Purpose::Backup => {
                repository.give_up_reserve();
                put_ticket(&repository, purpose)?
            }
            put => put?,
        };
        if is_alone && let Err(error) = require_alone(&repository, Some(ticket)) {
            end_writer(&repository, ticket).ok();
            return Err(error);
        }
        // Otherwise both the commit and the void of a ticket could be taken for the first.
        let may_end_others = is_alone || repository.creates_atomically()?;
        let tickets = match may_end_others && !leaves_dead {
            true => listed_tickets(&repository)?.tickets,
            false => OpenTickets::new(),
        };
        let mut view = known.list_again(&repository)?;
        let ended = end_dead_writers(&repository, ticket, tickets, &view, !is_alone)?;
        // A listing may also miss a record that was put while it ran, and show the next one.
        if !ended.is_empty() || !view.missing_prunes().is_empty() {
            view = view.list_again(&repository)?;
        }
        let view = early.unwrap_or(view);
        let epoch = if is_at_work { Ok(()) } else { view.require_epoch() };
        if let Err(error) = epoch.and_then(|()| view.require_prunes()) {
            // Nothing was written, so the ticket is ended: no other client has to wait for it.
            let end = void_commit(&repository, true, Vec::new(), ViewRecord::default());
            put_commit(&repository, ticket, &end).ok();
            return Err(error);
        }
        repository.keep_reserve();
        let hold = repository.environment().stop().map(Stop::hold);
        Ok(Writer {
            ticket: OwnTicket::new(&repository, ticket, purpose),
            repository,
            view,
            ended,
            unpublished: Segment::default(),
            segment_count: 0,
            _hold: hold,
            named: BTreeSet::new(),
            stored: BTreeSet::new(),
            has_lost: false,
            has_tried_commit: false,
        })
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Returns the ticket, which is also the id of the snapshot.
    pub fn ticket(&self) -> TicketId {
        self.ticket.id
    }

    /// Returns the view that counts for this writer.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the writers that were found dead and ended when this one began. The view contains
    /// what they had published.
    pub fn ended(&self) -> &[TicketId] {
        &self.ended
    }

    /// Renews the ticket once an hour. Must be called often.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn renew(&mut self) -> Result<()> {
        self.ticket.renew(&self.repository)
    }

    /// Waits until `upload` has reached the disk under its name. If the upload is an index segment,
    /// returns what the segment publishes.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub fn put(&mut self, upload: Upload) -> Result<Option<PublishedSegment>> {
        self.count_segment(&upload)?;
        let finished = upload.finish_and_keep(&self.repository)?;
        self.note(finished)
    }

    /// Notes an object that was put.
    pub(super) fn note(
        &mut self,
        (stored, bytes): (Option<CompletedObject>, Bytes),
    ) -> Result<Option<PublishedSegment>> {
        match stored {
            Some(CompletedObject::Segment(published)) => {
                self.stored.insert(ObjectName::Segment(published.name));
                // The segment names all containers before it.
                self.unpublished = Segment::default();
                self.remember(&published.segment);
                Ok(Some(published))
            }
            Some(CompletedObject::Container(container)) => {
                let names = container.containers.iter().map(|each| (each.class, each.name));
                self.stored.extend(names.map(|(class, name)| ObjectName::Container(class, name)));
                self.unpublished.append(&container);
                self.protect(&container, &bytes)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Counts an index segment before its put, because a name that may have been used must not be used
    /// again (W7).
    fn count_segment(&mut self, upload: &Upload) -> Result<()> {
        if let ObjectName::Segment(name) = upload.name() {
            self.segment_count = next_count(name.count)?;
        }
        Ok(())
    }

    /// Puts parity for a container that was put, if the settings ask for it. Nothing depends on the
    /// parity: after an interruption, the container simply has none.
    fn protect(&self, container: &Segment, bytes: &[u8]) -> Result<()> {
        let percent = self.repository.config().parity_percent;
        for record in container.containers.iter().filter(|_| percent > 0) {
            let (class, name) = (record.class, record.name);
            parity::protect(&self.repository, self.ticket.id, class, name, bytes, percent)?;
        }
        Ok(())
    }

    /// Puts an index segment for the containers that were put and that no segment names yet.
    /// Returns the name of the segment, if there was anything to publish.
    fn publish(&mut self) -> Result<Option<PartName>> {
        if self.unpublished.containers.is_empty() {
            return Ok(None);
        }
        let mut segment = std::mem::take(&mut self.unpublished);
        self.put_segment(&mut segment).map(Some)
    }

    /// Sorts an index segment and puts it under the next name.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn put_segment(&mut self, segment: &mut Segment) -> Result<PartName> {
        let name = PartName { ticket: self.ticket.id, count: self.segment_count };
        self.segment_count = next_count(self.segment_count)?;
        let bytes = seal_segment(&self.repository, name, segment)?;
        self.repository.put(ObjectName::Segment(name), bytes)?;
        self.stored.insert(ObjectName::Segment(name));
        self.remember(segment);
        Ok(name)
    }

    /// Remembers the containers that a segment of this writer names (P5, S5). A backup ends by its
    /// commit, which the void of another client precludes, so it needs no such memory.
    fn remember(&mut self, segment: &Segment) {
        if self.ticket.purpose != Purpose::Backup {
            let named = segment.containers.iter().map(|each| (each.class, each.name));
            self.named.extend(named);
        }
    }

    /// Returns the containers that the segments of this writer name; empty for a backup.
    pub(crate) fn named(&self) -> &BTreeSet<(Class, PartName)> {
        &self.named
    }

    /// Ends the writer after `error`, without a result. Every container that was put is published,
    /// so that the next run finds it, and the ticket is voided, so that no other client waits for
    /// it. On a full disk the reserve is given up for that. No other put of this writer may be in
    /// progress.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn abandon(&mut self, error: &Error) -> Result<CommitResult> {
        let _publishing = publishing(&self.repository);
        if error.kind() == Kind::Full {
            self.repository.give_up_reserve();
        }
        // If that fails, the chunks of these containers are stored again by the next run.
        self.publish().ok();
        end_writer(&self.repository, self.ticket.id)
    }

    /// Ends the writer without a result for a reason outside of it. Publishes what was put and
    /// voids the ticket, as far as possible.
    pub(crate) fn give_up(&mut self) {
        // If that fails, the chunks are stored again by the next run, and another client ends the
        // ticket.
        self.publish().ok();
        end_writer(&self.repository, self.ticket.id).ok();
    }

    /// Ends the writer after `error` as [`Writer::abandon`] does, and returns the error to report.
    /// That is `Conflict` if another client had ended the ticket before, because that client may
    /// have removed what was being put. Otherwise it is `error`.
    #[must_use]
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let ended = self.abandon(&error);
        let is_own = matches!(error.kind(), Kind::Interrupted | Kind::Full | Kind::Conflict);
        match ended {
            Ok(CommitResult::Ended) if !is_own => self.was_ended(Some(error)),
            _ => error,
        }
    }

    /// Returns the error of a writer that another client has ended. `failure` is the error that
    /// revealed it, if any.
    pub(crate) fn was_ended(&self, failure: Option<Error>) -> Error {
        if self.has_lost {
            return lost(self.repository.storage().describe(), "nothing was recorded")
                .with_remedy("run the same command again");
        }
        let object = match self.ticket.purpose {
            Purpose::Backup => "backup",
            Purpose::Prune => "prune",
            Purpose::Sweep => "sweep",
            Purpose::Other => "this run",
        };
        let text = "ended by another client, which considered it dead; stored data is kept; run \
                    the same command again";
        match failure {
            Some(failure) => Error::new(Kind::Conflict, object, format!("{text} ({failure})"))
                .with_source(failure),
            None => Error::new(Kind::Conflict, object, text),
        }
    }

    /// Returns `true` if it is time to end with a checkpoint and to go on under a new ticket (W8).
    pub fn is_old(&self) -> bool {
        self.ticket.is_old(&self.repository)
    }

    /// Returns the record of this writer's view, for a commit.
    pub fn view_record(&self) -> ViewRecord {
        self.view.record()
    }

    /// Ends the writer with `outcome` (W5, W6). `hits` are the containers of other writers in which
    /// chunks were found. Every segment must have been put, except for the embedded one, which gets
    /// the next name. Only a snapshot may have an embedded segment.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. If the outcome of the put is unknown, the error says so,
    /// and the snapshot may exist.
    pub fn commit(
        &mut self,
        outcome: Outcome,
        segments: impl Into<OwnSegments>,
        hits: &BTreeSet<(Class, PartName)>,
    ) -> Result<CommitResult> {
        let _publishing = publishing(&self.repository);
        let segments = segments.into();
        if !self.may_commit(hits)? {
            self.void(segments)?;
            return Ok(CommitResult::Ended);
        }
        if !self.keeps_stored()? {
            // If another client has ended this writer, a sweep may have deleted the objects.
            self.has_lost = self.put_void(segments)? == CommitResult::Done;
            return Ok(CommitResult::Ended);
        }
        let OwnSegments { mut names, embedded } = segments;
        if let Some(segment) = &embedded {
            // The name is used, whatever becomes of the commit (W7).
            names.push(PartName { ticket: self.ticket.id, count: self.segment_count });
            self.segment_count = next_count(self.segment_count)?;
            self.remember(segment);
        }
        let commit = Commit {
            outcome,
            segments: names,
            embedded: embedded.map(Box::new),
            view: self.view_record(),
            time_ns: self.repository.environment().now_ns(),
            extra: Vec::new(),
        };
        self.has_tried_commit = true;
        let result = put_commit(&self.repository, self.ticket.id, &commit)?;
        // The storage may have restarted during the commit, too.
        let commit = ObjectName::Commit(self.ticket.id);
        if result == CommitResult::Done && !self.keeps_stored_and(commit)? {
            let snapshot = format!("snapshot {}", self.ticket.id);
            return Err(lost(snapshot, "the snapshot is damaged").with_remedy(
                "back up again, which stores the lost chunks, and `check` the repository",
            ));
        }
        Ok(result)
    }

    /// W5: returns `true` if this writer has renewed its ticket in time and all of `hits` exist.
    pub(crate) fn may_commit(&self, hits: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        Ok(self.ticket.is_fresh(&self.repository) && self.exist(hits)?)
    }

    /// Returns `true` if the storage still has what this writer has put. It is asked only if it may have
    /// restarted: it has acknowledged all of it.
    pub(crate) fn keeps_stored(&self) -> Result<bool> {
        // Without its ticket, no sweep would wait for this writer.
        self.keeps_stored_and(ObjectName::Ticket { ticket: self.ticket.id, renewal: 0 })
    }

    /// Does the same as [`Writer::keeps_stored`] for the containers, the segments and `object`, another
    /// acknowledged object of this writer.
    pub(crate) fn keeps_stored_and(&self, object: ObjectName) -> Result<bool> {
        let storage = self.repository.storage();
        if !storage.had_outage() {
            return Ok(true);
        }
        let names: Vec<String> =
            self.stored.iter().chain([&object]).map(ToString::to_string).collect();
        storage.all_exist(&names)
    }

    /// Returns the containers and index segments of this writer that the storage has lost, if it may
    /// have restarted.
    fn lost(&self) -> Result<BTreeSet<ObjectName>> {
        let storage = self.repository.storage();
        if self.stored.is_empty() || self.keeps_stored()? {
            return Ok(BTreeSet::new());
        }
        let mut listed = BTreeSet::new();
        for kind in [ObjectKind::Data, ObjectKind::Meta, ObjectKind::Segment] {
            listed.extend(storage.list(kind.folder())?.into_iter().map(|(name, _)| name));
        }
        let mut lost = BTreeSet::new();
        for name in &self.stored {
            let path = name.to_string();
            // A listing may lag.
            if !listed.contains(&path) && storage.head(&path)?.is_none() {
                lost.insert(*name);
            }
        }
        Ok(lost)
    }

    /// Returns those of `names`, index segments of this writer, that name no lost container. For the
    /// containers that are left of the other ones, and of those that no segment names yet, a further
    /// segment is put. Containers of a lost segment stay for the next prune to index.
    fn left_segments(
        &mut self,
        names: Vec<PartName>,
        lost: &BTreeSet<ObjectName>,
    ) -> Result<Vec<PartName>> {
        let is_left = |container: &ContainerRecord| {
            !lost.contains(&ObjectName::Container(container.class, container.name))
        };
        let mut left = Vec::new();
        let mut rest = std::mem::take(&mut self.unpublished);
        rest.retain(is_left);
        for name in names {
            if lost.contains(&ObjectName::Segment(name)) {
                continue;
            }
            let bytes = self.repository.get(ObjectName::Segment(name))?;
            let mut segment = Segment::decode(&bytes)?;
            if segment.containers.iter().all(is_left) {
                left.push(name);
                continue;
            }
            segment.retain(is_left);
            rest.append(&segment);
        }
        if !rest.containers.is_empty() {
            left.push(self.put_segment(&mut rest)?);
        }
        Ok(left)
    }

    /// Ends the writer because the storage has lost objects that it had acknowledged. The `void` names no
    /// segment that may name a container that is lost.
    pub(crate) fn end_as_lost(&mut self) -> Result<()> {
        // If another client has ended this writer, a sweep may have deleted the objects.
        self.has_lost = self.put_void(OwnSegments::default())? == CommitResult::Done;
        Ok(())
    }

    /// Returns `true` if this writer has ended because the storage has lost objects that it had
    /// acknowledged.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// P5: returns `true` if no other client has ended this writer, and every container exists that
    /// its segments name. Containers that a record of `view` has condemned are not checked, because
    /// a sweep may have deleted them.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn stands(&self, view: &View) -> Result<bool> {
        let storage = self.repository.storage();
        let end = ObjectName::Commit(self.ticket.id).to_string();
        if rules::must_check_own_end() && storage.head(&end)?.is_some() {
            return Ok(false);
        }
        if self.named.is_empty() || !rules::must_check_own_containers() {
            return Ok(true);
        }
        let condemned = view.condemned();
        let named = self.named.iter().filter(|name| !condemned.contains(name));
        all_exist(&**storage, &named.copied().collect())
    }

    /// Ends the writer without a result. What was published stays. A segment that was to be embedded
    /// is put, because a void has none.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn void(&mut self, segments: impl Into<OwnSegments>) -> Result<()> {
        self.put_void(segments.into()).map(|_| ())
    }

    /// Does the same as [`Writer::void`]. The result is `Ended` if another client was the first.
    fn put_void(&mut self, segments: OwnSegments) -> Result<CommitResult> {
        let OwnSegments { mut names, embedded } = segments;
        let lost = self.lost()?;
        if !lost.is_empty() {
            names = self.left_segments(names, &lost)?;
        } else if embedded.is_some() {
            names.extend(self.publish()?);
        }
        let is_own = !self.has_tried_commit;
        let commit = void_commit(&self.repository, is_own, names, self.view_record());
        put_commit(&self.repository, self.ticket.id, &commit)
    }

    /// Returns `true` if all of `containers` exist.
    fn exist(&self, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        if !rules::must_check_hits() {
            return Ok(true);
        }
        all_exist(&**self.repository.storage(), containers)
    }
}

/// Returns the error about `object` after the storage has lost objects. `text` is the consequence.
pub(crate) fn lost(object: impl std::fmt::Display, text: &str) -> Error {
    let message = format!(
        "the storage has lost objects that it had acknowledged, while it could not be reached: \
         {text}"
    );
    Error::new(Kind::Storage, object, message)
}

/// Returns the number of the segment behind that of number `count`.
fn next_count(count: u32) -> Result<u32> {
    let message = "a writer cannot put more index segments";
    count.checked_add(1).ok_or_else(|| Error::invalid(ObjectKind::Segment.folder(), message))
}

/// Returns `true` if all of `containers` exist.
fn all_exist(storage: &dyn Storage, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
    let name = |(class, part): &(Class, PartName)| ObjectName::Container(*class, *part).to_string();
    storage.all_exist(&containers.iter().map(name).collect::<Vec<_>>())
}
