//! The trailer of an object, and the padding before it.

use cutpoint_storage::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::format::HEADER_LEN;
use crate::format::names::ObjectName;

/// The length of the trailer of every object, in bytes.
pub const TRAILER_LEN: usize = 32;

/// The granularity of the length of long containers, in bytes. That of shorter ones is an eighth of
/// the power of two below their length.
const PADDING_CONTAINER: usize = 64 * 1024;
/// The length up to which a container has a power of two, in bytes.
const CONTAINER_LEN_SHORT: usize = 32 * 1024;
/// The minimum length of a container, in bytes.
const CONTAINER_LEN_MIN: usize = 4096;
/// The granularity of the length of all other objects, in bytes.
pub const PADDING_OTHER: usize = 256;

/// The last 32 bytes of an object: the place of its table of contents (or its only part), and a
/// checksum of all bytes before it, which protects only against accidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The length of the sealed part, tag included, in bytes.
    pub length: u32,
    /// The offset of the sealed part from the start of the object, in bytes.
    pub offset: u64,
    /// XXH3-128 (seed 0) of everything before this field, little-endian.
    pub checksum: [u8; 16],
}

impl Trailer {
    /// Decodes the trailer at the end of `bytes`, which are the last bytes of an object of
    /// `object_len` bytes.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the part does not lie inside the object.
    pub fn decode(name: &ObjectName, bytes: &[u8], object_len: u64) -> Result<Trailer> {
        let Some(bytes) = bytes.last_chunk::<TRAILER_LEN>() else {
            return Err(Error::corrupt(
                name,
                format!("too short for a trailer ({} bytes)", bytes.len()),
            ));
        };
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&bytes[16..]);
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut offset = [0; 8];
        offset.copy_from_slice(&bytes[8..16]);
        let offset = u64::from_le_bytes(offset);
        let end = offset.checked_add(u64::from(length));
        let room = object_len.checked_sub(TRAILER_LEN as u64);
        let inside = end.zip(room).is_some_and(|(end, room)| end <= room);
        if offset < HEADER_LEN as u64 || !inside || bytes[4..8] != [0; 4] {
            return Err(Error::corrupt(
                name,
                format!(
                    "the trailer refers to {length} bytes at {offset}; the object has {object_len}",
                ),
            ));
        }
        Ok(Trailer { length, offset, checksum })
    }
}

/// Returns the length to which a container of `len` bytes is padded, trailer included: a power of
/// two from 4096 to 32,768; above, a multiple of an eighth of the power of two below it, or of
/// 65,536 if that is less.
pub fn padded_container_len(len: usize) -> usize {
    let above = len.next_power_of_two();
    if len <= CONTAINER_LEN_SHORT {
        above.max(CONTAINER_LEN_MIN)
    } else {
        len.next_multiple_of((above / 16).min(PADDING_CONTAINER))
    }
}

/// Appends the bytes between the last part of the object `name`, which ends at `end`, and the
/// checksum: padding, and the length and the offset of that part.
pub(super) fn push_tail(
    bytes: &mut Vec<u8>,
    name: ObjectName,
    end: usize,
    offset: u64,
    length: u32,
) {
    let padded = match name {
        ObjectName::Container(..) => padded_container_len(end + TRAILER_LEN),
        _ => (end + TRAILER_LEN).next_multiple_of(PADDING_OTHER),
    };
    bytes.resize(bytes.len() + padded - TRAILER_LEN - end, 0);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&offset.to_le_bytes());
}

/// Returns `true` if the checksum in the trailer matches all bytes before it. This detects
/// accidental damage anywhere in the object, padding included, without a key.
pub fn object_is_intact(bytes: &[u8]) -> bool {
    let Some((body, checksum)) = bytes.split_last_chunk::<16>() else {
        return false;
    };
    bytes.len() >= HEADER_LEN + TRAILER_LEN && xxh3_128(body).to_le_bytes() == *checksum
}
