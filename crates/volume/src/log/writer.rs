//! Appends records, and knows which of them are durable.

use std::collections::{BTreeMap, VecDeque};

use super::recent::remember;
use super::replay::Replayed;
use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::format::position::{Place, Position, Seq};
use crate::format::record::{Body, Encoding, Record, SUMMARIZED_MAX, UNIT};
use crate::format::segment::{SEGMENT_HEADER_SIZE, SegmentHeader};
use crate::format::span::Span;
use crate::format::summary::Summarized;
use crate::rules;

/// The number of records between two summaries. Each record is in two of them.
const SUMMARY_INTERVAL: usize = SUMMARIZED_MAX / 2;

/// The end of the log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    next_seq: Seq,
    durable_seq: Seq,
    /// The blocks that the last record has changed.
    previous: Span,
    current: Option<Current>,
    /// The last records, from the oldest to the newest, at most as many as a summary has.
    recent: VecDeque<Summarized>,
    /// The number of records since the last summary.
    unsummarized_count: usize,
    /// The number of the next segment to be created.
    next_segment: u64,
    /// The lengths of the segments that have grown since they were synced.
    unsynced: BTreeMap<u64, u64>,
    /// The number of segments created so far, and of those whose names are durable.
    created_count: u64,
    named_count: u64,
    /// Set if an append has failed since the current segment was created: whole records may be left of it.
    has_remains: bool,
    /// The error of a sync, after which nothing may be written.
    failed_sync: Option<String>,
    /// The number of bytes appended so far.
    appended_bytes: u64,
    /// The name of the current segment.
    name: String,
    /// The records that were added since the last write.
    added: Vec<Body>,
    /// The bytes of the added records.
    buffer: Vec<u8>,
}

/// The segment that gets the next record.
#[derive(Clone, Copy, Debug)]
struct Current {
    number: u64,
    len: u64,
    /// The length of the file. It is higher than that of the segment if the segment was begun in the file
    /// of a spare one.
    file_len: u64,
}

/// A place of the log, to tell how much of it lies between two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of bytes appended since the log was opened.
    pub(crate) bytes: u64,
    /// The number of the next record.
    pub(crate) seq: Seq,
}

/// What a flush has to sync so that all records before a number are durable.
#[derive(Debug)]
pub(crate) struct FlushPlan {
    target: Seq,
    segments: BTreeMap<u64, u64>,
    created_count: u64,
    has_names: bool,
}

impl LogWriter {
    /// Continues a log behind its last record. The next record goes to a new segment.
    pub(crate) fn continued(end: &Replayed) -> LogWriter {
        LogWriter {
            next_seq: end.next_seq,
            durable_seq: end.next_seq,
            previous: end.previous,
            recent: end.recent.clone(),
            unsummarized_count: end.recent.len(),
            current: None,
            next_segment: end.next_segment,
            unsynced: BTreeMap::new(),
            created_count: 0,
            named_count: 0,
            has_remains: false,
            failed_sync: None,
            appended_bytes: 0,
            name: String::new(),
            added: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Returns the end of the log.
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.appended_bytes, seq: self.next_seq }
    }

    /// Returns the place of the next record, for a checkpoint.
    ///
    /// # Errors
    ///
    /// Never fails for a log that this program has written.
    pub(crate) fn position(&self) -> Result<Position> {
        let (segment, len) =
            self.current.map_or((self.next_segment, 0), |current| (current.number, current.len));
        Ok(Position { segment, offset: offset(segment, len)?, seq: self.next_seq })
    }

    /// Appends a record with its payload. Nothing counts of a record whose append fails.
    ///
    /// # Errors
    ///
    /// Fails if the folder refuses to create or to append.
    pub(crate) fn append(
        &mut self,
        core: &Core,
        body: Body,
        encoding: Encoding,
        payload: &[u8],
    ) -> Result<(Record, Place)> {
        let added = self.add(core, body, encoding, payload)?;
        self.write(core)?;
        Ok(added)
    }

    /// Adds a record with its payload to those that [`write`](LogWriter::write) appends.
    ///
    /// # Errors
    ///
    /// Fails if the folder refuses to create. The record is not added then.
    pub(crate) fn add(
        &mut self,
        core: &Core,
        body: Body,
        encoding: Encoding,
        payload: &[u8],
    ) -> Result<(Record, Place)> {
        let Current { number: segment, len, .. } = self.room(core)?;
        let sealed = core.cipher.as_ref().filter(|_| !payload.is_empty());
        let payload_len = payload.len() + if sealed.is_some() { core.shape.seal_len } else { 0 };
        let record = Record {
            seq: self.next_seq + self.added.len() as u64,
            durable_seq: self.durable_seq,
            previous: self.added.last().map_or(self.previous, Body::written),
            encoding,
            payload_len: u32::try_from(payload_len).expect("at most a change of the catalog"),
            body,
        };
        let place = Place { segment, offset: offset(segment, len)? };
        let end = self.buffer.len() + record.size();
        self.buffer.extend_from_slice(&record.encode(segment, len, &core.keys));
        match sealed {
            Some(cipher) => cipher.seal(place, payload, &mut self.buffer),
            None => self.buffer.extend_from_slice(payload),
        }
        self.buffer.resize(end, 0);
        self.added.push(body);
        Ok((record, place))
    }

    /// Returns `true` if the added records must be written before another one is added: because the
    /// segment is full, or because a summary is due.
    pub(crate) fn must_write(&self, core: &Core) -> bool {
        self.segment_len() >= u64::from(core.segment_size)
            || self.unsummarized_count + self.added.len() >= SUMMARY_INTERVAL
    }

    /// Appends the added records. After an error, nothing counts of them in this process; a start after a
    /// crash may find the first of them, if no other record was appended since.
    ///
    /// # Errors
    ///
    /// Fails if the folder refuses to append.
    pub(crate) fn write(&mut self, core: &Core) -> Result<()> {
        let Some(current) = self.current.filter(|_| !self.added.is_empty()) else { return Ok(()) };
        let bytes = std::mem::take(&mut self.buffer);
        let appended = self.append_to_segment(core, current.number, &bytes);
        self.buffer = bytes;
        self.buffer.clear();
        let added = std::mem::take(&mut self.added);
        appended?;
        for body in &added {
            self.next_seq += 1;
            self.previous = body.written();
            remember(&mut self.recent, Summarized::of(body));
            self.unsummarized_count += 1;
        }
        Ok(())
    }

    /// Returns bytes of a segment if they are those of added records.
    pub(crate) fn added_bytes(&self, segment: u64, offset: u64, len: usize) -> Option<&[u8]> {
        let current = self.current.filter(|current| current.number == segment)?;
        let start = usize::try_from(offset.checked_sub(current.len)?).ok()?;
        self.buffer.get(start..)?.get(..len)
    }

    /// Drops the added records.
    pub(crate) fn drop_added(&mut self) {
        self.added.clear();
        self.buffer.clear();
    }

    /// Appends a summary if one is due. It is for the case that records are damaged, and changes
    /// nothing: without one, the log is as good otherwise.
    ///
    /// # Errors
    ///
    /// Fails if the folder refuses to create or to append.
    pub(crate) fn summarize_if_due(&mut self, core: &Core) -> Result<()> {
        if self.unsummarized_count < SUMMARY_INTERVAL || !rules::must_summarize() {
            return Ok(());
        }
        let content = Summarized::encode_all(&self.recent);
        let hash = core.keys.fingerprint(&content);
        self.append(core, Body::Summary { hash }, Encoding::Plain, &content)?;
        self.unsummarized_count = 0;
        Ok(())
    }

    /// Returns the error of a sync, after which nothing may be written.
    pub(crate) fn failed_sync(&self) -> Option<&str> {
        self.failed_sync.as_deref()
    }

    /// Returns the length of the current segment with the added records.
    fn segment_len(&self) -> u64 {
        self.current.map_or(0, |current| current.len) + self.buffer.len() as u64
    }

    /// Returns the segment that gets the next record, with the added ones, and creates one if the last
    /// one is full.
    fn room(&mut self, core: &Core) -> Result<Current> {
        let len = self.segment_len();
        if let Some(current) = self.current.filter(|_| len < u64::from(core.segment_size)) {
            return Ok(Current { len, ..current });
        }
        assert!(self.added.is_empty(), "the added records fill the segment");
        let number = self.next_segment;
        let name = names::segment(number);
        let file_len = core.begin_segment(&name)?;
        self.next_segment += 1;
        self.created_count += 1;
        let header = SegmentHeader { volume: core.id, number, first_seq: self.next_seq };
        self.current = Some(Current { number, len: 0, file_len });
        self.name = name;
        self.append_to_segment(core, number, &header.encode(&core.keys))?;
        self.void_remains(core)?;
        Ok(Current { number, len: SEGMENT_HEADER_SIZE as u64, file_len })
    }

    /// Makes the header of the current segment durable if an append has failed before. A power cut that takes
    /// the header would make the remains of that append count, together with later records.
    fn void_remains(&mut self, core: &Core) -> Result<()> {
        if self.has_remains && rules::must_void_remains() {
            let synced = core.sync(&self.name).and_then(|()| core.sync_names());
            synced.inspect_err(|error| self.failed_sync = Some(error.to_string()))?;
        }
        self.has_remains = false;
        Ok(())
    }

    /// Appends bytes to the current segment. A segment with a failed append gets nothing more: the
    /// next one begins with the same number, which makes the remains of this one void.
    fn append_to_segment(&mut self, core: &Core, number: u64, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        let (file_len, end) =
            self.current.map_or((0, 0), |current| (current.file_len, current.len));
        if let Err(error) = core.write_at(&self.name, file_len, end, bytes) {
            let failed = self.current.take();
            self.has_remains = true;
            if failed.is_some_and(|it| it.len <= SEGMENT_HEADER_SIZE as u64) {
                // No record is in it. A full storage would get a new file with every attempt.
                self.unsynced.remove(&number);
                core.delete(&self.name).ok();
            }
            return Err(error);
        }
        if let Some(current) = &mut self.current {
            current.len += len;
            current.file_len = current.file_len.max(current.len);
            self.unsynced.insert(number, current.len);
        }
        self.appended_bytes += len;
        Ok(())
    }

    /// Returns what has to be synced until all records so far are durable, or `None` if they are.
    pub(crate) fn begin_flush(&self) -> Option<FlushPlan> {
        (self.durable_seq < self.next_seq).then(|| FlushPlan {
            target: self.next_seq,
            segments: self.unsynced.clone(),
            created_count: self.created_count,
            has_names: self.named_count < self.created_count,
        })
    }

    /// Records that a plan was carried out.
    pub(crate) fn end_flush(&mut self, plan: &FlushPlan) {
        for (segment, len) in &plan.segments {
            if self.unsynced.get(segment) == Some(len) {
                self.unsynced.remove(segment);
            }
        }
        self.named_count = self.named_count.max(plan.created_count);
        self.durable_seq = self.durable_seq.max(plan.target);
    }
}

impl FlushPlan {
    /// Syncs what the plan names.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot promise that everything is durable.
    pub(crate) fn sync(&self, core: &Core) -> Result<()> {
        for segment in self.segments.keys().filter(|_| rules::must_sync_segments()) {
            core.sync(&names::segment(*segment))?;
        }
        if self.has_names && rules::must_sync_names() {
            core.sync_names()?;
        }
        Ok(())
    }
}

/// Returns a position in a segment as an offset.
fn offset(segment: u64, len: u64) -> Result<u32> {
    let offset = u32::try_from(len).ok().filter(|offset| (*offset as usize).is_multiple_of(UNIT));
    let problem = format!("{len} is no offset of a record");
    offset.ok_or_else(|| Error::new(Kind::Corrupt, names::segment(segment), problem))
}
