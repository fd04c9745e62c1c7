//! BURST as a mode of the store. A new chunk is compared with the one old chunk that its head or
//! its tail leads to. It becomes a delta chunk of a prefix of that chunk, one literal and a suffix
//! (rules C1, C3 to C5).
//!
//! The rule of the paper selects the old chunk (`cutpoint_delta::burst`). HeadDT and TailDT are
//! in memory; similarity objects contain their state at the end of earlier backups. DT is the index. BT
//! is the set of delta chunks: a whole stays as long as a delta chunk needs it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use cutpoint_delta::burst::{Options, Side, ViewStatistics, Views};
use cutpoint_delta::common_edges;
use cutpoint_storage::Result;

use super::delta::{Delta, Part, find_of_others};
use super::similarity::{known_containers, similarity_objects};
use crate::crypto::Keys;
use crate::format::bursts::{BurstCount, BurstHints, with_sub_chunks};
use crate::format::commit::Outcome;
use crate::format::edges::SimilarityObject;
use crate::format::extents::extent_count_max;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::index::Index;
use crate::read::Reader;

/// Maximum number of entries, heads and tails together, that are loaded from hints, beginning with
/// those of the latest writers.
const ENTRIES_MAX: usize = 1 << 20;
/// Maximum number and total size of recent full chunks of this writer that are remembered. They cannot
/// be read back from the storage, because the time at which that is possible depends on timing, and
/// the stored bytes must not.
const RECENT_COUNT_MAX: usize = 64 * 1024;
const RECENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Counters of the new chunks of a backup with BURST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstStatistics {
    /// Counters of HeadDT.
    pub head: ViewStatistics,
    /// Counters of TailDT.
    pub tail: ViewStatistics,
    /// Number of new chunks that are too short for a head and a tail by tau.
    pub short_count: u64,
    /// Number of entries that led to a chunk that may no longer be referred to, or cannot be read.
    pub lost_count: u64,
    /// Number of bursts that would not have been smaller than their chunks, including the
    /// references.
    pub refused_count: u64,
}

/// The reference chunk of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// The number of a stored chunk, counted over [`FullChunks::containers`].
    Stored(u32),
    /// The number of full chunks that this writer had stored before the chunk.
    Own(u64),
}

/// Finds reference chunks for new chunks, for one backup.
#[derive(Debug)]
pub struct Bursts<'a> {
    options: Options,
    views: Views<u32, Reference>,
    full_chunks: FullChunks<'a>,
    /// Number of bursts of this writer on the chunks that these ends lead to now.
    made: HashMap<(Side, u32), u32>,
    is_loaded: bool,
    statistics: BurstStatistics,
}

/// The places of reference chunks.
#[derive(Debug)]
struct FullChunks<'a> {
    reader: &'a Reader,
    /// The index of the writer, which determines what may be referred to.
    index: &'a Index,
    own: TicketId,
    options: Options,
    /// Containers with the number of their first chunk. The numbers count all chunks with head and
    /// tail.
    containers: Vec<(u32, PartName)>,
    chunk_count: u32,
    /// The full chunks that this writer has stored last, after `passed_count` earlier ones.
    recent: VecDeque<(Fingerprint, Box<[u8]>)>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    passed_count: u64,
}

impl<'a> Bursts<'a> {
    /// Creates a finder that reads old chunks by `reader` and refers to what `index` allows, and to
    /// what the writer of `own` has stored itself.
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
            full_chunks: FullChunks {
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

    /// Sets the maximum total size of remembered full chunks of this writer, in bytes.
    #[must_use]
    pub fn with_recent_bytes_max(mut self, bytes: usize) -> Bursts<'a> {
        self.full_chunks.recent_bytes_max = bytes;
        self
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn statistics(&self) -> BurstStatistics {
        let [head, tail] = Side::ALL.map(|side| self.views.statistics(side));
        BurstStatistics { head, tail, ..self.statistics }
    }

    /// Returns the counts of this writer's bursts for its hints: those on chunks that the entries
    /// still lead to.
    #[must_use]
    pub fn counts(&self) -> Vec<BurstCount> {
        let counts = self.made.iter();
        let mut counts: Vec<BurstCount> = counts
            .map(|((side, edge), count)| BurstCount { side: *side, edge: *edge, count: *count })
            .collect();
        counts.sort_unstable();
        counts
    }

    /// Looks for the reference chunk of a new chunk. `store` receives the burst, and returns `true`
    /// if it was stored. The result has the container of the reference chunk if another writer has
    /// stored that chunk, and is `None` if `chunk` is to be stored as a full chunk.
    pub(super) fn find(
        &mut self,
        chunk: &[u8],
        mut store: impl FnMut(&Delta) -> bool,
    ) -> Result<Option<Option<PartName>>> {
        if !self.is_loaded {
            self.is_loaded = true;
            self.load();
        }
        if self.options.tau.len(chunk.len()).is_none() {
            self.statistics.short_count += 1;
            return Ok(None);
        }
        let edges = edges(self.full_chunks.keys(), &self.options, chunk);
        let (full_chunks, statistics) = (&self.full_chunks, &mut self.statistics);
        let found = self.views.find(&edges, |side, reference| {
            let Some((container, delta)) = full_chunks.compose(reference, side, chunk)? else {
                statistics.lost_count += 1;
                return Ok(None);
            };
            let is_stored = delta.is_some_and(|delta| store(&delta));
            statistics.refused_count += u64::from(!is_stored);
            Ok(is_stored.then_some(container))
        })?;
        Ok(found.map(|(side, container)| {
            if let Some(edge) = edges[side as usize] {
                *self.made.entry((side, edge)).or_default() += 1;
            }
            container
        }))
    }

    /// Records that `chunk` was stored as a full chunk: its head and tail lead to it from now on.
    pub(super) fn replace(&mut self, fingerprint: Fingerprint, chunk: &[u8]) {
        let edges = edges(self.full_chunks.keys(), &self.options, chunk);
        if edges == [None, None] {
            return;
        }
        for (side, edge) in Side::ALL.into_iter().zip(edges) {
            if let Some(edge) = edge {
                self.made.remove(&(side, edge));
            }
        }
        let full_chunks = &mut self.full_chunks;
        let number = full_chunks.passed_count + full_chunks.recent.len() as u64;
        self.views.replace(&edges, Reference::Own(number));
        full_chunks.recent.push_back((fingerprint, chunk.into()));
        full_chunks.recent_bytes += chunk.len();
        while full_chunks.recent.len() > RECENT_COUNT_MAX
            || full_chunks.recent_bytes > full_chunks.recent_bytes_max
        {
            let Some((_, passed)) = full_chunks.recent.pop_front() else { break };
            let edges = self::edges(full_chunks.keys(), &self.options, &passed);
            self.views.remove_full_chunk(&edges, Reference::Own(full_chunks.passed_count));
            full_chunks.recent_bytes -= passed.len();
            full_chunks.passed_count += 1;
        }
    }

    /// Loads the hints of the containers in the index. The entries of a later writer take
    /// precedence. Those of a prune count as the oldest, because what it copies existed before.
    /// Hints that are missing or unreadable are skipped.
    fn load(&mut self) {
        let FullChunks { reader, index, own, .. } = self.full_chunks;
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
        let objects = similarity_objects(repository, &known, &times);
        // The last object of a writer is the latest.
        let objects = objects.chunk_by(|(name, _), (other, _)| name.ticket == other.ticket);
        for (name, _) in objects.flat_map(|of_writer| of_writer.iter().rev()) {
            let Ok(hints) =
                repository.read(ObjectName::Similarity(*name), SimilarityObject::decode)
            else {
                continue;
            };
            let bursts = BurstHints::decode(&hints.extra).filter(|bursts| bursts.tau == tau);
            let Some(bursts) = bursts else { continue };
            for BurstCount { side, edge, count } in bursts.counts {
                // These bursts are on the chunk that comes next, in this object or in an older one.
                let sum = counts.entry((side, edge)).or_default();
                *sum = sum.saturating_add(count);
            }
            let names = hints.containers.iter().map(|container| container.container);
            let containers: Vec<(PartName, Vec<[u32; 2]>)> = names.zip(bursts.edges).collect();
            for (container, edges) in containers.into_iter().rev() {
                if known.contains(&container) && !self.take_up(container, &edges, &mut counts) {
                    return;
                }
            }
        }
    }

    /// Loads the chunks of one container, the last first. Returns `true` if there is room for more.
    fn take_up(
        &mut self,
        container: PartName,
        edges: &[[u32; 2]],
        counts: &mut HashMap<(Side, u32), u32>,
    ) -> bool {
        let first = self.full_chunks.chunk_count;
        let len = u32::try_from(edges.len()).unwrap_or(u32::MAX);
        let Some(next) = first.checked_add(len) else { return false };
        self.full_chunks.containers.push((first, container));
        self.full_chunks.chunk_count = next;
        for (number, edges) in (first..next).zip(edges).rev() {
            for (side, edge) in Side::ALL.into_iter().zip(edges) {
                if self.options.has_table(side) {
                    let count = counts.get(&(side, *edge)).copied().unwrap_or(0);
                    self.views.take_up(side, *edge, Reference::Stored(number), count);
                }
            }
        }
        let entry_count = Side::ALL.map(|side| self.views.statistics(side).entry_count);
        entry_count.iter().sum::<u64>() < ENTRIES_MAX as u64
    }
}

impl FullChunks<'_> {
    fn keys(&self) -> &Keys {
        self.reader.repository().keys()
    }

    /// Returns `chunk` as a burst on `reference`, to which one of its ends has led, and the
    /// container of the reference chunk if another writer has stored it. Returns `None` if the
    /// reference chunk cannot be read or does not have this end. The delta chunk is `None` if it
    /// would have too many extents.
    fn compose(
        &self,
        reference: Reference,
        side: Side,
        chunk: &[u8],
    ) -> Result<Option<(Option<PartName>, Option<Delta>)>> {
        // Compared because hashes may collide and hints may be wrong.
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
                    if location.is_full() {
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

    /// Returns the fingerprint of the chunk with this number.
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
        let mut chunks = with_sub_chunks(self.options.tau, &loaded.toc.chunks);
        Ok(chunks.nth((number - first) as usize).map(|chunk| chunk.fingerprint))
    }
}

/// Returns the hashes of head and tail, for the sides that have a table.
fn edges(keys: &Keys, options: &Options, chunk: &[u8]) -> [Option<u32>; 2] {
    Side::ALL.map(|side| options.sub_chunk(side, chunk).map(|sub_chunk| keys.edge(sub_chunk)))
}

/// Expresses `chunk` as a prefix and a suffix of the whole `name`, whose bytes are `old`, and a
/// literal between them (C5: the parts are exactly what was compared). Returns `None` if a
/// delta chunk must not have that number of extents (C4).
fn burst(name: Fingerprint, old: &[u8], chunk: &[u8]) -> Option<Delta> {
    let narrow = |len: usize| u32::try_from(len).ok();
    let (prefix, suffix) = common_edges(old, chunk);
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
    is_fine.then(|| Delta { parts, literals: literal.to_vec(), sources: vec![name] })
}
