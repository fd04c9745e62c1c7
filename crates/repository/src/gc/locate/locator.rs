//! The lookup of needed chunks.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use cutpoint_storage::{Error, Kind, Result};

use super::container::Container;
use super::join::Join;
use super::live_set::{Both, LIVE_CHUNK_LEN, LiveChunk, LiveSet, SORTER_BYTES};
use super::weigh::{Region, Weighed};
use super::{NO_CONTAINER, Placement, placed, unplace};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::{ContainerRecord, Segment};
use crate::index::{Index, Loaded, Location, Scope, load_toc};
use crate::repo::repository::Repository;
use crate::rules;
use crate::util::extsort::{ExternalSort, SortedRecords};

/// Maximum number of lost chunks that are named. Further ones are only counted.
const NAMED_MAX: usize = 1000;
/// Maximum number of repairs of the cached index before its error is returned.
const REPLACED_MAX: u32 = 32;
/// Maximum number of regions for which it is remembered whether all their references exist: 5 MB.
const MET_MAX: usize = 64 * 1024;

/// Looks up a place for each needed chunk.
pub(crate) struct Locator<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) index: &'a Index,
    /// The containers in which nothing stays.
    pub(crate) condemned: &'a HashSet<(Class, PartName)>,
    /// The records that checks have found damaged, which are chosen last.
    pub(crate) damaged: &'a HashSet<Damage>,
    /// Containers that no segment names, and their hints.
    pub(crate) orphans: &'a Segment,
    /// The containers that exist.
    pub(crate) there: &'a HashMap<(Class, PartName), u64>,
    /// The folder for temporary files.
    pub(crate) folder: Option<&'a Path>,
    /// Maximum total size of delta chunks that may be stored again as full chunks, in bytes.
    pub(crate) inlined_bytes_max: u64,
    /// Returns an error if the operation was cancelled. Called often.
    pub(crate) stop_if_cancelled: &'a dyn Fn() -> Result<()>,
}

impl Locator<'_> {
    /// Finds a place for each of `live_set`, and for the references of the delta chunks that stay for
    /// them.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` or `Missing` if the references of a container's delta chunks cannot be read,
    /// and any error of the storage or of a temporary file. A lost chunk is not an error.
    pub(crate) fn find(&self, live_set: &SortedRecords<LIVE_CHUNK_LEN>) -> Result<Placement> {
        let mut replaced_count = 0;
        let mut is_rebuilt = false;
        loop {
            match self.find_weighed(live_set) {
                // A damaged cache must not be taken for a loss.
                Ok(found) if found.lost_count > 0 && !is_rebuilt => {
                    is_rebuilt = true;
                    if !self.index.rebuild()? {
                        return Ok(found);
                    }
                }
                // A cached part of the index was damaged, and has been rebuilt.
                Err(error) if error.kind() == Kind::Conflict && replaced_count < REPLACED_MAX => {
                    replaced_count += 1;
                }
                found => return found,
            }
        }
    }

    fn find_weighed(&self, live_set: &SortedRecords<LIVE_CHUNK_LEN>) -> Result<Placement> {
        if !rules::must_mark_references() {
            return self.try_find(live_set, &LiveSet::new(None).finish());
        }
        let placement = self.find_referred(live_set, &HashSet::new())?;
        let Weighed { inlined, released_bytes } = self.weigh(&placement)?;
        if inlined.is_empty() {
            return Ok(placement);
        }
        Ok(Placement { released_bytes, ..self.find_referred(live_set, &inlined)? })
    }

    /// Finds a place for each need, and for the references of staying delta chunks, except for
    /// delta chunks in `inlined` regions, which are to be stored again as full chunks.
    ///
    /// One more round suffices for the references, because they are met by full chunks, which need
    /// nothing else. There is more to look up only if tables of contents answer differently the second
    /// time. The loop ends, because a reference that was found to be needed remains so, and the
    /// number of references is finite.
    fn find_referred(
        &self,
        live_set: &SortedRecords<LIVE_CHUNK_LEN>,
        inlined: &HashSet<Region>,
    ) -> Result<Placement> {
        let mut references = LiveSet::new(None).finish();
        let mut count = 0;
        loop {
            let mut placement = self.try_find(live_set, &references)?;
            if placement.lost_count > 0 {
                return Ok(placement);
            }
            let mut found = self.references(&placement, inlined)?;
            let mut iter = references.iter()?;
            while let Some(live) = iter.next()? {
                found.live_set.sorter.push(live)?;
            }
            let all = found.live_set.finish();
            let mut all_count = 0_u64;
            let mut iter = all.iter()?;
            while iter.next()?.is_some() {
                all_count += 1;
            }
            if all_count == count {
                if !found.inlined.is_empty() {
                    placement.dissolve(&found.inlined, self.folder)?;
                    placement.inlined_bytes = found.inlined_bytes;
                }
                return Ok(placement);
            }
            (references, count) = (all, all_count);
        }
    }

    fn try_find(
        &self,
        live_set: &SortedRecords<LIVE_CHUNK_LEN>,
        references: &SortedRecords<LIVE_CHUNK_LEN>,
    ) -> Result<Placement> {
        let hints = self.index.hints(self.orphans.clone());
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
            kept: ExternalSort::new(self.folder, SORTER_BYTES),
            ambiguous: ExternalSort::new(self.folder, SORTER_BYTES / 4),
            placement: Vec::new(),
            live_set: Vec::new(),
        };
        let mut live_set = Both::new(live_set, references)?;
        let mut next_live = live_set.next()?;
        let mut last = None;
        hints.each(|hint, container| {
            if last != Some(hint) {
                join.end_of_hint(last.unwrap_or(0))?;
                (self.stop_if_cancelled)()?;
                // Needs without any hint come first.
                while let Some(live) = next_live
                    && LiveChunk::decode(&live).fingerprint.hint() <= hint
                {
                    if LiveChunk::decode(&live).fingerprint.hint() < hint {
                        join.ambiguous.push(placed(NO_CONTAINER, &live))?;
                    } else {
                        join.live_set.push(live);
                    }
                    next_live = live_set.next()?;
                }
                last = Some(hint);
            }
            join.placement.push(container);
            Ok(())
        })?;
        join.end_of_hint(last.unwrap_or(0))?;
        while let Some(live) = next_live {
            join.ambiguous.push(placed(NO_CONTAINER, &live))?;
            next_live = live_set.next()?;
        }
        self.resolve(join)
    }

    /// Resolves by tables of contents what hints leave ambiguous.
    fn resolve(&self, join: Join<'_>) -> Result<Placement> {
        let Join { mut containers, damaged, mut kept, ambiguous, .. } = join;
        let numbers: HashMap<(Class, PartName), u32> = containers
            .iter()
            .zip(0..)
            .map(|(container, number)| (container.name(), number))
            .collect();
        let (mut only_condemned, mut lost, mut lost_count) = (Vec::new(), Vec::new(), 0);
        let mut open: Option<(u32, HashSet<Fingerprint>)> = None;
        let mut met = HashMap::new();
        let ambiguous = ambiguous.finish();
        let mut ambiguous = ambiguous.iter()?;
        while let Some(record) = ambiguous.next()? {
            (self.stop_if_cancelled)()?;
            let (first, bytes) = unplace(&record);
            let live = LiveChunk::decode(&bytes);
            let first_name = containers.get(first as usize).map(Container::name);
            if let Some(container) = containers.get(first as usize) {
                if open.as_ref().is_none_or(|(number, _)| *number != first) {
                    open = Some((first, self.full_chunks_of(&container.record)?));
                }
                if open
                    .as_ref()
                    .is_some_and(|(_, full_chunks)| full_chunks.contains(&live.fingerprint))
                {
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
                self.look_for(&live, first_name, accepts, &mut met)
            };
            // A sound place is preferred to one that a check has found damaged, even if the sound
            // one is condemned: its chunk is then stored again.
            let sound = looked(&|location| is_usable(location) && is_sound(location))?;
            let is_condemned = sound.is_none()
                && looked(&|location| is_there(location) && is_sound(location))?.is_some();
            let place = if sound.is_some() || is_condemned { sound } else { looked(&is_usable)? };
            if let Some(number) = place.and_then(|name| numbers.get(&name)) {
                kept.push(placed(*number, &bytes))?;
            } else if is_condemned || looked(&is_there)?.is_some() {
                only_condemned.push(live);
            } else {
                lost_count += 1;
                if lost.len() < NAMED_MAX {
                    lost.push((live.class, live.fingerprint));
                }
            }
        }
        let kept = kept.finish();
        let mut iter = kept.iter()?;
        while let Some(record) = iter.next()? {
            let (number, live) = unplace(&record);
            let container = &mut containers[number as usize];
            container.kept_count += 1;
            container.pinned_count += u32::from(!LiveChunk::decode(&live).is_reached);
        }
        Ok(Placement {
            containers,
            kept,
            only_condemned,
            inlined: Vec::new(),
            inlined_bytes: 0,
            released_bytes: 0,
            lost,
            lost_count,
        })
    }

    /// Returns the chunks that a container has as full chunks, or none if its table of contents cannot be read.
    fn full_chunks_of(&self, container: &ContainerRecord) -> Result<HashSet<Fingerprint>> {
        match load_toc(self.repository, container) {
            Ok(toc) => {
                let live = |fingerprint| LiveChunk {
                    class: container.class,
                    fingerprint,
                    is_full: true,
                    is_reached: false,
                };
                let chunks = toc.chunks.iter();
                let full_chunks =
                    chunks.filter(|chunk| live(chunk.fingerprint).is_met_by(chunk.form));
                Ok(full_chunks.map(|chunk| chunk.fingerprint).collect())
            }
            Err(error) => absent(error).map(|()| HashSet::new()),
        }
    }

    /// Returns a container that meets the need by its table of contents and that `accepts` admits. A
    /// container with a full chunk is preferred. If a delta chunk suffices, its references must all exist,
    /// because unreached delta chunks in staying containers may have lost theirs long ago. Among
    /// several delta chunks, the one in `first` is preferred, so that what was stored together stays
    /// together.
    fn look_for(
        &self,
        live: &LiveChunk,
        first: Option<(Class, PartName)>,
        accepts: &dyn Fn(&Location) -> bool,
        met: &mut HashMap<Region, bool>,
    ) -> Result<Option<(Class, PartName)>> {
        let LiveChunk { class, fingerprint, .. } = live;
        let full = self.look(*class, fingerprint, |location| {
            let full = LiveChunk { is_full: true, ..*live };
            Ok(full.is_met_by(location.chunk().form) && accepts(location))
        })?;
        if full.is_some() || live.is_full {
            return Ok(full.as_ref().map(name_of));
        }
        for only in [first, None] {
            let found = self.look(*class, fingerprint, |location| {
                Ok(only.is_none_or(|only| only == name_of(location))
                    && !location.is_full()
                    && accepts(location)
                    && self.is_met(location, met)?)
            })?;
            if found.is_some() {
                return Ok(found.as_ref().map(name_of));
            }
        }
        Ok(None)
    }

    /// Returns `true` if everything exists to which delta chunks of this region refer.
    fn is_met(&self, delta_chunk: &Location, met: &mut HashMap<Region, bool>) -> Result<bool> {
        let (class, part) = name_of(delta_chunk);
        let region = (class, part, delta_chunk.chunk().region);
        if let Some(is_met) = met.get(&region) {
            return Ok(*is_met);
        }
        let mut is_met = true;
        for reference in delta_chunk.references() {
            let found = self.look(class, reference, |location| {
                Ok(location.is_full() && self.there.contains_key(&name_of(location)))
            })?;
            if found.is_none() {
                is_met = false;
                break;
            }
        }
        if met.len() >= MET_MAX {
            met.clear();
        }
        met.insert(region, is_met);
        Ok(is_met)
    }

    /// Returns a place of the chunk, by a table of contents, that `accepts` admits.
    fn look(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        mut accepts: impl FnMut(&Location) -> Result<bool>,
    ) -> Result<Option<Location>> {
        match self.index.find_where(class, fingerprint, Scope::Read, &mut accepts) {
            Ok(Some(location)) => return Ok(Some(location)),
            Ok(None) => {}
            Err(error) => absent(error)?,
        }
        let hint = fingerprint.hint();
        let start = self.orphans.hints.partition_point(|(each, _)| *each < hint);
        let same = self.orphans.hints[start..].iter().take_while(|(each, _)| *each == hint);
        for (_, number) in same {
            let record = self.orphans.containers[*number as usize];
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
            for (chunk, each) in loaded.toc.chunks.iter().enumerate() {
                let location = Location::new(&loaded, chunk);
                if each.fingerprint == *fingerprint && accepts(&location)? {
                    return Ok(Some(location));
                }
            }
        }
        Ok(None)
    }
}

fn name_of(location: &Location) -> (Class, PartName) {
    (location.container.class, location.container.name)
}

/// Treats an unreadable object as absent. An error of the storage is returned.
fn absent(error: Error) -> Result<()> {
    if error.is_loss() { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cutpoint_testing::SplitMix64;

    use super::*;
    use crate::crypto::{CipherSuite, Unlock};
    use crate::format::fingerprint::FINGERPRINT_LEN;
    use crate::format::names::TicketId;
    use crate::format::ticket::Purpose;
    use crate::gc::locate::list_containers;
    use crate::repo::repository::InitOptions;
    use crate::repo::view::View;
    use crate::write::{Inline, Writer};
    use cutpoint_storage::System;
    use cutpoint_storage::{Fault, Faulty, Memory, Storage};

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
            has_delta_chunks: false,
            stored_len: 1000,
            toc_offset: 100,
            toc_len: 100,
        }
    }

    /// Returns the peak memory of this process in KiB, or 0 if the system does not tell.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Set `CUTPOINT_LOOKUPS=10000000` to look up that many chunks; the memory that it took is
    /// printed. Two of three chunks are needed, and none of every tenth container.
    #[test]
    fn needs_find_their_places() {
        let chunks = std::env::var("CUTPOINT_LOOKUPS").ok().and_then(|text| text.parse().ok());
        let chunks: u64 = chunks.unwrap_or(100_000);
        let folder = tempfile::tempdir().expect("a folder");
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 1 << 17,
            container_size: 1 << 24,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
        };
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage, Arc::new(System), &Unlock::Nothing, &options);
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
        let mut live_set = LiveSet::new(Some(&temporary));
        // In another order than they are stored, and some of them twice.
        for chunk in (0..chunks).rev().chain(0..chunks / 7).filter(is_needed) {
            live_set.push(Class::Data, &fingerprint(chunk)).expect("a temporary file");
        }
        let live_set = live_set.finish();
        let (condemned, damaged, orphans) = (HashSet::new(), HashSet::new(), Segment::default());
        let locator = Locator {
            repository: &repository,
            index: &index,
            condemned: &condemned,
            damaged: &damaged,
            orphans: &orphans,
            there: &there,
            folder: Some(&temporary),
            inlined_bytes_max: u64::MAX,
            stop_if_cancelled: &|| Ok(()),
        };
        let placement = locator.find(&live_set).expect("all is found");
        assert_eq!((placement.lost_count, placement.only_condemned.len()), (0, 0), "all is there");
        let mut kept = placement.kept().expect("it is read");
        for (number, place) in (0..).zip(&placement.containers) {
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

    /// Containers that no segment names are searched by their own hints. A failing storage is
    /// reported, and not taken for a loss.
    #[test]
    fn adopted_containers_are_looked_up() {
        let options = InitOptions {
            suite: CipherSuite::None,
            cut: "fixed".to_owned(),
            region_size: 1 << 14,
            container_size: 1 << 22,
            compression_level: 1,
            delta_chunks: false,
            parity_percent: 0,
        };
        let storage = Arc::new(Memory::new());
        Repository::init(storage.clone(), Arc::new(System), &Unlock::Nothing, &options)
            .expect("it is made");
        let open = |storage: Arc<dyn Storage>| {
            let opened = Repository::open(storage, Arc::new(System), &Unlock::Nothing);
            Arc::new(opened.expect("it opens"))
        };
        let repository = open(storage.clone());
        let chunks: Vec<Vec<u8>> = (0..20).map(|seed| SplitMix64::bytes(seed, 1000)).collect();
        let mut orphans = Segment::default();
        let mut stored = HashSet::new();
        for _ in 0..2 {
            let writer = Writer::begin(repository.clone(), Purpose::Backup).expect("it begins");
            let ticket = writer.ticket();
            let mut inline = Inline::restart(writer).expect("it begins");
            for chunk in &chunks {
                inline.store_data(chunk).expect("it stores");
            }
            inline.publish().expect("it publishes");
            stored.insert((Class::Data, PartName { ticket, count: 0 }));
        }
        let there = list_containers(&repository).expect("it lists");
        assert_eq!(there.keys().copied().collect::<HashSet<_>>(), stored, "one of each");
        for ((class, part), stored_len) in &there {
            let loaded = Loaded::read(&repository, *class, *part, *stored_len).expect("it is well");
            orphans.append(&loaded.segment());
        }
        orphans.hints.sort_unstable();
        let (condemned, damaged) = (HashSet::new(), HashSet::new());
        let look = |repository: &Arc<Repository>, class, fingerprint: &Fingerprint, agrees| {
            let index = Index::open(repository.clone(), &View::default()).expect("it opens");
            let locator = Locator {
                repository,
                index: &index,
                condemned: &condemned,
                damaged: &damaged,
                orphans: &orphans,
                there: &there,
                folder: None,
                inlined_bytes_max: 0,
                stop_if_cancelled: &|| Ok(()),
            };
            let mut offered = HashSet::new();
            let found = locator.look(class, fingerprint, |location| {
                assert_eq!(location.chunk().fingerprint, *fingerprint, "of that chunk");
                offered.insert(name_of(location));
                Ok(agrees)
            })?;
            assert!(found.as_ref().is_none_or(|found| offered == HashSet::from([name_of(found)])));
            Ok::<_, Error>((found.is_some(), offered))
        };
        let nothing = HashSet::new();
        for chunk in &chunks {
            let fingerprint = repository.keys().fingerprint(Class::Data, chunk);
            let look = |class, agrees| look(&repository, class, &fingerprint, agrees);
            assert!(look(Class::Data, true).expect("it looks").0, "it is found");
            assert_eq!(look(Class::Data, false).expect("it looks"), (false, stored.clone()));
            let other = look(Class::Meta, true).expect("it looks");
            assert_eq!(other, (false, nothing.clone()), "of another class");
        }
        let stranger = repository.keys().fingerprint(Class::Data, b"a stranger");
        let found = look(&repository, Class::Data, &stranger, true).expect("it looks");
        assert_eq!(found, (false, nothing), "nobody has it");
        // The first read after those that opening makes.
        let counting = Arc::new(Faulty::new(storage.clone(), Fault::None));
        open(counting.clone());
        let fault = Fault::FailsAt(counting.calls());
        let failing = open(Arc::new(Faulty::new(storage, fault)));
        let fingerprint = repository.keys().fingerprint(Class::Data, &chunks[0]);
        let error = look(&failing, Class::Data, &fingerprint, true).expect_err("it fails");
        assert_eq!(error.kind(), Kind::Storage, "{error}");
    }
}
