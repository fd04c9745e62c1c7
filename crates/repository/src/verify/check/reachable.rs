//! The reachable over snapshots: every chunk that they reach, and the place that gives it.

use std::collections::{BTreeSet, HashMap, HashSet};

use cutpoint_storage::{Error, Kind, Result};

use super::context::{Check, Need, REPORTED_MAX};
use super::finding::FindingKind;
use super::full_chunks::{FullChunks, PlaceState};
use super::inventory::Inventory;
use super::places::{PlaceFindings, place};
use crate::format::commit::{Damage, Snapshot};
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{PartName, TicketId};
use crate::format::recipe::{Content, range_in_chunk};
use crate::index::{Location, Scope};
use crate::read::{ChunkBytes, Reader};
use crate::repo::view::View;
use crate::snapshots::mark::{self, MarkSink};

/// The container that damage of a chunk names if no hint leads to one.
const NOWHERE: PartName = PartName { ticket: TicketId([0; 12]), count: 0 };

/// A snapshot to be checked.
pub(super) struct Root {
    pub(super) snapshot: TicketId,
    pub(super) content: Content,
    /// Set if the snapshot is listed, that is, not forgotten.
    pub(super) is_listed: bool,
}

/// Returns every snapshot that no prune has taken, oldest first. Forgotten ones, which can be
/// brought back, come last.
pub(super) fn roots(view: &View) -> Vec<Root> {
    let listed = view.snapshots().into_iter().map(|it| (it, true));
    let forgotten = view.forgotten_snapshots().into_iter().map(|it| (it, false));
    let root = |((snapshot, about), is_listed): ((TicketId, &Snapshot), bool)| Root {
        snapshot,
        content: about.root.clone(),
        is_listed,
    };
    listed.chain(forgotten).map(root).collect()
}

/// Everything that snapshots reach, as far as it was examined.
pub(super) struct ReachableChunks<'a> {
    pub(super) check: &'a Check<'a>,
    reader: &'a Reader,
    findings: &'a PlaceFindings,
    pub(super) full_chunks: FullChunks<'a>,
    /// Set if the current snapshot is listed.
    is_listed: bool,
    pub(super) reference_count: u64,
    /// The snapshots whose chunks were examined.
    pub(super) checked: BTreeSet<TicketId>,
    /// Chunks that cannot be read from any place.
    pub(super) missing: HashMap<(Class, Fingerprint), MissingChunk>,
    /// The missing chunks that the storage refused to read, and may return another time.
    pub(super) refused: HashSet<Fingerprint>,
    /// Places that are recorded as damaged, but can be read, and that listed snapshots need because
    /// there is no other place.
    pub(super) relied: HashSet<Damage>,
    /// Delta chunks that can be read, but whose region has others that lack a full chunk, and for
    /// which there is no other place. They should be stored again, because a region is kept only
    /// together with everything it refers to.
    pub(super) at_risk: HashSet<Damage>,
}

/// A chunk that cannot be read from any place.
pub(super) struct MissingChunk {
    /// The reason, unless it was reported about a container.
    error: Option<Error>,
    /// Set if a listed snapshot needs the chunk.
    pub(super) is_listed: bool,
}

impl MarkSink for ReachableChunks<'_> {
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        self.check.stop_if_cancelled()?;
        self.reference_count += 1;
        let bytes = self.chunk(fingerprint);
        self.rely_on_meta(*fingerprint);
        bytes
    }

    fn data(&mut self, fingerprint: &Fingerprint, offset: u64, length: u64) -> Result<()> {
        self.require(*fingerprint, offset, length);
        Ok(())
    }

    fn unreadable(&mut self, fingerprint: &Fingerprint, error: Error) -> Result<()> {
        if error.kind() == Kind::Interrupted {
            return Err(error);
        }
        self.add_missing(Class::Meta, *fingerprint, Some(error));
        Ok(())
    }
}

impl<'a> ReachableChunks<'a> {
    /// Examines everything that the snapshots of the view reach.
    pub(super) fn examine(
        check: &'a Check<'a>,
        reader: &'a Reader,
        inventory: &Inventory,
        findings: &'a PlaceFindings,
    ) -> Result<ReachableChunks<'a>> {
        let mut reachable = ReachableChunks {
            check,
            reader,
            findings,
            full_chunks: FullChunks::new(reader, findings),
            is_listed: true,
            reference_count: 0,
            checked: BTreeSet::new(),
            missing: HashMap::new(),
            refused: HashSet::new(),
            relied: HashSet::new(),
            at_risk: HashSet::new(),
        };
        let mut marker = mark::Marker::default();
        for root in roots(&inventory.view) {
            reachable.is_listed = root.is_listed;
            marker.mark(&[&root.content], &mut reachable)?;
            reachable.checked.insert(root.snapshot);
        }
        Ok(reachable)
    }

    /// Notes the places of a metadata chunk if all of them are recorded as damaged.
    fn rely_on_meta(&mut self, fingerprint: Fingerprint) {
        let place = |container| Damage { class: Class::Meta, container, fingerprint };
        let index = self.reader.index();
        if !self.is_listed || self.findings.recorded.is_empty() {
            return;
        }
        let places = index.hinted_containers(Class::Meta, &fingerprint).unwrap_or_default();
        let is_recorded =
            |container: &PartName| self.findings.recorded.contains(&place(*container));
        if places.iter().all(is_recorded) {
            self.relied.extend(places.into_iter().map(place));
        }
    }

    pub(super) fn chunk(&self, fingerprint: &Fingerprint) -> Result<ChunkBytes> {
        self.reader.try_chunk(Class::Meta, fingerprint)
    }

    /// Requires a place from which `length` bytes at `offset` of a file chunk can be read.
    fn require(&mut self, fingerprint: Fingerprint, offset: u64, length: u64) {
        self.reference_count += 1;
        if self.missing.contains_key(&(Class::Data, fingerprint)) {
            return;
        }
        let findings = self.findings;
        let found =
            self.reader.index().find_where(Class::Data, &fingerprint, Scope::Read, |location| {
                Ok(findings.is_sound(location)
                    && !findings.is_recorded(location)
                    && self.full_chunks.is_complete(location))
            });
        let found = match found {
            Ok(Some(location)) => Ok(location),
            _ => self.find_in_any_place(&fingerprint),
        };
        let error = match found {
            Ok(location) => {
                let found = u64::from(location.chunk().chunk_len);
                match range_in_chunk(&fingerprint, found, offset, length) {
                    Ok(_) => return,
                    Err(error) => Some(error),
                }
            }
            Err(error) => error,
        };
        self.add_missing(Class::Data, fingerprint, error);
    }

    /// Examines every place of a data chunk.
    ///
    /// # Errors
    ///
    /// Returns the reason for which no place provides the chunk, or `None` if its containers were
    /// reported.
    fn find_in_any_place(&mut self, fingerprint: &Fingerprint) -> Result<Location, Option<Error>> {
        let findings = self.findings;
        let (mut places, failure) = self.reader.index().locations(Class::Data, fingerprint);
        let is_nowhere = places.is_empty();
        // The index may name further containers that were deleted after everything in them had moved.
        let failure = failure.filter(|it| is_nowhere || it.kind() != Kind::Missing);
        places.retain(|location| findings.is_sound(location));
        places.sort_by_key(|location| findings.is_recorded(location));
        let (mut error, mut at_risk) = (None, None);
        for location in places {
            let is_at_risk = match self.full_chunks.state_of(&location, self.is_listed) {
                PlaceState::Usable => false,
                PlaceState::AtRisk => true,
                PlaceState::Unusable(reason) => {
                    error = error.or(Some(reason));
                    continue;
                }
            };
            // A place recorded as damaged may be readable, or may have been repaired in the
            // meantime.
            if findings.is_recorded(&location) {
                if let Err(failed) = findings.try_read(self.reader, &location) {
                    error = error.or(Some(failed));
                    continue;
                }
                if self.is_listed {
                    self.relied.insert(place(&location));
                }
            }
            if !is_at_risk {
                return Ok(location);
            }
            at_risk = at_risk.or(Some(location));
        }
        if let Some(location) = at_risk {
            self.at_risk.insert(place(&location));
            return Ok(location);
        }
        let nowhere = || {
            let message = "not in any container listed in the index";
            is_nowhere.then(|| Error::missing(format!("data chunk {fingerprint}"), message))
        };
        Err(error.or(failure).or_else(nowhere))
    }

    /// Returns the missing chunks that listed snapshots need.
    pub(super) fn needed(&self) -> impl Iterator<Item = &(Class, Fingerprint)> {
        self.missing.iter().filter(|(_, chunk)| chunk.is_listed).map(|(chunk, _)| chunk)
    }

    /// Returns every place from which a missing chunk could have been read.
    pub(super) fn places_of_missing(&self) -> Result<BTreeSet<Damage>> {
        let mut damages = BTreeSet::new();
        for (class, fingerprint) in self.missing.keys() {
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

    fn add_missing(&mut self, class: Class, fingerprint: Fingerprint, error: Option<Error>) {
        if error.as_ref().is_some_and(|error| error.kind() == Kind::Storage) {
            self.refused.insert(fingerprint);
        }
        let error = error.filter(|error| !self.check.is_reported(error));
        let is_listed = self.is_listed;
        self.missing.insert((class, fingerprint), MissingChunk { error, is_listed });
    }

    /// Reports the missing chunks, except those in containers that were reported. Chunks that only
    /// forgotten snapshots need are counted.
    pub(super) fn report_missing(&mut self) -> Result<()> {
        let mut errors: Vec<_> = self
            .missing
            .iter_mut()
            .filter(|(_, missing)| missing.is_listed)
            .filter_map(|((class, fingerprint), missing)| {
                Some((format!("{class} chunk {fingerprint}"), missing.error.take()?))
            })
            .collect();
        errors.sort_by(|left, right| left.0.cmp(&right.0));
        let more = (errors.len() as u64).saturating_sub(REPORTED_MAX);
        for ((object, error), _) in errors.into_iter().zip(0..REPORTED_MAX) {
            self.check.report_error(object, error, Need::Named)?;
        }
        if more > 0 {
            let message = format!("{more} more are missing");
            self.check.report(FindingKind::Missing, "chunks", message);
        }
        let forgotten = self.missing.values().filter(|missing| !missing.is_listed).count();
        if forgotten > 0 {
            let message = format!("{forgotten} needed only by forgotten snapshots are missing");
            self.check.report(FindingKind::Unneeded, "chunks", message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::commit::{Commit, Outcome, ViewRecord};

    fn id(number: u8) -> TicketId {
        TicketId([number; 12])
    }

    fn commit(outcome: Outcome) -> Arc<Commit> {
        let (view, segments, extra) = (ViewRecord::default(), Vec::new(), Vec::new());
        Arc::new(Commit { segments, embedded: None, view, time_ns: 0, outcome, extra })
    }

    /// Ids are random, so that the order by id is not the order by time. Snapshots of the same time
    /// are in the order of their ids.
    #[test]
    fn roots_of_any_ids_are_sorted_by_listing_then_time() {
        let mut view = View::default();
        for (number, started_ns) in [(9, 1), (2, 3), (5, 2), (4, 2), (7, 0), (1, 4)] {
            let snapshot = Snapshot { started_ns, ..Snapshot::empty() };
            view.commits.insert(id(number), commit(Outcome::Snapshot(Box::new(snapshot))));
        }
        view.commits.insert(id(8), commit(Outcome::Forget(vec![id(7), id(1)])));
        let roots: Vec<_> =
            roots(&view).into_iter().map(|root| (root.snapshot, root.is_listed)).collect();
        let listed = [9, 4, 5, 2].map(|number| (id(number), true));
        let forgotten = [7, 1].map(|number| (id(number), false));
        assert_eq!(roots, [&listed[..], &forgotten[..]].concat());
    }
}
