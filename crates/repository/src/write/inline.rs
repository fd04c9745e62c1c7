//! Deduplicator, codec and container writer in one thread, for small writers and for tests.

use std::sync::Arc;

use cutpoint_storage::Result;

use super::container::ContainerWriter;
use super::cost::Limit;
use super::dedup::{ChunkSink, Deduplicator};
use super::recent::RecentRegions;
use super::reencode::{self, Comparison};
use super::region::{EncodedRegion, RegionCodec, Verify};
use super::strategy::{DeltaStrategy, StrategyRecord};
use super::uploads::Uploads;
use super::{CommitResult, OwnSegments, Writer};
use crate::format::commit::{Outcome, Snapshot};
use crate::format::extents::Extent;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::grouping::Grouping;
use crate::format::names::PartName;
use crate::format::segment::Segment;
use crate::index::Index;

/// Stores chunks one after another and puts the resulting objects at once.
#[derive(Debug)]
pub struct Inline {
    writer: Writer,
    index: Arc<Index>,
    dedup: Deduplicator,
    codec: RegionCodec,
    containers: ContainerWriter,
    uploads: Uploads,
    encoded: Vec<u8>,
    /// The place of encoded regions that the last strategy reads.
    recent: Option<Arc<RecentRegions>>,
    /// Created at the first use.
    comparison: Option<Comparison>,
}

impl Inline {
    /// Begins to store for `writer`.
    ///
    /// # Errors
    ///
    /// Returns any error of the index.
    pub fn new(writer: Writer, verify: Verify) -> Result<Inline> {
        let index = Arc::new(Index::open(writer.repository().clone(), writer.view())?);
        Inline::with_index(writer, index, verify)
    }

    /// Begins to store for `writer`, including chunks that other writers have stored: only chunks
    /// of this writer count as known.
    ///
    /// # Errors
    ///
    /// Returns any error of the compressor.
    pub fn restart(writer: Writer) -> Result<Inline> {
        let index = Arc::new(Index::empty(writer.repository().clone()));
        Inline::with_index(writer, index, Verify::All)
    }

    /// Does the same as [`Inline::restart`], with the region size and compression level of
    /// `grouping`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Inline::restart`].
    pub(crate) fn grouped(writer: Writer, grouping: Grouping) -> Result<Inline> {
        let index = Arc::new(Index::empty(writer.repository().clone()));
        let inline = Inline::with_grouping(writer, index, Verify::All, grouping)?;
        Ok(Inline { containers: inline.containers.grouped(grouping), ..inline })
    }

    /// Begins to store for `writer`. The chunks in `index`, which must be of the writer's view,
    /// count as known.
    ///
    /// # Errors
    ///
    /// Returns any error of the compressor.
    pub(crate) fn with_index(writer: Writer, index: Arc<Index>, verify: Verify) -> Result<Inline> {
        let config = writer.repository().config();
        let (region_size, compression_level) = (config.region_size, config.compression_level);
        Inline::with_grouping(writer, index, verify, Grouping { region_size, compression_level })
    }

    fn with_grouping(
        writer: Writer,
        index: Arc<Index>,
        verify: Verify,
        grouping: Grouping,
    ) -> Result<Inline> {
        let repository = writer.repository().clone();
        let keys = repository.keys().clone();
        Ok(Inline {
            dedup: Deduplicator::new(keys, index.clone(), grouping.region_size, verify)?,
            codec: RegionCodec::new(grouping.compression_level)?,
            containers: ContainerWriter::new(repository.clone(), writer.ticket()),
            uploads: Uploads::default(),
            encoded: Vec::new(),
            recent: None,
            comparison: None,
            index,
            writer,
        })
    }

    /// Returns the writer.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Stores a chunk of file data unless it is known, and returns its fingerprint.
    ///
    /// # Errors
    ///
    /// Returns any error of the index or the storage.
    pub fn store_data(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.writer.repository().keys().fingerprint(Class::Data, chunk);
        self.dedup.store(Class::Data, fingerprint, chunk)?;
        self.pump()?;
        Ok(fingerprint)
    }

    /// Does the same as [`Inline::store_data`], by the old bytes that `strategy` finds for the
    /// chunk. Also returns `true` if the chunk was new.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Deduplicator::store_similar`] or the storage.
    pub fn store_similar(
        &mut self,
        chunk: &[u8],
        strategy: &mut dyn DeltaStrategy,
    ) -> Result<(Fingerprint, bool)> {
        let fingerprint = self.writer.repository().keys().fingerprint(Class::Data, chunk);
        let is_new = self.dedup.store_similar(fingerprint, chunk, strategy)?;
        self.recent = strategy.recent_regions();
        self.pump()?;
        Ok((fingerprint, is_new))
    }

    /// Sets what the strategy by which chunks were compared records in the next similarity object.
    pub fn record(&mut self, record: StrategyRecord) {
        self.containers.record(record);
    }

    /// Returns the index of the chunks that count as stored, for a [`DeltaStrategy`].
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    fn pump(&mut self) -> Result<()> {
        for region in self.dedup.take_regions() {
            let encoded = self.codec.encode(region, std::mem::take(&mut self.encoded))?;
            if let Some(recent) = &self.recent {
                recent.put(&encoded);
            }
            self.containers.append(encoded)?;
            self.put(true)?;
        }
        self.put(true)?;
        self.writer.renew()
    }

    /// Puts the objects that are ready. Their chunks count as stored by this writer if `is_own` is
    /// set.
    fn put(&mut self, is_own: bool) -> Result<()> {
        for part in self.containers.take_parts() {
            let written = self.uploads.write(self.writer.repository(), part)?;
            if let Some(upload) = written.upload
                && let Some(published) = self.writer.put(upload)?
                && is_own
            {
                self.index.add(published.name, &published.segment)?;
                self.dedup.forget_published(|region| published.regions.contains(&region));
            }
            if let Some(buffers) = written.buffers {
                self.dedup.recycle(buffers.raw);
                self.encoded = buffers.encoded;
            }
        }
        Ok(())
    }

    /// Puts everything that was stored, and the segment that names it. More chunks can be stored
    /// afterwards.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage.
    pub fn publish(&mut self) -> Result<()> {
        self.dedup.flush();
        self.pump()?;
        self.containers.finish()?;
        self.pump()
    }

    /// Stores a chunk whose fingerprint the caller has verified, unless this writer has stored it.
    pub(crate) fn store(&mut self, class: Class, name: Fingerprint, chunk: &[u8]) -> Result<()> {
        self.dedup.store(class, name, chunk)?;
        self.pump()
    }

    /// Returns `true` if this writer has stored a chunk. If `only_full` is set, only full chunks
    /// count.
    pub(crate) fn has(&self, class: Class, name: &Fingerprint, only_full: bool) -> Result<bool> {
        self.dedup.has(class, name, only_full)
    }

    /// Stores a chunk whose fingerprint the caller has verified as a full chunk, even if this
    /// writer has stored it as a delta chunk.
    pub(crate) fn store_full_chunk(
        &mut self,
        class: Class,
        name: Fingerprint,
        chunk: &[u8],
    ) -> Result<()> {
        self.dedup.store_full_chunk(class, name, chunk)?;
        self.pump()
    }

    /// Stores a chunk as a delta chunk of `extents` over `references`, if that is worthwhile. The
    /// caller has verified that the chunk is made of these extents, and that the references stay.
    /// Returns `true` if the delta chunk was stored.
    pub(crate) fn store_delta_chunk(
        &mut self,
        name: (Class, Fingerprint),
        chunk: &[u8],
        extents: &[Extent],
        references: &[Fingerprint],
    ) -> Result<bool> {
        let stored = match reencode::of_extents(extents, references) {
            Some(delta) => self.dedup.store_delta(name, chunk, &delta, Limit::Sampled)?,
            None => false,
        };
        self.pump()?;
        Ok(stored)
    }

    /// Stores a chunk as a delta chunk over the full chunk `base`, if that is worthwhile. The full
    /// chunk stays, and the caller has verified its bytes. Returns `true` if the delta chunk was
    /// stored.
    pub(crate) fn store_resembling(
        &mut self,
        name: (Class, Fingerprint),
        chunk: &[u8],
        base: (Fingerprint, &[u8]),
    ) -> Result<bool> {
        let comparison = self.comparison.get_or_insert_with(Comparison::new);
        let stored = match comparison.encode(chunk, base.0, base.1) {
            Some(delta) => self.dedup.store_delta(name, chunk, &delta, Limit::Sampled)?,
            None => false,
        };
        self.pump()?;
        Ok(stored)
    }

    /// Closes the open regions, because chunks of another kind follow.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.dedup.flush();
        self.pump()
    }

    /// Stores an encoded region of another container.
    pub(crate) fn store_region(&mut self, region: EncodedRegion) -> Result<()> {
        self.containers.append(region)?;
        self.put(true)?;
        self.writer.renew()
    }

    /// Publishes containers of other writers in a segment of this writer, and returns its name, if
    /// there are any. Everything that was stored must be published already.
    pub(crate) fn publish_existing(&mut self, containers: Segment) -> Result<Option<PartName>> {
        let segment = self.containers.publish_existing(containers)?;
        self.put(false)?;
        self.writer.renew()?;
        Ok(segment)
    }

    /// Returns the writer and the segments that it has published.
    pub(crate) fn into_parts(self) -> (Writer, Vec<PartName>) {
        let segments = self.containers.segments().to_vec();
        (self.writer, segments)
    }

    /// Returns the number of stored bytes so far.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.containers.statistics().stored_bytes
    }

    /// Publishes everything and commits.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::commit`].
    pub fn commit(mut self, outcome: Outcome) -> Result<CommitResult> {
        self.publish()?;
        let segments = self.containers.segments().to_vec();
        self.writer.commit(outcome, segments, self.dedup.hits())
    }

    /// Does the same as [`Inline::commit`] for a snapshot, except that a small index segment lies in
    /// the commit.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Writer::commit`].
    pub fn commit_embedding(mut self, snapshot: Snapshot) -> Result<CommitResult> {
        self.dedup.flush();
        self.pump()?;
        let embedded = self.containers.finish_embedding()?;
        self.pump()?;
        let names = self.containers.segments().to_vec();
        let outcome = Outcome::Snapshot(Box::new(snapshot));
        self.writer.commit(outcome, OwnSegments { names, embedded }, self.dedup.hits())
    }
}

impl ChunkSink for Inline {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.dedup.store_meta(chunk)?;
        self.pump()?;
        Ok(fingerprint)
    }
}
