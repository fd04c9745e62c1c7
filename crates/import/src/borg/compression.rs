//! Compressed objects.

use std::io::Read;

use cutpoint_storage::{Error, Kind, Result};

/// The maximum length of an object after decompression, in bytes. Borg's chunks have at most 8 MiB,
/// or 20 MiB if they are of fixed size, and its objects at most 20 MiB.
const LEN_MAX: usize = 64 << 20;

/// Decompresses an object, whose first two bytes name the method.
///
/// # Errors
///
/// Returns `Corrupt` if it does not decompress, and `Unsupported` if the method is not known.
pub(super) fn decompressed(object: Vec<u8>) -> Result<Vec<u8>> {
    let short = || Error::corrupt("", "too short");
    let &[first, second] = object.first_chunk::<2>().ok_or_else(short)?;
    match (first, second) {
        (0, 0) => {
            let mut bytes = object;
            bytes.drain(..2);
            Ok(bytes)
        }
        (1, 0) => lz4(&object[2..]),
        (2, 0) => bounded(lzma_rust2::XzReader::new(&object[2..], false)),
        (3, 0) => bounded(
            zstd::stream::read::Decoder::with_buffer(&object[2..])
                .map_err(|error| Error::corrupt("", error))?,
        ),
        (4, 0) => {
            // The size is hidden by bytes behind it.
            let (len, rest) = object[2..].split_first_chunk::<4>().ok_or_else(short)?;
            let len = u32::from_le_bytes(*len) as usize;
            let inner = rest.get(..len).ok_or_else(short)?;
            match inner.first_chunk::<2>() {
                Some([4, 0]) => Err(Error::corrupt("", "hidden twice")),
                _ => decompressed(inner.to_vec()),
            }
        }
        // A stream of zlib has a header of its own.
        _ if first & 0xf == 8 && (u16::from(first) << 8 | u16::from(second)) % 31 == 0 => {
            bounded(flate2::read::ZlibDecoder::new(&object[..]))
        }
        _ => {
            let message = format!("unknown compression {first:02x}{second:02x}");
            Err(Error::new(Kind::Unsupported, "", message))
        }
    }
}

/// Decompresses a block of LZ4, which does not say its length.
fn lz4(block: &[u8]) -> Result<Vec<u8>> {
    let mut len = block.len().saturating_mul(3).clamp(1 << 10, LEN_MAX);
    loop {
        match lz4_flex::block::decompress(block, len) {
            Ok(bytes) => return Ok(bytes),
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if len < LEN_MAX => {
                len = len.saturating_mul(4).min(LEN_MAX);
            }
            Err(error) => return Err(Error::corrupt("", format!("decompression failed: {error}"))),
        }
    }
}

fn bounded(reader: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(LEN_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::corrupt("", format!("decompression failed: {error}")))?;
    match bytes.len() > LEN_MAX {
        false => Ok(bytes),
        true => Err(Error::corrupt("", format!("decompresses to more than {LEN_MAX} B"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(method: [u8; 2], bytes: &[u8]) -> Vec<u8> {
        [&method[..], bytes].concat()
    }

    #[test]
    fn every_method_is_decompressed() {
        let text: Vec<u8> = b"borg ".repeat(10_000);
        assert_eq!(decompressed(with([0, 0], &text)).expect("plain"), text);
        let lz4 = lz4_flex::block::compress(&text);
        assert_eq!(decompressed(with([1, 0], &lz4)).expect("lz4"), text);
        let zstd = zstd::encode_all(&text[..], 1).expect("it compresses");
        assert_eq!(decompressed(with([3, 0], &zstd)).expect("zstd"), text);
        let mut zlib = Vec::new();
        let mut encoder = flate2::read::ZlibEncoder::new(&text[..], flate2::Compression::fast());
        encoder.read_to_end(&mut zlib).expect("it compresses");
        assert_eq!(decompressed(zlib).expect("zlib"), text);
        let inner = with([3, 0], &zstd);
        let len = u32::try_from(inner.len()).expect("a short text").to_le_bytes();
        let hidden = with([4, 0], &[&len[..], &inner, &[0; 100]].concat());
        assert_eq!(decompressed(hidden.clone()).expect("hidden"), text);
        let twice = u32::try_from(hidden.len()).expect("a short text").to_le_bytes();
        decompressed(with([4, 0], &[&twice[..], &hidden].concat())).expect_err("hidden twice");
    }

    #[test]
    fn hostile_objects_are_refused() {
        let bomb = zstd::encode_all(&vec![0; LEN_MAX + 1][..], 1).expect("it compresses");
        decompressed(with([3, 0], &bomb)).expect_err("too long");
        let bomb = lz4_flex::block::compress(&vec![0; LEN_MAX + 1]);
        decompressed(with([1, 0], &bomb)).expect_err("too long");
        for object in [&[][..], &[1], &[1, 0, 0xff], &[2, 0, 1], &[3, 0], &[4, 0, 1], &[0x78, 1]] {
            decompressed(object.to_vec()).expect_err("refused");
        }
        let error = decompressed(vec![9, 9, 1]).expect_err("an unknown method");
        assert_eq!(error.kind(), Kind::Unsupported);
    }
}
