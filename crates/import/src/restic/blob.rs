//! The bytes of objects and blobs, after they were opened.

use std::io::Read;

use cutpoint_storage::{Error, Kind, Result};
use sha2::{Digest, Sha256};

use super::cipher::Cipher;
use super::json::Id;

/// The maximum length of an object or blob after decompression, in bytes.
const RAW_LEN_MAX: u64 = 1 << 30;

/// The first byte of a compressed object.
const COMPRESSED: u8 = 2;

/// Returns the text of a sealed object: of settings, an index, or a snapshot.
///
/// # Errors
///
/// Returns `Corrupt` if the object does not open, and `Unsupported` if its kind is not known.
pub(super) fn file_text(cipher: &Cipher, sealed: &[u8]) -> Result<Vec<u8>> {
    let text = cipher.open(sealed)?;
    match text.split_first() {
        Some((b'{' | b'[', _)) => Ok(text),
        Some((&COMPRESSED, compressed)) => unpacked(compressed, RAW_LEN_MAX),
        _ => Err(Error::new(Kind::Unsupported, "", "unknown form of an object")),
    }
}

/// Returns the bytes of a compressed blob of `len` bytes.
///
/// # Errors
///
/// Returns `Corrupt` if it has another length, or does not decompress.
pub(super) fn decompressed(compressed: &[u8], len: u64) -> Result<Vec<u8>> {
    let bytes = unpacked(compressed, len)?;
    if bytes.len() as u64 != len {
        let message = format!("decompresses to {} B (expected {len} B)", bytes.len());
        return Err(Error::corrupt("", message));
    }
    Ok(bytes)
}

/// Decompresses at most `len_max` bytes. What is allocated follows from the bytes that come.
fn unpacked(compressed: &[u8], len_max: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::corrupt("", format!("decompression failed: {error}"));
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed).map_err(failed)?;
    let len_max = len_max.min(RAW_LEN_MAX);
    // Most blobs have about 1 MiB.
    let guess = len_max.min(4 * compressed.len() as u64);
    let mut bytes = Vec::with_capacity(usize::try_from(guess).unwrap_or(0));
    decoder.take(len_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > len_max {
        false => Ok(bytes),
        true => Err(Error::corrupt("", format!("decompresses to more than {len_max} B"))),
    }
}

/// Returns `true` if `id` is the SHA-256 of `bytes`.
pub(super) fn is_named(id: &Id, bytes: &[u8]) -> bool {
    Sha256::digest(bytes)[..] == id.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompression_is_bounded() {
        let bomb = zstd::encode_all(&vec![0; 100 << 20][..], 1).expect("it compresses");
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let error = decompressed(&bomb, 1000).expect_err("too long");
        assert!(error.to_string().contains("more than 1000 B"), "{error}");
        let small = zstd::encode_all(&b"small"[..], 1).expect("it compresses");
        assert_eq!(decompressed(&small, 5).expect("it decompresses"), b"small");
        let error = decompressed(&small, 6).expect_err("too short");
        assert!(error.to_string().contains("expected 6 B"), "{error}");
        decompressed(&small[..small.len() - 1], 5).expect_err("cut off");
        decompressed(b"", 0).expect_err("no frame");
    }
}
