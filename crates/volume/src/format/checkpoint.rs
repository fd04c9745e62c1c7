//! A checkpoint: all tables of a volume at one position of the log.

use cutpoint_delta::burst::Side;

use super::cursor::Cursor;
use super::record::{Patch, Seq, Settings, mode_numbers, mode_of};
use super::{VERSION, VolumeId};
use crate::keys::{Fingerprint, Keys};

const MAGIC: &[u8; 8] = b"CutpChk\0";

/// The number of counters of a checkpoint.
pub(crate) const COUNTER_COUNT: usize = 16;

/// A position in the log: the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) segment: u64,
    /// The offset of the record in the segment, or 0 if the segment is not created yet.
    pub(crate) offset: u32,
    pub(crate) seq: Seq,
}

/// A place of a stored block: the header of the record with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
}

/// The form of a stored block in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Full { is_indexed: bool, keys: [Option<u64>; 2] },
    Burst { reference: Seq, side: Side, patch: Patch },
}

/// A stored block in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    pub(crate) seq: Seq,
    pub(crate) place: Place,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) form: Form,
}

/// An entry of HeadDT or TailDT in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewEntry {
    pub(crate) key: u64,
    pub(crate) reference: Seq,
    pub(crate) burst_count: u32,
}

/// The values of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) volume: VolumeId,
    pub(crate) number: u64,
    pub(crate) position: Position,
    pub(crate) settings: Settings,
    pub(crate) counters: [u64; COUNTER_COUNT],
    /// The stored blocks, by rising number.
    pub(crate) stored: Vec<StoredEntry>,
    /// The entries of HeadDT and TailDT, by rising key.
    pub(crate) views: [Vec<ViewEntry>; 2],
    /// The blocks that are not zeros, rising, and the stored block of each.
    pub(crate) map: Vec<(u64, Seq)>,
}

impl Checkpoint {
    /// Returns the bytes of the checkpoint.
    pub(crate) fn encode(&self, keys: &Keys) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512 + 96 * self.stored.len() + 16 * self.map.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(16, 0);
        bytes.extend_from_slice(&self.volume);
        let [mode, tau] = mode_numbers(self.settings.mode);
        let Position { segment, offset, seq } = self.position;
        let counts = [self.stored.len(), self.views[0].len(), self.views[1].len(), self.map.len()];
        let numbers = [self.number, segment, u64::from(offset), seq, self.settings.size, mode, tau];
        let numbers = numbers.into_iter().chain(self.counters);
        for number in numbers.chain(counts.map(|count| count as u64)) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.stored.iter().for_each(|entry| encode_stored(entry, &mut bytes));
        for entry in self.views.iter().flatten() {
            bytes.extend_from_slice(&entry.key.to_le_bytes());
            bytes.extend_from_slice(&entry.reference.to_le_bytes());
            bytes.extend_from_slice(&entry.burst_count.to_le_bytes());
        }
        for (block, seq) in &self.map {
            bytes.extend_from_slice(&block.to_le_bytes());
            bytes.extend_from_slice(&seq.to_le_bytes());
        }
        let checksum = keys.checkpoint_checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Decodes a checkpoint. Returns `None` if the bytes are none, or not whole.
    pub(crate) fn decode(bytes: &[u8], keys: &Keys) -> Option<Checkpoint> {
        let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if keys.checkpoint_checksum(body) != checksum {
            return None;
        }
        let mut rest = Cursor(body);
        let is_known = rest.array() == Some(*MAGIC) && rest.u16() == Some(VERSION);
        rest.zeros(6).filter(|()| is_known)?;
        let volume = rest.array()?;
        let number = rest.u64()?;
        let segment = rest.u64()?;
        let offset = u32::try_from(rest.u64()?).ok()?;
        let position = Position { segment, offset, seq: rest.u64()? };
        let size = rest.u64()?;
        let settings = Settings { size, mode: mode_of(rest.u64()?, rest.u64()?)? };
        let mut counters = [0; COUNTER_COUNT];
        for counter in &mut counters {
            *counter = rest.u64()?;
        }
        let counts = [rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?];
        let stored = list(&mut rest, counts[0], STORED_LEN_MIN, decode_stored)?;
        let heads = list(&mut rest, counts[1], 20, decode_view)?;
        let tails = list(&mut rest, counts[2], 20, decode_view)?;
        let map = list(&mut rest, counts[3], 16, |rest| Some((rest.u64()?, rest.u64()?)))?;
        rest.0.is_empty().then_some(())?;
        let views = [heads, tails];
        let checkpoint =
            Checkpoint { volume, number, position, settings, counters, stored, views, map };
        checkpoint.is_sorted().then_some(checkpoint)
    }

    fn is_sorted(&self) -> bool {
        self.stored.is_sorted_by(|one, other| one.seq < other.seq)
            && self.views.iter().all(|view| view.is_sorted_by(|one, other| one.key < other.key))
            && self.map.is_sorted_by(|one, other| one.0 < other.0)
    }
}

/// Decodes `count` entries, of which each has at least `len_min` bytes. Reserves no more memory than
/// the rest can fill.
fn list<T>(
    rest: &mut Cursor<'_>,
    count: u64,
    len_min: usize,
    decode: impl Fn(&mut Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= rest.0.len() / len_min)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(decode(rest)?);
    }
    Some(entries)
}

/// The minimum length of a stored block in bytes.
const STORED_LEN_MIN: usize = 70;

fn encode_stored(entry: &StoredEntry, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&entry.seq.to_le_bytes());
    bytes.extend_from_slice(&entry.place.segment.to_le_bytes());
    bytes.extend_from_slice(&entry.place.offset.to_le_bytes());
    bytes.extend_from_slice(&entry.fingerprint);
    match entry.form {
        Form::Full { is_indexed, keys } => {
            let has = |key: Option<u64>, bit: u8| if key.is_some() { bit } else { 0 };
            let flags = u8::from(is_indexed) | has(keys[0], 2) | has(keys[1], 4);
            bytes.extend_from_slice(&[1, flags]);
            for key in keys {
                bytes.extend_from_slice(&key.unwrap_or_default().to_le_bytes());
            }
        }
        Form::Burst { reference, side, patch } => {
            bytes.extend_from_slice(&[2, u8::from(side == Side::Tail)]);
            bytes.extend_from_slice(&reference.to_le_bytes());
            bytes.extend_from_slice(&patch.prefix.to_le_bytes());
            bytes.extend_from_slice(&patch.suffix.to_le_bytes());
        }
    }
}

fn decode_stored(rest: &mut Cursor<'_>) -> Option<StoredEntry> {
    let seq = rest.u64()?;
    let place = Place { segment: rest.u64()?, offset: rest.u32()? };
    let fingerprint = rest.array()?;
    let (kind, flags) = (rest.u8()?, rest.u8()?);
    let form = match (kind, flags) {
        (1, 0..=7) => {
            let (head, tail) = (rest.u64()?, rest.u64()?);
            let keys = [(flags & 2 != 0).then_some(head), (flags & 4 != 0).then_some(tail)];
            // A key that is not there is 0.
            (keys.map(Option::unwrap_or_default) == [head, tail]).then_some(())?;
            Form::Full { is_indexed: flags & 1 != 0, keys }
        }
        (2, 0 | 1) => {
            let side = if flags == 0 { Side::Head } else { Side::Tail };
            let reference = rest.u64()?;
            Form::Burst {
                reference,
                side,
                patch: Patch { prefix: rest.u32()?, suffix: rest.u32()? },
            }
        }
        _ => return None,
    };
    Some(StoredEntry { seq, place, fingerprint, form })
}

fn decode_view(rest: &mut Cursor<'_>) -> Option<ViewEntry> {
    let (key, reference) = (rest.u64()?, rest.u64()?);
    Some(ViewEntry { key, reference, burst_count: rest.u32()? })
}
