//! Checks that delta chunks find the full chunks that they refer to (rule C2).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use cutpoint_storage::{Error, Kind, Result};

use super::context::{Check, Need, REPORTED_MAX, plain};
use super::places::{PlaceFindings, place};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::index::{Location, Scope};
use crate::read::{Reader, no_full_chunk};
use crate::util::cache::{TwoGenerationCache, key};

/// Maximum number of regions that are remembered as complete: 40 MB.
const REGIONS_MAX: usize = 1_000_000;

/// The state of a place of a chunk.
pub(super) enum PlaceState {
    /// Everything that the place refers to exists.
    Usable,
    /// Everything that the place refers to exists, but other delta chunks of its region lack a full
    /// chunk.
    AtRisk,
    /// The place lacks a full chunk.
    Unusable(Error),
}

/// A region, by its container. Only the data class is used.
type Region = (PartName, u16);

/// A full chunk that cannot be read, and that delta chunks refer to.
struct MissingFullChunk {
    /// The reason, unless it was reported about a container.
    error: Option<Error>,
    kind: Kind,
    /// Number of needed delta chunks that lack the full chunk.
    delta_chunk_count: u64,
    /// Set if a listed snapshot needs a delta chunk in a region that refers to the full chunk.
    is_listed: bool,
}

/// The full chunks that delta chunks refer to, as far as they were looked for.
pub(super) struct FullChunks<'a> {
    reader: &'a Reader,
    findings: &'a PlaceFindings,
    /// Full chunks that exist.
    present: TwoGenerationCache<()>,
    /// Regions that lack nothing.
    complete: HashSet<Region>,
    /// The other regions, each with the numbers of the references that are missing.
    lacking: HashMap<Region, Rc<HashSet<u16>>>,
    missing: BTreeMap<(Class, Fingerprint), MissingFullChunk>,
}

impl<'a> FullChunks<'a> {
    pub(super) fn new(reader: &'a Reader, findings: &'a PlaceFindings) -> FullChunks<'a> {
        let (present, complete, lacking) =
            (TwoGenerationCache::default(), HashSet::new(), HashMap::new());
        FullChunks { reader, findings, present, complete, lacking, missing: BTreeMap::new() }
    }

    /// Returns `true` if a place is known to be complete without examining any other place.
    pub(super) fn is_complete(&self, location: &Location) -> bool {
        location.is_full()
            || self.complete.contains(&region(location))
                && !self.findings.unassembled.contains(&place(location))
    }

    /// Looks for the full chunks that a place of a data chunk refers to. `is_listed` is set if a
    /// listed snapshot needs the chunk; listed snapshots come first.
    pub(super) fn state_of(&mut self, location: &Location, is_listed: bool) -> PlaceState {
        if location.is_full() {
            return PlaceState::Usable;
        }
        let (class, record) = (location.container.class, location.chunk());
        let lacking = self.lacking_in(location, is_listed);
        if lacking.is_empty() {
            // A full chunk that was missing when the container was read may have been stored in the
            // meantime.
            let is_unassembled = self.findings.unassembled.contains(&place(location));
            let error = is_unassembled.then(|| self.reader.read(class, location).err()).flatten();
            return error.map_or(PlaceState::Usable, PlaceState::Unusable);
        }
        // The region lacks these references. The chunk's payload shows which of them it needs.
        let extents = match self.reader.extents(class, location) {
            Ok(extents) => extents,
            Err(error) => return PlaceState::Unusable(error),
        };
        let used: HashSet<u16> = extents.iter().map(|extent| extent.reference).collect();
        let mut lacks: Vec<u16> = used.intersection(&lacking).copied().collect();
        lacks.sort_unstable();
        let references = location.references();
        let mut kind = Kind::Missing;
        for number in &lacks {
            if let Some(missing) = self.missing.get_mut(&(class, references[usize::from(*number)]))
            {
                missing.delta_chunk_count += 1;
                // A full chunk that the storage refuses may become readable another time.
                kind = if missing.kind == Kind::Storage { Kind::Storage } else { kind };
            }
        }
        let Some(first) = lacks.first() else { return PlaceState::AtRisk };
        let (name, chunk) = (location.container.name, record.fingerprint);
        let container = ObjectName::Container(class, name);
        let more = match lacks.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let message = format!(
            "a delta chunk in {container}, region {}, lacks the full chunk {}{more}",
            record.region,
            references[usize::from(*first)]
        );
        PlaceState::Unusable(Error::new(kind, format!("{class} chunk {chunk}"), message))
    }

    /// Returns the references of a delta chunk's region that are missing.
    fn lacking_in(&mut self, location: &Location, is_listed: bool) -> Rc<HashSet<u16>> {
        let region = region(location);
        if self.complete.contains(&region) {
            return Rc::default();
        }
        if let Some(lacking) = self.lacking.get(&region) {
            return lacking.clone();
        }
        let class = location.container.class;
        let mut lacking = HashSet::new();
        for (reference, number) in location.references().iter().zip(0..) {
            if let Some(missing) = self.missing_entry(class, reference) {
                missing.is_listed |= is_listed;
                lacking.insert(number);
            }
        }
        if lacking.is_empty() {
            if self.complete.len() >= REGIONS_MAX {
                self.complete.clear();
            }
            self.complete.insert(region);
            return Rc::default();
        }
        let lacking = Rc::new(lacking);
        self.lacking.insert(region, lacking.clone());
        lacking
    }

    /// Returns the entry of a full chunk if it cannot be read.
    fn missing_entry(
        &mut self,
        class: Class,
        reference: &Fingerprint,
    ) -> Option<&mut MissingFullChunk> {
        let key = key(reference, u8::from(class == Class::Meta));
        if self.present.get(&key).is_some() {
            return None;
        }
        if !self.missing.contains_key(&(class, *reference)) {
            let Some((kind, error)) = self.look_for(class, reference) else {
                self.present.put(key, ());
                return None;
            };
            let missing = MissingFullChunk { error, kind, delta_chunk_count: 0, is_listed: false };
            self.missing.insert((class, *reference), missing);
        }
        self.missing.get_mut(&(class, *reference))
    }

    /// Returns the reason for which a full chunk cannot be read; `None` if it can. There is no
    /// error if its containers were reported.
    fn look_for(&self, class: Class, reference: &Fingerprint) -> Option<(Kind, Option<Error>)> {
        let (index, findings) = (self.reader.index(), self.findings);
        if !findings.lacking.contains_key(&(class, *reference)) {
            let found = index.find_where(class, reference, Scope::Read, |location| {
                let is_sound = findings.is_sound(location) && !findings.is_recorded(location);
                Ok(location.is_full() && is_sound)
            });
            if matches!(found, Ok(Some(_))) {
                return None;
            }
        }
        // A place recorded as damaged may be readable, or may have been repaired in the meantime.
        let (mut places, failure) = index.locations(class, reference);
        places.retain(Location::is_full);
        let mut error = None;
        for location in places.iter().filter(|location| findings.is_sound(location)) {
            match findings.try_read(self.reader, location) {
                Ok(()) => return None,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        // The index may name further containers that were deleted after everything in them had moved.
        let failure = failure.filter(|it| places.is_empty() || it.kind() != Kind::Missing);
        let nowhere = || places.is_empty().then(|| no_full_chunk(class, reference));
        let error = error.or(failure).or_else(nowhere);
        let kind = error.as_ref().map_or(Kind::Corrupt, Error::kind);
        Some((kind, error))
    }

    /// Reports the full chunks that needed delta chunks lack, except those in containers that were
    /// reported.
    pub(super) fn report_missing(&mut self, check: &Check<'_>) -> Result<()> {
        let needed =
            self.missing.iter_mut().filter(|(_, it)| it.is_listed && it.delta_chunk_count > 0);
        let mut named = 0;
        for ((class, reference), missing) in needed {
            let Some(error) = missing.error.take().filter(|error| !check.is_reported(error)) else {
                continue;
            };
            named += 1;
            if named > REPORTED_MAX {
                break;
            }
            let object = format!("{class} chunk {reference}");
            let message = plain(&object, &error);
            let (count, end) = match missing.delta_chunk_count {
                1 => (1, ""),
                count => (count, "s"),
            };
            let message = format!("{message} (needed by {count} delta chunk{end})");
            check.report_error(object, Error::new(error.kind(), "", message), Need::Named)?;
        }
        Ok(())
    }

    /// Returns every place from which a missing full chunk could have been read, all of which are
    /// damaged. With `is_listed`, only full chunks that listed snapshots need are included.
    pub(super) fn places_of_missing(&self, is_listed: bool) -> Result<Vec<Damage>> {
        let mut places = Vec::new();
        for ((class, reference), missing) in &self.missing {
            // A full chunk that the storage has refused may become readable again.
            if missing.kind == Kind::Storage || is_listed && !missing.is_listed {
                continue;
            }
            let found = self.reader.index().hinted_containers(*class, reference)?;
            let (class, fingerprint) = (*class, *reference);
            let damages = found.into_iter();
            places.extend(damages.map(|container| Damage { class, container, fingerprint }));
        }
        Ok(places)
    }
}

fn region(location: &Location) -> Region {
    (location.container.name, location.chunk().region)
}
