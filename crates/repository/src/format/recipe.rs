//! Recipes: the sequences of chunks that make up streams.
//!
//! Packed segments follow each other without a count. Each is a varint (LEB128) of `length << 2 |
//! kind`, followed for kind 0 by the fingerprint (32 bytes), for kind 1 by a varint with the offset
//! inside the chunk and the fingerprint, and for kinds 2 (hole) and 3 (zeros) by nothing.
//!
//! A recipe chunk is a map: 0 level, 1 cut specification, 2 packed segments. On level 0 the
//! segments name the chunks of the stream; on level n > 0 they name recipe chunks of level n - 1,
//! each with the length of the stream below it.

use std::ops::Range;

use cutpoint_storage::{Error, Result};
use minicbor::{Decoder, Encoder};

use super::map::{Extra, MapWriter, at_end, malformed, read_map, required};
use super::packed::{push_varint, take_varint};
use crate::format::fingerprint::{FINGERPRINT_LEN, Fingerprint};

/// Maximum number of segments that are stored in the tree entry itself.
pub const SEGMENTS_INLINE_MAX: usize = 4;

/// The maximum level of a recipe. With at least 16 entries in each chunk of a level except the
/// last, six levels hold more than a file system can.
pub const LEVEL_MAX: u32 = 6;

/// The maximum length of raw content in a tree entry, in bytes: the target of a symbolic link.
pub const RAW_LEN_MAX: usize = 4096;

/// A piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// `length` bytes of a chunk, beginning at `offset`.
    Chunk {
        /// The fingerprint of the chunk.
        fingerprint: Fingerprint,
        /// The offset in the chunk, in bytes; 0 unless several small files share a chunk.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Bytes that the source had not allocated: they read as zero, and are not allocated by a
    /// restore.
    Hole {
        /// The number of bytes.
        length: u64,
    },
    /// Zero bytes that the source had allocated.
    Zeros {
        /// The number of bytes.
        length: u64,
    },
}

/// Returns the range of a segment's bytes, `length` bytes from `offset` on, in its data chunk, which
/// has `chunk_len` bytes.
///
/// # Errors
///
/// Returns a `Corrupt` error that names the chunk if the range ends after the chunk.
pub fn range_in_chunk(
    fingerprint: &Fingerprint,
    chunk_len: u64,
    offset: u64,
    length: u64,
) -> Result<Range<usize>> {
    let end = offset.checked_add(length).filter(|&end| end <= chunk_len);
    let range = end.and_then(|end| Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
    range.ok_or_else(|| {
        let message = format!("has {chunk_len} bytes (expected {length} bytes at offset {offset})");
        Error::corrupt(format!("data chunk {fingerprint}"), message)
    })
}

impl Segment {
    /// Returns the number of bytes of the stream that the segment covers.
    pub fn length(&self) -> u64 {
        match *self {
            Segment::Chunk { length, .. }
            | Segment::Hole { length }
            | Segment::Zeros { length } => length,
        }
    }

    /// Appends the packed segment to `out`.
    ///
    /// # Panics
    ///
    /// Panics in debug builds if a length is 0 or needs more than 62 bits.
    pub fn pack_into(&self, out: &mut Vec<u8>) {
        let length = self.length();
        assert!(length > 0 && length < 1 << 62, "segment length {length}");
        match self {
            Segment::Chunk { fingerprint, offset: 0, .. } => {
                push_varint(out, length << 2);
                out.extend_from_slice(&fingerprint.0);
            }
            Segment::Chunk { fingerprint, offset, .. } => {
                push_varint(out, length << 2 | 1);
                push_varint(out, *offset);
                out.extend_from_slice(&fingerprint.0);
            }
            Segment::Hole { .. } => push_varint(out, length << 2 | 2),
            Segment::Zeros { .. } => push_varint(out, length << 2 | 3),
        }
    }

    /// Decodes packed segments.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the bytes end too early, a length is 0, or the lengths
    /// overflow.
    pub fn unpack(mut bytes: &[u8]) -> Result<Vec<Segment>> {
        let mut segments = Vec::new();
        let mut total = 0_u64;
        while !bytes.is_empty() {
            let head = take_varint(&mut bytes)?;
            let length = head >> 2;
            // An empty segment would let a reader loop without progress.
            if length == 0 {
                return Err(bad("a segment of length 0"));
            }
            total = total
                .checked_add(length)
                .filter(|&total| i64::try_from(total).is_ok())
                .ok_or_else(|| bad("more bytes than a file can have"))?;
            segments.push(match head & 3 {
                0 => {
                    Segment::Chunk { fingerprint: take_fingerprint(&mut bytes)?, offset: 0, length }
                }
                1 => {
                    let offset = take_varint(&mut bytes)?;
                    Segment::Chunk { fingerprint: take_fingerprint(&mut bytes)?, offset, length }
                }
                2 => Segment::Hole { length },
                _ => Segment::Zeros { length },
            });
        }
        Ok(segments)
    }
}

fn bad(what: &str) -> Error {
    Error::corrupt("", format!("malformed recipe: {what}"))
}

fn take_fingerprint(bytes: &mut &[u8]) -> Result<Fingerprint> {
    let (first, rest) =
        bytes.split_first_chunk::<FINGERPRINT_LEN>().ok_or_else(|| bad("truncated fingerprint"))?;
    *bytes = rest;
    Ok(Fingerprint(*first))
}

/// The location of the bytes of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// There are no bytes.
    Empty,
    /// The bytes are in a few chunks, holes and runs of zeros.
    Segments(Vec<Segment>),
    /// The bytes are in the chunks that this recipe chunk names, directly or through others.
    Recipe(Fingerprint),
    /// The bytes are stored here.
    Raw(Vec<u8>),
}

impl Content {
    /// Appends the content as one CBOR item.
    pub fn encode(&self, e: &mut Encoder<Vec<u8>>) {
        let (code, bytes) = match self {
            Content::Empty => (0, Vec::new()),
            Content::Segments(segments) => {
                let mut packed = Vec::with_capacity(segments.len() * (FINGERPRINT_LEN + 4));
                segments.iter().for_each(|segment| segment.pack_into(&mut packed));
                (1, packed)
            }
            Content::Recipe(fingerprint) => (2, fingerprint.0.to_vec()),
            Content::Raw(bytes) => (3, bytes.clone()),
        };
        e.array(2).and_then(|e| e.u32(code)).and_then(|e| e.bytes(&bytes)).ok();
    }

    /// Decodes a content.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Content> {
        if d.array().map_err(malformed)? != Some(2) {
            return Err(bad("content without code or bytes"));
        }
        let code = d.u32().map_err(malformed)?;
        let bytes = d.bytes().map_err(malformed)?;
        match code {
            0 if bytes.is_empty() => Ok(Content::Empty),
            1 => Ok(Content::Segments(Segment::unpack(bytes)?)),
            2 => {
                let mut bytes = bytes;
                let fingerprint = take_fingerprint(&mut bytes)?;
                if bytes.is_empty() {
                    Ok(Content::Recipe(fingerprint))
                } else {
                    Err(bad("a reference longer than a fingerprint"))
                }
            }
            3 if bytes.len() <= RAW_LEN_MAX => Ok(Content::Raw(bytes.to_vec())),
            _ => Err(bad("content of unknown form")),
        }
    }
}

/// A decoded chunk of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeChunk {
    /// The level: on 0 the segments are those of the stream; above, they name recipe chunks of the
    /// level below.
    pub level: u32,
    /// The specification of the cutting algorithm of the stream.
    pub cut: String,
    /// The segments.
    pub segments: Vec<Segment>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl RecipeChunk {
    /// Encodes the recipe chunk.
    pub fn encode(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.segments.len() * (FINGERPRINT_LEN + 4));
        self.segments.iter().for_each(|segment| segment.pack_into(&mut packed));
        let mut map = MapWriter::new();
        map.uint(0, u64::from(self.level)).text(1, &self.cut).bytes(2, &packed).extra(&self.extra);
        map.finish()
    }

    /// Decodes a recipe chunk.
    pub fn decode(bytes: &[u8]) -> Result<RecipeChunk> {
        let d = &mut Decoder::new(bytes);
        let (mut level, mut cut, mut segments) = (None, None, None);
        let extra = read_map(d, |key, d| {
            match key {
                0 => level = Some(d.u32().map_err(malformed)?),
                1 => cut = Some(d.str().map_err(malformed)?.to_owned()),
                2 => segments = Some(Segment::unpack(d.bytes().map_err(malformed)?)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        at_end(d)?;
        let chunk = RecipeChunk {
            level: required(level, "level of a recipe")?,
            cut: required(cut, "cut of a recipe")?,
            segments: required(segments, "segments of a recipe")?,
            extra,
        };
        // A cycle is impossible, because a chunk cannot contain its own hash, but an excessive
        // height is not.
        if chunk.level > LEVEL_MAX {
            return Err(bad("level too high for any writer"));
        }
        if chunk.level > 0
            && chunk.segments.iter().any(|s| !matches!(s, Segment::Chunk { offset: 0, .. }))
        {
            return Err(bad("an upper level may refer only to complete recipe chunks"));
        }
        Ok(chunk)
    }
}
