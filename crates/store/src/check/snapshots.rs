//! Checks of snapshots: that everything they reach exists.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::affected::Affected;
use super::objects::Seen;
use super::wholes::{Standing, Wholes};
use super::{Check, FindingKind, NAMED_MAX, Need};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::Damage;
use crate::format::recipe::Content;
use crate::index::{Location, Scope};
use crate::name::{ObjectName, PartName, TicketId};
use crate::reach::{self, Visit};
use crate::reader::{ChunkBytes, Reader};
use crate::view::View;

/// A placeholder for the container of a chunk to which no hint leads.
const NOWHERE: PartName = PartName { ticket: TicketId([0; 12]), count: 0 };

/// The data that cannot be read any more.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Chunks that cannot be read from any place.
    pub(crate) chunks: HashSet<(Class, Fingerprint)>,
    /// The lost chunks that a listed snapshot needs.
    pub(crate) needed: HashSet<(Class, Fingerprint)>,
    /// The lost chunks that the storage refused to read, and may return another time.
    pub(crate) refused: HashSet<Fingerprint>,
    /// Commits that a writer has seen and that are gone.
    pub(crate) commits: BTreeSet<TicketId>,
    /// Containers that have usable parity.
    pub(crate) protected: HashSet<(Class, PartName)>,
    /// Containers that the storage refused to read.
    pub(crate) refused_containers: HashSet<(Class, PartName)>,
    /// The snapshots that were walked; nothing is known about others.
    pub(crate) walked: BTreeSet<TicketId>,
    /// Commits that could not be read at the time of the check.
    pub(crate) unread: BTreeSet<TicketId>,
}

/// Walks every snapshot and, if chunks are lost, reports the paths that need them. Returns the
/// damages to be recorded ([`CheckReport::damages`](super::CheckReport::damages)), and the lost
/// data.
pub(super) fn check(
    check: &Check<'_>,
    seen: &mut Seen,
    reader: &Reader,
) -> Result<(BTreeSet<Damage>, Lost)> {
    let (weak, known) = {
        let mut state = check.lock();
        let known = Known {
            gone: seen.gone.clone(),
            bad: std::mem::take(&mut state.bad),
            read: std::mem::take(&mut state.read),
            unbuilt: std::mem::take(&mut state.unbuilt),
            lacking: std::mem::take(&mut state.lacking),
            recorded: seen.view.damaged(),
        };
        (std::mem::take(&mut state.weak), known)
    };
    let mut walk = Walk::run(check, reader, seen, &known)?;
    // A prune may have moved chunks that seem to be lost, in which case it has published new
    // segments.
    if !walk.lost.is_empty()
        && seen.list_again(check)?
        && reader.index().refresh(&seen.view).is_ok()
    {
        walk = Walk::run(check, reader, seen, &known)?;
    }
    let roots = roots(&seen.view);
    check.count(|report| {
        report.snapshot_count = roots.len() as u64;
        report.reference_count = walk.references;
        report.lost_count = walk.lost.values().filter(|lost| lost.is_listed).count() as u64;
    });
    let recorded = seen.view.damaged();
    let missed = walk.wholes.places_of_missed(false)?;
    let found = known.bad.iter().chain(&weak).chain(&walk.shaken).chain(&missed).copied();
    let mut damages: BTreeSet<Damage> = found.filter(|each| !recorded.contains(each)).collect();
    let places = walk.places_of_lost()?;
    let is_needed = |damage: &&Damage| {
        walk.lost.get(&(damage.class, damage.fingerprint)).is_some_and(|lost| lost.is_listed)
    };
    let missed = walk.wholes.places_of_missed(true)?;
    let needed = places.iter().filter(is_needed).chain(&damages).chain(&walk.relied).chain(&missed);
    check.name_deferred(&needed.map(|damage| (damage.class, damage.container)).collect());
    walk.wholes.name_missed(check)?;
    walk.name_lost()?;
    if !walk.lost.is_empty() {
        let mut affected = Affected::new(&walk);
        let mut unhealed = HashSet::new();
        for root in &roots {
            let lost = affected.name_all(root.snapshot, &root.content, root.is_listed)?;
            // A backup that compares with this snapshot learns only of damage recorded after it.
            let heard = seen.view.damaged_since(root.snapshot);
            unhealed.extend(lost.into_iter().filter(|lost| !heard.contains(lost)));
        }
        damages.extend(places.into_iter().filter(|damage| {
            !walk.refused.contains(&damage.fingerprint)
                && (unhealed.contains(&damage.fingerprint) || !recorded.contains(damage))
        }));
        match affected.more() {
            0 => {}
            more => {
                let message = format!("{more} more paths are affected");
                check.finding(FindingKind::Affected, "snapshots", message);
            }
        }
    }
    let lost = Lost {
        chunks: walk.lost.keys().copied().collect(),
        needed: {
            let needed = walk.lost.iter().filter(|(_, lost)| lost.is_listed);
            needed.map(|(chunk, _)| *chunk).collect()
        },
        refused: walk.refused,
        commits: seen.lost_commits.clone(),
        protected: HashSet::new(),
        refused_containers: HashSet::new(),
        walked: walk.walked,
        unread: seen.view.unreadable.keys().filter_map(commit_of).collect(),
    };
    Ok((damages, lost))
}

fn commit_of(name: &ObjectName) -> Option<TicketId> {
    match name {
        ObjectName::Commit(ticket) => Some(*ticket),
        _ => None,
    }
}

/// The findings and records about the places of chunks.
pub(super) struct Known {
    /// Containers that are gone.
    gone: HashSet<(Class, PartName)>,
    /// Places from which this check could not read the chunk.
    bad: HashSet<Damage>,
    /// The containers that this check has read completely.
    read: HashSet<(Class, PartName)>,
    /// Composites that lack a whole, and wholes that cannot be read, as found by this check.
    pub(super) unbuilt: HashSet<Damage>,
    pub(super) lacking: HashMap<(Class, Fingerprint), Error>,
    /// Places that an earlier check has recorded as damaged.
    recorded: HashSet<Damage>,
}

impl Known {
    /// Returns `true` if this check has found nothing wrong with a place.
    pub(super) fn is_there(&self, location: &Location) -> bool {
        let place = place(location);
        !self.gone.contains(&(place.class, place.container)) && !self.bad.contains(&place)
    }

    pub(super) fn is_recorded(&self, location: &Location) -> bool {
        self.recorded.contains(&place(location))
    }

    /// Reads a place with which nothing is known to be wrong, unless this check has read it
    /// already.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::read`].
    pub(super) fn try_read(&self, reader: &Reader, location: &Location) -> Result<()> {
        let place = place(location);
        if self.read.contains(&(place.class, place.container)) && !self.unbuilt.contains(&place) {
            return Ok(());
        }
        reader.read(place.class, location).map(drop)
    }
}

/// Returns the damage record that would describe a place.
pub(super) fn place(location: &Location) -> Damage {
    let container = location.container;
    let fingerprint = location.chunk().fingerprint;
    Damage { class: container.class, container: container.name, fingerprint }
}

/// A snapshot to be walked.
struct Root {
    snapshot: TicketId,
    content: Content,
    /// Set if the snapshot is listed, that is, not forgotten.
    is_listed: bool,
}

/// Returns every snapshot that no prune has taken. Forgotten ones, which can be brought back, come
/// last.
fn roots(view: &View) -> Vec<Root> {
    let (taken, forgotten) = (view.taken(), view.forgotten());
    let commits = view.commits.iter().filter(|(id, _)| !taken.contains(id));
    let mut roots: Vec<Root> = commits
        .filter_map(|(id, commit)| {
            let content = commit.snapshot()?.root.clone();
            Some(Root { snapshot: *id, content, is_listed: !forgotten.contains(id) })
        })
        .collect();
    roots.sort_by_key(|root| !root.is_listed);
    roots
}

pub(super) struct Walk<'a> {
    pub(super) check: &'a Check<'a>,
    reader: &'a Reader,
    known: &'a Known,
    wholes: Wholes<'a>,
    /// Set if the current snapshot is listed.
    is_listed: bool,
    references: u64,
    /// The snapshots that were walked completely.
    walked: BTreeSet<TicketId>,
    /// Chunks that cannot be read from any place.
    pub(super) lost: HashMap<(Class, Fingerprint), LostChunk>,
    /// The lost chunks that the storage refused to read, and may return another time.
    refused: HashSet<Fingerprint>,
    /// Places that are recorded as damaged, but can be read, and that listed snapshots need because
    /// there is no other place.
    relied: HashSet<Damage>,
    /// Composites that can be read, but whose region has others that lack a whole, and for which
    /// there is no other place. They should be stored again, because a region is kept only together
    /// with everything it refers to.
    shaken: HashSet<Damage>,
}

/// A chunk that cannot be read from any place.
pub(super) struct LostChunk {
    /// The reason, unless it was reported about a container.
    error: Option<Error>,
    /// Set if a listed snapshot needs the chunk.
    is_listed: bool,
}

impl Visit for Walk<'_> {
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        self.check.stop_if_cancelled()?;
        self.references += 1;
        let bytes = self.chunk(fingerprint);
        self.rely_on_meta(*fingerprint);
        bytes
    }

    fn data(&mut self, fingerprint: &Fingerprint, offset: u64, length: u64) -> Result<()> {
        self.find(*fingerprint, offset, length);
        Ok(())
    }

    fn unreadable(&mut self, fingerprint: &Fingerprint, error: Error) -> Result<()> {
        if error.kind() == Kind::Interrupted {
            return Err(error);
        }
        self.lose(Class::Meta, *fingerprint, Some(error));
        Ok(())
    }
}

impl<'a> Walk<'a> {
    /// Walks everything that the snapshots of the view reach.
    fn run(
        check: &'a Check<'a>,
        reader: &'a Reader,
        seen: &Seen,
        known: &'a Known,
    ) -> Result<Walk<'a>> {
        let mut walk = Walk {
            check,
            reader,
            known,
            wholes: Wholes::new(reader, known),
            is_listed: true,
            references: 0,
            walked: BTreeSet::new(),
            lost: HashMap::new(),
            refused: HashSet::new(),
            relied: HashSet::new(),
            shaken: HashSet::new(),
        };
        let mut reached = reach::Walk::default();
        for root in roots(&seen.view) {
            walk.is_listed = root.is_listed;
            reached.walk(&root.content, &mut walk)?;
            walk.walked.insert(root.snapshot);
        }
        Ok(walk)
    }

    /// Notes the places of a metadata chunk if all of them are recorded as damaged.
    fn rely_on_meta(&mut self, fingerprint: Fingerprint) {
        let place = |container| Damage { class: Class::Meta, container, fingerprint };
        let index = self.reader.index();
        if !self.is_listed || self.known.recorded.is_empty() {
            return;
        }
        let places = index.places(Class::Meta, &fingerprint).unwrap_or_default();
        let is_recorded = |container: &PartName| self.known.recorded.contains(&place(*container));
        if places.iter().all(is_recorded) {
            self.relied.extend(places.into_iter().map(place));
        }
    }

    pub(super) fn chunk(&self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        self.reader.try_chunk(Class::Meta, fingerprint)
    }

    /// Looks for a place from which `length` bytes at `offset` of a file chunk can be read.
    fn find(&mut self, fingerprint: Fingerprint, offset: u64, length: u64) {
        self.references += 1;
        if self.lost.contains_key(&(Class::Data, fingerprint)) {
            return;
        }
        let known = self.known;
        let found =
            self.reader.index().find_where(Class::Data, &fingerprint, Scope::Read, |location| {
                Ok(known.is_there(location)
                    && !known.is_recorded(location)
                    && self.wholes.is_well(location))
            });
        let found = match found {
            Ok(Some(location)) => Ok(location),
            _ => self.look_closely(&fingerprint),
        };
        let error = match found {
            Ok(location) => {
                let found = u64::from(location.chunk().chunk_len);
                if offset.checked_add(length).is_some_and(|end| end <= found) {
                    return;
                }
                let message = format!("has {found} bytes; {length} at {offset} are needed");
                Some(Error::corrupt(format!("data chunk {fingerprint}"), message))
            }
            Err(error) => error,
        };
        self.lose(Class::Data, fingerprint, error);
    }

    /// Examines every place of a data chunk.
    ///
    /// # Errors
    ///
    /// Returns the reason for which no place provides the chunk, or `None` if its containers were
    /// reported.
    fn look_closely(&mut self, fingerprint: &Fingerprint) -> Result<Location, Option<Error>> {
        let known = self.known;
        let (mut places, failure) = self.reader.index().locations(Class::Data, fingerprint);
        let is_nowhere = places.is_empty();
        places.retain(|location| known.is_there(location));
        places.sort_by_key(|location| known.is_recorded(location));
        let (mut error, mut shaken) = (None, None);
        for location in places {
            let is_shaken = match self.wholes.standing(&location, self.is_listed) {
                Standing::Well => false,
                Standing::Shaken => true,
                Standing::Lost(lost) => {
                    error = error.or(Some(lost));
                    continue;
                }
            };
            // A place recorded as damaged may be readable, or may have been repaired in the
            // meantime.
            if known.is_recorded(&location) {
                if let Err(failed) = known.try_read(self.reader, &location) {
                    error = error.or(Some(failed));
                    continue;
                }
                if self.is_listed {
                    self.relied.insert(place(&location));
                }
            }
            if !is_shaken {
                return Ok(location);
            }
            shaken = shaken.or(Some(location));
        }
        if let Some(location) = shaken {
            self.shaken.insert(place(&location));
            return Ok(location);
        }
        let nowhere = || {
            let message = "no container that the index names has it";
            is_nowhere.then(|| Error::missing(format!("data chunk {fingerprint}"), message))
        };
        Err(error.or(failure).or_else(nowhere))
    }

    /// Returns every place from which a lost chunk could have been read.
    fn places_of_lost(&self) -> Result<BTreeSet<Damage>> {
        let mut damages = BTreeSet::new();
        for (class, fingerprint) in self.lost.keys() {
            let mut places = self.reader.index().places(*class, fingerprint)?;
            if places.is_empty() {
                places.push(NOWHERE);
            }
            let (class, fingerprint) = (*class, *fingerprint);
            damages.extend(places.into_iter().map(|container| Damage {
                class,
                container,
                fingerprint,
            }));
        }
        Ok(damages)
    }

    fn lose(&mut self, class: Class, fingerprint: Fingerprint, error: Option<Error>) {
        if error.as_ref().is_some_and(|error| error.kind() == Kind::Media) {
            self.refused.insert(fingerprint);
        }
        let error = error.filter(|error| !self.check.is_named(error));
        let is_listed = self.is_listed;
        self.lost.insert((class, fingerprint), LostChunk { error, is_listed });
    }

    /// Reports the lost chunks, except those in containers that were reported. Chunks that only
    /// forgotten snapshots need are counted.
    fn name_lost(&mut self) -> Result<()> {
        let mut errors: Vec<_> = self
            .lost
            .iter_mut()
            .filter(|(_, lost)| lost.is_listed)
            .filter_map(|((class, fingerprint), lost)| {
                Some((format!("{class} chunk {fingerprint}"), lost.error.take()?))
            })
            .collect();
        errors.sort_by(|left, right| left.0.cmp(&right.0));
        let more = (errors.len() as u64).saturating_sub(NAMED_MAX);
        for ((object, error), _) in errors.into_iter().zip(0..NAMED_MAX) {
            self.check.failed(object, error, Need::Named)?;
        }
        if more > 0 {
            let message = format!("{more} more are lost");
            self.check.finding(FindingKind::Missing, "chunks", message);
        }
        let forgotten = self.lost.values().filter(|lost| !lost.is_listed).count();
        if forgotten > 0 {
            let message = format!("{forgotten} that only forgotten snapshots need are lost");
            self.check.finding(FindingKind::Unneeded, "chunks", message);
        }
        Ok(())
    }
}
