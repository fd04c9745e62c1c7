//! Regions: payloads of consecutive new chunks, compressed as one.

use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, Kind, Result};
use crate::fingerprint::{Class, Fingerprint};
use crate::format::directory::{ChunkRecord, Codec, Form};
use crate::seal::TAG_LEN;

/// Which regions are decoded and compared before they are put (W4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Metadata, and one data region in eight.
    Some,
    /// All.
    All,
}

impl Verify {
    pub(super) fn includes(self, class: Class, number: u64) -> bool {
        self == Verify::All || class == Class::Meta || number.is_multiple_of(8)
    }
}

/// The number of a region that no packer has filled.
const COPIED: u64 = u64::MAX;

/// One chunk's payload in a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawChunk {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) form: Form,
    /// In the region, in bytes.
    pub(crate) offset: u32,
    /// Of the payload, in bytes.
    pub(crate) payload_len: u32,
    /// Of the chunk, in bytes.
    pub(crate) chunk_len: u32,
}

impl From<&ChunkRecord> for RawChunk {
    fn from(record: &ChunkRecord) -> RawChunk {
        let ChunkRecord { fingerprint, form, offset, payload_len, chunk_len, .. } = *record;
        RawChunk { fingerprint, form, offset, payload_len, chunk_len }
    }
}

/// The two large buffers that a region needs, to be used over and over: fresh memory costs as much
/// as filling it.
#[derive(Debug, Default)]
pub struct RegionBuffers {
    /// What the packer fills.
    pub raw: Vec<u8>,
    /// What the codec fills.
    pub encoded: Vec<u8>,
}

/// A region as the packer filled it.
#[derive(Debug)]
pub struct RawRegion {
    pub(super) number: u64,
    pub(super) class: Class,
    pub(super) bytes: Vec<u8>,
    pub(super) chunks: Vec<RawChunk>,
    /// The wholes to which composites of this region refer.
    pub(super) references: Vec<Fingerprint>,
    pub(super) verify: bool,
    /// A sample did not shrink: stored as it is.
    pub(super) is_incompressible: bool,
    pub(super) is_probed: bool,
}

impl RawRegion {
    /// Regions count from 0 in the order in which they were filled, both classes together.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The region as it is stored if there is nothing to encode: a sample of it did not shrink.
    /// Else both come back.
    ///
    /// # Errors
    ///
    /// The region and the buffer, which are then for [`RegionCodec::encode`].
    pub fn stored(self, encoded: Vec<u8>) -> std::result::Result<EncodedRegion, (Self, Vec<u8>)> {
        if self.is_incompressible {
            Ok(EncodedRegion { raw: self, codec: Codec::Store, encoded })
        } else {
            Err((self, encoded))
        }
    }
}

/// A region, encoded; not yet sealed.
#[derive(Debug)]
pub struct EncodedRegion {
    pub(super) raw: RawRegion,
    pub(super) codec: Codec,
    /// Of no meaning where the codec is `Store`.
    pub(super) encoded: Vec<u8>,
}

impl EncodedRegion {
    /// The region's number.
    pub fn number(&self) -> u64 {
        self.raw.number
    }

    /// A region of another container as it is: `bytes` is what `encoded` decodes to, of which
    /// `chunks` live on. Where the codec is `Store`, `encoded` does not count.
    pub(crate) fn copied(
        class: Class,
        bytes: Vec<u8>,
        codec: Codec,
        encoded: Vec<u8>,
        chunks: Vec<RawChunk>,
        references: Vec<Fingerprint>,
    ) -> EncodedRegion {
        let raw = RawRegion {
            number: COPIED,
            class,
            bytes,
            chunks,
            references,
            verify: true,
            is_incompressible: false,
            is_probed: true,
        };
        EncodedRegion { raw, codec, encoded }
    }
}

/// Encodes regions. One for each thread: it keeps the tables of the compressor.
pub struct RegionCodec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    decoded: Vec<u8>,
}

impl std::fmt::Debug for RegionCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegionCodec(..)")
    }
}

impl RegionCodec {
    /// A codec for zstd at `level`.
    ///
    /// # Errors
    ///
    /// `Invalid` where zstd has no such level or no memory.
    pub fn new(level: i32) -> Result<RegionCodec> {
        let failed = |error: std::io::Error| Error::invalid("zstd", error);
        Ok(RegionCodec {
            compressor: Compressor::new(level).map_err(failed)?,
            decompressor: Decompressor::new().map_err(failed)?,
            decoded: Vec::new(),
        })
    }

    /// Compresses a region, or leaves it as it is where it would not shrink by 3 %. Verifies it
    /// where the packer asked for that. What is compressed goes to `encoded`, whose content does not
    /// matter.
    ///
    /// # Errors
    ///
    /// `Machine` where what was compressed does not decode to what it was: broken memory, or a
    /// broken encoder.
    pub fn encode(&mut self, raw: RawRegion, encoded: Vec<u8>) -> Result<EncodedRegion> {
        let (raw, mut encoded) = match raw.stored(encoded) {
            Ok(stored) => return Ok(stored),
            Err(both) => both,
        };
        let len = raw.bytes.len();
        encoded.clear();
        encoded.reserve_exact(zstd::zstd_safe::compress_bound(len) + TAG_LEN);
        let failed = |error: std::io::Error| Error::invalid("zstd", error);
        self.compressor.compress_to_buffer(&raw.bytes, &mut encoded).map_err(failed)?;
        if encoded.len() as u64 * 100 > len as u64 * 97 {
            return Ok(EncodedRegion { raw, codec: Codec::Store, encoded });
        }
        if raw.verify {
            self.decoded.clear();
            self.decoded.reserve_exact(len);
            let decoded = self.decompressor.decompress_to_buffer(&encoded, &mut self.decoded);
            if decoded.is_err() || self.decoded != raw.bytes {
                return Err(Error::new(
                    Kind::Machine,
                    format!("region {}", raw.number),
                    "what was compressed does not decode to what it was: check this machine's \
                     memory",
                ));
            }
        }
        Ok(EncodedRegion { raw, codec: Codec::Zstd, encoded })
    }
}

/// A region of at least this many bytes is sampled, and closed at once where that does not shrink:
/// only what compresses gains by larger regions.
pub const PROBE_LEN: usize = 128 * 1024;
/// A sample is this many pieces.
const SAMPLE_PIECES: usize = 4;
/// The length of a piece of a region, in bytes.
const REGION_PIECE_LEN: usize = 4096;
/// The length of a piece of a chunk, in bytes.
const CHUNK_PIECE_LEN: usize = 2048;

/// Tells by a sample whether compressing is worth the time.
pub struct Probe(Compressor<'static>);

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    /// A probe.
    ///
    /// # Errors
    ///
    /// `Invalid` where zstd has no memory.
    pub fn new() -> Result<Probe> {
        Compressor::new(1).map(Probe).map_err(|error| Error::invalid("zstd", error))
    }

    /// Whether a sample shrinks by less than 1 % with the fastest compressor, which sees repeats
    /// and uneven distributions alike.
    pub fn looks_incompressible(&mut self, bytes: &[u8]) -> bool {
        let (len, compressed_len) = self.compress_sample(bytes, REGION_PIECE_LEN);
        compressed_len * 100 > len * 99
    }

    /// About how many bytes a chunk takes when it is compressed.
    pub(super) fn compressed_len(&mut self, chunk: &[u8]) -> usize {
        let (len, compressed_len) = self.compress_sample(chunk, CHUNK_PIECE_LEN);
        (chunk.len() * compressed_len).checked_div(len).unwrap_or(0)
    }

    /// Compresses a sample of `bytes`: pieces of `piece_len` bytes, evenly spread, or all of them
    /// where they are fewer. Returns how long it was and is.
    fn compress_sample(&mut self, bytes: &[u8], piece_len: usize) -> (usize, usize) {
        let pieces: Vec<u8>;
        let sample = if bytes.len() <= SAMPLE_PIECES * piece_len {
            bytes
        } else {
            let step = bytes.len() / SAMPLE_PIECES;
            let piece = |number| &bytes[number * step..][..piece_len];
            pieces = (0..SAMPLE_PIECES).flat_map(piece).copied().collect();
            &pieces
        };
        let compressed = self.0.compress(sample);
        (sample.len(), compressed.map_or(sample.len(), |it| it.len().min(sample.len())))
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    /// Some regions of data are decoded again, or all; those of metadata always are.
    #[test]
    fn what_is_verified() {
        let numbers = |verify: Verify, class| {
            (0..17).filter(|number| verify.includes(class, *number)).collect::<Vec<_>>()
        };
        let all: Vec<u64> = (0..17).collect();
        assert_eq!(numbers(Verify::Some, Class::Data), [0, 8, 16]);
        assert_eq!(numbers(Verify::Some, Class::Meta), all);
        assert_eq!(numbers(Verify::All, Class::Data), all);
    }

    /// Samples come from all over a region.
    #[test]
    fn a_sample_tells_what_shrinks() {
        const LEN: usize = 10 * SAMPLE_PIECES * REGION_PIECE_LEN;
        let mut probe = Probe::new().expect("there is memory");
        let random = SplitMix64::bytes(1, LEN);
        assert!(probe.looks_incompressible(&random), "random bytes");
        assert!(probe.looks_incompressible(&random[..LEN / 10]), "no more than a sample");
        assert!(!probe.looks_incompressible(&[0; LEN]), "zeros");
        let digits: Vec<u8> = random.iter().map(|byte| byte % 128).collect();
        assert!(!probe.looks_incompressible(&digits), "seven bits of eight");
        for quarter in 0..4 {
            let mut bytes = random.clone();
            bytes[quarter * LEN / 4..(quarter + 1) * LEN / 4].fill(0);
            assert!(!probe.looks_incompressible(&bytes), "zeros in quarter {quarter}");
        }
    }
}
