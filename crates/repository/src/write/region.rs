//! Regions: payloads of consecutive new chunks, compressed together.

use cutpoint_storage::{Error, Kind, Result};
use zstd::bulk::{Compressor, Decompressor};

use crate::crypto::TAG_LEN;
use crate::format::config::COMPRESSION_LEVEL;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::toc::{ChunkRecord, Codec, Form};

/// The regions that are decoded and compared before they are put (W4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// All metadata, and one data region in eight.
    #[default]
    Some,
    /// All regions.
    All,
}

impl Verify {
    pub(super) fn includes(self, class: Class, number: u64) -> bool {
        self == Verify::All || class == Class::Meta || number.is_multiple_of(8)
    }
}

/// Number of levels by which regions with delta chunks are compressed more.
const DELTA_LEVELS_MORE: i32 = 3;

/// The number of a region that was copied instead of filled by a deduplicator.
const COPIED: u64 = u64::MAX;

/// The payload of one chunk in a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawChunk {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) form: Form,
    /// Offset in the region, in bytes.
    pub(crate) offset: u32,
    /// Length of the payload in bytes.
    pub(crate) payload_len: u32,
    /// Length of the chunk in bytes.
    pub(crate) chunk_len: u32,
}

impl From<&ChunkRecord> for RawChunk {
    fn from(record: &ChunkRecord) -> RawChunk {
        let ChunkRecord { fingerprint, form, offset, payload_len, chunk_len, .. } = *record;
        RawChunk { fingerprint, form, offset, payload_len, chunk_len }
    }
}

/// The two large buffers that a region needs. They are reused, because fresh memory costs as much
/// as filling it.
#[derive(Debug, Default)]
pub struct RegionBuffers {
    /// The buffer that the deduplicator fills.
    pub raw: Vec<u8>,
    /// The buffer that the codec fills.
    pub encoded: Vec<u8>,
}

/// A region as the deduplicator has filled it.
#[derive(Debug)]
pub struct RawRegion {
    pub(super) number: u64,
    pub(super) class: Class,
    pub(super) bytes: Vec<u8>,
    pub(super) chunks: Vec<RawChunk>,
    /// The full chunks to which delta chunks of this region refer.
    pub(super) references: Vec<Fingerprint>,
    pub(super) verify: bool,
    /// Set if a sample did not shrink: the region is stored uncompressed.
    pub(super) is_incompressible: bool,
    pub(super) is_probed: bool,
}

impl RawRegion {
    /// Returns the number of the region. Regions of both classes count together from 0, in the
    /// order in which they were begun.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the length of the region in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if the region is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the region in its stored form if it is not to be compressed, because a sample of it
    /// did not shrink.
    ///
    /// # Errors
    ///
    /// Returns the region and the buffer otherwise, for [`RegionCodec::encode`].
    pub fn stored(self, encoded: Vec<u8>) -> std::result::Result<EncodedRegion, (Self, Vec<u8>)> {
        if self.is_incompressible {
            Ok(EncodedRegion { raw: self, codec: Codec::Store, encoded })
        } else {
            Err((self, encoded))
        }
    }
}

/// A region that is encoded but not yet sealed.
#[derive(Debug)]
pub struct EncodedRegion {
    pub(super) raw: RawRegion,
    pub(super) codec: Codec,
    /// The compressed bytes; meaningless if the codec is `Store`.
    pub(super) encoded: Vec<u8>,
}

impl EncodedRegion {
    /// Returns the number of the region.
    pub fn number(&self) -> u64 {
        self.raw.number
    }

    /// Makes a copy of a region of another container. `bytes` is the decoded form of `encoded`, and
    /// `chunks` are the chunks that stay. If the codec is `Store`, `encoded` is ignored.
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

/// Encodes regions. Each thread has its own codec, which keeps the tables of the compressor.
pub struct RegionCodec {
    compressor: Compressor<'static>,
    /// For regions with delta chunks.
    delta_compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    decoded: Vec<u8>,
}

impl std::fmt::Debug for RegionCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegionCodec(..)")
    }
}

impl RegionCodec {
    /// Creates a codec for zstd at `level`.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if zstd has no such level or no memory.
    pub fn new(level: i32) -> Result<RegionCodec> {
        let failed = |error: std::io::Error| Error::invalid("zstd", error);
        Ok(RegionCodec {
            compressor: Compressor::new(level).map_err(failed)?,
            delta_compressor: Compressor::new(delta_level(level)).map_err(failed)?,
            decompressor: Decompressor::new().map_err(failed)?,
            decoded: Vec::new(),
        })
    }

    /// Compresses a region, or leaves it uncompressed if it would not shrink by 3 %. Verifies the
    /// compressed bytes if the deduplicator asked for that. They are written to `encoded`, whose
    /// present content is discarded.
    ///
    /// # Errors
    ///
    /// Returns `Machine` if the compressed bytes do not decode to the original, because of broken
    /// memory or a broken encoder.
    pub fn encode(&mut self, raw: RawRegion, encoded: Vec<u8>) -> Result<EncodedRegion> {
        let (raw, mut encoded) = match raw.stored(encoded) {
            Ok(stored) => return Ok(stored),
            Err(both) => both,
        };
        let len = raw.bytes.len();
        encoded.clear();
        encoded.reserve_exact(zstd::zstd_safe::compress_bound(len) + TAG_LEN);
        let failed = |error: std::io::Error| Error::invalid("zstd", error);
        let has_delta_chunks = !raw.references.is_empty();
        let compressor =
            if has_delta_chunks { &mut self.delta_compressor } else { &mut self.compressor };
        compressor.compress_to_buffer(&raw.bytes, &mut encoded).map_err(failed)?;
        if encoded.len() as u64 * 100 > len as u64 * 97 {
            return Ok(EncodedRegion { raw, codec: Codec::Store, encoded });
        }
        if raw.verify {
            self.decoded.clear();
            self.decoded.reserve_exact(len);
            let decoded = self.decompressor.decompress_to_buffer(&encoded, &mut self.decoded);
            if decoded.is_err() || self.decoded != raw.bytes {
                return Err(undecodable(raw.number));
            }
        }
        Ok(EncodedRegion { raw, codec: Codec::Zstd, encoded })
    }
}

/// Returns the level for regions with delta chunks. Little of a backup is in them, and a reader of
/// many versions reads them most often, so a higher level pays.
fn delta_level(level: i32) -> i32 {
    level.saturating_add(DELTA_LEVELS_MORE).min(*COMPRESSION_LEVEL.end()).max(level)
}

/// Returns the error of a region that does not decode to what was encoded.
pub(super) fn undecodable(region: u64) -> Error {
    let message =
        "compressed data does not decode to the original: check the memory of this machine";
    Error::new(Kind::Machine, format!("region {region}"), message)
}

/// Minimum size of a region to be sampled, in bytes. A region whose sample does not shrink is
/// closed at once, because only compressible bytes gain by larger regions.
pub const PROBE_LEN: usize = 128 * 1024;
/// Number of pieces in a sample.
const SAMPLE_PIECES: usize = 4;
/// Length of a sampled piece of a region, in bytes.
const REGION_PIECE_LEN: usize = 4096;
/// Length of the end of a chunk that is sampled, in bytes. Behind other chunks, only the second half
/// is measured, compressed together with the first: the bytes before a chunk help as much.
const CHUNK_SAMPLE_LEN: usize = 64 * 1024;

/// Estimates by a sample how well bytes compress.
pub struct Probe(Compressor<'static>);

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    /// Creates a probe.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if zstd has no memory.
    pub fn new() -> Result<Probe> {
        Compressor::new(1).map(Probe).map_err(|error| Error::invalid("zstd", error))
    }

    /// Returns `true` if a sample shrinks by less than 1 % with the fastest compressor level, which
    /// detects both repeats and uneven distributions.
    pub fn looks_incompressible(&mut self, bytes: &[u8]) -> bool {
        let (len, compressed_len) = self.compress_sample(bytes);
        compressed_len * 100 > len * 99
    }

    /// Returns the estimated compressed length of a chunk in bytes: behind other chunks of its
    /// region if `has_neighbours` is set, and otherwise as the first one.
    pub(super) fn compressed_len(&mut self, chunk: &[u8], has_neighbours: bool) -> usize {
        let sample = &chunk[chunk.len().saturating_sub(CHUNK_SAMPLE_LEN)..];
        let context = if has_neighbours { &sample[..sample.len() / 2] } else { &[] };
        let measured_len = sample.len() - context.len();
        let mut len = |bytes: &[u8]| self.0.compress(bytes).map_or(bytes.len(), |it| it.len());
        let added_len = len(sample).saturating_sub(len(context)).min(measured_len);
        (chunk.len() * added_len).checked_div(measured_len).unwrap_or(0)
    }

    /// Compresses a sample of `bytes`: pieces, evenly spread, or all bytes if there are fewer.
    /// Returns the length of the sample before and after.
    fn compress_sample(&mut self, bytes: &[u8]) -> (usize, usize) {
        let pieces: Vec<u8>;
        let sample = if bytes.len() <= SAMPLE_PIECES * REGION_PIECE_LEN {
            bytes
        } else {
            let step = bytes.len() / SAMPLE_PIECES;
            let piece = |number| &bytes[number * step..][..REGION_PIECE_LEN];
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

    /// Metadata regions are always verified, data regions in part or all.
    #[test]
    fn verified_regions_depend_on_class_and_number() {
        let numbers = |verify: Verify, class| {
            (0..17).filter(|number| verify.includes(class, *number)).collect::<Vec<_>>()
        };
        let all: Vec<u64> = (0..17).collect();
        assert_eq!(numbers(Verify::Some, Class::Data), [0, 8, 16]);
        assert_eq!(numbers(Verify::Some, Class::Meta), all);
        assert_eq!(numbers(Verify::All, Class::Data), all);
    }

    /// The sample comes from all over the region.
    #[test]
    fn sample_tells_compressible_regions_from_others() {
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

    /// A chunk is measured behind bytes that may resemble it, as in its region.
    #[test]
    fn chunk_is_sampled_in_context() {
        let mut probe = Probe::new().expect("there is memory");
        let random = SplitMix64::bytes(3, 3 * CHUNK_SAMPLE_LEN);
        assert!(probe.compressed_len(&random, true) > random.len() * 99 / 100);
        let half = &random[..CHUNK_SAMPLE_LEN / 2];
        let repeated = [&random[..], half, half].concat();
        assert!(probe.compressed_len(&repeated, true) < repeated.len() / 100, "the end is known");
        assert!(
            probe.compressed_len(&repeated, false) > repeated.len() / 3,
            "it is the first chunk"
        );
        assert_eq!(probe.compressed_len(&[], true), 0);
        assert!(probe.compressed_len(&[7], true) >= 1, "one byte");
    }

    #[test]
    fn regions_with_delta_chunks_have_a_higher_level() {
        let levels = [-7, 1, 3, 17, 19].map(delta_level);
        assert_eq!(levels, [-4, 4, 6, 19, 19]);
    }
}
