//! The records of the log.
//!
//! A record is a header and a payload: the encoded bytes of a block, of a burst or of a delta, or a
//! change of the catalog, padded to whole units.

mod fields;

use cutpoint_delta::burst::Side;

use self::fields::Fields;
use super::cursor::Cursor;
use super::edge::{Bases, EdgeKey, Features};
use super::patch::Patch;
use super::position::Seq;
use super::span::{BlockId, LayerId, Span};
use crate::keys::{CHECKSUM_SIZE, Fingerprint, Keys};
use crate::rules;

/// The length of a short header in bytes, and the unit of positions in a segment.
pub(crate) const UNIT: usize = 128;
/// The length of a long header in bytes.
pub(crate) const LONG_HEADER: usize = 2 * UNIT;

const MAGIC: [u8; 2] = *b"CR";

/// The maximum length of a change of the catalog in bytes.
pub(crate) const CHANGE_LEN_MAX: usize = 64 * 1024;

/// The maximum number of records of a summary.
pub(crate) const SUMMARIZED_MAX: usize = 64;
/// The maximum length of a summary in bytes.
pub(crate) const SUMMARY_LEN_MAX: usize = SUMMARIZED_MAX * (1 + 5 + 10 + 5);

/// Events during the search for a reference block, for the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// For each table, `true` if it had an entry without room for another burst.
    pub(crate) exhausted: [bool; 2],
    /// Set if a reference block could not be read.
    pub(crate) is_cancelled: bool,
}

/// The encoding of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The content as it is.
    #[default]
    Plain,
    Lz4,
    Zstd,
}

impl Encoding {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Encoding> {
        [Encoding::Plain, Encoding::Lz4, Encoding::Zstd].into_iter().find(|it| it.code() == code)
    }
}

/// What the lengths of payloads depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) block_size: usize,
    /// The number of bytes that encryption adds to a payload.
    pub(crate) seal_len: usize,
}

/// The effect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A block is written and stored whole: the payload.
    Full {
        id: BlockId,
        fingerprint: Fingerprint,
        is_indexed: bool,
        keys: [Option<EdgeKey>; 2],
        features: Option<Features>,
        search: Search,
    },
    /// A block is written and stored as a burst: the payload.
    Burst {
        id: BlockId,
        fingerprint: Fingerprint,
        reference: Seq,
        side: Side,
        patch: Patch,
        search: Search,
    },
    /// A block is written that is stored already.
    Duplicate { id: BlockId, target: Seq },
    /// Blocks are zeros from now on.
    Zero(Span),
    /// A stored block has another place from now on: the payload.
    Move { target: Seq },
    /// The catalog changes: the payload, whose content has this fingerprint. Each change is there twice.
    Change { hash: Fingerprint, is_copy: bool },
    /// A block is written and stored as a delta: the payload.
    Delta { id: BlockId, fingerprint: Fingerprint, bases: Bases },
    /// The blocks of a layer that is not needed go to the layer above, or are released if there is
    /// none or it has them. Each is there twice.
    Fold { span: Span, into: Option<LayerId>, is_copy: bool },
    /// A burst or a delta is stored whole from now on, or as a burst on another block: the payload.
    Rewrite { target: Seq, burst: Option<(Seq, Patch)> },
    /// The blocks of the records before this one: the payload, whose content has this fingerprint. It
    /// changes nothing.
    Summary { hash: Fingerprint },
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seq: Seq,
    /// The records before this number were durable when the record was written.
    pub(crate) durable_seq: Seq,
    /// The blocks that the record before this one has changed.
    pub(crate) previous: Span,
    pub(crate) encoding: Encoding,
    /// The length of the payload in bytes.
    pub(crate) payload_len: u32,
    pub(crate) body: Body,
}

impl Record {
    /// Returns the number of bytes of header and payload.
    pub(crate) fn size(&self) -> usize {
        self.body.header_len() + (self.payload_len as usize).next_multiple_of(UNIT)
    }

    /// Returns the header at a place of the log.
    pub(crate) fn encode(&self, segment: u64, offset: u64, keys: &Keys) -> Vec<u8> {
        let fields = Fields::of(&self.body);
        let span = self.body.written();
        let span = if let Body::Fold { span, .. } = self.body { span } else { span };
        let mut header = Vec::with_capacity(LONG_HEADER);
        header.resize(CHECKSUM_SIZE, 0);
        header.extend_from_slice(&[fields.kind | self.encoding.code() << 4, fields.flags]);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&self.payload_len.to_le_bytes());
        header.extend_from_slice(&self.seq.to_le_bytes());
        header.extend_from_slice(&self.durable_seq.to_le_bytes());
        header.extend_from_slice(&span.first.to_le_bytes());
        header.extend_from_slice(&span.count.to_le_bytes());
        header.extend_from_slice(&self.previous.count.to_le_bytes());
        header.extend_from_slice(&self.previous.first.to_le_bytes());
        header.extend_from_slice(&fields.fingerprint);
        for number in fields.numbers {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&span.layer.to_le_bytes());
        header.extend_from_slice(&self.previous.layer.to_le_bytes());
        header.extend_from_slice(&fields.extension);
        let checksum = keys.log_checksum(segment, offset, &header[CHECKSUM_SIZE..]);
        header[..CHECKSUM_SIZE].copy_from_slice(&checksum);
        header
    }

    /// Decodes the header at a place of the log. Returns `None` if there is no valid header.
    pub(crate) fn decode(
        bytes: &[u8],
        (segment, offset): (u64, u64),
        keys: &Keys,
        shape: Shape,
    ) -> Option<Record> {
        // The magic spares the hash of most bytes that are no header.
        let [code, flags, magic @ ..] = *bytes.get(CHECKSUM_SIZE..)?.first_chunk::<4>()?;
        let len = if Fields::is_long(flags) { LONG_HEADER } else { UNIT };
        let (checksum, body) = bytes.get(..len)?.split_at_checked(CHECKSUM_SIZE)?;
        let has_checksum = || keys.log_checksum(segment, offset, body) == checksum;
        if magic != MAGIC || !rules::is_authentic(has_checksum()) {
            return None;
        }
        let mut rest = Cursor(&body[4..]);
        let encoding = Encoding::of_code(code >> 4)?;
        let payload_len = rest.u32()?;
        let (seq, durable_seq) = (rest.u64()?, rest.u64()?);
        let (first, count, previous_count) = (rest.u64()?, rest.u32()?, rest.u32()?);
        let previous_first = rest.u64()?;
        let fingerprint = rest.array()?;
        let numbers = [rest.u64()?, rest.u64()?, rest.u64()?];
        let span = Span { layer: rest.u32()?, first, count };
        let previous = Span { layer: rest.u32()?, first: previous_first, count: previous_count };
        let extension = rest.0.to_vec();
        let fields = Fields { kind: code & 15, flags, fingerprint, numbers, extension };
        let body = fields.body(span)?;
        let record = Record { seq, durable_seq, previous, encoding, payload_len, body };
        let is_right = record.has_payload_of(shape) && durable_seq <= seq && seq > 0;
        is_right.then_some(record)
    }

    /// Returns `true` if the payload has a length that the body and the encoding allow.
    fn has_payload_of(&self, Shape { block_size, seal_len }: Shape) -> bool {
        let len = self.payload_len as usize;
        let is_plain = self.encoding == Encoding::Plain;
        let content_len = match self.body {
            Body::Full { .. } | Body::Rewrite { burst: None, .. } => Some(block_size),
            Body::Burst { patch, .. } | Body::Rewrite { burst: Some((_, patch)), .. } => {
                if !patch.is_possible(block_size) {
                    return false;
                }
                Some(patch.padded_len(block_size))
            }
            Body::Move { .. } | Body::Delta { .. } => None,
            Body::Change { .. } => {
                return is_plain && len <= CHANGE_LEN_MAX + seal_len && len > seal_len;
            }
            Body::Summary { .. } => {
                return is_plain && len <= SUMMARY_LEN_MAX + seal_len && len > seal_len;
            }
            Body::Duplicate { .. } | Body::Zero(_) | Body::Fold { .. } => {
                return is_plain && len == 0;
            }
        };
        match content_len {
            Some(content_len) if is_plain => len == content_len + seal_len,
            // A payload is encoded to be shorter.
            _ => len > seal_len && len <= content_len.unwrap_or(block_size) + seal_len,
        }
    }
}

impl Body {
    /// Returns the length of the header in bytes.
    pub(crate) fn header_len(&self) -> usize {
        let is_long = match self {
            Body::Full { keys, features, .. } => {
                features.is_some() || keys.iter().any(|key| matches!(key, Some(EdgeKey::Raw(_))))
            }
            Body::Delta { .. } => true,
            _ => false,
        };
        if is_long { LONG_HEADER } else { UNIT }
    }

    /// Returns the blocks that a client has written by the record.
    pub(crate) fn written(&self) -> Span {
        match *self {
            Body::Full { id, .. }
            | Body::Burst { id, .. }
            | Body::Delta { id, .. }
            | Body::Duplicate { id, .. } => Span::one(id),
            Body::Zero(span) => span,
            Body::Move { .. }
            | Body::Change { .. }
            | Body::Fold { .. }
            | Body::Rewrite { .. }
            | Body::Summary { .. } => Span::default(),
        }
    }
}
