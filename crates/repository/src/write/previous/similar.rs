//! The lookup of similar chunks, for streams without a previous version.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_storage::Result;

use super::stream::{MISSES_MAX, PAUSE_BITS_MAX};
use crate::format::edges::numbers_with_edges;
use crate::format::names::TicketId;
use crate::index::ContainerToc;
use crate::write::recent::RecentStream;
use crate::write::references::References;
use crate::write::similarity::{EDGES_MAX, SimilarityIndex};

/// The place of a chunk that resembles a new one.
#[derive(Debug)]
pub(super) enum SimilarChunk {
    /// A container, and the number of the chunk there.
    Stored(Arc<ContainerToc>, usize),
    /// The number of the chunk in the stream of this run.
    Recent(u64),
}

/// Finds old chunks that begin or end as a new chunk does.
#[derive(Debug)]
pub(super) struct SimilarChunks {
    /// Created at the first use, with at most `edges_max` edges.
    index: Option<SimilarityIndex>,
    edges_max: usize,
    /// The times at which the writers of the view have ended.
    times: BTreeMap<TicketId, i64>,
    /// Number of consecutive chunks that did not resemble what was found for them.
    misses: u32,
    /// Number of chunks since then for which nothing was looked up.
    skipped_count: u32,
}

impl SimilarChunks {
    pub(super) fn new(references: &References<'_>) -> SimilarChunks {
        let commits = references.reader().view().commits;
        SimilarChunks {
            index: None,
            edges_max: EDGES_MAX,
            times: commits.iter().map(|(ticket, commit)| (*ticket, commit.time_ns)).collect(),
            misses: 0,
            skipped_count: 0,
        }
    }

    /// Sets the maximum number of remembered heads and tails.
    pub(super) fn set_edges_max(&mut self, edges_max: usize) {
        self.edges_max = edges_max;
    }

    /// Returns the place of a chunk that begins or ends as `chunk` does. Chunks of `recent` are
    /// preferred, because they are in memory.
    pub(super) fn find(
        &mut self,
        references: &References<'_>,
        recent: &RecentStream,
        chunk: &[u8],
    ) -> Result<Option<SimilarChunk>> {
        // After repeated failures only every second chunk is looked up, then every fourth, and so
        // on.
        if let Some(bits) = self.misses.checked_sub(MISSES_MAX) {
            self.skipped_count += 1;
            if self.skipped_count < 1 << bits.min(PAUSE_BITS_MAX) {
                return Ok(None);
            }
            self.skipped_count = 0;
        }
        let Some(edges) = references.keys().edges(chunk) else { return Ok(None) };
        if references.compares_with_recent()
            && let Some(number) = recent.with_edges(edges)
            && let Some(found) = recent.fingerprint(number)
            && references.has_recent(found)
        {
            return Ok(Some(SimilarChunk::Recent(number)));
        }
        let index = self
            .index
            .get_or_insert_with(|| SimilarityIndex::load(references, &self.times, self.edges_max));
        let Some((container, number)) = index.find(edges) else { return Ok(None) };
        let Some(loaded) = references.container(container)? else { return Ok(None) };
        let found = numbers_with_edges(&loaded.toc.chunks).nth(number);
        Ok(found.map(|number| SimilarChunk::Stored(loaded, number)))
    }

    /// Reports that a chunk was stored by a stream that was found here, or not.
    pub(super) fn report(&mut self, is_stored: bool) {
        self.misses = if is_stored { 0 } else { self.misses.saturating_add(1) };
    }
}
