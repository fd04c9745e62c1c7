//! Compression of contents.

use std::fmt;

use crate::format::record::{Encoding, UNIT};
use crate::mode::Compression;

/// Compresses contents, with memory that is used again.
pub(crate) struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compressor").field(&self.compression).finish()
    }
}

impl Compressor {
    pub(crate) fn new() -> Compressor {
        Compressor { compression: Compression::None, zstd: None, buffer: Vec::new() }
    }

    /// Compresses a content, unless that makes its record no shorter.
    pub(crate) fn encode<'a>(
        &'a mut self,
        compression: Compression,
        content: &'a [u8],
    ) -> (Encoding, &'a [u8]) {
        if self.compression != compression {
            self.compression = compression;
            self.zstd = match compression {
                // Without a compressor, contents stay as they are.
                Compression::Zstd(level) => zstd::bulk::Compressor::new(level.into()).ok(),
                Compression::None | Compression::Lz4 => None,
            };
        }
        let units = content.len().div_ceil(UNIT);
        // What needs as many units as before is not wanted.
        let len_max = units.saturating_sub(1) * UNIT;
        let (encoding, len) = match (compression, &mut self.zstd) {
            (Compression::Lz4, _) => {
                self.buffer.resize(lz4_flex::block::get_maximum_output_size(content.len()), 0);
                (Encoding::Lz4, lz4_flex::block::compress_into(content, &mut self.buffer).ok())
            }
            (Compression::Zstd(_), Some(zstd)) => {
                self.buffer.resize(len_max, 0);
                (Encoding::Zstd, zstd.compress_to_buffer(content, &mut self.buffer).ok())
            }
            _ => return (Encoding::Plain, content),
        };
        match len.filter(|len| (1..=len_max).contains(len)) {
            Some(len) => (encoding, &self.buffer[..len]),
            None => (Encoding::Plain, content),
        }
    }
}

/// Decompresses a payload to a content of at most `len_max` bytes. Returns `None` if the bytes are no
/// such content.
pub(crate) fn decode(encoding: Encoding, payload: &[u8], len_max: usize) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Plain => (payload.len() <= len_max).then(|| payload.to_vec()),
        Encoding::Lz4 => lz4_flex::block::decompress(payload, len_max).ok(),
        Encoding::Zstd => zstd::bulk::decompress(payload, len_max).ok(),
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_testing::SplitMix64;

    use super::*;

    const COMPRESSIONS: [Compression; 4] =
        [Compression::None, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)];

    #[test]
    fn content_survives_and_random_bytes_stay() {
        let mut compressor = Compressor::new();
        for compression in COMPRESSIONS {
            for len in [1, 127, 128, 129, 512, 4096, 65536] {
                let random = SplitMix64::bytes(len as u64, len);
                let text: Vec<u8> =
                    (0..len).map(|at| b"abcdefgh"[at % 8 * (at / 512) % 8]).collect();
                for content in [&random, &text] {
                    let (encoding, payload) = compressor.encode(compression, content);
                    let is_shorter = payload.len().div_ceil(UNIT) < content.len().div_ceil(UNIT);
                    assert_eq!(encoding != Encoding::Plain, is_shorter, "{compression}, {len}");
                    let decoded = decode(encoding, payload, len);
                    assert_eq!(decoded.as_ref(), Some(content), "{compression}, {len}");
                }
                let is_small = compressor.encode(compression, &text).1.len() < len;
                let expected = compression != Compression::None && len > 256;
                assert!(is_small || !expected, "{compression}, {len}");
            }
        }
    }

    #[test]
    fn damaged_payload_is_no_longer_than_asked() {
        let content: Vec<u8> = (0..4096_u32).flat_map(|at| (at / 100).to_le_bytes()).collect();
        let mut numbers = SplitMix64::new(3);
        for compression in [Compression::Lz4, Compression::Zstd(1)] {
            let mut compressor = Compressor::new();
            let (encoding, payload) = compressor.encode(compression, &content);
            assert_eq!(decode(encoding, payload, content.len() - 1), None, "longer than allowed");
            for _ in 0..5000 {
                let mut damaged = payload.to_vec();
                let at = numbers.below(damaged.len());
                damaged[at] ^= numbers.byte() | 1;
                damaged.truncate(numbers.below(payload.len()) + 1);
                let decoded = decode(encoding, &damaged, content.len());
                assert!(decoded.is_none_or(|it| it.len() <= content.len()), "{compression}");
            }
        }
    }
}
