//! Packer, codec and archive in one thread: for small writers and for tests.

use std::sync::Arc;

use super::archive::Archive;
use super::packer::{ChunkSink, Packer};
use super::region::{RegionCodec, Verify};
use super::uploads::Uploads;
use super::{Committed, Writer};
use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::format::commit::Outcome;
use crate::index::Index;

/// Stores chunks one after the other and puts what comes of it at once.
#[derive(Debug)]
pub struct Inline {
    writer: Writer,
    index: Arc<Index>,
    packer: Packer,
    codec: RegionCodec,
    archive: Archive,
    uploads: Uploads,
    encoded: Vec<u8>,
}

impl Inline {
    /// Begins to store for `writer`.
    ///
    /// # Errors
    ///
    /// As the index.
    pub fn new(writer: Writer, verify: Verify) -> Result<Inline> {
        let repository = writer.repository().clone();
        let index = Arc::new(Index::open(repository.clone(), writer.view())?);
        let config = repository.config();
        Ok(Inline {
            packer: Packer::new(
                repository.keys().clone(),
                index.clone(),
                config.region_size,
                verify,
            )?,
            codec: RegionCodec::new(config.compression_level)?,
            archive: Archive::new(repository.clone(), writer.ticket()),
            uploads: Uploads::default(),
            encoded: Vec::new(),
            index,
            writer,
        })
    }

    /// The writer.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Stores a chunk of file data unless it is known, and returns its fingerprint.
    ///
    /// # Errors
    ///
    /// As the index and the medium.
    pub fn store_data(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.writer.repository().keys().fingerprint(Class::Data, chunk);
        self.packer.store(Class::Data, fingerprint, chunk)?;
        self.pump()?;
        Ok(fingerprint)
    }

    fn pump(&mut self) -> Result<()> {
        for region in self.packer.take_regions() {
            let encoded = self.codec.encode(region, std::mem::take(&mut self.encoded))?;
            self.archive.append(encoded)?;
            self.put()?;
        }
        self.put()?;
        self.writer.renew()
    }

    fn put(&mut self) -> Result<()> {
        for part in self.archive.take_parts() {
            let written = self.uploads.write(self.writer.repository(), part)?;
            if let Some(upload) = written.upload
                && let Some(published) = self.writer.put(upload)?
            {
                self.index.add(published.name, &published.segment)?;
                self.packer.forget_published(|region| published.regions.contains(&region));
            }
            if let Some(buffers) = written.buffers {
                self.packer.recycle(buffers.raw);
                self.encoded = buffers.encoded;
            }
        }
        Ok(())
    }

    /// Puts everything that was stored, and the segment that names it; goes on afterwards.
    ///
    /// # Errors
    ///
    /// As the medium.
    pub fn publish(&mut self) -> Result<()> {
        self.packer.flush();
        self.pump()?;
        self.archive.finish()?;
        self.pump()
    }

    /// Publishes everything and commits.
    ///
    /// # Errors
    ///
    /// As [`Writer::commit`].
    pub fn commit(mut self, outcome: Outcome) -> Result<Committed> {
        self.publish()?;
        let segments = self.archive.segments().to_vec();
        self.writer.commit(outcome, segments, self.packer.hits())
    }
}

impl ChunkSink for Inline {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.packer.store_meta(chunk)?;
        self.pump()?;
        Ok(fingerprint)
    }
}
