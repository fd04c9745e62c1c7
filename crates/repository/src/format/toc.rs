//! The table of contents of a container: its regions, and the chunks in them. The table of contents
//! is the authoritative record of the places of chunks.
//!
//! The form is fixed-width and little-endian: length of the following bytes 4, number of regions 4,
//! number of chunks 4, the regions, the chunks, then a map of extras. Before a table of contents is
//! sealed, zeros are appended up to a multiple of 4 KiB.

use cutpoint_storage::{Error, Kind, Result};
use minicbor::Decoder;

use super::HEADER_LEN;
use super::map::{Extra, MapWriter, at_end, read_map};
use super::packed::{Reader, push_count};
use crate::format::fingerprint::Fingerprint;

/// The granularity of the length of a table of contents before it is sealed, in bytes.
pub const TOC_PADDING: usize = 4096;
/// The length of a region's record, in bytes, without its references.
pub const REGION_RECORD_LEN: usize = 4 + 4 + 4 + 1 + 2;
/// The length of a chunk's record, in bytes.
pub const CHUNK_RECORD_LEN: usize = 32 + 1 + 2 + 4 + 4 + 4;
/// The maximum decoded length of a region, in bytes.
pub const REGION_RAW_LEN_MAX: u32 = 16 * 1024 * 1024;
/// Number of regions at which a container is closed.
pub const REGION_COUNT_MAX: usize = 65_535;

/// The encoding of a region before it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    Store,
    /// A single zstd frame.
    Zstd,
}

impl Codec {
    fn code(self) -> u8 {
        match self {
            Codec::Store => 0,
            Codec::Zstd => 1,
        }
    }

    fn from_code(code: u8) -> Result<Codec> {
        match code {
            0 => Ok(Codec::Store),
            1 => Ok(Codec::Zstd),
            _ => Err(Error::new(
                Kind::Unsupported,
                "",
                format!("a region with codec {code} requires a newer cutpoint"),
            )),
        }
    }
}

/// A region: new chunks that came in sequence, whose payloads are compressed and sealed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRecord {
    /// The start of the region in the container, in bytes.
    pub offset: u32,
    /// The sealed length of the region, tag included, in bytes.
    pub stored_len: u32,
    /// The decoded length of the region, in bytes.
    pub raw_len: u32,
    /// The encoding of the region.
    pub codec: Codec,
    /// The full chunks to which delta chunks of the region refer.
    pub references: Vec<Fingerprint>,
}

/// The form in which a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Stored as the bytes of the chunk, for recipes to name.
    Full,
    /// Stored as its bytes as well: new bytes of delta chunks, gathered in one chunk. A recipe
    /// names it only if its stream has a chunk with exactly these bytes.
    Literal,
    /// Stored as a list of extents over the region's references.
    Delta,
}

impl Form {
    fn code(self) -> u8 {
        match self {
            Form::Full => 0,
            Form::Literal => 1,
            Form::Delta => 2,
        }
    }

    fn from_code(code: u8) -> Result<Form> {
        match code {
            0 => Ok(Form::Full),
            1 => Ok(Form::Literal),
            2 => Ok(Form::Delta),
            _ => Err(Error::new(
                Kind::Unsupported,
                "",
                format!("a chunk with flags {code:#04x} requires a newer cutpoint"),
            )),
        }
    }
}

/// A chunk in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// The fingerprint of the chunk.
    pub fingerprint: Fingerprint,
    /// The form in which the chunk is stored.
    pub form: Form,
    /// The number of the region that holds the chunk.
    pub region: u16,
    /// The start of the payload in the decoded region, in bytes.
    pub offset: u32,
    /// The length of the payload, in bytes. For full chunks, the length of the chunk.
    pub payload_len: u32,
    /// The length of the chunk, in bytes.
    pub chunk_len: u32,
}

/// The sealed list of the contents of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toc {
    /// The regions, in order of their offsets.
    pub regions: Vec<RegionRecord>,
    /// The chunks, in order of their regions and offsets.
    pub chunks: Vec<ChunkRecord>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl Toc {
    /// Returns `true` if any chunk is a delta chunk.
    pub fn has_delta_chunks(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.form == Form::Delta)
    }

    /// Encodes the table of contents as the bytes to be sealed.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(
            12 + self.regions.len() * REGION_RECORD_LEN + self.chunks.len() * CHUNK_RECORD_LEN,
        );
        body.extend_from_slice(&[0; 4]);
        push_count(&mut body, self.regions.len());
        push_count(&mut body, self.chunks.len());
        for region in &self.regions {
            body.extend_from_slice(&region.offset.to_le_bytes());
            body.extend_from_slice(&region.stored_len.to_le_bytes());
            body.extend_from_slice(&region.raw_len.to_le_bytes());
            body.push(region.codec.code());
            let count = u16::try_from(region.references.len());
            let count = count.expect("the references of a region have numbers of 16 bits");
            body.extend_from_slice(&count.to_le_bytes());
            for reference in &region.references {
                body.extend_from_slice(&reference.0);
            }
        }
        for chunk in &self.chunks {
            body.extend_from_slice(&chunk.fingerprint.0);
            body.push(chunk.form.code());
            body.extend_from_slice(&chunk.region.to_le_bytes());
            body.extend_from_slice(&chunk.offset.to_le_bytes());
            body.extend_from_slice(&chunk.payload_len.to_le_bytes());
            body.extend_from_slice(&chunk.chunk_len.to_le_bytes());
        }
        let mut map = MapWriter::new();
        map.extra(&self.extra);
        map.finish_into(&mut body);
        let length = u32::try_from(body.len() - 4);
        let length = length.expect("bounded by the maximum length of an object");
        body[..4].copy_from_slice(&length.to_le_bytes());
        body.resize(body.len().next_multiple_of(TOC_PADDING), 0);
        body
    }

    /// Decodes the table of contents of a container whose regions end before `regions_end`.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if a region does not lie inside the container, or a chunk not
    /// inside its region, so that callers need not check this again. Also returns `Corrupt` if two
    /// regions, or two chunks of a region, overlap or are out of order, so that reading all of them
    /// reads no byte twice.
    pub fn decode(bytes: &[u8], regions_end: u64) -> Result<Toc> {
        let bad = |what: String| Error::corrupt("", format!("malformed table of contents: {what}"));
        let mut reader = Reader::new(bytes, "table of contents");
        let length = reader.u32()? as usize;
        let mut reader = Reader::new(reader.take(length)?, "table of contents");
        let region_count = reader.u32()? as usize;
        let chunk_count = reader.u32()? as usize;
        if region_count > REGION_COUNT_MAX {
            return Err(bad(format!("{region_count} regions")));
        }
        let mut regions = Vec::with_capacity(reader.capacity(region_count, REGION_RECORD_LEN));
        let mut end_last = HEADER_LEN as u64;
        for index in 0..region_count {
            let region = RegionRecord {
                offset: reader.u32()?,
                stored_len: reader.u32()?,
                raw_len: reader.u32()?,
                codec: Codec::from_code(reader.u8()?)?,
                references: {
                    let count = usize::from(reader.u16()?);
                    let mut references = Vec::with_capacity(reader.capacity(count, 32));
                    for _ in 0..count {
                        references.push(Fingerprint(reader.array()?));
                    }
                    references
                },
            };
            let end = u64::from(region.offset) + u64::from(region.stored_len);
            if end > regions_end || region.raw_len > REGION_RAW_LEN_MAX {
                return Err(bad(format!(
                    "region {index} of {} bytes ends at {end}",
                    region.raw_len
                )));
            }
            // Otherwise a small container could take days to read, with 65,535 regions of the same
            // bytes.
            if u64::from(region.offset) < end_last {
                return Err(bad(format!("region {index} begins before {end_last}")));
            }
            end_last = end;
            regions.push(region);
        }
        let mut chunks = Vec::with_capacity(reader.capacity(chunk_count, CHUNK_RECORD_LEN));
        let mut last = (0, 0);
        for index in 0..chunk_count {
            let chunk = ChunkRecord {
                fingerprint: Fingerprint(reader.array()?),
                form: Form::from_code(reader.u8()?)?,
                region: reader.u16()?,
                offset: reader.u32()?,
                payload_len: reader.u32()?,
                chunk_len: reader.u32()?,
            };
            let end = u64::from(chunk.offset) + u64::from(chunk.payload_len);
            let region = regions.get(usize::from(chunk.region));
            let inside = region.is_some_and(|region| end <= u64::from(region.raw_len));
            let is_long = chunk.form == Form::Delta && chunk.chunk_len <= REGION_RAW_LEN_MAX;
            if !inside || !(is_long || chunk.payload_len == chunk.chunk_len) {
                return Err(bad(format!("chunk {index} is outside region {}", chunk.region)));
            }
            // The same limit applies to chunks, because each one is hashed.
            if (chunk.region, u64::from(chunk.offset)) < last {
                return Err(bad(format!("chunk {index} overlaps the previous chunk")));
            }
            last = (chunk.region, end);
            chunks.push(chunk);
        }
        let d = &mut Decoder::new(reader.rest());
        let extra = read_map(d, |_, _| Ok(false))?;
        at_end(d)?;
        Ok(Toc { regions, chunks, extra })
    }
}
