//! HeadDT and TailDT of one backup.

use std::collections::{BTreeMap, HashMap};

use cutpoint_delta::burst::{Options, Side, Views};
use cutpoint_storage::Result;

use super::reference_chunks::{Reference, ReferenceChunks};
use super::statistics::BurstStatistics;
use crate::crypto::Keys;
use crate::format::bursts::{BurstCount, BurstHints};
use crate::format::commit::Outcome;
use crate::format::edges::{Edges, SimilarityObject};
use crate::format::fingerprint::Fingerprint;
use crate::format::names::{ObjectName, PartName, TicketId};
use crate::index::Index;
use crate::read::Reader;
use crate::write::cost::Limit;
use crate::write::references::References;
use crate::write::similarity::{known_containers, similarity_objects};
use crate::write::strategy::{DeltaStrategy, StoreDelta, StrategyRecord};

/// Maximum number of entries, heads and tails together, that are loaded from hints, beginning with
/// those of the latest writers.
const ENTRIES_MAX: usize = 1 << 20;

/// Number of bursts by the edge that has led to their reference chunk.
type Counts = HashMap<(Side, u32), u32>;

/// Finds reference chunks for new chunks, for one backup.
#[derive(Debug)]
pub struct Bursts<'a> {
    options: Options,
    views: Views<u32, Reference>,
    chunks: ReferenceChunks<'a>,
    /// Number of bursts of this writer on the chunks that these edges lead to now.
    made: Counts,
    is_loaded: bool,
    statistics: BurstStatistics,
}

impl<'a> Bursts<'a> {
    /// Creates a strategy that reads old chunks by `reader` and refers to what `index` allows, and to
    /// what the writer of `own` has stored itself.
    #[must_use]
    pub fn new(
        options: Options,
        reader: &'a Reader,
        index: &'a Index,
        own: TicketId,
    ) -> Bursts<'a> {
        let references = References::new(reader, index, own);
        Bursts {
            options,
            views: Views::new(options.c_max),
            chunks: ReferenceChunks::new(references, options.tau),
            made: HashMap::new(),
            is_loaded: false,
            statistics: BurstStatistics::default(),
        }
    }

    /// Sets the maximum total size of remembered full chunks of this writer, in bytes.
    #[must_use]
    pub fn with_recent_bytes_max(mut self, bytes: usize) -> Bursts<'a> {
        self.chunks.set_recent_bytes_max(bytes);
        self
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn statistics(&self) -> BurstStatistics {
        let [head, tail] = Side::ALL.map(|side| self.views.statistics(side));
        BurstStatistics { head, tail, ..self.statistics }
    }

    /// Loads the hints of the containers in the index. The entries of a later writer take
    /// precedence. Those of a prune count as the oldest, because what it copies existed before.
    /// Hints that are missing or unreadable are skipped.
    fn load(&mut self) {
        let references = self.chunks.references();
        let view = references.reader().view();
        let commits = view.commits.iter();
        let times: BTreeMap<TicketId, i64> = commits
            .filter(|(_, commit)| matches!(commit.outcome, Outcome::Snapshot(_)))
            .map(|(ticket, commit)| (*ticket, commit.time_ns))
            .collect();
        let known = known_containers(references);
        let repository = references.repository();
        let tau = self.options.tau.to_string();
        let mut counts = Counts::new();
        let objects = similarity_objects(repository, &known, &times);
        // The last object of a writer is the latest.
        let objects = objects.chunk_by(|(name, _), (other, _)| name.ticket == other.ticket);
        for (name, _) in objects.flat_map(|of_writer| of_writer.iter().rev()) {
            let name = ObjectName::Similarity(*name);
            let Ok(object) = repository.read(name, SimilarityObject::decode) else { continue };
            let hints = BurstHints::decode(&object.extra).filter(|hints| hints.tau == tau);
            let Some(hints) = hints else { continue };
            for BurstCount { side, edge, count } in hints.counts {
                // These bursts are on the chunk that comes next, in this object or in an older one.
                let sum = counts.entry((side, edge)).or_default();
                *sum = sum.saturating_add(count);
            }
            let names = object.containers.iter().map(|container| container.container);
            let containers: Vec<(PartName, Vec<Edges>)> = names.zip(hints.edges).collect();
            for (container, edges) in containers.into_iter().rev() {
                if known.contains(&container) && !self.take_up(container, &edges, &counts) {
                    return;
                }
            }
        }
    }

    /// Loads the chunks of one container, the last first. Returns `true` if there is room for more.
    fn take_up(&mut self, container: PartName, edges: &[Edges], counts: &Counts) -> bool {
        let numbers = self.chunks.add_container(container, edges.len());
        let Some(numbers) = numbers else { return false };
        for (number, edges) in numbers.zip(edges).rev() {
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

    /// Returns the hashes of head and tail, for the sides that have a table.
    fn edges(&self, chunk: &[u8]) -> [Option<u32>; 2] {
        let keys: &Keys = self.chunks.references().keys();
        Side::ALL
            .map(|side| self.options.sub_chunk(side, chunk).map(|sub_chunk| keys.edge(sub_chunk)))
    }
}

impl DeltaStrategy for Bursts<'_> {
    fn encode(
        &mut self,
        chunk: &[u8],
        store: &mut StoreDelta<'_>,
    ) -> Result<Option<Vec<PartName>>> {
        if !self.is_loaded {
            self.is_loaded = true;
            self.load();
        }
        if self.options.tau.len(chunk.len()).is_none() {
            self.statistics.short_count += 1;
            return Ok(None);
        }
        let edges = self.edges(chunk);
        let (chunks, statistics) = (&self.chunks, &mut self.statistics);
        let found = self.views.find(&edges, |side, reference| {
            let Some(burst) = chunks.burst(reference, side, chunk)? else {
                statistics.missing_count += 1;
                return Ok(None);
            };
            let is_stored = match burst.delta {
                Some(delta) => store(&delta, Limit::Smaller)?,
                None => false,
            };
            statistics.refused_count += u64::from(!is_stored);
            Ok(is_stored.then_some(burst.container))
        })?;
        Ok(found.map(|(side, container)| {
            if let Some(edge) = edges[side as usize] {
                *self.made.entry((side, edge)).or_default() += 1;
            }
            container.into_iter().collect()
        }))
    }

    /// Makes the head and the tail of a full chunk lead to it from now on.
    fn stored(&mut self, fingerprint: Fingerprint, chunk: &[u8], is_full: bool) {
        let edges = self.edges(chunk);
        if !is_full || edges == [None, None] {
            return;
        }
        for (side, edge) in Side::ALL.into_iter().zip(edges) {
            if let Some(edge) = edge {
                self.made.remove(&(side, edge));
            }
        }
        let reference = self.chunks.add_own(fingerprint, chunk);
        self.views.replace(&edges, reference);
        while let Some((reference, forgotten)) = self.chunks.forget_oldest() {
            let edges = self.edges(&forgotten);
            self.views.remove_full_chunk(&edges, reference);
        }
    }

    fn is_fine_grained(&self) -> bool {
        false
    }

    /// Returns the counts of this writer's bursts: those on chunks that the entries still lead to.
    fn record(&self) -> StrategyRecord {
        let counts = self.made.iter();
        let mut bursts: Vec<BurstCount> = counts
            .map(|((side, edge), count)| BurstCount { side: *side, edge: *edge, count: *count })
            .collect();
        bursts.sort_unstable();
        StrategyRecord { bursts }
    }

    fn burst_statistics(&self) -> Option<BurstStatistics> {
        Some(self.statistics())
    }
}
