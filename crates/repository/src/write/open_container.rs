//! A container that is being filled.

use std::collections::BTreeSet;
use std::ops::Range;

use cutpoint_storage::{Error, Kind, Result};

use super::part::SealedPart;
use super::region::{EncodedRegion, RegionBuffers};
use super::width::narrow;
use crate::crypto::{Opener, PartKind, Sealer, TAG_LEN, TRAILER_LEN, padded_container_len};
use crate::format::fingerprint::{Class, FINGERPRINT_LEN};
use crate::format::map::Extra;
use crate::format::names::{ObjectName, PartName};
use crate::format::segment::{ContainerRecord, Segment};
use crate::format::toc::{
    CHUNK_RECORD_LEN, ChunkRecord, Codec, REGION_COUNT_MAX, REGION_RECORD_LEN, RegionRecord,
    TOC_PADDING, Toc,
};
use crate::repo::repository::Repository;

/// Padding up to which a container is closed early, in bytes: the start at three quarters of the
/// target size, the end at the full size.
const PADDING_MAX: Range<usize> = 2048..16 * 1024;

/// A container that takes further regions.
#[derive(Debug)]
pub(super) struct OpenContainer {
    name: PartName,
    class: Class,
    sealer: Sealer,
    /// Opens sealed regions for verification. Created at the first use.
    opener: Option<Opener>,
    toc: Toc,
    /// The numbers of the regions in the container.
    regions: BTreeSet<u64>,
}

/// Buffers for the verification of sealed regions: the region before it is sealed, and the region
/// as it opens.
#[derive(Debug, Default)]
pub(super) struct VerifyBuffers {
    plain: Vec<u8>,
    opened: Vec<u8>,
}

/// The end of a container.
pub(super) struct ClosedContainer {
    /// The last part of the object.
    pub(super) part: SealedPart,
    /// The container with the entries that a segment will have for it.
    pub(super) entries: Segment,
    /// The numbers of the regions in the container.
    pub(super) regions: BTreeSet<u64>,
    /// The length of the container in bytes.
    pub(super) len: u64,
}

impl OpenContainer {
    /// Creates a container whose table of contents has `extra`. Also returns its first part.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if there is no randomness.
    pub(super) fn create(
        repository: &Repository,
        class: Class,
        name: PartName,
        extra: Extra,
    ) -> Result<(OpenContainer, SealedPart)> {
        let object = ObjectName::Container(class, name);
        let sealer = Sealer::new(repository.keys(), object, repository.salt()?);
        let part = SealedPart::new(object, sealer.header().to_vec(), false);
        let toc = Toc { extra, ..Toc::default() };
        let (opener, regions) = (None, BTreeSet::new());
        Ok((OpenContainer { name, class, sealer, opener, toc, regions }, part))
    }

    /// Returns the name of the container.
    pub(super) fn name(&self) -> PartName {
        self.name
    }

    /// Seals the next region, and returns it as the next part of the object.
    ///
    /// # Errors
    ///
    /// Returns `Machine` if a sealed region does not open to what it was.
    pub(super) fn append(
        &mut self,
        repository: &Repository,
        region: EncodedRegion,
        verify: &mut VerifyBuffers,
    ) -> Result<SealedPart> {
        let EncodedRegion { raw, codec, encoded } = region;
        let number: u16 = narrow(self.toc.regions.len(), "number of a region")?;
        let kind = PartKind::Region(number.into());
        let raw_len = narrow(raw.bytes.len(), "region")?;
        let mut buffers = RegionBuffers { raw: raw.bytes, encoded };
        let part = match codec {
            Codec::Store => &mut buffers.raw,
            Codec::Zstd => &mut buffers.encoded,
        };
        if raw.verify {
            verify.plain.clone_from(part);
        }
        let offset = self.sealer.seal(kind, part);
        if raw.verify {
            verify.opened.clone_from(part);
            self.verify(repository, kind, verify)?;
        }
        self.toc.regions.push(RegionRecord {
            offset: narrow(offset, "container")?,
            stored_len: narrow(part.len(), "region")?,
            raw_len,
            codec,
            references: raw.references,
        });
        self.toc.chunks.extend(raw.chunks.iter().map(|chunk| ChunkRecord {
            fingerprint: chunk.fingerprint,
            form: chunk.form,
            region: number,
            offset: chunk.offset,
            payload_len: chunk.payload_len,
            chunk_len: chunk.chunk_len,
        }));
        self.regions.insert(raw.number);
        let name = ObjectName::Container(self.class, self.name);
        Ok(SealedPart::region(name, buffers, codec))
    }

    /// Opens a region that was just sealed, and compares it with the original (W4).
    fn verify(
        &mut self,
        repository: &Repository,
        kind: PartKind,
        VerifyBuffers { plain, opened }: &mut VerifyBuffers,
    ) -> Result<()> {
        let name = self.sealer.name();
        let opener = match &mut self.opener {
            Some(opener) => opener,
            none => {
                let opener = Opener::new(repository.keys(), name, &self.sealer.header());
                none.insert(opener.map_err(|error| Error::new(Kind::Machine, name, error))?)
            }
        };
        // The error is `Machine`, because nothing was read: the failure says nothing about what is
        // stored.
        if opener.open(kind, opened).is_ok() && opened == plain {
            Ok(())
        } else {
            Err(Error::new(
                Kind::Machine,
                name,
                "sealed data does not open to the original: check the memory of this machine",
            ))
        }
    }

    /// Returns `true` if the container, whose target size is `target` bytes, should be closed now.
    pub(super) fn is_full(&self, target: usize) -> bool {
        // Near the target size, the container ends after a region that leaves little to pad. The
        // accepted padding grows as the room for further regions shrinks.
        let near = self.sealer.len().checked_sub(target - target / 4);
        let fits = near.is_some_and(|near| {
            let padding_max = PADDING_MAX.start + near * PADDING_MAX.len() / (target / 4).max(1);
            self.padding() < padding_max
        });
        self.sealer.len() >= target
            || fits
            || self.toc_len() >= target / 2
            || self.toc.regions.len() == REGION_COUNT_MAX
    }

    /// Returns the length that the sealed table of contents would have if the container were closed
    /// now.
    fn toc_len(&self) -> usize {
        let references: usize = self.toc.regions.iter().map(|region| region.references.len()).sum();
        let records = self.toc.regions.len() * REGION_RECORD_LEN
            + references * FINGERPRINT_LEN
            + self.toc.chunks.len() * CHUNK_RECORD_LEN;
        (12 + records + 1).next_multiple_of(TOC_PADDING) + TAG_LEN
    }

    /// Returns the number of zeros that would pad the container if it were closed now.
    fn padding(&self) -> usize {
        let len = self.sealer.len() + self.toc_len() + TRAILER_LEN;
        padded_container_len(len) - len
    }

    /// Seals the table of contents, which ends the container.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if the container is longer than the format allows.
    pub(super) fn close(self) -> Result<ClosedContainer> {
        let mut part = self.toc.encode();
        let toc_len = narrow(part.len() + TAG_LEN, "table of contents")?;
        let toc_at = self.sealer.len();
        self.sealer.finish(PartKind::Toc, &mut part);
        let len = toc_at + part.len();
        let record = ContainerRecord {
            name: self.name,
            class: self.class,
            has_delta_chunks: self.toc.has_delta_chunks(),
            stored_len: narrow(len, "container")?,
            toc_offset: narrow(toc_at, "container")?,
            toc_len,
        };
        let hints = self.toc.chunks.iter().map(|chunk| (chunk.fingerprint.hint(), 0));
        let hints = hints.collect();
        let name = ObjectName::Container(self.class, self.name);
        Ok(ClosedContainer {
            part: SealedPart::new(name, part, true),
            entries: Segment { containers: vec![record], hints, ..Segment::default() },
            regions: self.regions,
            len: len as u64,
        })
    }
}
