//! Reads the log behind a checkpoint.
//!
//! The records are numbered without gaps. The log ends at the first record that is missing or
//! damaged and may not have been durable: a power cut has lost it, and what follows it is void. A
//! record that was durable and is damaged does not end the log: the blocks that it changed, which
//! the next record names, become unreadable.

use std::collections::BTreeMap;

use crate::core::{Core, shown};
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::format::position::{Place, Position, Seq};
use crate::format::record::{CHANGE_LEN_MAX, LONG_HEADER, Record, UNIT};
use crate::format::segment::{SEGMENT_HEADER_SIZE, SegmentHeader};
use crate::format::span::Span;
use crate::rules;

/// A segment of the log, as far as its headers can be read.
#[derive(Debug)]
struct Found {
    /// The number of the first record, or `None` if the segment tells none.
    first_seq: Option<Seq>,
    records: Vec<(u32, Record)>,
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
    /// The records that were durable and are damaged, with their blocks.
    pub(crate) lost: Vec<(Seq, Span)>,
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
        let records = segments.values().flat_map(|found: &Found| &found.records);
        let durable_seq = records.map(|(_, record)| record.durable_seq).max().unwrap_or_default();
        Ok(Replay { segments, position, durable_seq: durable_seq.max(position.seq) })
    }

    /// Passes the records that count to `apply`, in order, and the blocks of damaged ones to `lose`.
    /// `verify` returns `true` if the payload of a record is whole.
    ///
    /// # Errors
    ///
    /// Fails if several durable records in a row are damaged, because their blocks are not known, and
    /// returns any error of the target.
    pub(crate) fn run(&self, target: &mut impl Target) -> Result<Replayed> {
        let mut end = Replayed {
            next_seq: self.position.seq,
            previous: Span::default(),
            next_segment: self.segments.keys().max().map_or(0, |last| last + 1),
            segments: self.segments.keys().copied().collect(),
            lost: Vec::new(),
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
        if record.seq - end.next_seq > 1 {
            let problem = format!(
                "records {} to {} of the log are damaged, and the blocks that they changed are not \
                 known",
                end.next_seq,
                record.seq - 1
            );
            return Err(Error::new(Kind::Corrupt, shown(place), problem));
        }
        if rules::must_lose_damaged() {
            target.lose(record.previous)?;
        }
        end.lost.push((end.next_seq, record.previous));
        Ok(())
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
        let (header, records) = read_segment(core, number, start)?;
        let first = records.first().map(|(_, record): &(u32, Record)| record.seq);
        Ok(Found { first_seq: header.map(|it| it.first_seq).or(first), records })
    }
}

/// The headers of a segment that are whole: that of the segment itself, if it was read, and those of
/// records, with their offsets.
type Headers = (Option<SegmentHeader>, Vec<(u32, Record)>);

/// Reads the headers of a segment from an offset on.
///
/// # Errors
///
/// Fails if the segment cannot be read.
pub(crate) fn read_segment(core: &Core, number: u64, start: u32) -> Result<Headers> {
    let name = names::segment(number);
    let failed = |error| Error::io(&name, "cannot be read", error);
    let size = core.folder.size(&name).map_err(failed)?;
    // A record begins before the maximum size of a segment.
    let record_max = LONG_HEADER + CHANGE_LEN_MAX.max(core.shape.block_size) + UNIT;
    let size_max = u64::from(core.segment_size) + record_max as u64;
    let len = size.min(size_max).saturating_sub(start.into());
    let mut bytes = vec![0; usize::try_from(len).expect("a segment fits into memory")];
    core.folder.read_at(&name, start.into(), &mut bytes).map_err(failed)?;
    let header = if start == 0 {
        SegmentHeader::decode(&bytes, number, &core.keys).filter(|it| it.volume == core.id)
    } else {
        None
    };
    let mut at = if start == 0 { SEGMENT_HEADER_SIZE } else { 0 };
    let mut records = Vec::new();
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= UNIT) {
        let offset = u64::from(start) + at as u64;
        let Some(record) = Record::decode(rest, (number, offset), &core.keys, core.shape) else {
            // Behind damage, the next header is searched at every place where one may be.
            at += UNIT;
            continue;
        };
        at += record.size();
        let offset = u32::try_from(offset).expect("a segment has at most 1 GiB");
        records.push((offset, record));
    }
    Ok((header, records))
}
