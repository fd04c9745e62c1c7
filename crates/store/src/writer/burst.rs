//! BURST as a mode of the store: a new chunk is compared with the one old chunk that its head or its tail
//! leads to, and becomes a composite of a prefix of that, one literal and a suffix (rules C1, C3 to C5).
//!
//! Which chunk that is the paper's rule says (`cutpoint_matching::burst`). HeadDT and TailDT are in memory;
//! hints objects say what they were when former backups ended. DT is the index. BT is what composites are:
//! a whole stays as long as one needs it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use cutpoint_matching::burst::{Options, Side, ViewStatistics, Views};
use cutpoint_matching::common_ends;

use super::finder::{hints_objects, known_containers};
use super::matcher::{Composed, Part, find_of_others};
use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::format::bursts::{BurstCount, BurstHints, with_sub_chunks};
use crate::format::commit::Outcome;
use crate::format::ends::Hints;
use crate::format::extents::extent_count_max;
use crate::index::Index;
use crate::name::{ObjectName, PartName, TicketId};
use crate::reader::Reader;
use crate::seal::Keys;

/// So many entries are taken up from hints, heads and tails; those of the last writers first.
const ENTRIES_MAX: usize = 1 << 20;
/// So many wholes of this writer are remembered, the last ones, and so many bytes of them. They cannot be read back:
/// when that is possible depends on time, and what is stored must not.
const RECENT_COUNT_MAX: usize = 64 * 1024;
const RECENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What became of the new chunks of a backup by BURST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstStatistics {
    /// HeadDT.
    pub head: ViewStatistics,
    /// TailDT.
    pub tail: ViewStatistics,
    /// New chunks that tau leaves no head and tail.
    pub short_count: u64,
    /// How often an entry led to a chunk that may not be referred to any more, or cannot be had.
    pub lost_count: u64,
    /// How often a burst would not have been smaller than its chunk, with what it costs to name.
    pub refused_count: u64,
}

/// The reference chunk of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// A number of a chunk in [`Wholes::containers`].
    Stored(u32),
    /// How many wholes this writer had stored before it.
    Own(u64),
}

/// Finds reference chunks for new chunks; for one backup.
#[derive(Debug)]
pub struct Bursts<'a> {
    options: Options,
    views: Views<u32, Reference>,
    wholes: Wholes<'a>,
    /// Bursts of this writer on the chunks that these ends lead to now.
    made: HashMap<(Side, u32), u32>,
    is_loaded: bool,
    statistics: BurstStatistics,
}

/// Where reference chunks are.
#[derive(Debug)]
struct Wholes<'a> {
    reader: &'a Reader,
    /// The writer's: it says what may be referred to.
    index: &'a Index,
    own: TicketId,
    options: Options,
    /// The number of the first chunk of each container; numbers count all chunks with head and tail.
    containers: Vec<(u32, PartName)>,
    chunk_count: u32,
    /// What this writer has stored last; `passed_count` wholes were before.
    recent: VecDeque<(Fingerprint, Box<[u8]>)>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    passed_count: u64,
}

impl<'a> Bursts<'a> {
    /// Reads old chunks by `reader`; refers to what `index` allows, and to what the writer of `own` has
    /// stored itself.
    #[must_use]
    pub fn new(
        options: Options,
        reader: &'a Reader,
        index: &'a Index,
        own: TicketId,
    ) -> Bursts<'a> {
        Bursts {
            options,
            views: Views::new(options.c_max),
            wholes: Wholes {
                reader,
                index,
                own,
                options,
                containers: Vec::new(),
                chunk_count: 0,
                recent: VecDeque::new(),
                recent_bytes: 0,
                recent_bytes_max: RECENT_BYTES_MAX,
                passed_count: 0,
            },
            made: HashMap::new(),
            is_loaded: false,
            statistics: BurstStatistics::default(),
        }
    }

    /// Remembers no more than so many bytes of what this writer stores itself.
    #[must_use]
    pub fn with_recent_bytes_max(mut self, bytes: usize) -> Bursts<'a> {
        self.wholes.recent_bytes_max = bytes;
        self
    }

    /// What became of new chunks so far.
    #[must_use]
    pub fn statistics(&self) -> BurstStatistics {
        let [head, tail] = Side::ALL.map(|side| self.views.statistics(side));
        BurstStatistics { head, tail, ..self.statistics }
    }

    /// The bursts of this writer, for its hints: those on chunks that still lead the entries.
    #[must_use]
    pub fn counts(&self) -> Vec<BurstCount> {
        let counts = self.made.iter();
        let mut counts: Vec<BurstCount> = counts
            .map(|((side, end), count)| BurstCount { side: *side, end: *end, count: *count })
            .collect();
        counts.sort_unstable();
        counts
    }

    /// Looks for the reference chunk of a new chunk. The burst is handed to `store`, which says whether it
    /// was worth storing. Returns the container of the reference chunk, if another writer has stored it;
    /// nothing where `chunk` is to be stored as it is.
    pub(super) fn find(
        &mut self,
        chunk: &[u8],
        mut store: impl FnMut(&Composed) -> bool,
    ) -> Result<Option<Option<PartName>>> {
        if !self.is_loaded {
            self.is_loaded = true;
            self.load();
        }
        if self.options.tau.len(chunk.len()).is_none() {
            self.statistics.short_count += 1;
            return Ok(None);
        }
        let ends = ends(self.wholes.keys(), &self.options, chunk);
        let (wholes, statistics) = (&self.wholes, &mut self.statistics);
        let found = self.views.find(&ends, |side, reference| {
            let Some((container, composed)) = wholes.compose(reference, side, chunk)? else {
                statistics.lost_count += 1;
                return Ok(None);
            };
            let is_stored = composed.is_some_and(|composed| store(&composed));
            statistics.refused_count += u64::from(!is_stored);
            Ok(is_stored.then_some(container))
        })?;
        Ok(found.map(|(side, container)| {
            if let Some(end) = ends[side as usize] {
                *self.made.entry((side, end)).or_default() += 1;
            }
            container
        }))
    }

    /// `chunk` was stored as it is: its head and tail lead to it from now on.
    pub(super) fn replace(&mut self, fingerprint: Fingerprint, chunk: &[u8]) {
        let ends = ends(self.wholes.keys(), &self.options, chunk);
        if ends == [None, None] {
            return;
        }
        for (side, end) in Side::ALL.into_iter().zip(ends) {
            if let Some(end) = end {
                self.made.remove(&(side, end));
            }
        }
        let wholes = &mut self.wholes;
        let number = wholes.passed_count + wholes.recent.len() as u64;
        self.views.replace(&ends, Reference::Own(number));
        wholes.recent.push_back((fingerprint, chunk.into()));
        wholes.recent_bytes += chunk.len();
        while wholes.recent.len() > RECENT_COUNT_MAX
            || wholes.recent_bytes > wholes.recent_bytes_max
        {
            let Some((_, passed)) = wholes.recent.pop_front() else { break };
            let ends = self::ends(wholes.keys(), &self.options, &passed);
            self.views.remove_whole(&ends, Reference::Own(wholes.passed_count));
            wholes.recent_bytes -= passed.len();
            wholes.passed_count += 1;
        }
    }

    /// Takes up what hints say of the containers that the index has. What a younger writer has counts; a
    /// prune's are the oldest, for what it copies was there before. Hints that are not there or cannot
    /// be read are done without.
    fn load(&mut self) {
        let Wholes { reader, index, own, .. } = self.wholes;
        let repository = reader.repository();
        let view = reader.view();
        let commits = view.commits.iter();
        let times: BTreeMap<TicketId, i64> = commits
            .filter(|(_, commit)| matches!(commit.outcome, Outcome::Snapshot(_)))
            .map(|(ticket, commit)| (*ticket, commit.time_ns))
            .collect();
        let known = known_containers(index, own);
        let tau = self.options.tau.to_string();
        let mut counts: HashMap<(Side, u32), u32> = HashMap::new();
        let objects = hints_objects(repository, &known, &times);
        // Of one writer the last object is the youngest.
        let objects = objects.chunk_by(|(name, _), (other, _)| name.ticket == other.ticket);
        for (name, _) in objects.flat_map(|of_writer| of_writer.iter().rev()) {
            let Ok(hints) = repository.read(ObjectName::Hints(*name), Hints::decode) else {
                continue;
            };
            let bursts = BurstHints::decode(&hints.extra).filter(|bursts| bursts.tau == tau);
            let Some(bursts) = bursts else { continue };
            for BurstCount { side, end, count } in bursts.counts {
                // They are on the chunk that is met next, in this object or in an older one.
                let sum = counts.entry((side, end)).or_default();
                *sum = sum.saturating_add(count);
            }
            let names = hints.containers.iter().map(|container| container.container);
            let containers: Vec<(PartName, Vec<[u32; 2]>)> = names.zip(bursts.ends).collect();
            for (container, ends) in containers.into_iter().rev() {
                if known.contains(&container) && !self.take_up(container, &ends, &mut counts) {
                    return;
                }
            }
        }
    }

    /// Takes up the chunks of one container, the last first. Returns whether there is room for more.
    fn take_up(
        &mut self,
        container: PartName,
        ends: &[[u32; 2]],
        counts: &mut HashMap<(Side, u32), u32>,
    ) -> bool {
        let first = self.wholes.chunk_count;
        let len = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        let Some(next) = first.checked_add(len) else { return false };
        self.wholes.containers.push((first, container));
        self.wholes.chunk_count = next;
        for (number, ends) in (first..next).zip(ends).rev() {
            for (side, end) in Side::ALL.into_iter().zip(ends) {
                if self.options.has_table(side) {
                    let count = counts.get(&(side, *end)).copied().unwrap_or(0);
                    self.views.take_up(side, *end, Reference::Stored(number), count);
                }
            }
        }
        let entry_count = Side::ALL.map(|side| self.views.statistics(side).entry_count);
        entry_count.iter().sum::<u64>() < ENTRIES_MAX as u64
    }
}

impl Wholes<'_> {
    fn keys(&self) -> &Keys {
        self.reader.repository().keys()
    }

    /// `chunk` as a burst on `reference`, to which one of its ends has led, and the container of that, if
    /// another writer has stored it. Nothing where it cannot be had, or does not have this end; no
    /// composite where that would be too many extents.
    fn compose(
        &self,
        reference: Reference,
        side: Side,
        chunk: &[u8],
    ) -> Result<Option<(Option<PartName>, Option<Composed>)>> {
        // Hashes may be equal, and hints may lie.
        let tau = self.options.tau;
        let is_alike = |old: &[u8]| tau.sub_chunk(side, old) == tau.sub_chunk(side, chunk);
        match reference {
            Reference::Own(number) => {
                let index = number.checked_sub(self.passed_count);
                let index = index.and_then(|index| usize::try_from(index).ok());
                let whole = index.and_then(|index| self.recent.get(index));
                let whole = whole.filter(|(_, old)| is_alike(old));
                Ok(whole.map(|(name, old)| (None, burst(*name, old, chunk))))
            }
            Reference::Stored(number) => {
                let Some(name) = self.name(number)? else { return Ok(None) };
                let mut old = None;
                let found = find_of_others(self.index, self.own, &name, |location| {
                    if location.is_whole() {
                        old = Some(self.reader.payload(Class::Data, location)?);
                    }
                    Ok(old.is_some())
                })?;
                let (Some(found), Some(old)) = (found, old) else { return Ok(None) };
                let container = Some(found.container.name);
                Ok(is_alike(&old).then(|| (container, burst(name, &old, chunk))))
            }
        }
    }

    /// The chunk of this number.
    fn name(&self, number: u32) -> Result<Option<Fingerprint>> {
        let next = self.containers.partition_point(|(first, _)| *first <= number);
        let Some((first, container)) = next.checked_sub(1).map(|index| self.containers[index])
        else {
            return Ok(None);
        };
        let loaded = match self.index.container(Class::Data, container) {
            Err(error) if error.is_loss() => None,
            loaded => loaded?,
        };
        let Some(loaded) = loaded else { return Ok(None) };
        let mut chunks = with_sub_chunks(self.options.tau, &loaded.directory.chunks);
        Ok(chunks.nth((number - first) as usize).map(|chunk| chunk.fingerprint))
    }
}

/// Hashes of head and tail, of those that have a table.
fn ends(keys: &Keys, options: &Options, chunk: &[u8]) -> [Option<u32>; 2] {
    Side::ALL.map(|side| options.sub_chunk(side, chunk).map(|sub_chunk| keys.end(sub_chunk)))
}

/// `chunk` as a prefix and a suffix of the whole `name`, whose bytes are `old`, and what is between them
/// (C5: it is made of what was compared). Nothing where a composite must not have so many extents (C4).
fn burst(name: Fingerprint, old: &[u8], chunk: &[u8]) -> Option<Composed> {
    let narrow = |len: usize| u32::try_from(len).ok();
    let (prefix, suffix) = common_ends(old, chunk);
    let literal = chunk.get(prefix..chunk.len() - suffix)?;
    let suffix_at = narrow(old.len() - suffix)?;
    let copy = |offset, len| Part::Copy { source: 0, offset, len };
    let parts = [
        (prefix, copy(0, narrow(prefix)?)),
        (literal.len(), Part::Literal { len: literal.len() }),
        (suffix, copy(suffix_at, narrow(suffix)?)),
    ];
    let parts: Vec<Part> =
        parts.into_iter().filter(|(len, _)| *len > 0).map(|(_, part)| part).collect();
    let is_fine = parts.len() <= extent_count_max(chunk.len());
    is_fine.then(|| Composed { parts, literals: literal.to_vec(), sources: vec![name] })
}
