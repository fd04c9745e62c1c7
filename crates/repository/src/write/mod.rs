//! Writing. A writer is a transaction; `docs/protocol.md` has the rules W1 to W8 and their reasons.
//!
//! Decisions are separate from computations, so that the stored bytes do not depend on threads.
//! [`Deduplicator`] (ordered) decides which chunks are known and fills regions, [`RegionCodec`] (any
//! thread) compresses them, and [`ContainerWriter`] (ordered) seals them into containers and segments. The
//! caller puts the resulting objects in order. [`Inline`] does all of this in the calling thread.

mod burst;
mod container;
mod cost;
mod dedup;
mod delta;
mod inline;
pub mod prune_log;
mod recipe;
mod reencode;
mod region;
mod region_builder;
mod similarity;
mod tree;
mod uploads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_storage::stop::{self, Hold, Stop};
use cutpoint_storage::wait::{self, Finishing};
use cutpoint_storage::{Error, Kind, ObjectKind, Put, Result, Storage};

use crate::crypto::seal_object;
use crate::format::commit::{Commit, Outcome, ViewRecord};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::format::segment::Segment;
use crate::format::ticket::{Purpose, Ticket};
use crate::parity;
use crate::repo::liveness::{Judge, open_tickets, own_machine, require_alone};
use crate::repo::repository::{Repository, require_len};
use crate::repo::view::View;
use crate::rules;

pub use burst::{BurstStatistics, Bursts};
pub use container::{ContainerStatistics, ContainerWriter, Published, SealedPart, Stored};
pub use dedup::{ChunkSink, Deduplicator, DeltaStatistics};
pub use delta::DeltaEncoder;
pub use inline::Inline;
pub use recipe::{RecipeWriter, TREE_CUT};
pub(crate) use region::RawChunk;
pub use region::{EncodedRegion, PROBE_LEN, Probe, RawRegion, RegionBuffers, RegionCodec, Verify};
pub use tree::TreeWriter;
pub use uploads::{Upload, Uploads, Written};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;
/// Interval between renewals of a ticket, in nanoseconds.
const RENEW_NS: u64 = HOUR_NS;
/// Maximum time between renewals, and from the last one to the commit, in nanoseconds (W5).
const FRESH_NS: u64 = 12 * HOUR_NS;
/// Age at which a writer begins to end, in nanoseconds. A ticket lives for at most a day (W8), and
/// ending takes time.
const LIFE_NS: u64 = 20 * HOUR_NS;

/// A writer: a ticket, and the view that was taken after it.
#[derive(Debug)]
pub struct Writer {
    repository: Arc<Repository>,
    ticket: TicketId,
    purpose: Purpose,
    view: View,
    began_ns: u64,
    renewed_ns: u64,
    renewals: u32,
    /// Set if too much time has once passed between two renewals, so that others may have taken the
    /// writer for dead.
    was_stale: bool,
    ended: Vec<TicketId>,
    /// The index segment of the containers that were put and that no segment names yet.
    unpublished: Segment,
    /// The number of the next segment.
    segment_count: u32,
    /// The containers that the segments of this writer name. Not tracked for backups.
    named: BTreeSet<(Class, PartName)>,
    /// Makes the process, after a signal, wait until the writer has published or ended.
    _hold: Option<Hold>,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The commit exists.
    Done,
    /// Another client has ended the ticket before, and nothing was committed. The caller should
    /// begin again; a new writer finds the chunks that were stored.
    Ended,
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
    /// Begins a writer: puts a ticket, ends dead writers, and only then lists what exists (W1). On
    /// storage that, by the settings, lets several clients create one object, no other writer is
    /// ended.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` if this version must not write to the repository, `Corrupt` if a prune
    /// record cannot be read, and any error of the storage.
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

    /// Begins a writer for a repair that gives up the `lost` prune records, which do not count for
    /// this writer.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::begin`].
    pub(crate) fn begin_without(
        repository: Arc<Repository>,
        purpose: Purpose,
        lost: BTreeSet<u64>,
    ) -> Result<Writer> {
        let beginning = Beginning { known: View::without(lost), ..Beginning::default() };
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
    /// ([`crate::repo::liveness::others_at_work`]). In that case the writer's own ticket has been ended.
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
        let may_end_others = is_alone || repository.config().creates_atomically();
        let ended = if may_end_others && !leaves_dead {
            end_dead_writers(&repository, Some(ticket))?
        } else {
            Vec::new()
        };
        let view = known.list_again(&repository)?;
        let view = early.unwrap_or(view);
        // A listing may miss a record that was put while it ran, and show the next one.
        let view =
            if view.missing_prunes().is_empty() { view } else { view.list_again(&repository)? };
        let epoch = if is_at_work { Ok(()) } else { view.require_epoch() };
        if let Err(error) = epoch.and_then(|()| view.require_prunes()) {
            // Nothing was written, so the ticket is ended: no other client has to wait for it.
            let end = void(&repository, Vec::new(), ViewRecord::default());
            put_commit(&repository, ticket, &end).ok();
            return Err(error);
        }
        repository.keep_reserve();
        let now = repository.environment().elapsed_ns();
        let hold = repository.environment().stop().map(Stop::hold);
        Ok(Writer {
            repository,
            ticket,
            purpose,
            view,
            began_ns: now,
            renewed_ns: now,
            renewals: 0,
            was_stale: false,
            ended,
            unpublished: Segment::default(),
            segment_count: 0,
            _hold: hold,
            named: BTreeSet::new(),
        })
    }

    /// Returns the repository.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Returns the ticket, which is also the id of the snapshot.
    pub fn ticket(&self) -> TicketId {
        self.ticket
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
        let now = self.repository.environment().elapsed_ns();
        let since_ns = now.saturating_sub(self.renewed_ns);
        if since_ns < RENEW_NS {
            return Ok(());
        }
        self.was_stale |= since_ns > FRESH_NS;
        self.renewals += 1;
        let name = ObjectName::Ticket { ticket: self.ticket, renewal: self.renewals };
        self.repository.seal_and_put(name, &ticket_body(&self.repository, self.purpose))?;
        self.renewed_ns = now;
        Ok(())
    }

    /// Waits until `upload` has reached the disk under its name. If the upload is an index segment,
    /// returns what the segment publishes.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Repository::put`].
    pub fn put(&mut self, upload: Upload) -> Result<Option<Published>> {
        if let ObjectName::Segment(name) = upload.name() {
            // Counted before the put, because a name that may have been used must not be used again
            // (W7).
            self.segment_count = name.count.saturating_add(1);
        }
        let (stored, bytes) = upload.finish_and_keep(&self.repository)?;
        match stored {
            Some(Stored::Segment(published)) => {
                // The segment names all containers before it.
                self.unpublished = Segment::default();
                self.remember(&published.segment);
                Ok(Some(published))
            }
            Some(Stored::Container(container)) => {
                self.unpublished.append(&container);
                self.protect(&container, &bytes)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Puts parity for a container that was put, if the settings ask for it. Nothing depends on the
    /// parity: after an interruption, the container simply has none.
    fn protect(&self, container: &Segment, bytes: &[u8]) -> Result<()> {
        let percent = self.repository.config().parity_percent;
        for record in container.containers.iter().filter(|_| percent > 0) {
            let (class, name) = (record.class, record.name);
            parity::protect(&self.repository, self.ticket, class, name, bytes, percent)?;
        }
        Ok(())
    }

    /// Puts an index segment for the containers that were put and that no segment names yet.
    fn publish(&mut self) -> Result<()> {
        if self.unpublished.containers.is_empty() {
            return Ok(());
        }
        let mut segment = std::mem::take(&mut self.unpublished);
        self.put_segment(&mut segment).map(drop)
    }

    /// Sorts an index segment and puts it under the next name.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub(crate) fn put_segment(&mut self, segment: &mut Segment) -> Result<PartName> {
        let name = PartName { ticket: self.ticket, count: self.segment_count };
        self.segment_count = self.segment_count.saturating_add(1);
        let bytes = container::seal_segment(&self.repository, name, segment)?;
        self.repository.put(ObjectName::Segment(name), bytes)?;
        self.remember(segment);
        Ok(name)
    }

    /// Remembers the containers that a segment of this writer names (P5, S5). A backup ends by its
    /// commit, which the void of another client precludes, so it needs no such memory.
    fn remember(&mut self, segment: &Segment) {
        if self.purpose != Purpose::Backup {
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
    pub fn abandon(&mut self, error: &Error) -> Result<Committed> {
        let _publishing = publishing(&self.repository);
        if error.kind() == Kind::Full {
            self.repository.give_up_reserve();
        }
        // If that fails, the chunks of these containers are stored again by the next run.
        self.publish().ok();
        end_writer(&self.repository, self.ticket)
    }

    /// Ends the writer without a result for a reason outside of it. Publishes what was put and
    /// voids the ticket, as far as possible.
    pub(crate) fn give_up(&mut self) {
        // If that fails, the chunks are stored again by the next run, and another client ends the
        // ticket.
        self.publish().ok();
        end_writer(&self.repository, self.ticket).ok();
    }

    /// Ends the writer after `error` as [`Writer::abandon`] does, and returns the error to report.
    /// That is `Conflict` if another client had ended the ticket before, because that client may
    /// have removed what was being put. Otherwise it is `error`.
    #[must_use]
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let ended = self.abandon(&error);
        let is_own = matches!(error.kind(), Kind::Interrupted | Kind::Full | Kind::Conflict);
        match ended {
            Ok(Committed::Ended) if !is_own => self.was_ended(Some(error)),
            _ => error,
        }
    }

    /// Returns the error of a writer that another client has ended. `failure` is the error that
    /// revealed it, if any.
    pub(crate) fn was_ended(&self, failure: Option<Error>) -> Error {
        let object = match self.purpose {
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
        let now = self.repository.environment().elapsed_ns();
        now.saturating_sub(self.began_ns) > LIFE_NS
    }

    /// Returns the record of this writer's view, for a commit.
    pub fn view_record(&self) -> ViewRecord {
        self.view.record()
    }

    /// Ends the writer with `outcome` (W5, W6). `hits` are the containers of other writers in which
    /// chunks were found. Every segment must have been put.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. If the outcome of the put is unknown, the error says so,
    /// and the snapshot may exist.
    pub fn commit(
        &mut self,
        outcome: Outcome,
        segments: Vec<PartName>,
        hits: &BTreeSet<(Class, PartName)>,
    ) -> Result<Committed> {
        let _publishing = publishing(&self.repository);
        if !self.may_commit(hits)? {
            self.void(segments)?;
            return Ok(Committed::Ended);
        }
        let commit = Commit {
            outcome,
            segments,
            view: self.view_record(),
            time_ns: self.repository.environment().now_ns(),
            extra: Vec::new(),
        };
        put_commit(&self.repository, self.ticket, &commit)
    }

    /// W5: returns `true` if this writer has renewed its ticket in time and all of `hits` exist.
    pub(crate) fn may_commit(&self, hits: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        let now = self.repository.environment().elapsed_ns();
        let is_stale = self.was_stale || now.saturating_sub(self.renewed_ns) > FRESH_NS;
        Ok(!is_stale && self.exist(hits)?)
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
        let end = ObjectName::Commit(self.ticket).to_string();
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

    /// Ends the writer without a result. What was published stays.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn void(&mut self, segments: Vec<PartName>) -> Result<()> {
        let commit = void(&self.repository, segments, self.view_record());
        put_commit(&self.repository, self.ticket, &commit).map(|_| ())
    }

    /// Returns `true` if all of `containers` exist.
    fn exist(&self, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        if !rules::must_check_hits() {
            return Ok(true);
        }
        all_exist(&**self.repository.storage(), containers)
    }
}

/// Maximum number of containers that are looked for one by one. More are looked for by listing.
const HEADS_MAX: usize = 64;

/// Returns `true` if all of `containers` exist.
fn all_exist(storage: &dyn Storage, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
    let path = |class, part| ObjectName::Container(class, part).to_string();
    if containers.len() <= HEADS_MAX {
        for (class, part) in containers {
            if storage.head(&path(*class, *part))?.is_none() {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for (class, kind) in [(Class::Data, ObjectKind::Data), (Class::Meta, ObjectKind::Meta)] {
        let wanted = containers.iter().filter(|(each, _)| *each == class);
        let wanted: BTreeSet<String> = wanted.map(|(_, part)| path(class, *part)).collect();
        if wanted.is_empty() {
            continue;
        }
        let there = storage.list(kind.folder())?;
        let found = there.iter().filter(|(name, _)| wanted.contains(name)).count();
        if found < wanted.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn ticket_body(repository: &Repository, purpose: Purpose) -> Vec<u8> {
    let environment = repository.environment();
    let ticket = Ticket {
        purpose,
        process: environment.process(),
        machine: own_machine(repository),
        time_ns: environment.now_ns(),
        extra: Vec::new(),
    };
    ticket.encode()
}

fn put_ticket(repository: &Repository, purpose: Purpose) -> Result<TicketId> {
    let body = ticket_body(repository, purpose);
    for _ in 0..TICKET_TRIES {
        let mut ticket = TicketId([0; 12]);
        repository.environment().random(&mut ticket.0)?;
        let name = ObjectName::Ticket { ticket, renewal: 0 };
        match repository.seal_and_put(name, &body) {
            Ok(()) => return Ok(ticket),
            // Two writers drew the same 96 bits, or a test made them do so: draw again.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    let message = "the storage reports every new ticket as existing with other content";
    Err(Error::new(Kind::Storage, ObjectKind::Ticket.folder(), message))
}

fn void(repository: &Repository, segments: Vec<PartName>, view: ViewRecord) -> Commit {
    Commit {
        outcome: Outcome::Void,
        segments,
        view,
        time_ns: repository.environment().now_ns(),
        extra: Vec::new(),
    }
}

/// Puts `commits/<ticket>` with the given commit.
fn put_commit(repository: &Repository, ticket: TicketId, commit: &Commit) -> Result<Committed> {
    put_first(repository, ObjectName::Commit(ticket), &commit.encode())
}

/// Seals and puts an object that can exist only once. The name decides: the second client finds
/// what the first has put, and gets [`Committed::Ended`].
///
/// # Errors
///
/// Returns any error of the storage if the stored content remains unknown.
pub(crate) fn put_first(
    repository: &Repository,
    name: ObjectName,
    body: &[u8],
) -> Result<Committed> {
    let _publishing = publishing(repository);
    let path = name.to_string();
    // A retry sends the same bytes, because a newly sealed object would need a new name.
    let bytes = seal_object(repository.keys(), name, repository.salt()?, body);
    require_len(name, bytes.len() as u64)?;
    let mut failure = None;
    for _ in 0..COMMIT_TRIES {
        match put_and_compare(repository, &path, &bytes) {
            Ok(Some(true)) => return Ok(Committed::Done),
            Ok(Some(false)) => return Ok(Committed::Ended),
            Ok(None) => {}
            // The put may still have succeeded, so it is repeated until the outcome is known.
            Err(error) => {
                if error.kind() == Kind::Full {
                    repository.give_up_reserve();
                }
                failure = Some(error);
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::new(Kind::Storage, name, "the storage neither accepts nor has the object")
    }))
}

/// Maximum number of attempts to put an object that can exist only once.
const COMMIT_TRIES: usize = 5;
/// Maximum number of tickets that are drawn before the storage is considered faulty.
const TICKET_TRIES: usize = 16;

/// Gives this thread time to publish what is stored if a stop is requested.
fn publishing(repository: &Repository) -> Finishing {
    wait::finishing(&**repository.environment(), stop::PUBLISHING_MAX)
}

/// Age in seconds after which a staged put is removed, whichever client staged it.
const STAGED_S_MAX: u64 = 24 * 3600;

/// Puts `bytes` at `path`. Returns `Some(true)` if the object there equals `bytes` afterwards,
/// `Some(false)` if it differs, and `None` if there is no object.
fn put_and_compare(repository: &Repository, path: &str, bytes: &Bytes) -> Result<Option<bool>> {
    if rules::may_replace_commit() {
        repository.storage().delete(path)?;
    }
    let put = repository.storage().put_new(path, bytes.clone());
    if let Ok(put) = put
        && rules::counts_as_committed(put == Put::Created)
    {
        return Ok(Some(true));
    }
    match repository.storage().get(path) {
        // Other clients already see the object, but its sync may be what failed.
        Ok(found) if found == *bytes => repository.storage().sync(path).map(|()| Some(true)),
        Ok(_) => Ok(Some(false)),
        Err(error) if error.kind() == Kind::Missing => put.map(|_| None),
        Err(error) => Err(error),
    }
}

/// Ends every dead writer ([`crate::repo::liveness`]) except `own`, by putting the `void` that the dead
/// writer can no longer put, with the segments that it had put. This is how an interrupted backup
/// is found and used. Returns the tickets that were ended.
pub(crate) fn end_dead_writers(
    repository: &Repository,
    own: Option<TicketId>,
) -> Result<Vec<TicketId>> {
    end_dead_among(repository, own, &open_tickets(repository)?)
}

/// Ends the dead writers among those that `open` lists ([`open_tickets`]). Returns the ended ones.
///
/// # Errors
///
/// Returns any error of the storage.
pub(crate) fn end_dead_among(
    repository: &Repository,
    own: Option<TicketId>,
    open: &BTreeMap<TicketId, u32>,
) -> Result<Vec<TicketId>> {
    let judge = Judge::new(repository, own);
    let mut ended = Vec::new();
    let mut seen = None;
    for (&ticket, &renewal) in open.iter().filter(|(ticket, _)| Some(**ticket) != own) {
        let name = ObjectName::Ticket { ticket, renewal };
        let body = match repository.get(name) {
            Ok(body) => Ticket::decode(&body).map_err(|error| error.of(name)),
            // A sweep may have deleted the ticket.
            Err(error) if error.kind() == Kind::Missing => continue,
            Err(error) => Err(error),
        };
        // A ticket that cannot be read says nothing about its writer, and is left to `check`.
        let Ok(body) = body else { continue };
        if !judge.is_dead(name, &body)? {
            continue;
        }
        // Such a writer had a commit: a void in its place would hide that the commit was deleted.
        let seen = match &seen {
            Some(seen) => seen,
            None => {
                let view = View::list(repository)?;
                let taken = view.taken();
                // A commit that was given up does not count, so that no other client waits for its
                // writer.
                let mut all = view.seen();
                all.retain(|id| !taken.contains(id));
                seen.insert(all)
            }
        };
        if seen.contains(&ticket) {
            continue;
        }
        end_writer(repository, ticket)?;
        ended.push(ticket);
    }
    if !ended.is_empty() {
        clean_up(repository)?;
    }
    Ok(ended)
}

/// Removes what interrupted puts have staged: that of ended writers, and everything that is a day
/// old.
fn clean_up(repository: &Repository) -> Result<()> {
    let storage = repository.storage();
    let mut ended = BTreeSet::new();
    for (path, _) in storage.list(ObjectKind::Commit.folder())? {
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(&path) {
            ended.insert(ticket);
        }
    }
    let is_stale = |name: &str, age_s: u64| {
        let writer = match ObjectName::parse(name) {
            Ok(ObjectName::Ticket { ticket, .. } | ObjectName::Commit(ticket)) => Some(ticket),
            Ok(ObjectName::Segment(part) | ObjectName::Container(_, part)) => Some(part.ticket),
            Ok(ObjectName::Parity { writer, .. }) => Some(writer),
            _ => None,
        };
        age_s > STAGED_S_MAX || writer.is_some_and(|ticket| ended.contains(&ticket))
    };
    // Files that cannot be removed now can be removed later, and do no harm.
    storage.clean(&is_stale).ok();
    Ok(())
}

/// Ends the ticket of another writer with a void that names the segments which that writer had put.
/// The storage accepts either the void or the other's commit, so this can be done at any time. On
/// storage that does not create atomically (`Config::creates_atomically`), it must be done only by
/// a client that is alone.
///
/// # Errors
///
/// Returns any error of the storage.
pub fn end_writer(repository: &Repository, ticket: TicketId) -> Result<Committed> {
    let mut segments = Vec::new();
    for (path, _) in repository.storage().list(ObjectKind::Segment.folder())? {
        match ObjectName::parse(&path) {
            Ok(ObjectName::Segment(part)) if part.ticket == ticket => segments.push(part),
            _ => {}
        }
    }
    let mut whole = Vec::new();
    for part in segments {
        match repository.get(ObjectName::Segment(part)) {
            Ok(_) => whole.push(part),
            // A damaged segment is left out: every later view would report it as damage.
            Err(error) if error.is_loss() => {}
            Err(error) => return Err(error),
        }
    }
    put_commit(repository, ticket, &void(repository, whole, ViewRecord::default()))
}
