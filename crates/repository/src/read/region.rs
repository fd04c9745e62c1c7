//! Regions: from a container on the storage to the decoded bytes that chunks share.

use std::sync::{Arc, PoisonError};

use cutpoint_storage::{Error, Result};
use zstd::bulk::Decompressor;

use super::chunk_bytes::ChunkBytes;
use super::reader::Reader;
use super::regions::{Claim, ReadStatistics};
use crate::crypto::{HEADER_LEN, Opener, PartKind};
use crate::format::fingerprint::Class;
use crate::format::names::{ObjectName, PartName};
use crate::format::region::decode_region_into;
use crate::format::toc::Codec;
use crate::index::Location;

/// Maximum number of openers (keys of containers) that are kept.
const OPENERS_MAX: usize = 256;

impl Reader {
    /// Returns the stored payload of the chunk at `location`, not verified. For a full chunk, these
    /// are its bytes.
    pub(crate) fn payload(&self, class: Class, location: &Location) -> Result<ChunkBytes> {
        let record = location.chunk();
        let region = self.region(class, location)?;
        ChunkBytes::of_record(&region, record).ok_or_else(|| {
            let name = ObjectName::Container(class, location.container.name);
            Error::corrupt(name, "a chunk is outside its region")
        })
    }

    /// Returns the decoded region that contains a chunk.
    pub(super) fn region(&self, class: Class, location: &Location) -> Result<Arc<Vec<u8>>> {
        let (container, number) = (location.container.name, location.chunk().region);
        let (turn, fetched) = match self.regions.claim((class, container, number)) {
            Claim::Decoded(bytes) => return Ok(bytes),
            Claim::Turn(turn, fetched) => (turn, fetched),
        };
        let name = ObjectName::Container(class, container);
        let record = location.region();
        let opener = self.opener(class, container)?;
        let (offset, len) = (record.offset as usize, record.stored_len as usize);
        let read = || {
            let storage = self.repository.storage();
            let part = storage.get_range(&name.to_string(), offset as u64, len)?;
            self.regions.count_request(len);
            Ok::<_, Error>(part)
        };
        let front = self.index.front(class, container);
        let front = front.and_then(|front| Some(front.get(offset..offset + len)?.to_vec()));
        let mut part = match fetched {
            Some(part) => Vec::from(part),
            None => front.map_or_else(|| read().map(Vec::from), Ok)?,
        };
        let kind = PartKind::Region(u32::from(number));
        if let Err(error) = opener.open(kind, &mut part) {
            // The storage has the last word, not a copy of it.
            if !self.index.drop_front(class, container) {
                return Err(error);
            }
            part = Vec::from(read()?);
            opener.open(kind, &mut part)?;
        }
        // A region that is stored uncompressed needs no second buffer.
        let room = if record.codec == Codec::Store { 0 } else { record.raw_len as usize };
        let (buffer, decompressor) = turn.take_tools(room);
        let mut decompressor = match decompressor {
            Some(decompressor) => decompressor,
            None => Decompressor::new().map_err(|error| Error::invalid("zstd", error))?,
        };
        let (codec, raw_len) = (record.codec, record.raw_len);
        let bytes = decode_region_into(&mut decompressor, codec, part, raw_len, buffer)
            .map_err(|error| error.of(format!("{name}: region {number}")))?;
        let bytes = Arc::new(bytes);
        turn.decoded(&bytes, decompressor);
        Ok(bytes)
    }

    fn opener(&self, class: Class, container: PartName) -> Result<Arc<Opener>> {
        let lock = || self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opener) = lock().get(&(class, container)) {
            return Ok(opener.clone());
        }
        let name = ObjectName::Container(class, container);
        if let Some(header) = self.index.header(class, container) {
            return self.keep_opener(class, container, &header);
        }
        let header = match self.index.front(class, container) {
            Some(front) => front,
            None => self.repository.storage().get_range(&name.to_string(), 0, HEADER_LEN)?,
        };
        self.keep_opener(class, container, &header)
    }

    /// Creates the opener of a container that begins with `header`, and keeps it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Opener::new`].
    pub(super) fn keep_opener(
        &self,
        class: Class,
        container: PartName,
        header: &[u8],
    ) -> Result<Arc<Opener>> {
        let name = ObjectName::Container(class, container);
        let opener = Arc::new(Opener::new(self.repository.keys(), name, header)?);
        let mut openers = self.openers.lock().unwrap_or_else(PoisonError::into_inner);
        if openers.len() >= OPENERS_MAX {
            openers.clear();
        }
        openers.insert((class, container), opener.clone());
        Ok(opener)
    }

    /// Returns `true` if the opener of a container is kept, or can be made without a request.
    pub(super) fn has_opener(&self, class: Class, container: PartName) -> bool {
        let is_kept = {
            let openers = self.openers.lock().unwrap_or_else(PoisonError::into_inner);
            openers.contains_key(&(class, container))
        };
        is_kept || self.index.header(class, container).is_some()
    }

    /// Returns the read counters so far.
    pub fn statistics(&self) -> ReadStatistics {
        self.regions.statistics()
    }
}
