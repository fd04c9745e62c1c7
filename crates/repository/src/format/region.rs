//! A region's bytes as they are stored: decoded to the payloads of its chunks.

use cutpoint_storage::{Error, Result};
use zstd::bulk::Decompressor;

use super::toc::Codec;

/// Decodes a region that has `raw_len` bytes according to the table of contents.
///
/// # Errors
///
/// Returns `Corrupt` if the region does not decode, or decodes to another length.
pub(crate) fn decode_region(
    decompressor: &mut Decompressor<'_>,
    codec: Codec,
    bytes: Vec<u8>,
    raw_len: u32,
) -> Result<Vec<u8>> {
    decode_region_into(decompressor, codec, bytes, raw_len, Vec::new())
}

/// Does the same as [`decode_region`], into an existing buffer if one is needed.
///
/// # Errors
///
/// Returns any error of [`decode_region`].
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
            // At most the buffer is filled, so a frame with a wrong size fails.
            decompressor
                .decompress_to_buffer(&bytes, &mut buffer)
                .map_err(|error| Error::corrupt("", format!("decompression failed: {error}")))?;
            buffer
        }
    };
    if decoded.len() == raw_len {
        Ok(decoded)
    } else {
        Err(Error::corrupt("", format!("decodes to {} bytes (expected {raw_len})", decoded.len())))
    }
}
