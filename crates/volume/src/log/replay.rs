//! Reads the log behind a checkpoint.
//!
//! The records are numbered without gaps. The log ends at the first record that is missing or
//! damaged and may not have been durable: a power cut has lost it, and what follows it is void. A
//! record that was durable and is damaged does not end the log: the blocks that it changed, which
//! the next record and the next two summaries name, become unreadable.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use super::recent::remember;

use crate::core::{Core, shown};
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::format::position::{Place, Position, Seq};
use crate::format::record::{Body, CHANGE_LEN_MAX, LONG_HEADER, Record, UNIT};
use crate::format::segment::{SEGMENT_HEADER_SIZE, SegmentHeader};
use crate::format::span::Span;
use crate::format::summary::Summarized;
use crate::rules;

/// The number of bytes that are read at a time where more of a segment cannot be read at once, or is not wanted.
const PART_SIZE: usize = 4096;
/// The size of blocks from which on payloads are passed over where headers alone are needed. Of smaller ones,
/// as many bytes are read at a time.
const LARGE_BLOCK: usize = 32 * 1024;

/// A segment of the log, as far as its headers can be read.
#[derive(Debug)]
struct Found {
    /// The number of the first record, or `None` if the segment tells none.
    first_seq: Option<Seq>,
    records: Vec<(u32, Record)>,
    summaries: Vec<(Seq, Vec<Summarized>)>,
}

/// The records behind a checkpoint.
#[derive(Debug)]
pub(crate) struct Replay {
    segments: BTreeMap<u64, Found>,
    position: Position,
    /// The records before this number were durable.
    durable_seq: Seq,
}

/// The end of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) next_seq: Seq,
    /// The blocks that the last record has changed.
    pub(crate) previous: Span,
    /// The number of the first segment that does not exist.
    pub(crate) next_segment: u64,
    /// The segments that were read, which may not be durable.
    pub(crate) segments: Vec<u64>,
    /// The last records, from the oldest to the newest, at most as many as a summary has.
    pub(crate) recent: VecDeque<Summarized>,
}

impl Replay {
    /// Reads the headers of all records from a position on.
    ///
    /// # Errors
    ///
    /// Fails if a segment cannot be read.
    pub(crate) fn read(core: &Core, position: Position) -> Result<Replay> {
        let listed = core.names()?;
        let numbers = listed.iter().filter_map(|name| names::parse_segment(name));
        let mut segments = BTreeMap::new();
        for number in numbers.filter(|number| *number >= position.segment) {
            let start = if number == position.segment { position.offset } else { 0 };
            segments.insert(number, Found::read(core, number, start)?);
        }
        let mut replay = Replay { segments, position, durable_seq: position.seq };
        let durable_seqs = replay.records().map(|record| record.durable_seq);
        replay.durable_seq = durable_seqs.fold(position.seq, Seq::max);
        Ok(replay)
    }

    /// Returns the records that were read, in the order of the log. Some of them may not count.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.segments.values().flat_map(|found| &found.records);
        records.map(|(_, record)| record)
    }

    /// Passes the records that count to `apply`, in order, and the blocks of damaged ones to `lose`.
    /// `verify` returns `true` if the payload of a record is whole.
    ///
    /// # Errors
    ///
    /// Fails if durable records are damaged whose blocks are not known, and returns any error of the
    /// target.
    pub(crate) fn run(&self, target: &mut impl Target) -> Result<Replayed> {
        let mut end = Replayed {
            next_seq: self.position.seq,
            previous: Span::default(),
            next_segment: self.segments.keys().max().map_or(0, |last| last + 1),
            segments: self.segments.keys().copied().collect(),
            recent: VecDeque::new(),
        };
        end.next_segment = end.next_segment.max(self.position.segment);
        'log: for (number, found) in &self.segments {
            let limit = self.limit(*number);
            for (offset, record) in &found.records {
                if record.seq < end.next_seq || record.seq >= limit {
                    continue;
                }
                let place = Place { segment: *number, offset: *offset };
                if record.seq > end.next_seq {
                    if end.next_seq >= self.durable_seq {
                        break 'log;
                    }
                    self.lose(&mut end, record, place, target)?;
                }
                let is_tail = record.seq >= self.durable_seq && rules::must_verify_tail();
                if is_tail && !target.verify(record, place) {
                    break 'log;
                }
                target.apply(record, place)?;
                end.next_seq = record.seq + 1;
                end.previous = record.body.written();
                remember(&mut end.recent, Summarized::of(&record.body));
            }
        }
        Ok(end)
    }

    /// Handles damaged records before `record`.
    fn lose(
        &self,
        end: &mut Replayed,
        record: &Record,
        place: Place,
        target: &mut impl Target,
    ) -> Result<()> {
        let gap = end.next_seq..record.seq;
        let mut damaged = Vec::new();
        for seq in gap.clone() {
            let lost = match self.summarized(seq) {
                Some(lost) => lost,
                // Of two equal records, the other one is there.
                None if seq + 1 == record.seq => {
                    Summarized { span: record.previous, is_copy: None }
                }
                None => return Err(unknown(&gap, place)),
            };
            let other = lost.is_copy.map(|is_copy| if is_copy { seq - 1 } else { seq + 1 });
            if other.is_some_and(|other| gap.contains(&other)) {
                return Err(unknown(&gap, place));
            }
            damaged.push(lost);
        }
        for lost in damaged {
            if rules::must_lose_damaged() {
                target.lose(lost.span)?;
            }
            remember(&mut end.recent, lost);
        }
        Ok(())
    }

    /// Returns a record as a summary has it that counts.
    fn summarized(&self, seq: Seq) -> Option<Summarized> {
        self.segments.iter().find_map(|(number, found)| {
            let limit = self.limit(*number);
            let summaries = found.summaries.iter().filter(|(at, _)| *at < limit);
            summaries.filter(|(at, _)| *at > seq).find_map(|(at, records)| {
                let behind = usize::try_from(at - seq).ok()?;
                records.len().checked_sub(behind).map(|index| records[index])
            })
        })
    }

    /// Returns the number from which on the records of a segment are void.
    fn limit(&self, segment: u64) -> Seq {
        if !rules::heeds_later_segments() {
            return Seq::MAX;
        }
        let later = self.segments.range(segment + 1..).filter_map(|(_, found)| found.first_seq);
        later.min().unwrap_or(Seq::MAX)
    }
}

/// The tables to which records are applied.
pub(crate) trait Target {
    /// Returns `true` if the payload of a record is what was written.
    fn verify(&self, record: &Record, place: Place) -> bool;

    /// Applies a record.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    fn apply(&mut self, record: &Record, place: Place) -> Result<()>;

    /// Makes blocks unreadable whose record is damaged.
    ///
    /// # Errors
    ///
    /// Fails if the tables cannot be read.
    fn lose(&mut self, span: Span) -> Result<()>;
}

impl Found {
    /// Reads the headers of a segment from an offset on.
    fn read(core: &Core, number: u64, start: u32) -> Result<Found> {
        let mut bytes = read_bytes(core, number, start)?;
        let (header, records) = headers(core, number, start, &bytes);
        let first = records.first().map(|(_, record): &(u32, Record)| record.seq);
        let mut summaries = Vec::new();
        for (offset, record) in &records {
            let Body::Summary { hash } = record.body else { continue };
            let place = Place { segment: number, offset: *offset };
            let at = (offset - start) as usize + record.body.header_len();
            let Some(payload) = bytes.get_mut(at..at + record.payload_len as usize) else {
                continue;
            };
            let content = match &core.cipher {
                None => Some(&*payload),
                Some(cipher) => cipher.open(place, payload),
            };
            let content = content.filter(|content| core.keys.fingerprint(content) == hash);
            let decoded = content.and_then(Summarized::decode_all);
            summaries.extend(decoded.map(|summarized| (record.seq, summarized)));
        }
        Ok(Found { first_seq: header.map(|it| it.first_seq).or(first), records, summaries })
    }
}

/// Returns the error that records are damaged whose blocks are not known.
fn unknown(gap: &Range<Seq>, place: Place) -> Error {
    let problem = format!(
        "records {} to {} of the log are damaged, and what some of them changed is not known",
        gap.start,
        gap.end - 1
    );
    Error::new(Kind::Corrupt, shown(place), problem)
}

/// The headers of a segment that are whole: that of the segment itself, if it was read, and those of
/// records, with their offsets.
type Headers = (Option<SegmentHeader>, Vec<(u32, Record)>);

/// Reads the headers of the records of a segment that are whole, and returns them with their offsets. Large
/// payloads are not read.
///
/// # Errors
///
/// Fails if the segment cannot be read.
pub(crate) fn read_headers(core: &Core, number: u64) -> Result<Vec<(u32, Record)>> {
    let name = names::segment(number);
    let size = size_of(core, &name)?;
    let part_len = if core.shape.block_size < LARGE_BLOCK { LARGE_BLOCK } else { PART_SIZE };
    let mut part = vec![0; part_len];
    // The bytes of the segment that are in the part.
    let mut loaded = 0..0;
    let mut outcome = Err(io::ErrorKind::UnexpectedEof.into());
    let mut records = Vec::new();
    let mut at = SEGMENT_HEADER_SIZE as u64;
    while at + UNIT as u64 <= size {
        if at < loaded.start || loaded.end < size.min(at + LONG_HEADER as u64) {
            loaded = at..size.min(at + part_len as u64);
            part.truncate(
                usize::try_from(loaded.end - loaded.start).expect("the length of a part"),
            );
            outcome = outcome.or(read_or_zeros(core, &name, at, &mut part));
        }
        let rest = &part[usize::try_from(at - loaded.start).expect("within the part")..];
        at += take_record(core, (number, at), rest, &mut records) as u64;
    }
    outcome.map(|()| records).map_err(|error| Error::io(&name, "cannot be read", error))
}

/// Returns the number of bytes of a segment in which records may be.
fn size_of(core: &Core, name: &str) -> Result<u64> {
    let size = core.folder.size(name);
    let size = size.map_err(|error| Error::io(name, "cannot be read", error))?;
    // A record begins before the maximum size of a segment.
    let record_max = LONG_HEADER + CHANGE_LEN_MAX.max(core.shape.block_size) + UNIT;
    Ok(size.min(u64::from(core.segment_size) + record_max as u64))
}

/// Reads a segment from an offset on. What the storage refuses is zeros.
fn read_bytes(core: &Core, number: u64, start: u32) -> Result<Vec<u8>> {
    let name = names::segment(number);
    let len = size_of(core, &name)?.saturating_sub(start.into());
    let mut bytes = vec![0; usize::try_from(len).expect("a segment fits into memory")];
    let read = read_or_zeros(core, &name, start.into(), &mut bytes);
    read.map_err(|error| Error::io(&name, "cannot be read", error))?;
    Ok(bytes)
}

/// Fills `bytes` from an offset of a segment on. What the storage refuses is zeros.
///
/// # Errors
///
/// Fails if it refuses all of them.
fn read_or_zeros(core: &Core, name: &str, mut offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let Err(error) = core.folder.read_at(name, offset, bytes) else { return Ok(()) };
    let mut is_any_read = false;
    for part in bytes.chunks_mut(PART_SIZE) {
        let read = core.folder.read_at(name, offset, part);
        offset += part.len() as u64;
        match read {
            Ok(()) => is_any_read = true,
            Err(_) => part.fill(0),
        }
    }
    if is_any_read { Ok(()) } else { Err(error) }
}

/// Finds the headers in the bytes of a segment from an offset on.
fn headers(core: &Core, number: u64, start: u32, bytes: &[u8]) -> Headers {
    let header = if start == 0 {
        SegmentHeader::decode(bytes, number, &core.keys).filter(|it| it.volume == core.id)
    } else {
        None
    };
    let mut at = if start == 0 { SEGMENT_HEADER_SIZE } else { 0 };
    let mut records = Vec::new();
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= UNIT) {
        at += take_record(core, (number, u64::from(start) + at as u64), rest, &mut records);
    }
    (header, records)
}

/// Adds the record at a place, segment and offset, if its header is whole, from the bytes of the segment from
/// there on. Returns the number of bytes to the next place where a header may be.
fn take_record(
    core: &Core,
    place: (u64, u64),
    bytes: &[u8],
    records: &mut Vec<(u32, Record)>,
) -> usize {
    let Some(record) = Record::decode(bytes, place, &core.keys, core.shape) else {
        // Behind damage, the next header is searched at every place where one may be.
        return UNIT;
    };
    let size = record.size();
    let offset = u32::try_from(place.1).expect("a segment has at most 1 GiB");
    records.push((offset, record));
    size
}
