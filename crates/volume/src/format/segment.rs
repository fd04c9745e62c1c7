//! The header of a segment of the log.

use super::cursor::Cursor;
use super::{VERSION, VolumeId};
use crate::keys::{CHECKSUM_SIZE, Keys};
use crate::rules;

/// The length of the header of a segment in bytes.
pub(crate) const SEGMENT_HEADER_SIZE: usize = 128;

const MAGIC: &[u8; 8] = b"CutpSeg\0";

/// The values of the header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) volume: VolumeId,
    /// The number of the segment.
    pub(crate) number: u64,
    /// The sequence number of the first record. It makes records of earlier segments void that have
    /// this or a higher number.
    pub(crate) first_seq: u64,
}

impl SegmentHeader {
    /// Returns the bytes of the header.
    pub(crate) fn encode(&self, keys: &Keys) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(16, 0);
        bytes.extend_from_slice(&self.volume);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.first_seq.to_le_bytes());
        bytes.resize(SEGMENT_HEADER_SIZE - CHECKSUM_SIZE, 0);
        let checksum = keys.log_checksum(self.number, 0, &bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Decodes the header of segment `number`. Returns `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8], number: u64, keys: &Keys) -> Option<SegmentHeader> {
        let (body, checksum) = bytes
            .get(..SEGMENT_HEADER_SIZE)?
            .split_at_checked(SEGMENT_HEADER_SIZE - CHECKSUM_SIZE)?;
        if !rules::is_authentic(keys.log_checksum(number, 0, body) == checksum) {
            return None;
        }
        let mut rest = Cursor(body);
        let is_known = rest.array() == Some(*MAGIC) && rest.u16() == Some(VERSION);
        rest.zeros(6).filter(|()| is_known)?;
        let header =
            SegmentHeader { volume: rest.array()?, number: rest.u64()?, first_seq: rest.u64()? };
        rest.zeros(rest.0.len())?;
        (header.number == number).then_some(header)
    }
}
