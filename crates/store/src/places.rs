//! Where what is needed lies: needs and hints, both sorted, are gone through together.
//!
//! Hints only narrow. Where one container alone may have what is needed, that one stays. Wherever
//! there is a choice, directories decide, by all 32 bytes; where not even they help, nothing goes.
//! And nothing goes whose directory has other chunks than hints say.
//!
//! What snapshots reach is met by a record of either form, better by a whole. What composites refer
//! to that stay is needed as a whole (rule C2): so where a container has composites, directories
//! decide as well. References count by region: of a region in which any composite stays, all do.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::format::commit::Damage;
use crate::format::directory::{ChunkRecord, Directory, Form};
use crate::format::segment::{ContainerRecord, Segment};
use crate::index::{Index, Loaded, Location, Scope, load_directory};
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::repository::Repository;
use crate::sorted::{Iter, Sorted, Sorter};
#[cfg(feature = "mutants")]
use crate::writer::mutant::{self, Mutant};

/// A need as a record: the fingerprint, then what is needed of it.
pub(crate) const NEED_LEN: usize = FINGERPRINT_LEN + 1;
/// The number of a container, then a need.
const PLACED_LEN: usize = 4 + NEED_LEN;
/// How much memory each of the sorters takes, in bytes.
const SORTER_BYTES: usize = 24 * 1024 * 1024;
/// How many lost chunks are named; the rest is counted.
const NAMED_MAX: usize = 1000;
/// How often damage of the cached index is mended before it is given up.
const REPLACED_MAX: u32 = 32;
/// Instead of a container: no place is known that may be kept.
const NO_CONTAINER: u32 = u32::MAX;

/// Of the last byte of a need: its class.
const META: u8 = 1;
/// A composite refers to the chunk: only a whole will do.
const WHOLE: u8 = 2;
/// Of a whole: snapshots reach the chunk as well.
const REACHED: u8 = 4;
/// What containers stay for that have nothing but references is weighed where it is no more than so
/// many chunks: that takes 40 MB.
const WEIGHED_MAX: usize = 500_000;

/// A chunk that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) class: Class,
    pub(crate) fingerprint: Fingerprint,
    /// Whether only a whole meets it: composites refer to it.
    pub(crate) is_whole: bool,
    /// Whether snapshots reach it, not composites alone.
    pub(crate) is_reached: bool,
}

impl Need {
    fn encode(self) -> [u8; NEED_LEN] {
        let mut need = [0; NEED_LEN];
        need[..FINGERPRINT_LEN].copy_from_slice(&self.fingerprint.0);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        need[FINGERPRINT_LEN] = flag(self.class == Class::Meta, META)
            | flag(self.is_whole, WHOLE)
            | flag(self.is_whole && self.is_reached, REACHED);
        need
    }

    fn decode(need: &[u8; NEED_LEN]) -> Need {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        fingerprint.0.copy_from_slice(&need[..FINGERPRINT_LEN]);
        let flags = need[FINGERPRINT_LEN];
        Need {
            class: if flags & META == 0 { Class::Data } else { Class::Meta },
            fingerprint,
            is_whole: flags & WHOLE != 0,
            is_reached: flags & WHOLE == 0 || flags & REACHED != 0,
        }
    }

    /// Whether a record of this form meets it.
    fn is_met_by(&self, form: Form) -> bool {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::MeetsReferencesByComposites) {
            return true;
        }
        !self.is_whole || form != Form::Composite
    }
}

/// What is needed: chunks, each once.
pub(crate) struct Needs {
    sorter: Sorter<NEED_LEN>,
}

impl Needs {
    /// With files in `folder`, if there is one.
    pub(crate) fn new(folder: Option<&Path>) -> Needs {
        Needs { sorter: Sorter::new(folder, SORTER_BYTES) }
    }

    /// A snapshot reaches a chunk: any record of it will do.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`, of a temporary file.
    pub(crate) fn push(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let need = Need { class, fingerprint, is_whole: false, is_reached: true };
        self.sorter.push(need.encode())
    }

    /// A composite refers to a chunk: only a whole will do.
    fn push_reference(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        let fingerprint = *fingerprint;
        let need = Need { class, fingerprint, is_whole: true, is_reached: false };
        self.sorter.push(need.encode())
    }

    /// All of them, sorted by fingerprint.
    pub(crate) fn finish(self) -> Sorted<NEED_LEN> {
        self.sorter.finish()
    }
}

/// What snapshots and what composites need, side by side.
struct Both<'a> {
    iters: [Iter<'a, NEED_LEN>; 2],
    next: [Option<[u8; NEED_LEN]>; 2],
}

impl<'a> Both<'a> {
    fn new(one: &'a Sorted<NEED_LEN>, other: &'a Sorted<NEED_LEN>) -> Result<Both<'a>> {
        let mut iters = [one.iter()?, other.iter()?];
        let next = [iters[0].next()?, iters[1].next()?];
        Ok(Both { iters, next })
    }

    fn next(&mut self) -> Result<Option<[u8; NEED_LEN]>> {
        let least = match self.next {
            [Some(one), Some(other)] => usize::from(other < one),
            [None, _] => 1,
            _ => 0,
        };
        let next = self.next[least];
        if next.is_some() {
            self.next[least] = self.iters[least].next()?;
        }
        Ok(next)
    }
}

fn placed(container: u32, need: &[u8; NEED_LEN]) -> [u8; PLACED_LEN] {
    let mut record = [0; PLACED_LEN];
    record[..4].copy_from_slice(&container.to_be_bytes());
    record[4..].copy_from_slice(need);
    record
}

fn unplace(record: &[u8; PLACED_LEN]) -> (u32, [u8; NEED_LEN]) {
    let (mut container, mut need) = ([0; 4], [0; NEED_LEN]);
    container.copy_from_slice(&record[..4]);
    need.copy_from_slice(&record[4..]);
    (u32::from_be_bytes(container), need)
}

/// A container that something names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    /// Where and what it is.
    pub(crate) record: ContainerRecord,
    /// Whether it exists, with the length that it should have.
    pub(crate) is_there: bool,
    /// Whether a prune of the view has condemned it.
    pub(crate) is_condemned: bool,
    /// How many hints lead to it, each counted once.
    pub(crate) hint_count: u32,
    /// Their sum, without what overflows.
    pub(crate) hint_sum: u64,
    /// How many chunks of it stay because they are needed.
    pub(crate) kept_count: u32,
    /// How many of these only because composites refer to them.
    pub(crate) pinned_count: u32,
}

impl Container {
    /// Whether chunks may be said to stay in it.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_there && !self.is_condemned
    }

    /// Whether the hints that lead to it are those of what its directory has. Where they are not, the
    /// chunk of a hint that is missing may be needed, and found nowhere else.
    ///
    /// # Errors
    ///
    /// `Corrupt`, naming the container.
    pub(crate) fn require_hints(&self, directory: &Directory) -> Result<()> {
        let chunks = directory.chunks.iter();
        let hints: BTreeSet<u64> = chunks.map(|chunk| chunk.fingerprint.hint()).collect();
        let sum = hints.iter().fold(0_u64, |sum, hint| sum.wrapping_add(*hint));
        if hints.len() as u64 == u64::from(self.hint_count) && sum == self.hint_sum {
            return Ok(());
        }
        let (class, part) = self.name();
        Err(Error::corrupt(
            ObjectName::Container(class, part),
            "has other chunks than the index says; `cutpoint repair index` makes that anew",
        ))
    }

    /// Its class and name.
    pub(crate) fn name(&self) -> (Class, PartName) {
        (self.record.class, self.record.name)
    }
}

/// What came of looking everything up.
#[derive(Debug)]
pub(crate) struct Places {
    /// All containers that the index, or the caller, names.
    pub(crate) containers: Vec<Container>,
    kept: Sorted<PLACED_LEN>,
    /// What only condemned containers have.
    pub(crate) going: Vec<Need>,
    /// Composites that are better stored again as wholes than kept with what they refer to.
    pub(crate) dissolved: Vec<(Class, Fingerprint)>,
    /// Their size, in bytes.
    pub(crate) dissolved_bytes: u64,
    /// What is nowhere: the first thousand.
    pub(crate) lost: Vec<(Class, Fingerprint)>,
    /// How many chunks are nowhere.
    pub(crate) lost_count: u64,
}

/// Which chunks stay in which container, in the order of the containers' numbers.
pub(crate) struct Kept<'a> {
    iter: Iter<'a, PLACED_LEN>,
    next: Option<(u32, [u8; NEED_LEN])>,
}

impl Places {
    /// Begins to go through what stays.
    ///
    /// # Errors
    ///
    /// `Media`, of a temporary file.
    pub(crate) fn kept(&self) -> Result<Kept<'_>> {
        let mut iter = self.kept.iter()?;
        let next = iter.next()?.map(|record| unplace(&record));
        Ok(Kept { iter, next })
    }

    /// The chunks of `records` do not stay where they are: they are stored again as wholes.
    fn dissolve(
        &mut self,
        records: &HashSet<[u8; PLACED_LEN]>,
        folder: Option<&Path>,
    ) -> Result<()> {
        let mut left = Sorter::new(folder, SORTER_BYTES);
        let mut iter = self.kept.iter()?;
        while let Some(record) = iter.next()? {
            if records.contains(&record) {
                let (number, need) = unplace(&record);
                let Need { class, fingerprint, .. } = Need::decode(&need);
                self.containers[number as usize].kept_count -= 1;
                self.dissolved.push((class, fingerprint));
            } else {
                left.push(record)?;
            }
        }
        self.kept = left.finish();
        Ok(())
    }
}

impl Kept<'_> {
    /// The chunks that stay in the container of number `container`. Numbers must rise.
    ///
    /// # Errors
    ///
    /// As [`Places::kept`].
    pub(crate) fn of(&mut self, container: u32) -> Result<KeptChunks> {
        let mut kept = KeptChunks::new();
        while let Some((number, need)) = self.next
            && number <= container
        {
            if number == container {
                let need = Need::decode(&need);
                kept.insert(need.fingerprint, need);
            }
            self.next = self.iter.next()?.map(|record| unplace(&record));
        }
        Ok(kept)
    }

    /// Goes to the end, so that all that was read is known to be what was written.
    ///
    /// # Errors
    ///
    /// As [`Places::kept`].
    pub(crate) fn end(mut self) -> Result<()> {
        while self.iter.next()?.is_some() {}
        Ok(())
    }
}

/// The chunks that stay in one container.
pub(crate) type KeptChunks = HashMap<Fingerprint, Need>;

/// The records that stay in a container, in the order in which they lie: of each chunk that is `kept`
/// one, a whole if there is any. Of a chunk that it does not have as it is needed there is none.
pub(crate) fn staying<'a>(directory: &'a Directory, kept: &KeptChunks) -> Vec<&'a ChunkRecord> {
    let numbers = staying_numbers(directory, kept).into_iter();
    numbers.map(|number| &directory.chunks[number]).collect()
}

/// The numbers of what is [`staying`].
pub(crate) fn staying_numbers(directory: &Directory, kept: &KeptChunks) -> Vec<usize> {
    let mut best: HashMap<Fingerprint, usize> = HashMap::with_capacity(kept.len());
    for (number, chunk) in directory.chunks.iter().enumerate() {
        if kept.get(&chunk.fingerprint).is_some_and(|need| need.is_met_by(chunk.form)) {
            let known = best.entry(chunk.fingerprint).or_insert(number);
            if directory.chunks[*known].form == Form::Composite && chunk.form != Form::Composite {
                *known = number;
            }
        }
    }
    let mut numbers: Vec<usize> = best.into_values().collect();
    numbers.sort_unstable();
    numbers
}

/// The containers that exist, with their lengths.
///
/// # Errors
///
/// As the medium.
pub(crate) fn list_containers(repository: &Repository) -> Result<HashMap<(Class, PartName), u64>> {
    let mut found = HashMap::new();
    for kind in [ObjectKind::Data, ObjectKind::Meta] {
        for (path, length) in repository.media().list(kind.folder())? {
            if let Ok(ObjectName::Container(class, part)) = ObjectName::parse(&path) {
                found.insert((class, part), length);
            }
        }
    }
    Ok(found)
}

/// A region of a container.
type Region = (Class, PartName, u16);

/// What composites need that stay.
struct References {
    needs: Needs,
    /// Composites that stay in regions which are dissolved.
    dissolved: HashSet<[u8; PLACED_LEN]>,
    dissolved_bytes: u64,
}

/// Looks up what is needed.
pub(crate) struct Lookup<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) index: &'a Index,
    /// Containers in which nothing stays.
    pub(crate) condemned: &'a HashSet<(Class, PartName)>,
    /// What checks have found broken: the last choice.
    pub(crate) damaged: &'a HashSet<Damage>,
    /// Containers that no segment names, and their hints.
    pub(crate) adopted: &'a Segment,
    /// The containers that exist.
    pub(crate) there: &'a HashMap<(Class, PartName), u64>,
    /// For temporary files.
    pub(crate) folder: Option<&'a Path>,
    /// How much of composites may be stored again as wholes, in bytes.
    pub(crate) dissolved_bytes_max: u64,
    /// Asked often.
    pub(crate) stop_if_cancelled: &'a dyn Fn() -> Result<()>,
}

impl Lookup<'_> {
    /// Finds a place for each of `needs`, and for what composites refer to that stay for their sake.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Missing` where it cannot be read what composites of a container refer to. As
    /// the medium, and of temporary files. What is lost is no error.
    pub(crate) fn find(&self, needs: &Sorted<NEED_LEN>) -> Result<Places> {
        let mut replaced_count = 0;
        let mut is_rebuilt = false;
        loop {
            match self.find_weighed(needs) {
                // What this machine has cached must not be taken for a loss.
                Ok(found) if found.lost_count > 0 && !is_rebuilt => {
                    is_rebuilt = true;
                    if !self.index.rebuild()? {
                        return Ok(found);
                    }
                }
                // A cached part of the index was damaged, and is made anew.
                Err(error) if error.kind() == Kind::Conflict && replaced_count < REPLACED_MAX => {
                    replaced_count += 1;
                }
                found => return found,
            }
        }
    }

    fn find_weighed(&self, needs: &Sorted<NEED_LEN>) -> Result<Places> {
        #[cfg(feature = "mutants")]
        if mutant::is_active(Mutant::IgnoresReferences) {
            return self.try_find(needs, &Needs::new(None).finish());
        }
        let places = self.find_referred(needs, &HashSet::new())?;
        let dissolved = self.weigh(&places)?;
        if dissolved.is_empty() { Ok(places) } else { self.find_referred(needs, &dissolved) }
    }

    /// Finds a place for each need, and for what composites need that stay but in regions which are
    /// `dissolved`: these are to be stored again as wholes.
    ///
    /// Composites are one step: what they need is met by wholes, which need nothing. Only if directories
    /// answer otherwise the second time there is more to look up; and it ends, for what was found to be
    /// needed remains so, and there are only so many references.
    fn find_referred(
        &self,
        needs: &Sorted<NEED_LEN>,
        dissolved: &HashSet<Region>,
    ) -> Result<Places> {
        let mut references = Needs::new(None).finish();
        let mut count = 0;
        loop {
            let mut places = self.try_find(needs, &references)?;
            if places.lost_count > 0 {
                return Ok(places);
            }
            let mut found = self.references(&places, dissolved)?;
            let mut iter = references.iter()?;
            while let Some(need) = iter.next()? {
                found.needs.sorter.push(need)?;
            }
            let all = found.needs.finish();
            let mut all_count = 0_u64;
            let mut iter = all.iter()?;
            while iter.next()?.is_some() {
                all_count += 1;
            }
            if all_count == count {
                if !found.dissolved.is_empty() {
                    places.dissolve(&found.dissolved, self.folder)?;
                    places.dissolved_bytes = found.dissolved_bytes;
                }
                return Ok(places);
            }
            (references, count) = (all, all_count);
        }
    }

    /// Calls `visit` with each region in which composites stay, and with these.
    fn each_region(
        &self,
        places: &Places,
        mut visit: impl FnMut(u32, Region, &[Fingerprint], &[&ChunkRecord]) -> Result<()>,
    ) -> Result<()> {
        let mut kept = places.kept()?;
        for (number, container) in (0..).zip(&places.containers) {
            if container.kept_count == 0 || !container.record.has_composites {
                continue;
            }
            (self.stop_if_cancelled)()?;
            let (class, part) = container.name();
            // Passed over, what can be made good of it would lack what it refers to.
            let directory =
                load_directory(self.repository, &container.record).map_err(|error| {
                    let known =
                        "it is not known to what its composites refer, and nothing is deleted";
                    error.of(format!("{}: {known}", ObjectName::Container(class, part)))
                })?;
            let mut composites = staying(&directory, &kept.of(number)?);
            composites.retain(|chunk| chunk.form == Form::Composite);
            for of_region in composites.chunk_by(|one, other| one.region == other.region) {
                let region = of_region[0].region;
                let references = &directory.regions[usize::from(region)].references;
                visit(number, (class, part, region), references, of_region)?;
            }
        }
        kept.end()
    }

    fn references(&self, places: &Places, dissolved: &HashSet<Region>) -> Result<References> {
        let needs = Needs::new(self.folder);
        let mut found = References { needs, dissolved: HashSet::new(), dissolved_bytes: 0 };
        self.each_region(places, |number, region, references, composites| {
            let class = region.0;
            if !dissolved.contains(&region) {
                return references
                    .iter()
                    .try_for_each(|reference| found.needs.push_reference(class, reference));
            }
            for chunk in composites {
                let fingerprint = chunk.fingerprint;
                let need = Need { class, fingerprint, is_whole: false, is_reached: true };
                found.dissolved.insert(placed(number, &need.encode()));
                found.dissolved_bytes += u64::from(chunk.chunk_len);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The regions whose composites had better be stored again as wholes: what stays of some
    /// container stays for them alone, and it takes more than they would.
    fn weigh(&self, places: &Places) -> Result<HashSet<Region>> {
        let mut dissolved = HashSet::new();
        let is_pinned = |container: &Container| {
            container.kept_count > 0 && container.pinned_count == container.kept_count
        };
        if places.lost_count > 0 || self.dissolved_bytes_max == 0 {
            return Ok(dissolved);
        }
        let mut pinned: HashMap<(Class, Fingerprint), u32> = HashMap::new();
        let mut kept = places.kept()?;
        for (number, container) in (0..).zip(&places.containers) {
            if is_pinned(container) && pinned.len() < WEIGHED_MAX {
                let chunks = kept.of(number)?.into_keys();
                pinned.extend(chunks.map(|chunk| ((container.record.class, chunk), number)));
            }
        }
        kept.end()?;
        if pinned.is_empty() {
            return Ok(dissolved);
        }
        let mut pinning: HashMap<u32, BTreeSet<usize>> = HashMap::new();
        let mut regions: Vec<(Region, u64)> = Vec::new();
        self.each_region(places, |_, region, references, composites| {
            let pins = references.iter().filter_map(|chunk| pinned.get(&(region.0, *chunk)));
            let pins: BTreeSet<u32> = pins.copied().collect();
            if !pins.is_empty() {
                pins.iter().for_each(|container| {
                    pinning.entry(*container).or_default().insert(regions.len());
                });
                let len = composites.iter().map(|chunk| u64::from(chunk.chunk_len)).sum();
                regions.push((region, len));
            }
            Ok(())
        })?;
        let mut dissolved_bytes = 0;
        for (number, container) in (0..).zip(&places.containers) {
            let Some(pinning) = pinning.get(&number) else { continue };
            let left = pinning.iter().map(|index| regions[*index]);
            let left: Vec<_> = left.filter(|(region, _)| !dissolved.contains(region)).collect();
            // As they are, not compressed: so it is worth it in any case.
            let cost: u64 = left.iter().map(|(_, len)| len).sum();
            if cost < u64::from(container.record.stored_len)
                && dissolved_bytes + cost <= self.dissolved_bytes_max
            {
                dissolved_bytes += cost;
                dissolved.extend(left.into_iter().map(|(region, _)| region));
            }
        }
        Ok(dissolved)
    }

    fn try_find(&self, needs: &Sorted<NEED_LEN>, references: &Sorted<NEED_LEN>) -> Result<Places> {
        let hints = self.index.hints(self.adopted.clone());
        let containers = hints.containers().iter().map(|record| {
            let name = (record.class, record.name);
            Container {
                record: *record,
                is_there: self.there.get(&name) == Some(&u64::from(record.stored_len)),
                is_condemned: self.condemned.contains(&name),
                hint_count: 0,
                hint_sum: 0,
                kept_count: 0,
                pinned_count: 0,
            }
        });
        let mut join = Join {
            containers: containers.collect(),
            damaged: self.damaged,
            kept: Sorter::new(self.folder, SORTER_BYTES),
            doubtful: Sorter::new(self.folder, SORTER_BYTES / 4),
            places: Vec::new(),
            needs: Vec::new(),
        };
        let mut needs = Both::new(needs, references)?;
        let mut next_need = needs.next()?;
        let mut last = None;
        hints.each(|hint, container| {
            if last != Some(hint) {
                join.end_of_hint(last.unwrap_or(0))?;
                (self.stop_if_cancelled)()?;
                // What is needed and has no hint at all comes first.
                while let Some(need) = next_need
                    && Need::decode(&need).fingerprint.hint() <= hint
                {
                    if Need::decode(&need).fingerprint.hint() < hint {
                        join.doubtful.push(placed(NO_CONTAINER, &need))?;
                    } else {
                        join.needs.push(need);
                    }
                    next_need = needs.next()?;
                }
                last = Some(hint);
            }
            join.places.push(container);
            Ok(())
        })?;
        join.end_of_hint(last.unwrap_or(0))?;
        while let Some(need) = next_need {
            join.doubtful.push(placed(NO_CONTAINER, &need))?;
            next_need = needs.next()?;
        }
        self.settle(join)
    }

    /// Asks directories where hints leave a doubt.
    fn settle(&self, join: Join<'_>) -> Result<Places> {
        let Join { mut containers, damaged, mut kept, doubtful, .. } = join;
        let numbers: HashMap<(Class, PartName), u32> = containers
            .iter()
            .zip(0..)
            .map(|(container, number)| (container.name(), number))
            .collect();
        let (mut going, mut lost, mut lost_count) = (Vec::new(), Vec::new(), 0);
        let mut open: Option<(u32, HashSet<Fingerprint>)> = None;
        let mut met = HashMap::new();
        let doubtful = doubtful.finish();
        let mut doubtful = doubtful.iter()?;
        while let Some(record) = doubtful.next()? {
            (self.stop_if_cancelled)()?;
            let (first, bytes) = unplace(&record);
            let need = Need::decode(&bytes);
            let first_name = containers.get(first as usize).map(Container::name);
            if let Some(container) = containers.get(first as usize) {
                if open.as_ref().is_none_or(|(number, _)| *number != first) {
                    open = Some((first, self.wholes_of(&container.record)?));
                }
                if open.as_ref().is_some_and(|(_, wholes)| wholes.contains(&need.fingerprint)) {
                    kept.push(placed(first, &bytes))?;
                    continue;
                }
            }
            let is_sound = |location: &Location| {
                let (class, container) = name_of(location);
                let fingerprint = location.chunk().fingerprint;
                !damaged.contains(&Damage { class, container, fingerprint })
            };
            let is_usable = |location: &Location| {
                let number = numbers.get(&name_of(location));
                number.is_some_and(|number| containers[*number as usize].is_usable())
            };
            let is_there = |location: &Location| self.there.contains_key(&name_of(location));
            let mut looked = |accepts: &dyn Fn(&Location) -> bool| {
                self.look_for(&need, first_name, accepts, &mut met)
            };
            // Better a place that is sound than one that a check has found broken, even if the
            // sound one is going: then it is stored again.
            let sound = looked(&|location| is_usable(location) && is_sound(location))?;
            let is_going = sound.is_none()
                && looked(&|location| is_there(location) && is_sound(location))?.is_some();
            let place = if sound.is_some() || is_going { sound } else { looked(&is_usable)? };
            if let Some(number) = place.and_then(|name| numbers.get(&name)) {
                kept.push(placed(*number, &bytes))?;
            } else if is_going || looked(&is_there)?.is_some() {
                going.push(need);
            } else {
                lost_count += 1;
                if lost.len() < NAMED_MAX {
                    lost.push((need.class, need.fingerprint));
                }
            }
        }
        let kept = kept.finish();
        let mut iter = kept.iter()?;
        while let Some(record) = iter.next()? {
            let (number, need) = unplace(&record);
            let container = &mut containers[number as usize];
            container.kept_count += 1;
            container.pinned_count += u32::from(!Need::decode(&need).is_reached);
        }
        let (dissolved, dissolved_bytes) = (Vec::new(), 0);
        Ok(Places { containers, kept, going, dissolved, dissolved_bytes, lost, lost_count })
    }

    /// The chunks of which a container has wholes; none where its directory cannot be read.
    fn wholes_of(&self, container: &ContainerRecord) -> Result<HashSet<Fingerprint>> {
        match load_directory(self.repository, container) {
            Ok(directory) => {
                let need = |fingerprint| Need {
                    class: container.class,
                    fingerprint,
                    is_whole: true,
                    is_reached: false,
                };
                let chunks = directory.chunks.iter();
                let wholes = chunks.filter(|chunk| need(chunk.fingerprint).is_met_by(chunk.form));
                Ok(wholes.map(|chunk| chunk.fingerprint).collect())
            }
            Err(error) => absent(error).map(|()| HashSet::new()),
        }
    }

    /// A container that meets the need, by its directory, and that `accepts` agrees to: one that has a
    /// whole; else, where that will do, a composite of which all is there to which it refers. Others
    /// lie about unreached in containers that stay, and what they refer to may be long gone. If there
    /// is a choice of composites, `first`: so what was stored together stays together.
    fn look_for(
        &self,
        need: &Need,
        first: Option<(Class, PartName)>,
        accepts: &dyn Fn(&Location) -> bool,
        met: &mut HashMap<Region, bool>,
    ) -> Result<Option<(Class, PartName)>> {
        let Need { class, fingerprint, .. } = need;
        let whole = self.look(*class, fingerprint, |location| {
            Need { is_whole: true, ..*need }.is_met_by(location.chunk().form) && accepts(location)
        })?;
        if whole.is_some() || need.is_whole {
            return Ok(whole.as_ref().map(name_of));
        }
        let mut tried: Vec<((Class, PartName), usize)> = Vec::new();
        for only in [first, None] {
            loop {
                let found = self.look(*class, fingerprint, |location| {
                    let name = name_of(location);
                    only.is_none_or(|only| only == name)
                        && !location.is_whole()
                        && !tried.contains(&(name, location.chunk))
                        && accepts(location)
                })?;
                let Some(found) = found else { break };
                if self.is_met(&found, met)? {
                    return Ok(Some(name_of(&found)));
                }
                tried.push((name_of(&found), found.chunk));
            }
        }
        Ok(None)
    }

    /// Whether all to which composites of this region refer is there.
    fn is_met(&self, composite: &Location, met: &mut HashMap<Region, bool>) -> Result<bool> {
        let (class, part) = name_of(composite);
        let region = (class, part, composite.chunk().region);
        if let Some(is_met) = met.get(&region) {
            return Ok(*is_met);
        }
        let mut is_met = true;
        for reference in &composite.region().references {
            let found = self.look(class, reference, |location| {
                location.is_whole() && self.there.contains_key(&name_of(location))
            })?;
            if found.is_none() {
                is_met = false;
                break;
            }
        }
        met.insert(region, is_met);
        Ok(is_met)
    }

    /// A place of the chunk, by a directory, that `accepts` agrees to.
    fn look(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        accepts: impl Fn(&Location) -> bool,
    ) -> Result<Option<Location>> {
        match self.index.find_where(class, fingerprint, Scope::Read, &accepts) {
            Ok(Some(location)) => return Ok(Some(location)),
            Ok(None) => {}
            Err(error) => absent(error)?,
        }
        let hint = fingerprint.hint();
        let start = self.adopted.hints.partition_point(|(each, _)| *each < hint);
        let same = self.adopted.hints[start..].iter().take_while(|(each, _)| *each == hint);
        for (_, number) in same {
            let record = self.adopted.containers[*number as usize];
            if record.class != class {
                continue;
            }
            let loaded = match Loaded::at(self.repository, record) {
                Ok(loaded) => Arc::new(loaded),
                Err(error) => {
                    absent(error)?;
                    continue;
                }
            };
            for (chunk, each) in loaded.directory.chunks.iter().enumerate() {
                let location = Location { loaded: loaded.clone(), chunk };
                if each.fingerprint == *fingerprint && accepts(&location) {
                    return Ok(Some(location));
                }
            }
        }
        Ok(None)
    }
}

fn name_of(location: &Location) -> (Class, PartName) {
    (location.loaded.container.class, location.loaded.container.name)
}

/// Takes what cannot be read for absent; a medium that fails is another matter.
fn absent(error: Error) -> Result<()> {
    if matches!(error.kind(), Kind::Corrupt | Kind::Missing) { Ok(()) } else { Err(error) }
}

/// Needs and hints side by side.
struct Join<'a> {
    containers: Vec<Container>,
    damaged: &'a HashSet<Damage>,
    kept: Sorter<PLACED_LEN>,
    doubtful: Sorter<PLACED_LEN>,
    /// Of the hint at hand: the containers to which it leads, and the needs that begin with it.
    places: Vec<u32>,
    needs: Vec<[u8; NEED_LEN]>,
}

impl Join<'_> {
    fn end_of_hint(&mut self, hint: u64) -> Result<()> {
        merge(&mut self.needs);
        self.places.sort_unstable();
        self.places.dedup();
        for place in &self.places {
            let container = &mut self.containers[*place as usize];
            container.hint_count += 1;
            container.hint_sum = container.hint_sum.wrapping_add(hint);
        }
        for need in &self.needs {
            let Need { class, fingerprint, is_whole: needs_whole, .. } = Need::decode(need);
            let of_class = || {
                let all =
                    self.places.iter().map(|place| (*place, &self.containers[*place as usize]));
                all.filter(|(_, container)| container.record.class == class)
            };
            let is_sound = |container: &Container| {
                let container = container.record.name;
                !self.damaged.contains(&Damage { class, container, fingerprint })
            };
            // Of several the least name: so all that was stored twice stays together, or goes.
            let first = of_class()
                .filter(|(_, container)| container.is_usable() && is_sound(container))
                .min_by_key(|(_, container)| container.record.name)
                .map_or(NO_CONTAINER, |(place, _)| place);
            // A hint does not tell the form.
            let may_be_composite =
                |(_, container): (u32, &Container)| needs_whole && container.record.has_composites;
            let is_clear = self.needs.len() == 1
                && first != NO_CONTAINER
                && !of_class().any(may_be_composite)
                && of_class().filter(|(_, container)| container.is_there).count() == 1;
            let record = placed(first, need);
            if is_clear { self.kept.push(record)? } else { self.doubtful.push(record)? }
        }
        self.places.clear();
        self.needs.clear();
        Ok(())
    }
}

/// Of needs that begin with one hint, in order: who needs a whole of a chunk has what others need of it.
fn merge(needs: &mut Vec<[u8; NEED_LEN]>) {
    if needs.len() < 2 {
        return;
    }
    let mut merged: Vec<[u8; NEED_LEN]> = Vec::with_capacity(needs.len());
    for need in needs.drain(..) {
        let each = Need::decode(&need);
        let any = Need { is_whole: false, ..each }.encode();
        match merged.iter_mut().find(|before| each.is_whole && **before == any) {
            Some(before) => *before = Need { is_reached: true, ..each }.encode(),
            None => merged.push(need),
        }
    }
    *needs = merged;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::environment::System;
    use crate::media::Memory;
    use crate::name::TicketId;
    use crate::repository::InitOptions;
    use crate::seal::{Suite, Unlock};
    use crate::view::View;

    const CHUNKS_OF_CONTAINER: u64 = 250;
    const CHUNKS_OF_SEGMENT: u64 = 50_000;

    fn fingerprint(number: u64) -> Fingerprint {
        let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
        fingerprint.0.copy_from_slice(&SplitMix64::bytes(number, FINGERPRINT_LEN));
        fingerprint
    }

    fn container(number: u64) -> ContainerRecord {
        let count = u32::try_from(number).expect("few containers");
        ContainerRecord {
            name: PartName { ticket: TicketId([1; 12]), count },
            class: Class::Data,
            has_composites: false,
            stored_len: 1000,
            directory_offset: 100,
            directory_len: 100,
        }
    }

    /// The most memory that this process has had, in KiB; 0 where the system does not tell.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// `CUTPOINT_LOOKUPS=10000000` looks up that many; what memory it took is printed. Two of three
    /// chunks are needed, and of every tenth container none.
    #[test]
    fn needs_find_their_places() {
        let chunks = std::env::var("CUTPOINT_LOOKUPS").ok().and_then(|text| text.parse().ok());
        let chunks: u64 = chunks.unwrap_or(100_000);
        let folder = tempfile::tempdir().expect("a folder");
        let options = InitOptions {
            suite: Suite::None,
            cut: "fixed".to_owned(),
            region_size: 1 << 17,
            container_size: 1 << 24,
            compression_level: 1,
            composites: false,
            parity_percent: 0,
        };
        let media = Arc::new(Memory::new());
        let repository = Repository::init(media, Arc::new(System), &Unlock::Nothing, &options);
        let repository = repository.expect("it is made").with_cache(folder.path().to_owned());
        let repository = Arc::new(repository);
        let index = Index::open(repository.clone(), &View::default()).expect("it opens");
        let mut there = HashMap::new();
        for (number, first) in
            (0..).zip((0..chunks).step_by(usize::try_from(CHUNKS_OF_SEGMENT).expect("it fits")))
        {
            let mut segment = Segment::default();
            for chunk in first..chunks.min(first + CHUNKS_OF_SEGMENT) {
                if chunk % CHUNKS_OF_CONTAINER == 0 {
                    let record = container(chunk / CHUNKS_OF_CONTAINER);
                    there.insert((record.class, record.name), u64::from(record.stored_len));
                    segment.containers.push(record);
                }
                let number = u32::try_from(segment.containers.len() - 1).expect("few containers");
                segment.hints.push((fingerprint(chunk).hint(), number));
            }
            segment.hints.sort_unstable();
            let name = PartName { ticket: TicketId([2; 12]), count: number };
            index.add(name, &segment).expect("it is taken up");
        }
        let is_needed = |chunk: &u64| {
            !chunk.is_multiple_of(3) && !(chunk / CHUNKS_OF_CONTAINER).is_multiple_of(10)
        };
        let temporary = folder.path().join("tmp");
        let mut needs = Needs::new(Some(&temporary));
        // In another order than they lie, and some of them twice.
        for chunk in (0..chunks).rev().chain(0..chunks / 7).filter(is_needed) {
            needs.push(Class::Data, &fingerprint(chunk)).expect("a temporary file");
        }
        let needs = needs.finish();
        let (condemned, damaged, adopted) = (HashSet::new(), HashSet::new(), Segment::default());
        let lookup = Lookup {
            repository: &repository,
            index: &index,
            condemned: &condemned,
            damaged: &damaged,
            adopted: &adopted,
            there: &there,
            folder: Some(&temporary),
            dissolved_bytes_max: u64::MAX,
            stop_if_cancelled: &|| Ok(()),
        };
        let places = lookup.find(&needs).expect("all is found");
        assert_eq!((places.lost_count, places.going.len()), (0, 0), "all is there");
        let mut kept = places.kept().expect("it is read");
        for (number, place) in (0..).zip(&places.containers) {
            let first = u64::from(place.record.name.count) * CHUNKS_OF_CONTAINER;
            let chunks = first..chunks.min(first + CHUNKS_OF_CONTAINER);
            assert_eq!(u64::from(place.hint_count), chunks.end - chunks.start, "{place:?}");
            let expected: HashSet<Fingerprint> =
                chunks.filter(is_needed).map(fingerprint).collect();
            assert_eq!(place.kept_count as usize, expected.len(), "{place:?}");
            let found: HashSet<Fingerprint> =
                kept.of(number).expect("it is read").into_keys().collect();
            assert_eq!(found, expected, "{place:?}");
        }
        kept.end().expect("it is whole");
        println!("{chunks} chunks: at most {} MiB in this process", peak_kib() / 1024);
    }
}
