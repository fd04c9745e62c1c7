//! Resolves by tables of contents what hints leave ambiguous.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};

use cutpoint_storage::Result;

use super::container::{Container, RegionName};
use super::join::HintJoin;
use super::live_set::LiveChunk;
use super::placement::Placement;
use super::record::{PLACED_LEN, decode_placed, encode_placed};
use super::toc_search::{TocSearch, absent, name_of};
use crate::format::commit::Damage;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::PartName;
use crate::format::segment::ContainerRecord;
use crate::index::{Index, Location};
use crate::util::extsort::Iter;

/// Maximum number of missing chunks that are named. Further ones are only counted.
const NAMED_MAX: usize = 1000;

/// Maximum number of ambiguous chunks whose tables of contents are read ahead.
const AHEAD_MAX: usize = 256;

/// The place of one chunk.
enum Resolution {
    /// The chunk stays in the container of this number.
    Stays(u32),
    /// Only condemned containers have the chunk.
    OnlyCondemned,
    /// No container has the chunk.
    Missing,
}

/// The numbers of the containers, sorted by name when the first is looked up. A map would take ten
/// times the memory.
#[derive(Default)]
struct NumbersByName(OnceCell<Vec<u32>>);

impl NumbersByName {
    /// Returns the number of the container with this name.
    fn get(&self, containers: &[Container], name: (Class, PartName)) -> Option<u32> {
        let name_of = |number: &u32| containers[*number as usize].name();
        let sorted = self.0.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..).take(containers.len()).collect();
            numbers.sort_unstable_by_key(name_of);
            numbers
        });
        sorted.binary_search_by_key(&name, name_of).ok().map(|place| sorted[place])
    }
}

/// The state of resolving.
struct Resolver<'a> {
    search: TocSearch<'a>,
    damaged: &'a HashSet<Damage>,
    containers: Vec<Container>,
    numbers: NumbersByName,
    /// The full chunks of the container that was opened last.
    opened: Option<(u32, HashSet<Fingerprint>)>,
    /// Regions for which it is known whether all their references exist.
    met: HashMap<RegionName, bool>,
}

/// Completes the merge `join`: resolves the ambiguous chunks, and counts what stays in each
/// container.
///
/// # Errors
///
/// Returns any error of `stop_if_cancelled`, of the storage and of a temporary file.
pub(super) fn resolve(
    join: HintJoin<'_>,
    search: TocSearch<'_>,
    stop_if_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Placement> {
    let HintJoin { containers, damaged, mut clear, ambiguous, .. } = join;
    let (numbers, opened, met) = (NumbersByName::default(), None, HashMap::new());
    let mut resolver = Resolver { search, damaged, containers, numbers, opened, met };
    let (mut only_condemned, mut missing, mut missing_count) = (Vec::new(), Vec::new(), 0);
    let ambiguous = ambiguous.finish();
    let mut ambiguous = ambiguous.iter()?;
    let mut ahead = Ahead::default();
    while let Some(record) = ahead.next(resolver.search.index, &mut ambiguous)? {
        stop_if_cancelled()?;
        let (first, bytes) = decode_placed(&record);
        let live = LiveChunk::decode(&bytes);
        match resolver.resolve(first, &live)? {
            Resolution::Stays(number) => clear.push(encode_placed(number, &bytes))?,
            Resolution::OnlyCondemned => only_condemned.push(live),
            Resolution::Missing => {
                missing_count += 1;
                if missing.len() < NAMED_MAX {
                    missing.push((live.class, live.fingerprint));
                }
            }
        }
    }
    let (live, mut containers) = (clear.finish(), resolver.containers);
    let mut iter = live.iter()?;
    while let Some(record) = iter.next()? {
        let (number, live) = decode_placed(&record);
        let container = &mut containers[number as usize];
        container.live_count += 1;
        container.pinned_count += u32::from(!LiveChunk::decode(&live).is_reached);
    }
    Ok(Placement {
        containers,
        live,
        only_condemned,
        inlined: Vec::new(),
        inlined_bytes: 0,
        released_bytes: 0,
        missing,
        missing_count,
    })
}

/// The ambiguous chunks whose tables of contents were read ahead.
#[derive(Default)]
struct Ahead {
    records: VecDeque<[u8; PLACED_LEN]>,
    /// Number of `records` for which no table of contents has to be read.
    ready_count: usize,
}

impl Ahead {
    /// Returns the next of `ambiguous`.
    fn next(
        &mut self,
        index: &Index,
        ambiguous: &mut Iter<'_, PLACED_LEN>,
    ) -> Result<Option<[u8; PLACED_LEN]>> {
        if self.ready_count == 0 && index.reads_ahead() {
            while self.records.len() < AHEAD_MAX
                && let Some(record) = ambiguous.next()?
            {
                self.records.push_back(record);
            }
            let live = |record| LiveChunk::decode(&decode_placed(record).1);
            let Some(class) = self.records.front().map(|record| live(record).class) else {
                return Ok(None);
            };
            let of_class = self.records.iter().map(live).take_while(|live| live.class == class);
            let chunks: Vec<Fingerprint> = of_class.map(|live| live.fingerprint).collect();
            self.ready_count = index.prefetch(class, &chunks);
        }
        self.ready_count = self.ready_count.saturating_sub(1);
        match self.records.pop_front() {
            Some(record) => Ok(Some(record)),
            None => ambiguous.next(),
        }
    }
}

impl Resolver<'_> {
    /// Finds a place for `live`. `first` is the number of the container that hints prefer.
    fn resolve(&mut self, first: u32, live: &LiveChunk) -> Result<Resolution> {
        let first_container = self.containers.get(first as usize).copied();
        if let Some(container) = first_container
            && self.has_full_chunk(first, &container.record, &live.fingerprint)?
        {
            return Ok(Resolution::Stays(first));
        }
        let first_name = first_container.map(|container| container.name());
        let Resolver { search, damaged, containers, numbers, met, .. } = self;
        let is_sound = |location: &Location| {
            let (class, container) = name_of(location);
            let fingerprint = location.chunk().fingerprint;
            !damaged.contains(&Damage { class, container, fingerprint })
        };
        let is_usable = |location: &Location| {
            let number = numbers.get(containers, name_of(location));
            number.is_some_and(|number| containers[number as usize].is_usable())
        };
        let is_there = |location: &Location| search.there.contains_key(&name_of(location));
        let mut locate =
            |accepts: &dyn Fn(&Location) -> bool| search.locate(live, first_name, accepts, met);
        // A sound place is preferred to one that a check has found damaged, even if the sound
        // one is condemned: its chunk is then stored again.
        let sound = locate(&|location| is_usable(location) && is_sound(location))?;
        let is_condemned = sound.is_none()
            && locate(&|location| is_there(location) && is_sound(location))?.is_some();
        let place = if sound.is_some() || is_condemned { sound } else { locate(&is_usable)? };
        if let Some(number) = place.and_then(|name| numbers.get(containers, name)) {
            Ok(Resolution::Stays(number))
        } else if is_condemned || locate(&is_there)?.is_some() {
            Ok(Resolution::OnlyCondemned)
        } else {
            Ok(Resolution::Missing)
        }
    }

    /// Returns `true` if the container of this number has the chunk as a full chunk.
    fn has_full_chunk(
        &mut self,
        number: u32,
        record: &ContainerRecord,
        fingerprint: &Fingerprint,
    ) -> Result<bool> {
        if let Some((opened, full_chunks)) = &self.opened
            && *opened == number
        {
            return Ok(full_chunks.contains(fingerprint));
        }
        let full_chunks = self.full_chunks_of(record)?;
        let found = full_chunks.contains(fingerprint);
        self.opened = Some((number, full_chunks));
        Ok(found)
    }

    /// Returns the chunks that a container has as full chunks, or none if its table of contents
    /// cannot be read.
    fn full_chunks_of(&self, container: &ContainerRecord) -> Result<HashSet<Fingerprint>> {
        match self.search.index.toc(container) {
            Ok(toc) => {
                let live = |fingerprint| LiveChunk {
                    class: container.class,
                    fingerprint,
                    is_full: true,
                    is_reached: false,
                };
                let chunks = toc.toc.chunks.iter();
                let full_chunks =
                    chunks.filter(|chunk| live(chunk.fingerprint).accepts(chunk.form));
                Ok(full_chunks.map(|chunk| chunk.fingerprint).collect())
            }
            Err(error) => absent(error).map(|()| HashSet::new()),
        }
    }
}
