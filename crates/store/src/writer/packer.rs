//! The packer: decides which chunks are known and puts the payloads of the others into regions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::region::{PROBE_LEN, Probe, RawChunk, RawRegion, Verify};
use crate::error::Result;
use crate::fingerprint::{Class, Fingerprint};
use crate::index::{Index, Scope};
use crate::name::PartName;
use crate::seal::{Keys, TAG_LEN};

/// Takes chunks: what recipes and trees are written to.
pub trait ChunkSink {
    /// Stores a chunk unless it is known, and returns its fingerprint.
    ///
    /// # Errors
    ///
    /// As the index.
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint>;
}

/// The one ordered stage of a backup.
#[derive(Debug)]
pub struct Packer {
    keys: Keys,
    index: Arc<Index>,
    region_size: usize,
    verify: Verify,
    probe: Probe,
    open: [Option<RawRegion>; 2],
    next_region: u64,
    /// Chunks of this ticket that no segment in the index names yet, with their region's number.
    own: HashMap<(Class, Fingerprint), u64>,
    hits: BTreeSet<(Class, PartName)>,
    ready: Vec<RawRegion>,
    spare: Vec<Vec<u8>>,
    new_chunk_count: [u64; 2],
    new_bytes: [u64; 2],
}

fn slot(class: Class) -> usize {
    match class {
        Class::Data => 0,
        Class::Meta => 1,
    }
}

impl Packer {
    /// A packer whose regions gather `region_size` bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` where zstd has no memory.
    pub fn new(keys: Keys, index: Arc<Index>, region_size: u32, verify: Verify) -> Result<Packer> {
        Ok(Packer {
            keys,
            index,
            region_size: region_size as usize,
            verify,
            probe: Probe::new()?,
            open: [None, None],
            next_region: 0,
            own: HashMap::new(),
            hits: BTreeSet::new(),
            ready: Vec::new(),
            spare: Vec::new(),
            new_chunk_count: [0; 2],
            new_bytes: [0; 2],
        })
    }

    /// Stores a chunk whose fingerprint the caller has computed. Returns whether it was new.
    ///
    /// # Errors
    ///
    /// As the index.
    pub fn store(&mut self, class: Class, fingerprint: Fingerprint, chunk: &[u8]) -> Result<bool> {
        if self.own.contains_key(&(class, fingerprint)) {
            return Ok(false);
        }
        if let Some(location) = self.index.find(class, &fingerprint, Scope::Write)? {
            self.hits.insert((class, location.loaded.container.name));
            return Ok(false);
        }
        let index = slot(class);
        let is_full = self.open[index]
            .as_ref()
            .is_some_and(|open| !open.is_empty() && open.len() + chunk.len() > self.region_size);
        if is_full {
            self.close(class);
        }
        let number = &mut self.next_region;
        let (spare, verify, region_size) = (&mut self.spare, self.verify, self.region_size);
        let open = self.open[index].get_or_insert_with(|| {
            let mut bytes =
                spare.pop().unwrap_or_else(|| Vec::with_capacity(region_size + TAG_LEN));
            bytes.clear();
            let region = RawRegion {
                number: *number,
                class,
                bytes,
                chunks: Vec::new(),
                verify: verify.includes(class, *number),
                is_incompressible: false,
                is_probed: false,
            };
            *number += 1;
            region
        });
        let offset = u32::try_from(open.bytes.len()).unwrap_or(u32::MAX);
        let len = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        open.bytes.extend_from_slice(chunk);
        open.chunks.push(RawChunk { fingerprint, offset, len });
        self.own.insert((class, fingerprint), open.number);
        self.new_chunk_count[index] += 1;
        self.new_bytes[index] += chunk.len() as u64;
        if !open.is_probed && open.bytes.len() >= PROBE_LEN {
            open.is_probed = true;
            open.is_incompressible = self.probe.looks_incompressible(&open.bytes);
        }
        if open.is_incompressible || open.bytes.len() >= self.region_size {
            self.close(class);
        }
        Ok(true)
    }

    fn close(&mut self, class: Class) {
        if let Some(region) = self.open[slot(class)].take() {
            self.ready.push(region);
        }
    }

    /// Closes both open regions: at the end of a source.
    pub fn flush(&mut self) {
        self.close(Class::Data);
        self.close(Class::Meta);
    }

    /// The regions that were filled since the last call. Their numbers rise within a class only:
    /// whoever takes them hands them on in the order of this list.
    pub fn take_regions(&mut self) -> Vec<RawRegion> {
        std::mem::take(&mut self.ready)
    }

    /// Whether there are any.
    pub fn has_regions(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Gives back the buffer of a region that has been stored.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 4 {
            self.spare.push(buffer);
        }
    }

    /// Forgets what the index finds from now on: chunks in regions of which `is_published` says
    /// that a segment names them.
    pub fn forget_published(&mut self, is_published: impl Fn(u64) -> bool) {
        self.own.retain(|_, region| !is_published(*region));
    }

    /// The containers of others in which chunks were found (W5).
    pub fn hits(&self) -> &BTreeSet<(Class, PartName)> {
        &self.hits
    }

    /// How many chunks of `class` were new.
    pub fn new_chunk_count(&self, class: Class) -> u64 {
        self.new_chunk_count[slot(class)]
    }

    /// Their size in bytes.
    pub fn new_bytes(&self, class: Class) -> u64 {
        self.new_bytes[slot(class)]
    }
}

impl ChunkSink for Packer {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.keys.fingerprint(Class::Meta, chunk);
        self.store(Class::Meta, fingerprint, chunk)?;
        Ok(fingerprint)
    }
}
