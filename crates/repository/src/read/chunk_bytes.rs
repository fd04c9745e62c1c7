//! The bytes of a chunk, inside the decoded region that holds it.

use std::ops::Range;
use std::sync::Arc;

use crate::format::toc::ChunkRecord;

/// The bytes of a chunk, inside a decoded region that other chunks share.
#[derive(Clone, Debug)]
pub struct ChunkBytes {
    region: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl ChunkBytes {
    /// Returns the payload of `record`, if `record` lies within the decoded `region`.
    pub(crate) fn of_record(region: &Arc<Vec<u8>>, record: &ChunkRecord) -> Option<ChunkBytes> {
        let start = record.offset as usize;
        ChunkBytes::within(region, start..start + record.payload_len as usize)
    }

    /// Returns the bytes of `range`, if it lies within the decoded `region`.
    pub(crate) fn within(region: &Arc<Vec<u8>>, range: Range<usize>) -> Option<ChunkBytes> {
        region.get(range.clone())?;
        Some(ChunkBytes { region: region.clone(), range })
    }
}

/// The bytes of a vector of their own, such as those of an assembled delta chunk.
impl From<Vec<u8>> for ChunkBytes {
    fn from(bytes: Vec<u8>) -> ChunkBytes {
        let range = 0..bytes.len();
        ChunkBytes { region: Arc::new(bytes), range }
    }
}

impl AsRef<[u8]> for ChunkBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::ops::Deref for ChunkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.region[self.range.clone()]
    }
}
