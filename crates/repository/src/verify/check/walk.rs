//! The walk over snapshots: every chunk that they reach, and the place that gives it.

use std::collections::{BTreeSet, HashMap, HashSet};

use cutpoint_storage::{Error, Kind, Result};

use super::full_chunks::{FullChunks, Standing};
use super::known::{Known, place};
use super::objects::Seen;
use super::{Check, FindingKind, NAMED_MAX, Need};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::Content;
use crate::index::{Location, Scope};
use crate::read::{ChunkBytes, Reader};
use crate::repo::view::View;
use crate::snapshots::mark::{self, MarkSink};

/// The container that damage of a chunk names if no hint leads to one.
const NOWHERE: PartName = PartName { ticket: TicketId([0; 12]), count: 0 };

/// A snapshot to be walked.
pub(super) struct Root {
    pub(super) snapshot: TicketId,
    pub(super) content: Content,
    /// Set if the snapshot is listed, that is, not forgotten.
    pub(super) is_listed: bool,
}

/// Returns every snapshot that no prune has taken. Forgotten ones, which can be brought back, come
/// last.
pub(super) fn roots(view: &View) -> Vec<Root> {
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

/// A walk over everything that snapshots reach.
pub(super) struct SnapshotWalk<'a> {
    pub(super) check: &'a Check<'a>,
    reader: &'a Reader,
    known: &'a Known,
    pub(super) full_chunks: FullChunks<'a>,
    /// Set if the current snapshot is listed.
    is_listed: bool,
    pub(super) references: u64,
    /// The snapshots that it has gone through.
    pub(super) walked: BTreeSet<TicketId>,
    /// Chunks that cannot be read from any place.
    pub(super) lost: HashMap<(Class, Fingerprint), LostChunk>,
    /// Those of them that the storage would not give: it may do so again.
    pub(super) refused: HashSet<Fingerprint>,
    /// Places that are recorded as damaged, but can be read, and that listed snapshots need because
    /// there is no other place.
    pub(super) relied: HashSet<Damage>,
    /// Delta chunks that can be read, but whose region has others that lack a full chunk, and for which
    /// there is no other place. They should be stored again, because a region is kept only together
    /// with everything it refers to.
    pub(super) shaken: HashSet<Damage>,
}

/// A chunk that cannot be read from any place.
pub(super) struct LostChunk {
    /// The reason, unless it was reported about a container.
    error: Option<Error>,
    /// Set if a listed snapshot needs the chunk.
    pub(super) is_listed: bool,
}

impl MarkSink for SnapshotWalk<'_> {
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

impl<'a> SnapshotWalk<'a> {
    /// Walks everything that the snapshots of the view reach.
    pub(super) fn run(
        check: &'a Check<'a>,
        reader: &'a Reader,
        seen: &Seen,
        known: &'a Known,
    ) -> Result<SnapshotWalk<'a>> {
        let mut walk = SnapshotWalk {
            check,
            reader,
            known,
            full_chunks: FullChunks::new(reader, known),
            is_listed: true,
            references: 0,
            walked: BTreeSet::new(),
            lost: HashMap::new(),
            refused: HashSet::new(),
            relied: HashSet::new(),
            shaken: HashSet::new(),
        };
        let mut reached = mark::Marker::default();
        for root in roots(&seen.view) {
            walk.is_listed = root.is_listed;
            reached.mark(&root.content, &mut walk)?;
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
        let places = index.hinted_containers(Class::Meta, &fingerprint).unwrap_or_default();
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
                    && self.full_chunks.is_well(location))
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
                let message =
                    format!("has {found} bytes (expected {length} bytes at offset {offset})");
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
            let is_shaken = match self.full_chunks.standing(&location, self.is_listed) {
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
            let message = "not in any container listed in the index";
            is_nowhere.then(|| Error::missing(format!("data chunk {fingerprint}"), message))
        };
        Err(error.or(failure).or_else(nowhere))
    }

    /// Returns every place from which a lost chunk could have been read.
    pub(super) fn places_of_lost(&self) -> Result<BTreeSet<Damage>> {
        let mut damages = BTreeSet::new();
        for (class, fingerprint) in self.lost.keys() {
            let mut places = self.reader.index().hinted_containers(*class, fingerprint)?;
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
        if error.as_ref().is_some_and(|error| error.kind() == Kind::Storage) {
            self.refused.insert(fingerprint);
        }
        let error = error.filter(|error| !self.check.is_named(error));
        let is_listed = self.is_listed;
        self.lost.insert((class, fingerprint), LostChunk { error, is_listed });
    }

    /// Reports the lost chunks, except those in containers that were reported. Chunks that only
    /// forgotten snapshots need are counted.
    pub(super) fn name_lost(&mut self) -> Result<()> {
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
            let message = format!("{forgotten} needed only by forgotten snapshots are lost");
            self.check.finding(FindingKind::Unneeded, "chunks", message);
        }
        Ok(())
    }
}
