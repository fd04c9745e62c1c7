//! The records of the log.
//!
//! A record is a header and a payload, the bytes of a block or of a burst, padded to whole units.

use cutpoint_delta::burst::{Side, Tau};

use super::cursor::Cursor;
use crate::keys::{CHECKSUM_SIZE, Fingerprint, Keys};
use crate::mode::{Burst, Mode};

/// The length of the header of a record in bytes, and the unit of positions in a segment.
pub(crate) const UNIT: usize = 128;

/// The unit in which a burst is padded, in bytes: the sector of the paper.
pub(crate) const SECTOR: usize = 512;

const MAGIC: [u8; 2] = *b"CR";

/// The flags of a record.
mod flag {
    /// The burst was found by its tail.
    pub(super) const TAIL: u8 = 1;
    /// HeadDT had an entry without room for another burst.
    pub(super) const HEAD_EXHAUSTED: u8 = 2;
    /// TailDT had an entry without room for another burst.
    pub(super) const TAIL_EXHAUSTED: u8 = 4;
    /// The block is in DT.
    pub(super) const INDEXED: u8 = 8;
    /// The block is in HeadDT.
    pub(super) const HEAD: u8 = 16;
    /// The block is in TailDT.
    pub(super) const TAIL_KEY: u8 = 32;
    /// A reference block was found and could not be read.
    pub(super) const CANCELLED: u8 = 64;
}

/// The number of a record, from 1 on. A stored block has the number of the record that stored it.
pub(crate) type Seq = u64;

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) count: u32,
}

/// The way in which a burst changes its reference block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The number of bytes at the beginning of the reference block that stay.
    pub(crate) prefix: u32,
    /// The number of bytes at the end of the reference block that stay.
    pub(crate) suffix: u32,
}

impl Patch {
    /// Returns the number of new bytes between prefix and suffix in a block of `block_size` bytes.
    pub(crate) fn data_len(self, block_size: usize) -> usize {
        block_size - self.prefix as usize - self.suffix as usize
    }

    /// Returns the number of bytes that the burst takes in the log, padded to sectors.
    pub(crate) fn padded_len(self, block_size: usize) -> usize {
        self.data_len(block_size).next_multiple_of(SECTOR)
    }

    /// Returns the payload of the burst that gives `block`: its new bytes, padded.
    pub(crate) fn payload(self, block: &[u8]) -> Vec<u8> {
        let start = self.prefix as usize;
        let mut payload = block[start..start + self.data_len(block.len())].to_vec();
        payload.resize(self.padded_len(block.len()), 0);
        payload
    }

    /// Returns `true` if prefix and suffix leave a burst in a block of `block_size` bytes that is
    /// smaller than the block.
    pub(crate) fn is_possible(self, block_size: usize) -> bool {
        let kept = self.prefix as usize + self.suffix as usize;
        kept <= block_size && self.padded_len(block_size) < block_size
    }
}

/// Events during the search for a reference block, for the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// For each table, `true` if it had an entry without room for another burst.
    pub(crate) exhausted: [bool; 2],
    /// Set if a reference block could not be read.
    pub(crate) is_cancelled: bool,
}

/// A setting of the whole volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The size of the virtual disk in bytes.
    pub(crate) size: u64,
    pub(crate) mode: Mode,
}

/// The effect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A block is written and stored whole: the payload.
    Full {
        block: u64,
        fingerprint: Fingerprint,
        is_indexed: bool,
        keys: [Option<u64>; 2],
        search: Search,
    },
    /// A block is written and stored as a burst: the payload.
    Burst {
        block: u64,
        fingerprint: Fingerprint,
        reference: Seq,
        side: Side,
        patch: Patch,
        search: Search,
    },
    /// A block is written that is stored already.
    Duplicate { block: u64, target: Seq },
    /// Blocks are zeros from now on.
    Zero(Span),
    /// A stored block has another place from now on: the payload.
    Move { target: Seq },
    /// The settings change.
    Settings(Settings),
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seq: Seq,
    /// The records before this number were durable when the record was written.
    pub(crate) durable_seq: Seq,
    /// The blocks that the record before this one has changed.
    pub(crate) previous: Span,
    /// The length of the payload in bytes.
    pub(crate) payload_len: u32,
    pub(crate) body: Body,
}

impl Record {
    /// Returns the number of bytes of header and payload.
    pub(crate) fn size(&self) -> usize {
        UNIT + (self.payload_len as usize).next_multiple_of(UNIT)
    }

    /// Returns the blocks that the record changes.
    pub(crate) fn span(&self) -> Span {
        match self.body {
            Body::Full { block, .. }
            | Body::Burst { block, .. }
            | Body::Duplicate { block, .. } => Span { first: block, count: 1 },
            Body::Zero(span) => span,
            Body::Move { .. } | Body::Settings(_) => Span::default(),
        }
    }

    /// Returns the header at a place of the log.
    pub(crate) fn encode(&self, segment: u64, offset: u64, keys: &Keys) -> [u8; UNIT] {
        let fields = Fields::of(&self.body);
        let span = self.span();
        let mut bytes = Vec::with_capacity(UNIT);
        bytes.resize(CHECKSUM_SIZE, 0);
        bytes.extend_from_slice(&[fields.kind, fields.flags]);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.payload_len.to_le_bytes());
        bytes.extend_from_slice(&self.seq.to_le_bytes());
        bytes.extend_from_slice(&self.durable_seq.to_le_bytes());
        bytes.extend_from_slice(&span.first.to_le_bytes());
        bytes.extend_from_slice(&span.count.to_le_bytes());
        bytes.extend_from_slice(&self.previous.count.to_le_bytes());
        bytes.extend_from_slice(&self.previous.first.to_le_bytes());
        bytes.extend_from_slice(&fields.fingerprint);
        for number in fields.numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let mut header = [0; UNIT];
        header[..bytes.len()].copy_from_slice(&bytes);
        let checksum = keys.log_checksum(segment, offset, &header[CHECKSUM_SIZE..]);
        header[..CHECKSUM_SIZE].copy_from_slice(&checksum);
        header
    }

    /// Decodes the header at a place of the log, of a volume with blocks of `block_size` bytes.
    /// Returns `None` if there is no valid header.
    pub(crate) fn decode(
        header: &[u8],
        (segment, offset): (u64, u64),
        keys: &Keys,
        block_size: usize,
    ) -> Option<Record> {
        let (checksum, body) = header.get(..UNIT)?.split_at_checked(CHECKSUM_SIZE)?;
        // The magic spares the hash of most bytes that are no header.
        if body[2..4] != MAGIC || keys.log_checksum(segment, offset, body) != checksum {
            return None;
        }
        let mut rest = Cursor(body);
        let (kind, flags) = (rest.u8()?, rest.u8()?);
        rest.take(MAGIC.len())?;
        let payload_len = rest.u32()?;
        let (seq, durable_seq) = (rest.u64()?, rest.u64()?);
        let (first, count, previous_count) = (rest.u64()?, rest.u32()?, rest.u32()?);
        let previous = Span { first: rest.u64()?, count: previous_count };
        let fingerprint = rest.array()?;
        let numbers = [rest.u64()?, rest.u64()?, rest.u64()?];
        rest.zeros(8)?;
        let fields = Fields { kind, flags, fingerprint, numbers };
        let body = fields.body(Span { first, count })?;
        let record = Record { seq, durable_seq, previous, payload_len, body };
        let is_right = record.has_payload_of(block_size) && durable_seq <= seq && seq > 0;
        is_right.then_some(record)
    }

    /// Returns `true` if the payload has the length that the body demands.
    fn has_payload_of(&self, block_size: usize) -> bool {
        let len = self.payload_len as usize;
        match self.body {
            Body::Full { .. } => len == block_size,
            Body::Burst { patch, .. } => {
                patch.is_possible(block_size) && len == patch.padded_len(block_size)
            }
            // The target has the length.
            Body::Move { .. } => len <= block_size && len.is_multiple_of(SECTOR),
            Body::Duplicate { .. } | Body::Zero(_) | Body::Settings(_) => len == 0,
        }
    }
}

/// The fields of a header that depend on the kind of the record.
struct Fields {
    kind: u8,
    flags: u8,
    fingerprint: Fingerprint,
    numbers: [u64; 3],
}

impl Fields {
    fn of(body: &Body) -> Fields {
        let empty = Fields { kind: 0, flags: 0, fingerprint: [0; 32], numbers: [0; 3] };
        match *body {
            Body::Full { fingerprint, is_indexed, keys, search, .. } => {
                let mut flags = search_flags(search);
                for (is_set, bit) in [
                    (is_indexed, flag::INDEXED),
                    (keys[0].is_some(), flag::HEAD),
                    (keys[1].is_some(), flag::TAIL_KEY),
                ] {
                    flags |= if is_set { bit } else { 0 };
                }
                let [head, tail] = keys.map(Option::unwrap_or_default);
                Fields { kind: 1, flags, fingerprint, numbers: [head, tail, 0] }
            }
            Body::Burst { fingerprint, reference, side, patch, search, .. } => {
                let side = if side == Side::Tail { flag::TAIL } else { 0 };
                let edges = u64::from(patch.prefix) | u64::from(patch.suffix) << 32;
                let numbers = [reference, edges, 0];
                Fields { kind: 2, flags: side | search_flags(search), fingerprint, numbers }
            }
            Body::Duplicate { target, .. } => Fields { kind: 3, numbers: [target, 0, 0], ..empty },
            Body::Zero(_) => Fields { kind: 4, ..empty },
            Body::Move { target } => Fields { kind: 5, numbers: [target, 0, 0], ..empty },
            Body::Settings(settings) => {
                let [mode, tau] = mode_numbers(settings.mode);
                Fields { kind: 6, numbers: [settings.size, mode, tau], ..empty }
            }
        }
    }

    /// Returns the body, or `None` if a field has a value that it never has.
    fn body(&self, span: Span) -> Option<Body> {
        let Fields { kind, flags, fingerprint, numbers: [a, b, c] } = *self;
        let block = span.first;
        let is_one = span.count == 1;
        let is_none = span == Span::default();
        let is_plain = flags == 0 && fingerprint == [0; 32];
        let search = Search {
            exhausted: [flags & flag::HEAD_EXHAUSTED != 0, flags & flag::TAIL_EXHAUSTED != 0],
            is_cancelled: flags & flag::CANCELLED != 0,
        };
        let searched = search_flags(search);
        match kind {
            1 => {
                let others = flag::INDEXED | flag::HEAD | flag::TAIL_KEY;
                let key = |bit: u8, key: u64| (flags & bit != 0).then_some(key);
                let keys = [key(flag::HEAD, a), key(flag::TAIL_KEY, b)];
                // A key that is not there is 0.
                let is_plain = keys.map(Option::unwrap_or_default) == [a, b] && c == 0;
                let is_right = is_one && is_plain && flags & !(searched | others) == 0;
                let is_indexed = flags & flag::INDEXED != 0;
                is_right.then_some(Body::Full { block, fingerprint, is_indexed, keys, search })
            }
            2 => {
                let prefix = u32::try_from(b & u64::from(u32::MAX)).ok()?;
                let patch = Patch { prefix, suffix: u32::try_from(b >> 32).ok()? };
                let side = if flags & flag::TAIL == 0 { Side::Head } else { Side::Tail };
                let is_right = is_one && flags & !(searched | flag::TAIL) == 0 && c == 0;
                let body = Body::Burst { block, fingerprint, reference: a, side, patch, search };
                is_right.then_some(body)
            }
            3 => {
                let is_right = is_one && is_plain && (b, c) == (0, 0);
                is_right.then_some(Body::Duplicate { block, target: a })
            }
            4 => (is_plain && span.count > 0 && [a, b, c] == [0; 3]).then_some(Body::Zero(span)),
            5 => (is_plain && is_none && (b, c) == (0, 0)).then_some(Body::Move { target: a }),
            6 => {
                let mode = mode_of(b, c).filter(|_| is_plain && is_none)?;
                Some(Body::Settings(Settings { size: a, mode }))
            }
            _ => None,
        }
    }
}

fn search_flags(search: Search) -> u8 {
    let Search { exhausted: [head, tail], is_cancelled } = search;
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    bit(head, flag::HEAD_EXHAUSTED)
        | bit(tail, flag::TAIL_EXHAUSTED)
        | bit(is_cancelled, flag::CANCELLED)
}

/// Returns a mode as two numbers: its code and `c_max`; and tau, whose highest bit means bytes.
pub(crate) fn mode_numbers(mode: Mode) -> [u64; 2] {
    match mode {
        Mode::Off => [0, 0],
        Mode::Exact => [1, 0],
        Mode::Burst(Burst { tau, c_max }) => {
            let tau = match tau {
                Tau::Fraction(divisor) => divisor as u64,
                Tau::Bytes(len) => len as u64 | TAU_BYTES,
                Tau::Raw => Tau::RAW_LEN as u64 | TAU_BYTES,
            };
            [2 | u64::from(c_max) << 32, tau]
        }
    }
}

/// The bit of tau that tells bytes from a fraction.
const TAU_BYTES: u64 = 1 << 63;

/// Returns the mode of two numbers, or `None` if they are those of none.
pub(crate) fn mode_of(code: u64, tau: u64) -> Option<Mode> {
    match (code, tau) {
        (0, 0) => Some(Mode::Off),
        (1, 0) => Some(Mode::Exact),
        _ if code & u64::from(u32::MAX) == 2 => {
            let len = usize::try_from(tau & !TAU_BYTES).ok().filter(|len| *len > 0)?;
            let tau = if tau & TAU_BYTES == 0 { Tau::Fraction(len) } else { Tau::Bytes(len) };
            Some(Mode::Burst(Burst { tau, c_max: u32::try_from(code >> 32).ok()? }))
        }
        _ => None,
    }
}
