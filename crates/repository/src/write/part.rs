//! The parts of objects, as they leave the container writer.

use std::collections::BTreeSet;

use super::region::RegionBuffers;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::Segment;
use crate::format::toc::Codec;

/// The next bytes of an object to put. Objects must be completed in the order in which their last
/// parts come.
#[derive(Debug)]
pub struct SealedPart {
    /// The name of the object.
    pub name: ObjectName,
    /// The buffers of the part. The codec determines which of them has the bytes.
    buffers: RegionBuffers,
    codec: Codec,
    /// Set if the part is a region, whose buffers are reused.
    is_region: bool,
    /// Set if the object ends with this part.
    pub is_last: bool,
    /// The meaning of the completed object for the index, if it has one.
    pub(super) stored: Option<CompletedObject>,
}

impl SealedPart {
    /// Creates a part that is no region.
    pub(super) fn new(name: ObjectName, bytes: Vec<u8>, is_last: bool) -> SealedPart {
        SealedPart {
            name,
            buffers: RegionBuffers { raw: bytes, encoded: Vec::new() },
            codec: Codec::Store,
            is_region: false,
            is_last,
            stored: None,
        }
    }

    /// Creates the part of a sealed region of a container.
    pub(super) fn region(name: ObjectName, buffers: RegionBuffers, codec: Codec) -> SealedPart {
        SealedPart { name, buffers, codec, is_region: true, is_last: false, stored: None }
    }

    /// Sets the meaning of the object that ends with this part.
    pub(super) fn with_meaning(self, object: CompletedObject) -> SealedPart {
        SealedPart { stored: Some(object), ..self }
    }

    /// Returns the bytes of the part.
    pub fn bytes(&self) -> &[u8] {
        match self.codec {
            Codec::Store => &self.buffers.raw,
            Codec::Zstd => &self.buffers.encoded,
        }
    }

    /// Returns the buffers of a region that has been written, for the next region.
    pub fn into_buffers(self) -> Option<RegionBuffers> {
        self.is_region.then_some(self.buffers)
    }
}

/// The meaning of an object for the index.
#[derive(Debug)]
pub enum CompletedObject {
    /// A container, with the entries that a segment will have for it.
    Container(Segment),
    /// An index segment.
    Segment(PublishedSegment),
}

/// The content of a published index segment.
#[derive(Debug)]
pub struct PublishedSegment {
    /// The name of the segment.
    pub name: PartName,
    /// The content of the segment, for the local index.
    pub segment: Segment,
    /// The numbers of the regions whose chunks the segment names.
    pub regions: BTreeSet<u64>,
}
