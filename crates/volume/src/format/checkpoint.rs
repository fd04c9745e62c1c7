//! A checkpoint: the runs of the tables at one position of the log, and what is small enough to stay in
//! memory.

use super::change::Change;
use super::cursor::{Cursor, put_varint};
use super::position::Position;
use super::run::{PartMeta, RunMeta};
use super::span::LayerId;
use super::{VERSION, VolumeId};
use crate::keys::Keys;
use crate::rules;

const MAGIC: &[u8; 8] = b"CutpChk\0";

/// The number of counters of a checkpoint.
pub(crate) const COUNTER_COUNT: usize = 20;
/// The number of totals of a checkpoint.
pub(crate) const TOTAL_COUNT: usize = 14;

/// The values of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) volume: VolumeId,
    pub(crate) number: u64,
    pub(crate) position: Position,
    /// The number of the last part of a run that was begun.
    pub(crate) last_part: u64,
    pub(crate) counters: [u64; COUNTER_COUNT],
    pub(crate) totals: [u64; TOTAL_COUNT],
    /// The lowest number that no disk, snapshot or layer has had.
    pub(crate) next_id: u32,
    /// The changes that make the catalog.
    pub(crate) catalog: Vec<Change>,
    /// The number of blocks of each layer that are not zeros, by rising number.
    pub(crate) used_counts: Vec<(LayerId, u64)>,
    /// The bytes of live records of each segment that has any, by rising number.
    pub(crate) live_bytes: Vec<(u64, u64)>,
    /// The runs, from the newest to the oldest.
    pub(crate) runs: Vec<RunMeta>,
}

impl Checkpoint {
    /// Returns the bytes of the checkpoint.
    pub(crate) fn encode(&self, keys: &Keys) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512 + 8 * self.live_bytes.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(16, 0);
        bytes.extend_from_slice(&self.volume);
        let Position { segment, offset, seq } = self.position;
        let numbers = [self.number, segment, u64::from(offset), seq, self.last_part];
        let numbers = numbers.into_iter().chain(self.counters).chain(self.totals);
        for number in numbers.chain([u64::from(self.next_id)]) {
            put_varint(&mut bytes, number);
        }
        put_varint(&mut bytes, self.catalog.len() as u64);
        self.catalog.iter().for_each(|change| change.encode(&mut bytes));
        let layers = self.used_counts.iter().map(|(layer, count)| (u64::from(*layer), *count));
        put_pairs(&mut bytes, layers.collect());
        put_pairs(&mut bytes, self.live_bytes.clone());
        put_varint(&mut bytes, self.runs.len() as u64);
        for run in &self.runs {
            bytes.extend_from_slice(&[run.level, u8::from(run.has_all_keys_in_filter)]);
            put_key(&mut bytes, &run.from);
            put_varint(&mut bytes, run.parts.len() as u64);
            for part in &run.parts {
                let counts = [part.entry_count, part.data_page_count, part.filter_len];
                for number in [part.number].into_iter().chain(counts) {
                    put_varint(&mut bytes, number);
                }
                put_key(&mut bytes, &part.first);
            }
        }
        let checksum = keys.checkpoint_checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Decodes a checkpoint. Returns `None` if the bytes are none, or not whole.
    pub(crate) fn decode(bytes: &[u8], keys: &Keys) -> Option<Checkpoint> {
        let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if !rules::is_authentic(keys.checkpoint_checksum(body) == checksum) {
            return None;
        }
        let mut rest = Cursor(body);
        let is_known = rest.array() == Some(*MAGIC) && rest.u16() == Some(VERSION);
        rest.zeros(6).filter(|()| is_known)?;
        let volume = rest.array()?;
        let number = rest.varint()?;
        let segment = rest.varint()?;
        let offset = u32::try_from(rest.varint()?).ok()?;
        let position = Position { segment, offset, seq: rest.varint()? };
        let last_part = rest.varint()?;
        let counters = numbers(&mut rest)?;
        let totals = numbers(&mut rest)?;
        let next_id = u32::try_from(rest.varint()?).ok()?;
        let catalog = list(&mut rest, 2, Change::decode)?;
        let used_counts = pairs(&mut rest)?;
        let used_counts: Option<Vec<_>> = used_counts
            .into_iter()
            .map(|(layer, count)| Some((LayerId::try_from(layer).ok()?, count)))
            .collect();
        let live_bytes = pairs(&mut rest)?;
        let runs = list(&mut rest, 4, run)?;
        rest.0.is_empty().then_some(())?;
        Some(Checkpoint {
            volume,
            number,
            position,
            last_part,
            counters,
            totals,
            next_id,
            catalog,
            used_counts: used_counts?,
            live_bytes,
            runs,
        })
    }
}

fn put_pairs(bytes: &mut Vec<u8>, pairs: Vec<(u64, u64)>) {
    put_varint(bytes, pairs.len() as u64);
    for (key, value) in pairs {
        put_varint(bytes, key);
        put_varint(bytes, value);
    }
}

/// Adds the bytes of a key behind their number.
fn put_key(bytes: &mut Vec<u8>, key: &[u8]) {
    bytes.push(u8::try_from(key.len()).expect("keys are short"));
    bytes.extend_from_slice(key);
}

fn numbers<const COUNT: usize>(rest: &mut Cursor<'_>) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = rest.varint()?;
    }
    Some(numbers)
}

/// Decodes pairs whose first numbers rise.
fn pairs(rest: &mut Cursor<'_>) -> Option<Vec<(u64, u64)>> {
    let pairs = list(rest, 2, |rest| Some((rest.varint()?, rest.varint()?)))?;
    pairs.is_sorted_by(|one, other| one.0 < other.0).then_some(pairs)
}

fn run(rest: &mut Cursor<'_>) -> Option<RunMeta> {
    let (level, all_keys) = (rest.u8()?, rest.u8().filter(|flag| *flag <= 1)?);
    Some(RunMeta {
        level,
        has_all_keys_in_filter: all_keys == 1,
        from: key(rest)?,
        parts: list(rest, 5, part)?,
    })
}

fn part(rest: &mut Cursor<'_>) -> Option<PartMeta> {
    Some(PartMeta {
        number: rest.varint()?,
        entry_count: rest.varint()?,
        data_page_count: rest.varint()?,
        filter_len: rest.varint()?,
        first: key(rest)?,
    })
}

fn key(rest: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let len = rest.u8()?;
    rest.take(usize::from(len)).map(<[u8]>::to_vec)
}

/// Decodes entries behind their number, of which each has at least `len_min` bytes. Reserves no more
/// memory than the rest can fill.
fn list<T>(
    rest: &mut Cursor<'_>,
    len_min: usize,
    decode: impl Fn(&mut Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(rest.varint()?).ok();
    let count = count.filter(|count| *count <= rest.0.len() / len_min)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(decode(rest)?);
    }
    Some(entries)
}
