//! Checks that delta chunks find the full chunks that they refer to (rule C2).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use cutpoint_storage::{Error, Kind, Result};

use super::known::{Known, place};
use super::{Check, NAMED_MAX, Need};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName};
use crate::index::{Location, Scope};
use crate::read::{Reader, no_full_chunk};
use crate::util::cache::{TwoGenerationCache, key};

/// Maximum number of regions that are remembered as complete: 40 MB.
const REGIONS_MAX: usize = 1_000_000;

/// The state of a place of a chunk.
pub(super) enum Standing {
    /// Everything that the place refers to exists.
    Well,
    /// Everything that the place refers to exists, but other delta chunks of its region lack a full chunk.
    Shaken,
    /// The place lacks a full chunk.
    Lost(Error),
}

/// A region, by its container. Only the data class is used.
type Region = (PartName, u16);

/// A full chunk that delta chunks lack.
struct Missed {
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
    known: &'a Known,
    /// Full chunks that exist.
    there: TwoGenerationCache<()>,
    /// Regions that lack nothing.
    well: HashSet<Region>,
    /// The other regions, each with the numbers of the references that are missing.
    lacking: HashMap<Region, Rc<HashSet<u16>>>,
    missed: BTreeMap<(Class, Fingerprint), Missed>,
}

impl<'a> FullChunks<'a> {
    pub(super) fn new(reader: &'a Reader, known: &'a Known) -> FullChunks<'a> {
        let (there, well, lacking) =
            (TwoGenerationCache::default(), HashSet::new(), HashMap::new());
        FullChunks { reader, known, there, well, lacking, missed: BTreeMap::new() }
    }

    /// Returns `true` if a place is known to be well without examining any other place.
    pub(super) fn is_well(&self, location: &Location) -> bool {
        location.is_full()
            || self.well.contains(&region(location))
                && !self.known.unbuilt.contains(&place(location))
    }

    /// Looks for the full chunks that a place of a data chunk refers to. `is_listed` tells whether a
    /// listed snapshot needs it; listed snapshots come first.
    pub(super) fn standing(&mut self, location: &Location, is_listed: bool) -> Standing {
        if location.is_full() {
            return Standing::Well;
        }
        let (class, record) = (location.container.class, location.chunk());
        let lacking = self.lacking_in(location, is_listed);
        if lacking.is_empty() {
            // A full chunk that was missing when the container was read may have been stored in the
            // meantime.
            let is_unbuilt = self.known.unbuilt.contains(&place(location));
            let error = is_unbuilt.then(|| self.reader.read(class, location).err()).flatten();
            return error.map_or(Standing::Well, Standing::Lost);
        }
        // The region lacks these references. The chunk's payload shows which of them it needs.
        let extents = match self.reader.extents(class, location) {
            Ok(extents) => extents,
            Err(error) => return Standing::Lost(error),
        };
        let used: HashSet<u16> = extents.iter().map(|extent| extent.reference).collect();
        let mut lacks: Vec<u16> = used.intersection(&lacking).copied().collect();
        lacks.sort_unstable();
        let references = location.references();
        let mut kind = Kind::Missing;
        for number in &lacks {
            if let Some(missed) = self.missed.get_mut(&(class, references[usize::from(*number)])) {
                missed.delta_chunk_count += 1;
                // A full chunk that the storage refuses may become readable another time.
                kind = if missed.kind == Kind::Storage { Kind::Storage } else { kind };
            }
        }
        let Some(first) = lacks.first() else { return Standing::Shaken };
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
        Standing::Lost(Error::new(kind, format!("{class} chunk {chunk}"), message))
    }

    /// Returns the references of a delta chunk's region that are missing.
    fn lacking_in(&mut self, location: &Location, is_listed: bool) -> Rc<HashSet<u16>> {
        let region = region(location);
        if self.well.contains(&region) {
            return Rc::default();
        }
        if let Some(lacking) = self.lacking.get(&region) {
            return lacking.clone();
        }
        let class = location.container.class;
        let mut lacking = HashSet::new();
        for (reference, number) in location.references().iter().zip(0..) {
            if let Some(missed) = self.miss(class, reference) {
                missed.is_listed |= is_listed;
                lacking.insert(number);
            }
        }
        if lacking.is_empty() {
            if self.well.len() >= REGIONS_MAX {
                self.well.clear();
            }
            self.well.insert(region);
            return Rc::default();
        }
        let lacking = Rc::new(lacking);
        self.lacking.insert(region, lacking.clone());
        lacking
    }

    /// Returns the entry of a whole if the whole cannot be read.
    fn miss(&mut self, class: Class, reference: &Fingerprint) -> Option<&mut Missed> {
        let key = key(reference, u8::from(class == Class::Meta));
        if self.there.get(&key).is_some() {
            return None;
        }
        if !self.missed.contains_key(&(class, *reference)) {
            let Some((kind, error)) = self.look_for(class, reference) else {
                self.there.put(key, ());
                return None;
            };
            let missed = Missed { error, kind, delta_chunk_count: 0, is_listed: false };
            self.missed.insert((class, *reference), missed);
        }
        self.missed.get_mut(&(class, *reference))
    }

    /// Returns the reason for which a whole cannot be read; `None` if it can. There is no error if
    /// its containers were reported.
    fn look_for(&self, class: Class, reference: &Fingerprint) -> Option<(Kind, Option<Error>)> {
        let (index, known) = (self.reader.index(), self.known);
        if !known.lacking.contains_key(&(class, *reference)) {
            let found = index.find_where(class, reference, Scope::Read, |location| {
                let is_there = known.is_there(location) && !known.is_recorded(location);
                Ok(location.is_full() && is_there)
            });
            if matches!(found, Ok(Some(_))) {
                return None;
            }
        }
        // A place recorded as damaged may be readable, or may have been repaired in the meantime.
        let (mut places, failure) = index.locations(class, reference);
        places.retain(Location::is_full);
        let mut error = None;
        for location in places.iter().filter(|location| known.is_there(location)) {
            match known.try_read(self.reader, location) {
                Ok(()) => return None,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        let nowhere = || places.is_empty().then(|| no_full_chunk(class, reference));
        let error = error.or(failure).or_else(nowhere);
        let kind = error.as_ref().map_or(Kind::Corrupt, Error::kind);
        Some((kind, error))
    }

    /// Reports the full chunks that needed delta chunks lack, except those in containers that were
    /// reported.
    pub(super) fn name_missed(&mut self, check: &Check<'_>) -> Result<()> {
        let needed =
            self.missed.iter_mut().filter(|(_, it)| it.is_listed && it.delta_chunk_count > 0);
        let mut named = 0;
        for ((class, reference), missed) in needed {
            let Some(error) = missed.error.take().filter(|error| !check.is_named(error)) else {
                continue;
            };
            named += 1;
            if named > NAMED_MAX {
                break;
            }
            let object = format!("{class} chunk {reference}");
            let message = super::plain(&object, &error);
            let message =
                format!("{message} (needed by {} delta chunks)", missed.delta_chunk_count);
            check.failed(object, Error::new(error.kind(), "", message), Need::Named)?;
        }
        Ok(())
    }

    /// Returns every place from which a missing whole could have been read, all of which are
    /// damaged. With `is_listed`, only full chunks that listed snapshots need are included.
    pub(super) fn places_of_missed(&self, is_listed: bool) -> Result<Vec<Damage>> {
        let mut places = Vec::new();
        for ((class, reference), missed) in &self.missed {
            // A full chunk that the storage has refused may become readable again.
            if missed.kind == Kind::Storage || is_listed && !missed.is_listed {
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
