//! A region's bytes as they are stored: decoded to the payloads of its chunks.

use zstd::bulk::Decompressor;

use super::directory::Codec;
use crate::error::{Error, Result};

/// Decodes a region of which the directory says that it has `raw_len` bytes.
///
/// # Errors
///
/// `Corrupt` where it decodes to something else, or not at all.
pub(crate) fn decode_region(
    decompressor: &mut Decompressor<'_>,
    codec: Codec,
    bytes: Vec<u8>,
    raw_len: u32,
) -> Result<Vec<u8>> {
    decode_region_into(decompressor, codec, bytes, raw_len, Vec::new())
}

/// As [`decode_region`], into a buffer that is there, where there is need of one.
///
/// # Errors
///
/// As [`decode_region`].
pub(crate) fn decode_region_into(
    decompressor: &mut Decompressor<'_>,
    codec: Codec,
    bytes: Vec<u8>,
    raw_len: u32,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>> {
    let raw_len = raw_len as usize;
    let decoded = match codec {
        Codec::Store => bytes,
        Codec::Zstd => {
            buffer.clear();
            buffer.reserve_exact(raw_len);
            // Never more than the buffer holds: a frame that lies about its size fails.
            decompressor
                .decompress_to_buffer(&bytes, &mut buffer)
                .map_err(|error| Error::corrupt("", format!("does not decompress: {error}")))?;
            buffer
        }
    };
    if decoded.len() == raw_len {
        Ok(decoded)
    } else {
        Err(Error::corrupt("", format!("decodes to {} bytes, not {raw_len}", decoded.len())))
    }
}
