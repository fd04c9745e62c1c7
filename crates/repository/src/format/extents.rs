//! The payload of a delta chunk: the extents of full chunks that it is made of.
//!
//! The payload begins with the number of extents. Five columns follow, all of variable-length
//! numbers (LEB128, shortest form): a control for each extent; the numbers of the references that
//! are used for the first time; the lengths of extents that continue where their reference was
//! left, except the last extent of the chunk; the lengths of all others, except the last extent of
//! the chunk; the distances.
//!
//! A control is 3 r + m. r selects the reference: the number of other references that were used
//! since this one was, or, if r equals the number of references used so far, a new one. The number
//! of a new reference is relative to the number after that of the previous new one (zigzag). m
//! selects the start of the extent:
//!
//! - 0: the position in the reference that corresponds to this position in the chunk if nothing has
//!   moved since the reference was used last;
//! - 1: the position where the reference was left;
//! - 2: at a distance from the position of 0 (zigzag).
//!
//! For a new reference, both positions are 0. Numbers of one kind are adjacent, and a regular
//! continuation is encoded by the same few numbers, which helps the compressor of the region.

use cutpoint_storage::{Error, Result};

use super::packed::{push_varint, take_varint};

/// Maximum number of references of a delta chunk (rule C4).
pub const REFERENCES_MAX: usize = 64;
/// Minimum mean length of the extents of a delta chunk, in bytes (rule C4).
const EXTENT_LEN_MEAN_MIN: usize = 16;

/// Returns the maximum number of extents of a delta chunk of `chunk_len` bytes (rule C4).
#[must_use]
pub fn extent_count_max(chunk_len: usize) -> usize {
    chunk_len / EXTENT_LEN_MEAN_MIN + 1
}

/// A range of bytes of a full chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The full chunk, as a number in the references of the region.
    pub reference: u16,
    /// The offset of the first byte in the full chunk.
    pub offset: u32,
    /// The number of bytes, more than 0.
    pub len: u32,
}

const MODE_COUNT: u64 = 3;
const IN_PLACE: u64 = 0;
const CONTINUED: u64 = 1;
const ELSEWHERE: u64 = 2;

/// The state of a reference that was used.
#[derive(Clone, Copy, Debug)]
struct ReferenceState {
    reference: u16,
    /// The end of its last extent, in the reference and in the chunk.
    end: u64,
    chunk_end: u64,
}

impl ReferenceState {
    fn new(reference: u16, chunk_at: u64) -> ReferenceState {
        ReferenceState { reference, end: 0, chunk_end: chunk_at }
    }

    /// Returns the position in the reference that corresponds to `chunk_at` if nothing has moved.
    fn in_place(&self, chunk_at: u64) -> u64 {
        self.end + (chunk_at - self.chunk_end)
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends the payload of a delta chunk.
///
/// The extents have to be those of one chunk, in order; there has to be at least one.
pub fn encode(extents: &[Extent], out: &mut Vec<u8>) {
    let mut columns: [Vec<u8>; 5] = Default::default();
    let [controls, references, lengths_on, lengths, distances] = &mut columns;
    let mut used: Vec<ReferenceState> = Vec::new();
    let (mut chunk_at, mut new_next) = (0_u64, 0_i64);
    for (number, extent) in extents.iter().enumerate() {
        let rank = used.iter().rev().position(|used| used.reference == extent.reference);
        let mut of = match rank {
            Some(rank) => used.remove(used.len() - 1 - rank),
            None => {
                push_varint(references, zigzag(i64::from(extent.reference) - new_next));
                new_next = i64::from(extent.reference) + 1;
                ReferenceState::new(extent.reference, chunk_at)
            }
        };
        let rank = rank.unwrap_or(used.len()) as u64;
        let (offset, in_place) = (u64::from(extent.offset), of.in_place(chunk_at));
        let mode = if offset == of.end {
            CONTINUED
        } else if offset == in_place {
            IN_PLACE
        } else {
            push_varint(distances, zigzag(offset.cast_signed() - in_place.cast_signed()));
            ELSEWHERE
        };
        push_varint(controls, rank * MODE_COUNT + mode);
        if number + 1 < extents.len() {
            push_varint(
                if mode == CONTINUED { lengths_on } else { lengths },
                u64::from(extent.len),
            );
        }
        chunk_at += u64::from(extent.len);
        (of.end, of.chunk_end) = (offset + u64::from(extent.len), chunk_at);
        used.push(of);
    }
    push_varint(out, extents.len() as u64);
    columns.iter().for_each(|column| out.extend_from_slice(column));
}

/// Decodes the payload of a delta chunk of `chunk_len` bytes, in a region with `reference_count`
/// references.
///
/// # Errors
///
/// Returns a `Corrupt` error if the payload is malformed: its extents do not add up to the chunk,
/// are too many for it, use references that do not exist, or end beyond 4 GiB.
pub fn decode(mut payload: &[u8], chunk_len: u32, reference_count: usize) -> Result<Vec<Extent>> {
    let bad = |what: &str| Error::corrupt("", format!("malformed delta chunk: {what}"));
    let payload = &mut payload;
    let count = take_varint(payload)?;
    // Each extent has a control, so that the remaining bytes limit the allocation.
    let count = usize::try_from(count).ok().filter(|count| *count <= payload.len());
    let count = count.ok_or_else(|| bad("more extents than bytes"))?;
    if count > extent_count_max(chunk_len as usize) {
        return Err(bad("more extents than its length allows"));
    }
    let mut controls = Vec::with_capacity(count);
    let (mut used_count, mut new_count) = (0_u64, 0_usize);
    for _ in 0..count {
        let control = take_varint(payload)?;
        let rank = control / MODE_COUNT;
        if rank > used_count || (rank == used_count && new_count == REFERENCES_MAX) {
            return Err(bad("undefined reference"));
        }
        if rank == used_count {
            used_count += 1;
            new_count += 1;
        }
        controls.push(control);
    }
    let (mut references, mut new_next) = (Vec::with_capacity(new_count), 0_i64);
    for _ in 0..new_count {
        let reference = new_next.checked_add(unzigzag(take_varint(payload)?));
        let reference = reference.and_then(|number| u16::try_from(number).ok());
        let reference = reference.filter(|number| usize::from(*number) < reference_count);
        let reference =
            reference.ok_or_else(|| bad("a reference that its region does not have"))?;
        new_next = i64::from(reference) + 1;
        references.push(reference);
    }
    let mut lengths = vec![0_u64; count];
    for is_continued in [true, false] {
        for (length, control) in lengths.iter_mut().zip(&controls).take(count.saturating_sub(1)) {
            if (control % MODE_COUNT == CONTINUED) == is_continued {
                *length = take_varint(payload)?;
            }
        }
    }
    let mut extents = Vec::with_capacity(count);
    let (mut used, mut references) = (Vec::<ReferenceState>::new(), references.into_iter());
    let mut chunk_at = 0_u64;
    for (number, (control, length)) in controls.into_iter().zip(lengths).enumerate() {
        let left = u64::from(chunk_len) - chunk_at;
        let length = if number + 1 == count { left } else { length };
        if length == 0 || length > left {
            return Err(bad("extents do not add up to its length"));
        }
        let rank = usize::try_from(control / MODE_COUNT).unwrap_or(usize::MAX);
        let mut of = if rank == used.len() {
            let reference = references.next().ok_or_else(|| bad("too few references"))?;
            ReferenceState::new(reference, chunk_at)
        } else {
            used.remove(used.len() - 1 - rank)
        };
        let offset = match control % MODE_COUNT {
            CONTINUED => Some(of.end),
            IN_PLACE => Some(of.in_place(chunk_at)),
            _ => of.in_place(chunk_at).checked_add_signed(unzigzag(take_varint(payload)?)),
        };
        let offset = offset.and_then(|offset| u32::try_from(offset).ok());
        let len = u32::try_from(length).ok();
        let (Some(offset), Some(len)) = (offset, len) else { return Err(bad("an offset")) };
        if offset.checked_add(len).is_none() {
            return Err(bad("an extent that ends too far behind"));
        }
        chunk_at += length;
        (of.end, of.chunk_end) = (u64::from(offset + len), chunk_at);
        extents.push(Extent { reference: of.reference, offset, len });
        used.push(of);
    }
    if chunk_at != u64::from(chunk_len) || !payload.is_empty() {
        return Err(bad("extents do not add up to its length"));
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(reference: u16, offset: u32, len: u32) -> Extent {
        Extent { reference, offset, len }
    }

    fn encoded(extents: &[Extent]) -> Vec<u8> {
        let mut payload = Vec::new();
        encode(extents, &mut payload);
        payload
    }

    #[test]
    fn row_replaced_in_place_takes_few_bytes() {
        // A prefix, two new bytes from the literal, and a suffix: a burst in the terms of the
        // paper.
        let burst = [extent(3, 0, 5000), extent(0, 700, 2), extent(3, 5002, 300)];
        let payload = encoded(&burst);
        assert_eq!(decode(&payload, 5302, 4).expect("it is well"), burst);
        // The middle extent starts at byte 700 of the literal: one distance is written, and the
        // suffix stays in place.
        assert_eq!(payload.len(), 1 + 3 + 2 + 2 + 1 + 2, "{payload:?}");
    }

    #[test]
    fn malformed_payload_is_refused() {
        let payload = encoded(&[extent(1, 10, 100), extent(0, 0, 50)]);
        assert!(decode(&payload, 150, 2).is_ok(), "it is well");
        for len in 0..payload.len() {
            assert!(decode(&payload[..len], 150, 2).is_err(), "cut at {len}");
        }
        for (chunk_len, reference_count) in [(100, 2), (99, 2), (0, 2), (150, 1), (150, 0)] {
            let refused = decode(&payload, chunk_len, reference_count);
            assert!(refused.is_err(), "{chunk_len} bytes, {reference_count} references");
        }
        assert!(decode(&[&payload[..], &[0]].concat(), 150, 2).is_err(), "a byte too many");
        assert!(decode(&encoded(&[extent(0, u32::MAX - 5, 10)]), 10, 1).is_err(), "too far");
        assert!(decode(&[0], 0, 0).is_ok_and(|extents| extents.is_empty()), "no bytes");
        let many: Vec<Extent> = (0..65).map(|number| extent(number, 0, 16)).collect();
        assert!(decode(&encoded(&many), 65 * 16, 65).is_err(), "more references than allowed");
        assert!(decode(&encoded(&many[..64]), 64 * 16, 65).is_ok(), "as many as allowed");
        let short: Vec<Extent> = (0..5).map(|number| extent(0, 100 * number, 13)).collect();
        assert!(decode(&encoded(&short), 65, 1).is_ok(), "five extents of 65 bytes");
        let shorter: Vec<Extent> = (0..5).map(|number| extent(0, 100 * number, 12)).collect();
        assert!(decode(&encoded(&shorter), 60, 1).is_err(), "five extents of 60 bytes");
    }

    proptest! {
        #[test]
        fn any_list_survives_round_trip(
            list in prop::collection::vec((0_u16..5, 0_u32..300, 16_u32..200), 1..40),
            far in any::<bool>(),
        ) {
            let far = if far { 3_000_000_000 } else { 0 };
            let list: Vec<Extent> =
                list.into_iter().map(|(r, offset, len)| extent(r * 13, offset + far, len)).collect();
            let len = list.iter().map(|extent| extent.len).sum();
            prop_assert_eq!(decode(&encoded(&list), len, 60).expect("it is well"), list);
        }

        #[test]
        fn any_bytes_are_refused_or_add_up(
            payload in prop::collection::vec(prop_oneof![0_u8..12, any::<u8>()], 0..60),
            chunk_len in 0_u32..500,
        ) {
            if let Ok(extents) = decode(&payload, chunk_len, 5) {
                prop_assert_eq!(extents.iter().map(|extent| extent.len).sum::<u32>(), chunk_len);
                prop_assert!(extents.iter().all(|extent| extent.reference < 5 && extent.len > 0));
            }
        }
    }
}
