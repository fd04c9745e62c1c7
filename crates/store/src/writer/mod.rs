//! Writing: a writer is a transaction. `docs/ordering.md` has the rules W1 to W8 and why.
//!
//! What decides is apart from what computes, so that stored bytes do not depend on threads:
//! [`Packer`] (ordered) decides what is known and fills regions, [`RegionCodec`] (any thread)
//! compresses them, [`Archive`] (ordered) seals them into containers and segments, and whoever
//! drives them puts what comes out, in order. [`Inline`] does all of it in the calling thread.

mod archive;
mod burst;
mod filling;
mod finder;
mod inline;
mod matcher;
#[cfg(feature = "mutants")]
pub mod mutant;
mod packer;
mod recipe;
mod recompose;
mod region;
mod tree;
mod uploads;
mod worth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::commit::{Commit, Outcome, ViewRecord};
use crate::format::segment::Segment;
use crate::format::ticket::{Purpose, Ticket};
use crate::liveness::{Judge, own_machine, require_alone};
use crate::media::{Media, Put};
use crate::name::{ObjectKind, ObjectName, PartName, TicketId};
use crate::parity;
use crate::repository::{Repository, require_len};
use crate::seal::seal_object;
use crate::stop::{self, Finishing, Hold, Stop};
use crate::view::View;

pub use archive::{Archive, ArchiveStatistics, Published, SealedPart, Stored};
pub use burst::{BurstStatistics, Bursts};
pub use inline::Inline;
pub use matcher::Matcher;
pub use packer::{ChunkSink, CompositeStatistics, Packer};
pub use recipe::{RecipeWriter, TREE_CUT};
pub use region::{EncodedRegion, PROBE_LEN, Probe, RawRegion, RegionBuffers, RegionCodec, Verify};
pub(crate) use region::{RawChunk, decode_region, decode_region_into};
pub use tree::TreeWriter;
pub use uploads::{Upload, Uploads, Written};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;
/// A ticket says once an hour that its writer is still at it.
const RENEW_NS: u64 = HOUR_NS;
/// A commit needs a renewal within this time (W5).
const FRESH_NS: u64 = 12 * HOUR_NS;
/// A ticket lives a day at most (W8); a writer begins to end somewhat earlier.
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
    /// Too much time has once passed between two renewals: others may have taken the writer for dead.
    was_stale: bool,
    ended: Vec<TicketId>,
    /// What an index segment would say of the containers that were put and are in none.
    unpublished: Segment,
    /// The number of the next segment.
    segment_count: u32,
    /// The containers that the segments of this writer name, where it may end by a record.
    named: BTreeSet<(Class, PartName)>,
    /// After a signal the process waits for what the writer publishes, or says of its end.
    _hold: Option<Hold>,
}

/// How a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It stands.
    Done,
    /// Somebody has ended the ticket before: nothing was committed. Begin again; what was stored
    /// is found.
    Ended,
}

/// The circumstances in which a writer begins.
#[derive(Debug, Default)]
struct Beginning {
    /// The caller vouches that no other client writes.
    is_alone: bool,
    /// The view whose commits and records are not read again, with the records that do not count.
    known: View,
    /// The run has begun before, and keeps its key epoch.
    is_at_work: bool,
    /// Writers that are dead are not ended: the caller has just done that.
    leaves_dead: bool,
}

impl Writer {
    /// Begins: puts a ticket, ends writers that are dead, and only then lists what there is (W1).
    /// Where the medium lets several create one object, by the settings, nobody is ended.
    ///
    /// # Errors
    ///
    /// `Unsupported` where this version must not write; `Corrupt` where a prune record cannot be
    /// read; as the medium.
    pub fn begin(repository: Arc<Repository>, purpose: Purpose) -> Result<Writer> {
        Writer::begin_with(repository, purpose, Beginning::default())
    }

    /// The same for a run that has begun before and goes on with another ticket: a key epoch may have
    /// begun meanwhile, and the run keeps its own.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`].
    pub fn begin_again(repository: Arc<Repository>, purpose: Purpose) -> Result<Writer> {
        let beginning = Beginning { is_at_work: true, ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// The same for a repair that gives up `lost` prune records: they do not count for this writer.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`].
    pub(crate) fn begin_without(
        repository: Arc<Repository>,
        purpose: Purpose,
        lost: BTreeSet<u64>,
    ) -> Result<Writer> {
        let beginning = Beginning { known: View::without(lost), ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// The same for a client that has just ended the writers that are dead, and has listed before:
    /// commits and records of `known` are not read again.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`].
    pub(crate) fn begin_knowing(
        repository: Arc<Repository>,
        purpose: Purpose,
        known: View,
    ) -> Result<Writer> {
        let beginning = Beginning { known, leaves_dead: true, ..Beginning::default() };
        Writer::begin_with(repository, purpose, beginning)
    }

    /// The same for a caller who vouches that no other client writes: dead writers are ended also where
    /// the medium lets several create one object.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`]; `Conflict` where another writer may be at work
    /// ([`crate::liveness::others_at_work`]): the own ticket is ended then.
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
        #[cfg(feature = "mutants")]
        let early = mutant::is_active(mutant::Mutant::ListsBeforeTicket)
            .then(|| View::list(&repository))
            .transpose()?;
        let ticket = match put_ticket(&repository, purpose) {
            // Whoever frees room must be able to begin.
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
        // Both the commit and the void of a ticket could else be taken for the one that was first.
        let may_end_others = is_alone || repository.config().creates_atomically();
        let ended = if may_end_others && !leaves_dead {
            end_dead_writers(&repository, Some(ticket))?
        } else {
            Vec::new()
        };
        let view = known.list_again(&repository)?;
        #[cfg(feature = "mutants")]
        let view = early.unwrap_or(view);
        // A listing may pass over a record that came during it, and show the next one.
        let view =
            if view.missing_prunes().is_empty() { view } else { view.list_again(&repository)? };
        let epoch = if is_at_work { Ok(()) } else { view.require_epoch() };
        if let Err(error) = epoch.and_then(|()| view.require_prunes()) {
            // Nothing was written, and nobody is to wait for it.
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

    /// The repository.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// The ticket, which is also the id of the snapshot.
    pub fn ticket(&self) -> TicketId {
        self.ticket
    }

    /// What counts for this writer.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The writers that were found dead, and ended, when this one began. What they had published
    /// is in the view.
    pub fn ended(&self) -> &[TicketId] {
        &self.ended
    }

    /// Says that this writer is still at it, once an hour. To be called often.
    ///
    /// # Errors
    ///
    /// As the medium.
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

    /// Waits until `upload` has reached the disk under its name. Where it is an index segment: what
    /// that publishes.
    ///
    /// # Errors
    ///
    /// As [`Repository::put`].
    pub fn put(&mut self, upload: Upload) -> Result<Option<Published>> {
        if let ObjectName::Segment(name) = upload.name() {
            // Before it is put: a name that may be taken is not used again (W7).
            self.segment_count = name.count.saturating_add(1);
        }
        let (stored, bytes) = upload.finish_and_keep(&self.repository)?;
        match stored {
            Some(Stored::Segment(published)) => {
                // It names all containers before it.
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

    /// Puts parity for a container that was put, where the settings ask for it. Nothing needs it: who
    /// is cut off before has containers without.
    fn protect(&self, container: &Segment, bytes: &[u8]) -> Result<()> {
        let percent = self.repository.config().parity_percent;
        for record in container.containers.iter().filter(|_| percent > 0) {
            let (class, name) = (record.class, record.name);
            parity::protect(&self.repository, self.ticket, class, name, bytes, percent)?;
        }
        Ok(())
    }

    /// Puts an index segment for the containers that were put and that none names.
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
    /// As the medium.
    pub(crate) fn put_segment(&mut self, segment: &mut Segment) -> Result<PartName> {
        let name = PartName { ticket: self.ticket, count: self.segment_count };
        self.segment_count = self.segment_count.saturating_add(1);
        let bytes = archive::seal_segment(&self.repository, name, segment)?;
        self.repository.put(ObjectName::Segment(name), bytes)?;
        self.remember(segment);
        Ok(name)
    }

    /// Remembers what a segment of this writer names (P5, S5). A backup ends by its commit, which
    /// another client's void precludes, and needs no such memory.
    fn remember(&mut self, segment: &Segment) {
        if self.purpose != Purpose::Backup {
            let named = segment.containers.iter().map(|each| (each.class, each.name));
            self.named.extend(named);
        }
    }

    /// The containers that the segments of this writer name; none of a backup.
    pub(crate) fn named(&self) -> &BTreeSet<(Class, PartName)> {
        &self.named
    }

    /// Ends after `error`, without a result: publishes every container that was put, so that the
    /// next run finds it, and voids the ticket, so that nobody waits for it. On a full disk the
    /// reserve is given up for that. Nothing else of this writer may be on its way any more.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub fn abandon(&mut self, error: &Error) -> Result<Committed> {
        let _publishing = publishing(&self.repository);
        if error.kind() == Kind::Full {
            self.repository.give_up_reserve();
        }
        // Where that fails, what it would have named is stored again.
        self.publish().ok();
        end_writer(&self.repository, self.ticket)
    }

    /// Ends without a result because of something that this writer does not answer for: publishes
    /// what it has put and voids the ticket, as far as that can be done.
    pub(crate) fn give_up(&mut self) {
        // Where that fails, what it would have named is stored again, and others end the ticket.
        self.publish().ok();
        end_writer(&self.repository, self.ticket).ok();
    }

    /// Ends after `error` as [`Writer::abandon`] does, and returns the error to report: `Conflict` where
    /// another client had ended the ticket before, who may have removed what was being put; else
    /// `error`.
    #[must_use]
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let ended = self.abandon(&error);
        let is_own = matches!(error.kind(), Kind::Interrupted | Kind::Full | Kind::Conflict);
        match ended {
            Ok(Committed::Ended) if !is_own => self.was_ended(Some(error)),
            _ => error,
        }
    }

    /// The error of a writer that another client has ended, with the failure in which that showed.
    pub(crate) fn was_ended(&self, failure: Option<Error>) -> Error {
        let object = match self.purpose {
            Purpose::Backup => "backup",
            Purpose::Prune => "prune",
            Purpose::Sweep => "sweep",
            Purpose::Other => "this run",
        };
        let text = "another client took it for dead and ended it; what it had stored is kept; run the \
                    same command again";
        match failure {
            Some(failure) => Error::new(Kind::Conflict, object, format!("{text} ({failure})"))
                .with_source(failure),
            None => Error::new(Kind::Conflict, object, text),
        }
    }

    /// Whether it is time to end with a checkpoint and to go on under a new ticket (W8).
    pub fn is_old(&self) -> bool {
        let now = self.repository.environment().elapsed_ns();
        now.saturating_sub(self.began_ns) > LIFE_NS
    }

    /// What this writer's view was, for a commit.
    pub fn view_record(&self) -> ViewRecord {
        self.view.record()
    }

    /// Ends with `outcome` (W5, W6). `hits` are the containers of others in which chunks were
    /// found; every segment must have been put.
    ///
    /// # Errors
    ///
    /// As the medium. Where the outcome of the put stays unknown, the error says so; the snapshot
    /// may then exist.
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

    /// W5: whether this writer said in time that it is still at it, and `hits` all exist.
    pub(crate) fn may_commit(&self, hits: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        let now = self.repository.environment().elapsed_ns();
        let is_stale = self.was_stale || now.saturating_sub(self.renewed_ns) > FRESH_NS;
        Ok(!is_stale && self.exist(hits)?)
    }

    /// P5: whether no other client has ended this writer, and every container exists that its
    /// segments name, but what a record of `view` has condemned: a sweep may have deleted that.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub(crate) fn stands(&self, view: &View) -> Result<bool> {
        let media = self.repository.media();
        let ignores_end = {
            #[cfg(feature = "mutants")]
            let ignores_end = mutant::is_active(mutant::Mutant::IgnoresItsEnd);
            #[cfg(not(feature = "mutants"))]
            let ignores_end = false;
            ignores_end
        };
        let end = ObjectName::Commit(self.ticket).to_string();
        if !ignores_end && media.head(&end)?.is_some() {
            return Ok(false);
        }
        #[cfg(feature = "mutants")]
        if mutant::is_active(mutant::Mutant::TrustsItsContainers)
            || mutant::is_active(mutant::Mutant::ToleratesFailedPuts)
        {
            return Ok(true);
        }
        if self.named.is_empty() {
            return Ok(true);
        }
        let condemned = view.condemned();
        let named = self.named.iter().filter(|name| !condemned.contains(name));
        all_exist(&**media, &named.copied().collect())
    }

    /// Ends without a result; what was published stays.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub fn void(&mut self, segments: Vec<PartName>) -> Result<()> {
        let commit = void(&self.repository, segments, self.view_record());
        put_commit(&self.repository, self.ticket, &commit).map(|_| ())
    }

    /// Whether all of `containers` exist.
    fn exist(&self, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
        #[cfg(feature = "mutants")]
        if mutant::is_active(mutant::Mutant::TrustsHits) {
            return Ok(true);
        }
        all_exist(&**self.repository.media(), containers)
    }
}

/// More containers than this are looked for by listing, not one by one.
const HEADS_MAX: usize = 64;

/// Whether all of `containers` exist: by asking for each, or by listing where they are many.
fn all_exist(media: &dyn Media, containers: &BTreeSet<(Class, PartName)>) -> Result<bool> {
    let path = |class, part| ObjectName::Container(class, part).to_string();
    if containers.len() <= HEADS_MAX {
        for (class, part) in containers {
            if media.head(&path(*class, *part))?.is_none() {
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
        let there = media.list(kind.folder())?;
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
            // Two writers drew the same 96 bits, or a test made them: draw again.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    let message = "whatever ticket is put, the storage says that it is there, with other content";
    Err(Error::new(Kind::Media, ObjectKind::Ticket.folder(), message))
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

/// Puts `commits/<ticket>`.
fn put_commit(repository: &Repository, ticket: TicketId, commit: &Commit) -> Result<Committed> {
    put_first(repository, ObjectName::Commit(ticket), &commit.encode())
}

/// Seals and puts an object of which there can be one only. The name decides: whoever comes second
/// finds what the first has put, and has [`Committed::Ended`].
///
/// # Errors
///
/// As the medium, where it stays unknown what lies there.
pub(crate) fn put_first(
    repository: &Repository,
    name: ObjectName,
    body: &[u8],
) -> Result<Committed> {
    let _publishing = publishing(repository);
    let path = name.to_string();
    // A retry sends the same bytes: what is sealed anew would need a new name.
    let bytes = seal_object(repository.keys(), name, repository.salt()?, body);
    require_len(name, bytes.len() as u64)?;
    let mut failure = None;
    for _ in 0..COMMIT_TRIES {
        match put_and_compare(repository, &path, &bytes) {
            Ok(Some(true)) => return Ok(Committed::Done),
            Ok(Some(false)) => return Ok(Committed::Ended),
            Ok(None) => {}
            // The put may have come through all the same: ask again until it is known.
            Err(error) => {
                if error.kind() == Kind::Full {
                    repository.give_up_reserve();
                }
                failure = Some(error);
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::new(Kind::Media, name, "the storage neither takes it nor has it")
    }))
}

const COMMIT_TRIES: usize = 5;
/// The maximum number of tickets that are drawn before the storage is to blame.
const TICKET_TRIES: usize = 16;

/// Gives this thread time to publish what is stored, should somebody ask to stop.
fn publishing(repository: &Repository) -> Finishing {
    stop::finishing(&**repository.environment(), stop::PUBLISHING_MAX)
}

/// What was staged for a put is given up after this time, in seconds, whoever staged it.
const STAGED_S_MAX: u64 = 24 * 3600;

/// Whether the object at `path` is `bytes` after a put; `None` where there is none.
fn put_and_compare(repository: &Repository, path: &str, bytes: &Bytes) -> Result<Option<bool>> {
    #[cfg(feature = "mutants")]
    if mutant::is_active(mutant::Mutant::Overwrites) {
        repository.media().delete(path)?;
    }
    let put = repository.media().put_new(path, bytes.clone());
    if let Ok(Put::Created) = put {
        return Ok(Some(true));
    }
    #[cfg(feature = "mutants")]
    if mutant::is_active(mutant::Mutant::TakesExistsForOwn) && put.is_ok() {
        return Ok(Some(true));
    }
    match repository.media().get(path) {
        // Others see it already, but what failed may have been its way to the disk.
        Ok(found) if found == *bytes => repository.media().sync(path).map(|()| Some(true)),
        Ok(_) => Ok(Some(false)),
        Err(error) if error.kind() == Kind::Missing => put.map(|_| None),
        Err(error) => Err(error),
    }
}

/// The writers that have not ended: each with the number of its newest renewal. Whoever is not in the
/// list has ended, or began after it was made.
///
/// # Errors
///
/// As the medium.
pub(crate) fn open_tickets(repository: &Repository) -> Result<BTreeMap<TicketId, u32>> {
    let media = repository.media();
    let mut renewals: BTreeMap<TicketId, u32> = BTreeMap::new();
    for (path, _) in media.list(ObjectKind::Ticket.folder())? {
        if let Ok(ObjectName::Ticket { ticket, renewal }) = ObjectName::parse(&path) {
            let newest = renewals.entry(ticket).or_default();
            *newest = renewal.max(*newest);
        }
    }
    for (path, _) in media.list(ObjectKind::Commit.folder())? {
        if let Ok(ObjectName::Commit(ticket)) = ObjectName::parse(&path) {
            renewals.remove(&ticket);
        }
    }
    Ok(renewals)
}

/// Ends every writer that is dead ([`crate::liveness`]) but `own`: puts the `void` that it cannot put any more, with the
/// segments that it had put. This is how an interrupted backup is found and used. Returns whom it
/// ended.
pub(crate) fn end_dead_writers(
    repository: &Repository,
    own: Option<TicketId>,
) -> Result<Vec<TicketId>> {
    end_dead_among(repository, own, &open_tickets(repository)?)
}

/// The same for the writers that `open` lists ([`open_tickets`]).
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
            // A sweep may have taken it.
            Err(error) if error.kind() == Kind::Missing => continue,
            Err(error) => Err(error),
        };
        // A ticket that cannot be read says nothing about its writer: leave it to `check`.
        let Ok(body) = body else { continue };
        if !judge.is_dead(name, &body)? {
            continue;
        }
        // Its commit was there: a void in its place would hide that somebody has deleted it.
        let seen = match &seen {
            Some(seen) => seen,
            None => {
                let view = View::list(repository)?;
                let taken = view.taken();
                // Where it was given up since, nobody is to wait for its writer.
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

/// Removes what cut-off puts had staged: of writers that have ended, and whatever is a day old.
fn clean_up(repository: &Repository) -> Result<()> {
    let media = repository.media();
    let mut ended = BTreeSet::new();
    for (path, _) in media.list(ObjectKind::Commit.folder())? {
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
    // What cannot be removed now can be later: it is in nobody's way.
    media.clean(&is_stale).ok();
    Ok(())
}

/// Ends another's ticket with a void that names the segments that it had put. Of the
/// void and the other's commit the medium takes one only, so this can be done at any time; where the
/// medium does not create atomically (`Config::creates_atomically`), only by who is alone.
///
/// # Errors
///
/// As the medium.
pub fn end_writer(repository: &Repository, ticket: TicketId) -> Result<Committed> {
    let mut segments = Vec::new();
    for (path, _) in repository.media().list(ObjectKind::Segment.folder())? {
        match ObjectName::parse(&path) {
            Ok(ObjectName::Segment(part)) if part.ticket == ticket => segments.push(part),
            _ => {}
        }
    }
    let mut whole = Vec::new();
    for part in segments {
        match repository.get(ObjectName::Segment(part)) {
            Ok(_) => whole.push(part),
            // It would be named as damage by every later view.
            Err(error) if error.is_loss() => {}
            Err(error) => return Err(error),
        }
    }
    put_commit(repository, ticket, &void(repository, whole, ViewRecord::default()))
}
