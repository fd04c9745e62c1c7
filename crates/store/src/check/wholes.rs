//! Do composites find the wholes that they refer to (rule C2)?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::known::{Known, place};
use super::{Check, NAMED_MAX, Need};
use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::Damage;
use crate::index::{Location, Scope};
use crate::name::{ObjectName, PartName};
use crate::reader::{Reader, no_whole};
use crate::recent::{Recent, key};

/// So many regions in which nothing is amiss are remembered: 40 MB.
const REGIONS_MAX: usize = 1_000_000;

/// How a place of a chunk stands.
pub(super) enum Standing {
    /// All that it refers to is there.
    Well,
    /// The same; but others of its region lack something.
    Shaken,
    /// It lacks a whole.
    Lost(Error),
}

/// A region, by its container. Only data is asked about.
type Region = (PartName, u16);

/// A whole that composites lack.
struct Missed {
    /// Why, unless that was said of a container.
    error: Option<Error>,
    kind: Kind,
    /// How many composites that are needed lack it.
    composite_count: u64,
    /// Whether a snapshot that is on the lists needs a composite of such a region.
    is_listed: bool,
}

/// What composites refer to, as far as it was looked for.
pub(super) struct Wholes<'a> {
    reader: &'a Reader,
    known: &'a Known,
    /// Wholes that are there.
    there: Recent<()>,
    /// Regions that lack nothing.
    well: HashSet<Region>,
    /// The others, and the numbers of the references that are not met.
    lacking: HashMap<Region, Rc<HashSet<u16>>>,
    missed: BTreeMap<(Class, Fingerprint), Missed>,
}

impl<'a> Wholes<'a> {
    pub(super) fn new(reader: &'a Reader, known: &'a Known) -> Wholes<'a> {
        let (there, well, lacking) = (Recent::default(), HashSet::new(), HashMap::new());
        Wholes { reader, known, there, well, lacking, missed: BTreeMap::new() }
    }

    /// Whether a place is known to be well: without a look at any other.
    pub(super) fn is_well(&self, location: &Location) -> bool {
        location.is_whole()
            || self.well.contains(&region(location))
                && !self.known.unbuilt.contains(&place(location))
    }

    /// Looks for what a place of a chunk of data refers to, for a snapshot that `is_listed` or not;
    /// listed ones come first.
    pub(super) fn standing(&mut self, location: &Location, is_listed: bool) -> Standing {
        if location.is_whole() {
            return Standing::Well;
        }
        let (class, record) = (location.container.class, location.chunk());
        let lacking = self.lacking_in(location, is_listed);
        if lacking.is_empty() {
            // What it lacked when its container was read may have come since.
            let is_unbuilt = self.known.unbuilt.contains(&place(location));
            let error = is_unbuilt.then(|| self.reader.read(class, location).err()).flatten();
            return error.map_or(Standing::Well, Standing::Lost);
        }
        // Of the region; which of them it needs itself its payload tells.
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
                missed.composite_count += 1;
                // What the storage refuses it may give another time.
                kind = if missed.kind == Kind::Media { Kind::Media } else { kind };
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
            "a composite in {container}, region {}; it lacks the whole {}{more}",
            record.region,
            references[usize::from(*first)]
        );
        Standing::Lost(Error::new(kind, format!("{class} chunk {chunk}"), message))
    }

    /// Which references of the region of a composite are not met.
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

    /// A whole, if it cannot be had.
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
            let missed = Missed { error, kind, composite_count: 0, is_listed: false };
            self.missed.insert((class, *reference), missed);
        }
        self.missed.get_mut(&(class, *reference))
    }

    /// Why a whole cannot be had; `None` where it can. Without an error where its containers have been
    /// named.
    fn look_for(&self, class: Class, reference: &Fingerprint) -> Option<(Kind, Option<Error>)> {
        let (index, known) = (self.reader.index(), self.known);
        if !known.lacking.contains_key(&(class, *reference)) {
            let found = index.find_where(class, reference, Scope::Read, |location| {
                let is_there = known.is_there(location) && !known.is_recorded(location);
                Ok(location.is_whole() && is_there)
            });
            if matches!(found, Ok(Some(_))) {
                return None;
            }
        }
        // What is recorded may be readable, or may have been made good since.
        let (mut places, failure) = index.locations(class, reference);
        places.retain(Location::is_whole);
        let mut error = None;
        for location in places.iter().filter(|location| known.is_there(location)) {
            match known.try_read(self.reader, location) {
                Ok(()) => return None,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        let nowhere = || places.is_empty().then(|| no_whole(class, reference));
        let error = error.or(failure).or_else(nowhere);
        let kind = error.as_ref().map_or(Kind::Corrupt, Error::kind);
        Some((kind, error))
    }

    /// Names the wholes that needed composites lack, but not those of containers that have been named.
    pub(super) fn name_missed(&mut self, check: &Check<'_>) -> Result<()> {
        let needed =
            self.missed.iter_mut().filter(|(_, it)| it.is_listed && it.composite_count > 0);
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
            let message = format!("{message} ({} composites need it)", missed.composite_count);
            check.failed(object, Error::new(error.kind(), "", message), Need::Named)?;
        }
        Ok(())
    }

    /// Every place from which a whole that is missed could have come: what there is, is damaged. Only for
    /// the sake of snapshots on the lists, where that is said.
    pub(super) fn places_of_missed(&self, is_listed: bool) -> Result<Vec<Damage>> {
        let mut places = Vec::new();
        for ((class, reference), missed) in &self.missed {
            // What the storage has refused it may give again.
            if missed.kind == Kind::Media || is_listed && !missed.is_listed {
                continue;
            }
            let found = self.reader.index().places(*class, reference)?;
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
