//! The original bytes of a damaged object, as far as they follow from the undamaged ones.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::cipher::{PartKind, TAG_LEN};
use super::keys::Keys;
use super::opener::Opener;
use super::trailer::{PADDING_OTHER, TRAILER_LEN, Trailer, push_tail};
use crate::format::HEADER_LEN;
use crate::format::names::ObjectName;

/// Returns an object with restored padding and trailer. `bytes` begin with its header and all
/// sealed parts, the last of which is `length` bytes at `offset`. Any bytes behind that part are
/// ignored.
pub(crate) fn with_tail_replaced(
    name: ObjectName,
    bytes: &[u8],
    offset: u64,
    length: u32,
) -> Option<Bytes> {
    let end = usize::try_from(offset.checked_add(u64::from(length))?).ok()?;
    let mut restored = bytes.get(..end)?.to_vec();
    push_tail(&mut restored, name, end, offset, length);
    let checksum = xxh3_128(&restored);
    restored.extend_from_slice(&checksum.to_le_bytes());
    Some(Bytes::from(restored))
}

/// Maximum number of lengths of the part that are tried if the trailer does not tell the length.
const LENGTHS_MAX: usize = 4 * PADDING_OTHER;
/// Maximum number of bytes that are decrypted for these attempts, which limits the lengths that are
/// tried for a longer object.
const TRIED_BYTES_MAX: usize = 1 << 32;

/// Returns the original bytes of an object of one part whose header and part are undamaged, because
/// padding and trailer follow from these. If the trailer is damaged, the length of the part is
/// found by trying. Returns `None` if the part does not open.
pub(crate) fn object_as_put(keys: &Keys, name: ObjectName, bytes: &[u8]) -> Option<Bytes> {
    let opener = Opener::new(keys, name, bytes).ok()?;
    let opens = |length: usize| {
        let mut part = bytes.get(HEADER_LEN..HEADER_LEN.checked_add(length)?)?.to_vec();
        opener.open(PartKind::Body, &mut part).ok()?;
        with_tail_replaced(name, bytes, HEADER_LEN as u64, u32::try_from(length).ok()?)
    };
    let trailer = Trailer::decode(&name, bytes, bytes.len() as u64).ok();
    let said = trailer.and_then(|trailer| opens(usize::try_from(trailer.length).ok()?));
    let room = bytes.len().saturating_sub(HEADER_LEN);
    // If the trailer is damaged but not cut off, the number of possible lengths is limited by the
    // padding.
    let count = (TRIED_BYTES_MAX / room.max(1)).clamp(PADDING_OTHER + TRAILER_LEN, LENGTHS_MAX);
    said.or_else(|| (TAG_LEN..=room).rev().take(count).find_map(opens))
}
