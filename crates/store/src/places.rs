//! Where what is needed lies: needs and hints, both sorted, are gone through together.
//!
//! Hints only narrow. Where one container alone may have what is needed, that one stays. Wherever
//! there is a choice, directories decide, by all 32 bytes; where not even they help, nothing goes.
//! And nothing goes whose directory has other chunks than hints say.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, FINGERPRINT_LEN, Fingerprint};
use crate::format::commit::Damage;
use crate::format::directory::Directory;
use crate::format::segment::{ContainerRecord, Segment};
use crate::index::{Index, Scope, load_directory};
use crate::name::{ObjectKind, ObjectName, PartName};
use crate::repository::Repository;
use crate::sorted::{Iter, Sorted, Sorter};

/// A need as a record: the fingerprint, then its class.
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

/// What is needed: chunks, each once.
pub(crate) struct Needs {
    sorter: Sorter<NEED_LEN>,
}

impl Needs {
    /// With files in `folder`, if there is one.
    pub(crate) fn new(folder: Option<&Path>) -> Needs {
        Needs { sorter: Sorter::new(folder, SORTER_BYTES) }
    }

    /// A chunk is needed.
    ///
    /// # Errors
    ///
    /// `Full` or `Media`, of a temporary file.
    pub(crate) fn push(&mut self, class: Class, fingerprint: &Fingerprint) -> Result<()> {
        self.sorter.push(encode(class, fingerprint))
    }

    /// All of them, sorted by fingerprint.
    pub(crate) fn finish(self) -> Sorted<NEED_LEN> {
        self.sorter.finish()
    }
}

fn encode(class: Class, fingerprint: &Fingerprint) -> [u8; NEED_LEN] {
    let mut need = [0; NEED_LEN];
    need[..FINGERPRINT_LEN].copy_from_slice(&fingerprint.0);
    need[FINGERPRINT_LEN] = u8::from(class == Class::Meta);
    need
}

fn decode(need: &[u8; NEED_LEN]) -> (Class, Fingerprint) {
    let mut fingerprint = Fingerprint([0; FINGERPRINT_LEN]);
    fingerprint.0.copy_from_slice(&need[..FINGERPRINT_LEN]);
    let class = if need[FINGERPRINT_LEN] == 1 { Class::Meta } else { Class::Data };
    (class, fingerprint)
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
    pub(crate) going: Vec<(Class, Fingerprint)>,
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
}

impl Kept<'_> {
    /// The chunks that stay in the container of number `container`. Numbers must rise.
    ///
    /// # Errors
    ///
    /// As [`Places::kept`].
    pub(crate) fn of(&mut self, container: u32) -> Result<HashSet<Fingerprint>> {
        let mut kept = HashSet::new();
        while let Some((number, need)) = self.next
            && number <= container
        {
            if number == container {
                kept.insert(decode(&need).1);
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
    /// Asked often.
    pub(crate) stop_if_cancelled: &'a dyn Fn() -> Result<()>,
}

impl Lookup<'_> {
    /// Finds a place for each of `needs`.
    ///
    /// # Errors
    ///
    /// As the medium, and of temporary files. What is lost is no error.
    pub(crate) fn find(&self, needs: &Sorted<NEED_LEN>) -> Result<Places> {
        let mut replaced_count = 0;
        let mut is_rebuilt = false;
        loop {
            match self.try_find(needs) {
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

    fn try_find(&self, needs: &Sorted<NEED_LEN>) -> Result<Places> {
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
        let mut needs = needs.iter()?;
        let mut next_need = needs.next()?;
        let mut last = None;
        hints.each(|hint, container| {
            if last != Some(hint) {
                join.end_of_hint(last.unwrap_or(0))?;
                (self.stop_if_cancelled)()?;
                // What is needed and has no hint at all comes first.
                while let Some(need) = next_need
                    && decode(&need).1.hint() <= hint
                {
                    if decode(&need).1.hint() < hint {
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
        let doubtful = doubtful.finish();
        let mut doubtful = doubtful.iter()?;
        while let Some(record) = doubtful.next()? {
            (self.stop_if_cancelled)()?;
            let (first, need) = unplace(&record);
            let (class, fingerprint) = decode(&need);
            if let Some(container) = containers.get(first as usize) {
                if open.as_ref().is_none_or(|(number, _)| *number != first) {
                    open = Some((first, self.chunks_of(&container.record)?));
                }
                if open.as_ref().is_some_and(|(_, chunks)| chunks.contains(&fingerprint)) {
                    kept.push(placed(first, &need))?;
                    continue;
                }
            }
            let is_whole = |container: (Class, PartName)| {
                let damage = Damage { class, container: container.1, fingerprint };
                !damaged.contains(&damage)
            };
            let usable = |name: &(Class, PartName)| {
                numbers.get(name).is_some_and(|number| containers[*number as usize].is_usable())
            };
            let there = |name: &(Class, PartName)| self.there.contains_key(name);
            // Better a place that is whole than one that a check has found broken, even if the
            // whole one is going: then it is stored again.
            let looked = |accepts: &dyn Fn(&(Class, PartName)) -> bool| {
                self.look(class, &fingerprint, accepts)
            };
            let whole = looked(&|name| usable(name) && is_whole(*name))?;
            let is_going =
                whole.is_none() && looked(&|name| there(name) && is_whole(*name))?.is_some();
            let place = if whole.is_some() || is_going { whole } else { looked(&usable)? };
            if let Some(number) = place.and_then(|name| numbers.get(&name)) {
                kept.push(placed(*number, &need))?;
            } else if is_going || looked(&there)?.is_some() {
                going.push((class, fingerprint));
            } else {
                lost_count += 1;
                if lost.len() < NAMED_MAX {
                    lost.push((class, fingerprint));
                }
            }
        }
        let kept = kept.finish();
        let mut iter = kept.iter()?;
        while let Some(record) = iter.next()? {
            containers[unplace(&record).0 as usize].kept_count += 1;
        }
        Ok(Places { containers, kept, going, lost, lost_count })
    }

    /// The chunks of a container; none where its directory cannot be read.
    fn chunks_of(&self, container: &ContainerRecord) -> Result<HashSet<Fingerprint>> {
        match load_directory(self.repository, container) {
            Ok(directory) => Ok(directory.chunks.iter().map(|chunk| chunk.fingerprint).collect()),
            Err(error) => absent(error).map(|()| HashSet::new()),
        }
    }

    /// A container that has the chunk, by its directory, and that `accepts` agrees to.
    fn look(
        &self,
        class: Class,
        fingerprint: &Fingerprint,
        accepts: impl Fn(&(Class, PartName)) -> bool,
    ) -> Result<Option<(Class, PartName)>> {
        let found = self.index.find_where(class, fingerprint, Scope::Read, |location| {
            accepts(&(class, location.loaded.container.name))
        });
        match found {
            Ok(Some(location)) => return Ok(Some((class, location.loaded.container.name))),
            Ok(None) => {}
            Err(error) => absent(error)?,
        }
        let hint = fingerprint.hint();
        let start = self.adopted.hints.partition_point(|(each, _)| *each < hint);
        let same = self.adopted.hints[start..].iter().take_while(|(each, _)| *each == hint);
        for (_, number) in same {
            let record = &self.adopted.containers[*number as usize];
            if record.class == class
                && accepts(&(class, record.name))
                && self.chunks_of(record)?.contains(fingerprint)
            {
                return Ok(Some((class, record.name)));
            }
        }
        Ok(None)
    }
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
        self.places.sort_unstable();
        self.places.dedup();
        for place in &self.places {
            let container = &mut self.containers[*place as usize];
            container.hint_count += 1;
            container.hint_sum = container.hint_sum.wrapping_add(hint);
        }
        for need in &self.needs {
            let (class, fingerprint) = decode(need);
            let of_class = || {
                let all =
                    self.places.iter().map(|place| (*place, &self.containers[*place as usize]));
                all.filter(|(_, container)| container.record.class == class)
            };
            let is_whole = |container: &Container| {
                let container = container.record.name;
                !self.damaged.contains(&Damage { class, container, fingerprint })
            };
            // Of several the least name: so all that was stored twice stays together, or goes.
            let first = of_class()
                .filter(|(_, container)| container.is_usable() && is_whole(container))
                .min_by_key(|(_, container)| container.record.name)
                .map_or(NO_CONTAINER, |(place, _)| place);
            let is_clear = self.needs.len() == 1
                && first != NO_CONTAINER
                && of_class().filter(|(_, container)| container.is_there).count() == 1;
            let record = placed(first, need);
            if is_clear { self.kept.push(record)? } else { self.doubtful.push(record)? }
        }
        self.places.clear();
        self.needs.clear();
        Ok(())
    }
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
            assert_eq!(kept.of(number).expect("it is read"), expected, "{place:?}");
        }
        kept.end().expect("it is whole");
        println!("{chunks} chunks: at most {} MiB in this process", peak_kib() / 1024);
    }
}
