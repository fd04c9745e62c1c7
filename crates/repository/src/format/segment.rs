//! Index segments: hints about the places of chunks, which tables of contents confirm.
//!
//! The form is fixed-width and little-endian (hints are big-endian, so that they sort as bytes):
//! number of containers 4, number of hints 4, the containers, the hints in rising order, then a
//! map without keys of its own.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use super::map::{Extra, MapWriter, at_end, read_map};
use super::packed::{Reader, push_count};
use crate::format::fingerprint::Class;
use crate::format::names::PartName;

/// The length of a container's record, in bytes.
pub const CONTAINER_RECORD_LEN: usize = 16 + 1 + 4 + 4 + 4;
/// The length of a hint, in bytes.
pub const HINT_LEN: usize = 8 + 4;

/// The record of one container in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRecord {
    /// The name of the container.
    pub name: PartName,
    /// The class of the container.
    pub class: Class,
    /// Set if any chunk of the container is a delta chunk, which needs full chunks elsewhere.
    /// Unlike a hint, this field is relied on: deletion looks for references only in containers for
    /// which it is set.
    pub has_delta_chunks: bool,
    /// The length of the container in bytes.
    pub stored_len: u32,
    /// The start of the table of contents, in bytes. The table of contents and its tag end before
    /// the padding, at a position that the trailer records.
    pub toc_offset: u32,
    /// The length of the sealed table of contents, in bytes.
    pub toc_len: u32,
}

/// The body of `index/<t>-<k>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The containers.
    pub containers: Vec<ContainerRecord>,
    /// Pairs of (hint, index of the container), sorted.
    pub hints: Vec<(u64, u32)>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

/// Bits of the byte that describes the contents of a container.
const META: u8 = 1;
const DELTA_CHUNKS: u8 = 2;

impl ContainerRecord {
    /// Appends the encoded record to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let class = if self.class == Class::Meta { META } else { 0 };
        let delta_chunks = if self.has_delta_chunks { DELTA_CHUNKS } else { 0 };
        out.extend_from_slice(&self.name.to_bytes());
        out.push(class | delta_chunks);
        out.extend_from_slice(&self.stored_len.to_le_bytes());
        out.extend_from_slice(&self.toc_offset.to_le_bytes());
        out.extend_from_slice(&self.toc_len.to_le_bytes());
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if there are too few bytes, or the class is unknown.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ContainerRecord> {
        let mut reader = Reader::new(bytes, "container record");
        let name = PartName::from_bytes(reader.array()?);
        let kind = reader.u8()?;
        if kind & !(META | DELTA_CHUNKS) != 0 {
            let message = "malformed index segment: a container of unknown class";
            return Err(Error::corrupt("", message));
        }
        Ok(ContainerRecord {
            name,
            class: if kind & META == 0 { Class::Data } else { Class::Meta },
            has_delta_chunks: kind & DELTA_CHUNKS != 0,
            stored_len: reader.u32()?,
            toc_offset: reader.u32()?,
            toc_len: reader.u32()?,
        })
    }
}

impl Segment {
    /// Adds the containers and hints of `other`. The hints are unsorted afterwards.
    pub fn append(&mut self, other: &Segment) {
        let before = u32::try_from(self.containers.len());
        let before = before.expect("bounded by the maximum length of an object");
        self.containers.extend_from_slice(&other.containers);
        let hints = other.hints.iter();
        self.hints.extend(hints.map(|&(hint, container)| (hint, before + container)));
    }

    /// Removes the containers that `keeps` rejects, with their hints.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&ContainerRecord) -> bool) {
        let mut count = 0;
        let places = self.containers.iter().map(|container| {
            let place = count;
            keeps(container).then(|| {
                count += 1;
                place
            })
        });
        let places: Vec<Option<u32>> = places.collect();
        self.hints = std::mem::take(&mut self.hints)
            .into_iter()
            .filter_map(|(hint, container)| Some((hint, (*places.get(container as usize)?)?)))
            .collect();
        self.containers.retain(keeps);
    }

    /// Returns the length of the encoded body in bytes, if it has no entries of a newer version.
    pub(crate) fn encoded_len(&self) -> usize {
        8 + self.containers.len() * CONTAINER_RECORD_LEN + self.hints.len() * HINT_LEN + 1
    }

    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.encoded_len());
        for count in [self.containers.len(), self.hints.len()] {
            push_count(&mut body, count);
        }
        for container in &self.containers {
            container.encode(&mut body);
        }
        for (hint, container) in &self.hints {
            body.extend_from_slice(&hint.to_be_bytes());
            body.extend_from_slice(&container.to_le_bytes());
        }
        let mut map = MapWriter::new();
        map.extra(&self.extra);
        map.finish_into(&mut body);
        body
    }

    /// Decodes the body of the object.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if hints do not rise, or name a container that is not listed.
    pub fn decode(bytes: &[u8]) -> Result<Segment> {
        let bad = |what: &str| Error::corrupt("", format!("malformed index segment: {what}"));
        let mut reader = Reader::new(bytes, "index segment");
        let container_count = reader.u32()? as usize;
        let hint_count = reader.u32()? as usize;
        let mut containers =
            Vec::with_capacity(reader.capacity(container_count, CONTAINER_RECORD_LEN));
        for _ in 0..container_count {
            containers.push(ContainerRecord::decode(reader.take(CONTAINER_RECORD_LEN)?)?);
        }
        let mut hints = Vec::with_capacity(reader.capacity(hint_count, HINT_LEN));
        let mut last = 0;
        for _ in 0..hint_count {
            let hint = u64::from_be_bytes(reader.array()?);
            let container = reader.u32()?;
            if hint < last || container as usize >= containers.len() {
                return Err(bad("hints out of order or without a container"));
            }
            last = hint;
            hints.push((hint, container));
        }
        let d = &mut Decoder::new(reader.rest());
        let extra = read_map(d, |_, _| Ok(false))?;
        at_end(d)?;
        Ok(Segment { containers, hints, extra })
    }
}
