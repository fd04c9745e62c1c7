//! Checks of containers: their tables of contents and, on request, every byte.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Result};
use zstd::bulk::Decompressor;

use super::containers::Task;
use super::context::{Check, Need, plain};
use super::delta_chunks::{AssemblyResult, DeltaChunks};
use super::finding::FindingKind;
use super::inventory::Inventory;
use super::options::CheckOptions;
use super::parity::{self, ContainerState};
use crate::crypto::{
    Opener, PartKind, TRAILER_LEN, Trailer, object_is_intact, padded_container_len,
};
use crate::format::names::ObjectName;
use crate::format::region::decode_region;
use crate::format::toc::{ChunkRecord, Form, RegionRecord, Toc};
use crate::index::{load_toc, read_record};
use crate::read::{ChunkBytes, Reader};
use crate::util::memory_limit::MemoryUse;

/// Checks the containers of `tasks`, several at a time.
pub(super) fn check(
    check: &Check<'_>,
    inventory: &Inventory,
    reader: &Reader,
    tasks: &[Task],
    options: &CheckOptions<'_>,
) -> Result<()> {
    let kept = Mutex::default();
    let coverage = options.coverage.unwrap_or(&kept);
    let lock = || coverage.lock().unwrap_or_else(PoisonError::into_inner);
    let containers: Vec<_> =
        tasks.iter().map(|task| (task.class, task.name, stored_len(check, task))).collect();
    let chosen = options.read_data.map(|portion| lock().choose(portion, &containers));
    let chosen = chosen.unwrap_or_default();
    if options.read_data.is_some() {
        let bytes = containers.iter().filter(|(class, part, _)| chosen.contains(&(*class, *part)));
        check.monitor.expected(chosen.len() as u64, bytes.map(|(_, _, len)| len).sum());
    }
    let one = |task: &Task| {
        check.stop_if_cancelled()?;
        let is_chosen = chosen.contains(&(task.class, task.name));
        check_container(check, inventory, task, is_chosen.then_some(reader))?;
        if is_chosen {
            lock().note(task.class, task.name, check.repository.environment().now_ns());
        }
        Ok(())
    };
    let repository = check.repository;
    let memory = MemoryUse::check(repository.part_sizes(0));
    let index_bytes = reader.index().statistics().memory_bytes;
    let threads = repository.memory().thread_count(options.threads, &memory, index_bytes)?;
    let queue = Mutex::new(tasks.iter());
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(tasks.len()) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(task) = next else { return };
                    if let Err(error) = one(task) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        // The other threads find no more work.
                        *queue.lock().unwrap_or_else(PoisonError::into_inner) = [].iter();
                        return;
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)?;
    let mut coverage = lock();
    if let Some(portion) = options.read_data {
        coverage.finish(portion, &containers);
    }
    let covered = coverage.covered(&containers);
    check.count(|report| {
        report.container_bytes = containers.iter().map(|(_, _, len)| len).sum();
        report.covered = covered;
    });
    Ok(())
}

fn name(task: &Task) -> ObjectName {
    ObjectName::Container(task.class, task.name)
}

fn stored_len(check: &Check<'_>, task: &Task) -> u64 {
    check.listing.get(&name(task).to_string()).copied().unwrap_or(0)
}

/// Checks a container. With a `reader` for the full chunks of its delta chunks, reads it
/// completely.
fn check_container(
    check: &Check<'_>,
    inventory: &Inventory,
    task: &Task,
    reader: Option<&Reader>,
) -> Result<()> {
    let name = name(task);
    let len = stored_len(check, task);
    let result = if let Some(reader) = reader {
        let result = read_container(check, task, reader);
        check.count(|report| report.read_bytes += len);
        check.monitor.progress(1, len);
        result
    } else {
        let record = task
            .record
            .map_or_else(|| read_record(check.repository, task.class, task.name, len), Ok);
        record
            .and_then(|record| load_toc(check.repository, &record))
            .map(|toc| compare_with_index(check, task, &toc))
            .map(|()| {
                ContainerState::Unread(task.record.map_or(len, |record| record.stored_len.into()))
            })
    };
    let protected = result.as_ref().unwrap_or(&ContainerState::Damaged);
    parity::check_container(check, inventory, task, protected)?;
    match result {
        Ok(_) => Ok(()),
        // A sweep has deleted the container after the listing.
        Err(error) if error.kind() == Kind::Missing && may_be_gone(check, inventory, task)? => {
            Ok(())
        }
        Err(error) => {
            if error.kind() == Kind::Storage {
                check.lock().refused.insert((task.class, task.name));
            }
            check.report_error(name, error, task.need)
        }
    }
}

/// Compares the index with the table of contents, because operations that delete look for
/// references only in containers that have delta chunks according to the index.
fn compare_with_index(check: &Check<'_>, task: &Task, toc: &Toc) {
    let Some(record) = task.record else { return };
    let message = match (record.has_delta_chunks, toc.has_delta_chunks()) {
        (false, true) => "has delta chunks, but the index says that it has none",
        (true, false) => "has no delta chunks, but the index says that it has some",
        _ => return,
    };
    let message = format!("{message}; `cutpoint repair index` rebuilds the index");
    check.report_by_need(FindingKind::Corrupt, name(task), message, task.need);
}

fn may_be_gone(check: &Check<'_>, inventory: &Inventory, task: &Task) -> Result<bool> {
    let key = (task.class, task.name);
    if task.need == Need::Unnamed || inventory.view.condemned().contains(&key) {
        return Ok(true);
    }
    let mut later = inventory.clone();
    Ok(later.list_again(check)? && later.view.condemned().contains(&key))
}

/// Reads a container completely, and reports each region and chunk that is damaged.
///
/// # Errors
///
/// Returns an error if nothing of the container can be read.
fn read_container(check: &Check<'_>, task: &Task, reader: &Reader) -> Result<ContainerState> {
    let name = name(task);
    let bytes = check.repository.storage().get(&name.to_string())?;
    let mut scan = Scan {
        check,
        task,
        name,
        bytes,
        decompressor: None,
        found: false,
        is_at_risk: false,
        delta_chunks: DeltaChunks::new(check, reader, task),
    };
    let is_intact = object_is_intact(&scan.bytes);
    let opener = Opener::new(check.repository.keys(), name, &scan.bytes)?;
    let trailer = Trailer::decode(&name, &scan.bytes, scan.bytes.len() as u64);
    // The place of the table of contents is recorded in the index and in the trailer. The trailer
    // is needed if the index is missing.
    let (offset, length) = match (task.record, trailer.as_ref()) {
        (Some(record), _) => (u64::from(record.toc_offset), record.toc_len),
        (None, Ok(trailer)) => (trailer.offset, trailer.length),
        (None, Err(_)) => return trailer.map(|_| ContainerState::Damaged),
    };
    match trailer {
        Ok(trailer) if (trailer.offset, trailer.length) == (offset, length) => {}
        Ok(_) => scan.at_risk("the trailer refers to another table of contents than the index"),
        Err(error) => scan.at_risk(error),
    }
    let mut toc = scan.part(offset, length)?;
    opener.open(PartKind::Toc, &mut toc)?;
    let toc = Toc::decode(&toc, offset)?;
    compare_with_index(check, task, &toc);
    let mut chunks = toc.chunks.as_slice();
    for (region, number) in toc.regions.iter().zip(0_u16..) {
        let here = chunks.partition_point(|chunk| chunk.region <= number);
        let (chunks_here, rest) = chunks.split_at(here);
        chunks = rest;
        scan.region(&opener, number, region, chunks_here)?;
    }
    if let Some(message) = scan.delta_chunks.more() {
        scan.found(message);
    }
    let behind = usize::try_from(offset + u64::from(length)).unwrap_or(usize::MAX);
    let padding = scan.bytes.get(behind..scan.bytes.len() - TRAILER_LEN);
    let is_padded = padding.is_some_and(|zeros| zeros.iter().all(|byte| *byte == 0))
        && scan.bytes.len() == padded_container_len(scan.bytes.len());
    if !is_padded {
        scan.at_risk("the padding differs from what was written");
    }
    if !is_intact && !scan.found {
        scan.at_risk("wrong checksum in the trailer, although all else is intact");
    }
    if scan.is_at_risk && task.need != Need::Unnamed {
        let damages = toc.chunks.iter().map(|chunk| task.damage(chunk));
        check.lock().at_risk.extend(damages);
    }
    // The damaged chunks have been noted; all others are undamaged.
    check.lock().read.insert((task.class, task.name));
    Ok(if scan.found { ContainerState::Damaged } else { ContainerState::Intact(scan.bytes) })
}

struct Scan<'a> {
    check: &'a Check<'a>,
    task: &'a Task,
    name: ObjectName,
    bytes: Bytes,
    decompressor: Option<Decompressor<'static>>,
    /// Set if there was a finding.
    found: bool,
    /// Set if a part is damaged that is not needed for reading chunks.
    is_at_risk: bool,
    delta_chunks: DeltaChunks<'a>,
}

impl Scan<'_> {
    fn at_risk(&mut self, message: impl ToString) {
        self.is_at_risk = true;
        self.found(message);
    }

    fn found(&mut self, message: impl ToString) {
        self.found = true;
        let message = plain(&self.name, message);
        self.check.report_by_need(FindingKind::Corrupt, self.name, message, self.task.need);
    }

    fn part(&self, offset: u64, length: u32) -> Result<Vec<u8>> {
        let end = offset + u64::from(length);
        let range = usize::try_from(offset).unwrap_or(usize::MAX)
            ..usize::try_from(end).unwrap_or(usize::MAX);
        let part = self.bytes.get(range).map(<[u8]>::to_vec);
        part.ok_or_else(|| {
            let len = self.bytes.len();
            Error::corrupt(
                self.name,
                format!("truncated at {len}, inside a part that ends at {end}"),
            )
        })
    }

    fn decode(&mut self, opener: &Opener, number: u16, region: &RegionRecord) -> Result<Vec<u8>> {
        let mut part = self.part(u64::from(region.offset), region.stored_len)?;
        opener.open(PartKind::Region(u32::from(number)), &mut part)?;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => {
                none.insert(Decompressor::new().map_err(|error| Error::invalid("zstd", error))?)
            }
        };
        decode_region(decompressor, region.codec, part, region.raw_len)
    }

    /// Opens and decodes a region, and verifies every chunk in it.
    fn region(
        &mut self,
        opener: &Opener,
        number: u16,
        region: &RegionRecord,
        chunks: &[ChunkRecord],
    ) -> Result<()> {
        let decoded = match self.decode(opener, number, region) {
            Ok(decoded) => Arc::new(decoded),
            Err(error) => {
                chunks.iter().for_each(|chunk| self.mark_unreadable(chunk));
                let message = plain(&self.name, error);
                let prefix = format!("region {number}: ");
                let message = message.strip_prefix(&prefix).unwrap_or(&message);
                let chunk_count = match chunks.len() {
                    1 => "1 chunk".to_owned(),
                    count => format!("{count} chunks"),
                };
                self.found(format!("{prefix}{message} ({chunk_count} affected)"));
                return Ok(());
            }
        };
        let full_chunks: Vec<_> = chunks
            .iter()
            .filter(|chunk| chunk.form != Form::Delta)
            .map(|chunk| (chunk, ChunkBytes::of_record(&decoded, chunk)))
            .collect();
        let payloads: Vec<&[u8]> =
            full_chunks.iter().filter_map(|(_, payload)| payload.as_deref()).collect();
        let keys = self.check.repository.keys();
        let mut fingerprints = keys.fingerprints(self.task.class, &payloads).into_iter();
        let mut verified = 0;
        let mut near = HashMap::new();
        for (chunk, payload) in full_chunks {
            let found = payload.as_ref().and_then(|_| fingerprints.next());
            if found == Some(chunk.fingerprint) {
                verified += 1;
                near.extend(payload.map(|payload| (chunk.fingerprint, payload)));
                continue;
            }
            self.mark_unreadable(chunk);
            let (start, recorded) = (chunk.offset, chunk.fingerprint);
            let found = found.map_or_else(String::new, |found| found.to_string());
            self.found(format!(
                "region {number}, chunk at byte {start}: wrong fingerprint (expected {recorded}, \
                 found {found})"
            ));
        }
        for chunk in chunks.iter().filter(|chunk| chunk.form == Form::Delta) {
            self.check.stop_if_cancelled()?;
            match self.delta_chunks.rebuild(region, chunk, &decoded, &near) {
                AssemblyResult::Correct => verified += 1,
                AssemblyResult::LacksFullChunk => {}
                AssemblyResult::Wrong(message) => {
                    self.mark_unreadable(chunk);
                    let start = chunk.offset;
                    let message = plain(&self.name, message);
                    self.found(format!("region {number}, delta chunk at byte {start}: {message}"));
                }
                AssemblyResult::Skipped => self.mark_unreadable(chunk),
            }
        }
        self.check.count(|report| report.chunk_count += verified);
        Ok(())
    }

    fn mark_unreadable(&self, chunk: &ChunkRecord) {
        if self.task.need == Need::Unnamed {
            return;
        }
        self.check.lock().unreadable.insert(self.task.damage(chunk));
    }
}
