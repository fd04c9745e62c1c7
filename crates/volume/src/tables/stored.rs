//! The stored blocks.

use cutpoint_delta::burst::Side;

use crate::format::cursor::{Cursor, put_varint};
use crate::format::edge::{Bases, EdgeKey, Features};
use crate::format::patch::{Patch, SECTOR};
use crate::format::position::{Place, Seq};
use crate::format::record::{Encoding, LONG_HEADER, UNIT};
use crate::keys::Fingerprint;

/// A stored block: an entry of DT or BT, or a full block that is in no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) place: Place,
    /// Set if the header of the record at the place is long.
    pub(crate) has_long_header: bool,
    pub(crate) encoding: Encoding,
    /// The length of the payload in bytes.
    pub(crate) payload_len: u32,
    pub(crate) fingerprint: Fingerprint,
    /// The number of blocks of all layers that have this content.
    pub(crate) use_count: u64,
    pub(crate) form: Form,
}

/// The form of a stored block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The block as it is.
    Full {
        /// Set if equal blocks find this one.
        is_indexed: bool,
        /// The keys of HeadDT and TailDT that led to the block when it was stored.
        keys: [Option<EdgeKey>; 2],
        features: Option<Features>,
        /// The number of bursts and deltas that need the block.
        dependent_count: u64,
    },
    /// The difference to a full block.
    Burst { reference: Seq, side: Side, patch: Patch },
    /// The differences to several full blocks.
    Delta { bases: Bases },
}

/// The bits of the first byte of a stored block in its table.
mod bit {
    pub(super) const BURST: u8 = 1;
    pub(super) const DELTA: u8 = 2;
    /// In a burst: it was found by its tail.
    pub(super) const TAIL: u8 = 4;
    pub(super) const INDEXED: u8 = 4;
    pub(super) const KEYS: [u8; 2] = [8, 16];
    pub(super) const RAW: u8 = 32;
    pub(super) const FEATURES: u8 = 64;
    pub(super) const LONG: u8 = 128;
}

impl Stored {
    /// Returns the number of bytes of the record with the payload in the log.
    pub(crate) fn log_len(&self) -> u64 {
        self.header_len() as u64 + u64::from(self.payload_len).next_multiple_of(UNIT as u64)
    }

    /// Returns the number of bytes without header, in whole sectors, as the paper counts.
    pub(crate) fn sector_bytes(&self, seal_len: usize) -> u64 {
        u64::from(self.payload_len).saturating_sub(seal_len as u64).next_multiple_of(SECTOR as u64)
    }

    /// Returns the offset of the payload in its segment.
    pub(crate) fn payload_offset(&self) -> u64 {
        u64::from(self.place.offset) + self.header_len() as u64
    }

    /// Returns the length of the header of the record.
    pub(crate) fn header_len(&self) -> usize {
        if self.has_long_header { LONG_HEADER } else { UNIT }
    }

    /// Returns the stored blocks that this one needs, each once.
    pub(crate) fn references(&self) -> &[Seq] {
        match &self.form {
            Form::Full { .. } => &[],
            Form::Burst { reference, .. } => std::slice::from_ref(reference),
            Form::Delta { bases } => bases.seqs(),
        }
    }

    /// Returns `true` if nothing but bursts and deltas need the block.
    pub(crate) fn is_pinned(&self) -> bool {
        self.use_count == 0
            && matches!(self.form, Form::Full { dependent_count, .. } if dependent_count > 0)
    }

    /// Returns the number of bursts and deltas that need the block.
    pub(crate) fn dependent_count(&self) -> u64 {
        match self.form {
            Form::Full { dependent_count, .. } => dependent_count,
            Form::Burst { .. } | Form::Delta { .. } => 0,
        }
    }

    /// Returns the value of the block in its table.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let mut bits = if self.has_long_header { bit::LONG } else { 0 };
        match &self.form {
            Form::Full { is_indexed, keys, features, .. } => {
                bits |= if *is_indexed { bit::INDEXED } else { 0 };
                bits |= if features.is_some() { bit::FEATURES } else { 0 };
                for (key, bit) in keys.iter().zip(bit::KEYS) {
                    let raw = if matches!(key, Some(EdgeKey::Raw(_))) { bit::RAW } else { 0 };
                    bits |= if key.is_some() { bit | raw } else { 0 };
                }
            }
            Form::Burst { side, .. } => {
                bits |= bit::BURST | if *side == Side::Tail { bit::TAIL } else { 0 };
            }
            Form::Delta { .. } => bits |= bit::DELTA,
        }
        bytes.extend_from_slice(&[bits, self.encoding.code()]);
        let Place { segment, offset } = self.place;
        let units = u64::from(offset) / UNIT as u64;
        for number in [segment, units, self.payload_len.into(), self.use_count] {
            put_varint(&mut bytes, number);
        }
        bytes.extend_from_slice(&self.fingerprint);
        match &self.form {
            Form::Full { keys, features, dependent_count, .. } => {
                put_varint(&mut bytes, *dependent_count);
                for key in keys.iter().flatten() {
                    match key {
                        EdgeKey::Hash(hash) => bytes.extend_from_slice(&hash.to_le_bytes()),
                        EdgeKey::Raw(raw) => bytes.extend_from_slice(raw),
                    }
                }
                let features = features.iter().flatten();
                bytes.extend(features.flat_map(|feature| feature.to_le_bytes()));
            }
            Form::Burst { reference, patch, .. } => {
                for number in [*reference, patch.prefix.into(), patch.suffix.into()] {
                    put_varint(&mut bytes, number);
                }
            }
            Form::Delta { bases } => {
                bases.seqs().iter().for_each(|seq| put_varint(&mut bytes, *seq));
            }
        }
        bytes
    }

    /// Decodes the value of a block in its table. Returns `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Stored> {
        let mut rest = Cursor(bytes);
        let (bits, encoding) = (rest.u8()?, Encoding::of_code(rest.u8()?)?);
        let (segment, units) = (rest.varint()?, u32::try_from(rest.varint()?).ok()?);
        let offset = units.checked_mul(u32::try_from(UNIT).ok()?).filter(|offset| *offset > 0)?;
        let payload_len = u32::try_from(rest.varint()?).ok()?;
        let use_count = rest.varint()?;
        let fingerprint = rest.array()?;
        let form = match bits & (bit::BURST | bit::DELTA) {
            0 => full(bits, &mut rest)?,
            bit::BURST => {
                let reference = rest.varint()?;
                let prefix = u32::try_from(rest.varint()?).ok()?;
                let patch = Patch { prefix, suffix: u32::try_from(rest.varint()?).ok()? };
                let side = if bits & bit::TAIL == 0 { Side::Head } else { Side::Tail };
                Form::Burst { reference, side, patch }
            }
            bit::DELTA => {
                let mut seqs = Vec::new();
                while !rest.0.is_empty() {
                    seqs.push(rest.varint()?);
                }
                Form::Delta { bases: Bases::new(&seqs)? }
            }
            _ => return None,
        };
        let place = Place { segment, offset };
        let has_long_header = bits & bit::LONG != 0;
        let stored =
            Stored { place, has_long_header, encoding, payload_len, fingerprint, use_count, form };
        rest.0.is_empty().then_some(stored)
    }
}

fn full(bits: u8, rest: &mut Cursor<'_>) -> Option<Form> {
    let dependent_count = rest.varint()?;
    let mut keys = [None; 2];
    for (key, bit) in keys.iter_mut().zip(bit::KEYS) {
        if bits & bit != 0 {
            *key = Some(if bits & bit::RAW == 0 {
                EdgeKey::Hash(rest.u64()?)
            } else {
                EdgeKey::Raw(rest.array()?)
            });
        }
    }
    let mut features = None;
    if bits & bit::FEATURES != 0 {
        let mut found = Features::default();
        for feature in &mut found {
            *feature = rest.u64()?;
        }
        features = Some(found);
    }
    Some(Form::Full { is_indexed: bits & bit::INDEXED != 0, keys, features, dependent_count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_form() -> Vec<Form> {
        let keys = [Some(EdgeKey::Hash(5)), None];
        let raw = [Some(EdgeKey::Raw([7; 32])), Some(EdgeKey::Raw([8; 32]))];
        let features = Some([1, 2, u64::MAX]);
        let patch = Patch { prefix: 9, suffix: 4000 };
        vec![
            Form::Full { is_indexed: false, keys: [None; 2], features: None, dependent_count: 0 },
            Form::Full { is_indexed: true, keys, features: None, dependent_count: 300 },
            Form::Full { is_indexed: true, keys: raw, features, dependent_count: u64::MAX },
            Form::Burst { reference: 12, side: Side::Head, patch },
            Form::Burst { reference: u64::MAX - 1, side: Side::Tail, patch },
            Form::Delta { bases: Bases::new(&[5, 1, u64::MAX - 1, 9]).expect("bases") },
        ]
    }

    #[test]
    fn every_form_survives_its_bytes_and_no_part_of_them_is_taken() {
        for (number, form) in every_form().into_iter().enumerate() {
            let stored = Stored {
                place: Place { segment: 1 << 40, offset: 128 * (1 + u32::from(number == 2)) },
                has_long_header: number % 2 == 0,
                encoding: Encoding::Zstd,
                payload_len: 4096,
                fingerprint: [3; 32],
                use_count: u64::MAX,
                form,
            };
            let bytes = stored.encode();
            assert!(bytes.len() <= 254, "{} bytes", bytes.len());
            assert_eq!(Stored::decode(&bytes), Some(stored));
            for len in 0..bytes.len() {
                let decoded = Stored::decode(&bytes[..len]);
                // A delta with fewer bases is one, too.
                assert!(decoded.is_none() || number == 5, "form {number}, {len} bytes");
            }
        }
    }
}
