//! Sorted runs: the local form of index segments. They may be deleted at any time.
//!
//! A run file consists of: magic 8, number of covered segments 4, of containers 4, of hints 8,
//! checksum of the rest without the hints 8, covered segments (16 each), containers, filter, hints
//! (12 each, rising) in blocks of 341, each followed by a checksum of 4. Ten runs of similar size
//! are merged into one; a run is never modified.
//!
//! Files are not synced. Data that a power failure has left unwritten fails its checksum like any
//! other damage, and can be restored from the segments.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::filter::Filter;
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::segment::{CONTAINER_RECORD_LEN, ContainerRecord, HINT_LEN, Segment};

/// The magic number, which ends with the version. Files of other versions are removed.
const MAGIC: [u8; 8] = *b"CutPrun3";
const FIXED_LEN: usize = 8 + 4 + 4 + 8 + 8;
/// Number of runs of similar size that are merged into one.
const TIER_RUNS: usize = 10;
/// Number of hints in a block; the last block may have fewer.
const BLOCK_HINTS: u64 = 341;
const CHECKSUM_LEN: usize = 4;
/// The length of a block with its checksum, in bytes.
const BLOCK_LEN: usize = 4096;
const _: () = assert!(
    BLOCK_LEN as u64 == BLOCK_HINTS * HINT_LEN as u64 + CHECKSUM_LEN as u64,
    "hints and checksum fill a block"
);
/// Number of blocks that a lookup reads at once. Hints are uniform, so that in runs of a million
/// hints, the wanted one is mostly within one block of the position that its value predicts.
const WINDOW_BLOCKS: u64 = 3;
/// The age after which a partly written file is removed.
const STAGED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The storage of a run's hints.
#[derive(Debug)]
enum Hints {
    Memory(Vec<u8>),
    File { file: File, path: PathBuf, offset: u64 },
}

/// The hints of one or more segments in rising order, and the containers to which they lead.
#[derive(Debug)]
pub(super) struct Run {
    covers: Vec<PartName>,
    containers: Vec<ContainerRecord>,
    hint_count: u64,
    filter: Filter,
    hints: Hints,
    /// Set if the run was found in the cache, or merged from runs that were.
    is_found: bool,
}

/// A verified range of a run's hints.
#[derive(Debug, Default)]
struct Window {
    /// The number of the first hint.
    start: u64,
    records: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + (self.records.len() / HINT_LEN) as u64
    }

    fn get(&self, at: u64) -> Option<(u64, u32)> {
        let index = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let record = self.records.get(index.checked_mul(HINT_LEN)?..)?;
        (record.len() >= HINT_LEN).then(|| decode(record))
    }
}

impl Run {
    /// Creates a run of one segment, in `folder` if there is one. If the cache cannot be written,
    /// the run is kept in memory.
    pub(super) fn create(folder: Option<&Path>, name: PartName, segment: &Segment) -> Run {
        let run = Run::in_memory(vec![name], segment);
        folder.and_then(|folder| merge(folder, &[&run]).ok()).unwrap_or(run)
    }

    /// Creates a run of `segment` in memory.
    pub(super) fn in_memory(covers: Vec<PartName>, segment: &Segment) -> Run {
        let mut filter = Filter::with_room_for(segment.hints.len() as u64);
        let mut bytes = Vec::with_capacity(segment.hints.len() * HINT_LEN);
        for (hint, container) in &segment.hints {
            filter.insert(*hint);
            bytes.extend_from_slice(&hint.to_be_bytes());
            bytes.extend_from_slice(&container.to_le_bytes());
        }
        Run {
            covers,
            containers: segment.containers.clone(),
            hint_count: segment.hints.len() as u64,
            filter,
            hints: Hints::Memory(bytes),
            is_found: false,
        }
    }

    pub(super) fn covers(&self) -> &[PartName] {
        &self.covers
    }

    pub(super) fn containers(&self) -> &[ContainerRecord] {
        &self.containers
    }

    pub(super) fn hint_count(&self) -> u64 {
        self.hint_count
    }

    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let hints = match &self.hints {
            Hints::Memory(bytes) => bytes.len() as u64,
            Hints::File { .. } => 0,
        };
        self.filter.bytes() + hints
    }

    /// Removes the run's file. Processes that have it open can still read it.
    pub(super) fn remove_file(&self) {
        if let Hints::File { path, .. } = &self.hints {
            // A file that stays would only be read and dropped the next time.
            std::fs::remove_file(path).ok();
        }
    }

    /// Reads `count` blocks from block `first` on; fewer at the end.
    fn read(&self, first: u64, count: u64, window: &mut Window) -> io::Result<()> {
        let start = first * BLOCK_HINTS;
        let end = (start + count * BLOCK_HINTS).min(self.hint_count);
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX) * HINT_LEN;
        window.start = start;
        window.records.clear();
        match &self.hints {
            Hints::Memory(bytes) => {
                window.records.extend_from_slice(&bytes[index(start)..index(end)]);
                Ok(())
            }
            Hints::File { file, offset, .. } => {
                let len = usize::try_from(blocks_len(end - start)).unwrap_or(usize::MAX);
                window.records.resize(len, 0);
                file.read_exact_at(&mut window.records, offset + first * BLOCK_LEN as u64)?;
                verify(&mut window.records, identity(&self.covers), first)
            }
        }
    }

    /// Returns the hint with number `at`, and its container's number. Reads `count` blocks if the
    /// hint is not in `window`.
    fn record(&self, at: u64, count: u64, window: &mut Window) -> io::Result<(u64, u32)> {
        if window.get(at).is_none() {
            self.read(at / BLOCK_HINTS, count, window)?;
        }
        window.get(at).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Adds the containers to which `hint` leads to `found`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is damaged.
    pub(super) fn find(&self, hint: u64, found: &mut Vec<ContainerRecord>) -> io::Result<()> {
        if self.hint_count == 0 || !self.filter.may_hold(hint) {
            return Ok(());
        }
        // The first position whose hint is not below `hint` lies in low..=high.
        let (mut low, mut high) = (0, self.hint_count);
        let mut guess = u64::try_from((u128::from(hint) * u128::from(self.hint_count)) >> 64);
        let mut window = Window::default();
        while low < high {
            let middle = guess.unwrap_or(low + (high - low) / 2).clamp(low, high - 1);
            let first = (middle / BLOCK_HINTS).saturating_sub(1).max(low / BLOCK_HINTS);
            self.read(first, WINDOW_BLOCKS, &mut window)?;
            let place = window.start + partition(&window.records, hint);
            if place == window.start {
                high = place;
            } else if place == window.end() {
                low = place;
            } else {
                (low, high) = (place, place);
            }
            guess = Ok(low + (high - low) / 2);
        }
        for at in low..self.hint_count {
            let (each, container) = self.record(at, 1, &mut window)?;
            if each != hint {
                break;
            }
            found.extend(self.containers.get(container as usize));
        }
        Ok(())
    }
}

/// Returns the length of `hint_count` hints in a file, in bytes.
fn blocks_len(hint_count: u64) -> u64 {
    hint_count * HINT_LEN as u64 + hint_count.div_ceil(BLOCK_HINTS) * CHECKSUM_LEN as u64
}

/// Returns the value to which a file's blocks are bound, so that a block of another run, or of
/// another position, is not accepted.
fn identity(covers: &[PartName]) -> u64 {
    let mut hasher = Xxh3::new();
    covers.iter().for_each(|part| hasher.update(&part.to_bytes()));
    hasher.digest()
}

fn checksum(hints: &[u8], identity: u64, block: u64) -> [u8; CHECKSUM_LEN] {
    let sum = xxh3_64_with_seed(hints, identity ^ block).to_le_bytes();
    [sum[0], sum[1], sum[2], sum[3]]
}

/// Verifies and removes the checksums in `blocks`, the first of which has the number `first`.
fn verify(blocks: &mut Vec<u8>, identity: u64, first: u64) -> io::Result<()> {
    let (mut kept, mut at) = (0, 0);
    for number in first.. {
        let end = (at + BLOCK_LEN).min(blocks.len());
        if at == end {
            break;
        }
        let Some(body) = end.checked_sub(CHECKSUM_LEN).filter(|body| *body > at) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if checksum(&blocks[at..body], identity, number) != blocks[body..end] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        blocks.copy_within(at..body, kept);
        kept += body - at;
        at = end;
    }
    blocks.truncate(kept);
    Ok(())
}

/// Returns the number of records in `bytes` whose hint is below `hint`.
fn partition(bytes: &[u8], hint: u64) -> u64 {
    let (mut low, mut high) = (0, bytes.len() / HINT_LEN);
    while low < high {
        let middle = low + (high - low) / 2;
        if decode(&bytes[middle * HINT_LEN..]).0 < hint {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as u64
}

fn decode(record: &[u8]) -> (u64, u32) {
    let mut hint = [0; 8];
    hint.copy_from_slice(&record[..8]);
    let mut container = [0; 4];
    container.copy_from_slice(&record[8..12]);
    (u64::from_be_bytes(hint), u32::from_le_bytes(container))
}

/// Merges runs until there are no ten of similar size. A run that cannot be read is removed from
/// `runs` and returned.
pub(super) fn merge_tiers(folder: Option<&Path>, runs: &mut Vec<Arc<Run>>) -> Option<Arc<Run>> {
    let folder = folder?;
    loop {
        let mut tiers: HashMap<u32, usize> = HashMap::new();
        for run in runs.iter() {
            *tiers.entry(tier(run)).or_default() += 1;
        }
        let (&full, _) = tiers.iter().find(|(_, count)| **count >= TIER_RUNS)?;
        let (mut parts, rest): (Vec<_>, Vec<_>) = runs.drain(..).partition(|run| tier(run) == full);
        *runs = rest;
        match merge(folder, &parts.iter().map(|run| &**run).collect::<Vec<_>>()) {
            Ok(merged) => {
                parts.iter().for_each(|part| part.remove_file());
                runs.push(Arc::new(merged));
            }
            Err(Unmerged::Damaged(number)) => {
                let damaged = parts.remove(number);
                runs.extend(parts);
                return Some(damaged);
            }
            Err(Unmerged::Unwritten) => {
                // The disk of the cache is full, so the runs stay as they are.
                runs.extend(parts);
                return None;
            }
        }
    }
}

fn tier(run: &Run) -> u32 {
    run.hint_count.max(1).ilog10()
}

/// The reason for which runs were not merged.
#[derive(Debug)]
enum Unmerged {
    /// The run of this number cannot be read.
    Damaged(usize),
    /// The cache cannot be written.
    Unwritten,
}

impl From<io::Error> for Unmerged {
    fn from(_: io::Error) -> Unmerged {
        Unmerged::Unwritten
    }
}

/// Writes the union of `runs` as one run file. The memory is that of a filter, container tables,
/// and small buffers.
fn merge(folder: &Path, runs: &[&Run]) -> Result<Run, Unmerged> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut covers: Vec<PartName> = runs.iter().flat_map(|run| run.covers.clone()).collect();
    covers.sort_unstable();
    covers.dedup();
    let name = run_name(&covers);
    let (staged, file) = stage(folder, &name)?;
    let own = file.try_clone()?;
    let merged = write_merged(file, covers, runs).and_then(|(run, offset)| {
        let path = folder.join(&name);
        std::fs::rename(&staged, &path)?;
        // The handle is that of the written file. Another process may have replaced the file under
        // this name by one with other container numbers.
        let hints = Hints::File { file: own, path, offset };
        Ok(Run { hints, ..run })
    });
    if merged.is_err() {
        std::fs::remove_file(&staged).ok();
    }
    merged
}

/// Writes the union of `runs` to `file`. Returns the run without its hints, and the offset of the
/// hints.
fn write_merged(file: File, covers: Vec<PartName>, runs: &[&Run]) -> Result<(Run, u64), Unmerged> {
    let mut containers: Vec<ContainerRecord> = Vec::new();
    let mut numbers: HashMap<(Class, PartName), u32> = HashMap::new();
    let mut renumber: Vec<Vec<u32>> = Vec::new();
    for run in runs {
        let table = run.containers.iter().map(|container| {
            *numbers.entry((container.class, container.name)).or_insert_with(|| {
                containers.push(*container);
                u32::try_from(containers.len() - 1).unwrap_or(u32::MAX)
            })
        });
        renumber.push(table.collect());
    }
    let hint_count: u64 = runs.iter().map(|run| run.hint_count).sum();
    let mut filter = Filter::with_room_for(hint_count);
    let head_len = FIXED_LEN as u64
        + covers.len() as u64 * 16
        + containers.len() as u64 * CONTAINER_RECORD_LEN as u64
        + Filter::encoded_len(hint_count);
    let mut out = BufWriter::with_capacity(64 * 1024, file);
    out.seek(SeekFrom::Start(head_len))?;
    let mut blocks = Blocks::new(identity(&covers));
    let mut merge = Merge::new(runs).map_err(Unmerged::Damaged)?;
    while let Some((hint, container, number)) = merge.next().map_err(Unmerged::Damaged)? {
        let container = renumber[number].get(container as usize).copied().unwrap_or(u32::MAX);
        filter.insert(hint);
        blocks.push(hint, container, &mut out)?;
    }
    blocks.end(&mut out)?;
    out.seek(SeekFrom::Start(0))?;
    let tail = encode_tail(&covers, &containers, &filter);
    out.write_all(&encode_fixed(covers.len(), containers.len(), hint_count, &tail))?;
    out.write_all(&tail)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let is_found = runs.iter().any(|run| run.is_found);
    let hints = Hints::Memory(Vec::new());
    Ok((Run { covers, containers, hint_count, filter, hints, is_found }, head_len))
}

/// The hints that are being written to a file, in blocks.
struct Blocks {
    identity: u64,
    number: u64,
    block: Vec<u8>,
}

impl Blocks {
    fn new(identity: u64) -> Blocks {
        Blocks { identity, number: 0, block: Vec::with_capacity(BLOCK_LEN) }
    }

    fn push(&mut self, hint: u64, container: u32, out: &mut impl Write) -> io::Result<()> {
        self.block.extend_from_slice(&hint.to_be_bytes());
        self.block.extend_from_slice(&container.to_le_bytes());
        if self.block.len() + CHECKSUM_LEN == BLOCK_LEN { self.end(out) } else { Ok(()) }
    }

    fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let sum = checksum(&self.block, self.identity, self.number);
        self.block.extend_from_slice(&sum);
        out.write_all(&self.block)?;
        self.block.clear();
        self.number += 1;
        Ok(())
    }
}

/// Creates a new file that no other index writes to, in any process. The file is private, because
/// hints are parts of keyed fingerprints.
fn stage(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    use std::os::unix::fs::OpenOptionsExt;
    static STAGED: AtomicU64 = AtomicU64::new(0);
    loop {
        let (process, count) = (std::process::id(), STAGED.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(format!("{name}.{process}-{count}.tmp"));
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn encode_fixed(covers: usize, containers: usize, hint_count: u64, tail: &[u8]) -> Vec<u8> {
    let mut fixed = Vec::with_capacity(FIXED_LEN);
    fixed.extend_from_slice(&MAGIC);
    fixed.extend_from_slice(&u32::try_from(covers).unwrap_or(u32::MAX).to_le_bytes());
    fixed.extend_from_slice(&u32::try_from(containers).unwrap_or(u32::MAX).to_le_bytes());
    fixed.extend_from_slice(&hint_count.to_le_bytes());
    let mut hasher = Xxh3::new();
    hasher.update(&fixed);
    hasher.update(tail);
    fixed.extend_from_slice(&hasher.digest().to_le_bytes());
    fixed
}

fn encode_tail(covers: &[PartName], containers: &[ContainerRecord], filter: &Filter) -> Vec<u8> {
    let mut tail = Vec::new();
    covers.iter().for_each(|part| tail.extend_from_slice(&part.to_bytes()));
    for container in containers {
        container.encode(&mut tail);
    }
    tail.extend_from_slice(&filter.encode());
    tail
}

fn run_name(covers: &[PartName]) -> String {
    let mut hasher = Xxh3::new();
    covers.iter().for_each(|part| hasher.update(&part.to_bytes()));
    format!("{:032x}.run", hasher.digest128())
}

/// Opens the runs in `folder` whose segments are all live, with each segment at most once. Removes
/// the other runs, and partly written files that are a day older than `now_ns`.
pub(super) fn open_all(folder: &Path, live: &BTreeSet<PartName>, now_ns: i64) -> Vec<Arc<Run>> {
    let mut runs: Vec<Arc<Run>> = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return runs };
    for path in entries.flatten().map(|entry| entry.path()) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_useless = match extension {
            Some("run") => match open(&path) {
                Some(run) if run.covers.iter().all(|segment| live.contains(segment)) => {
                    runs.push(Arc::new(run));
                    false
                }
                _ => true,
            },
            Some("tmp") => is_stale(&path, now_ns),
            _ => false,
        };
        if is_useless {
            std::fs::remove_file(&path).ok();
        }
    }
    // After a crash between merge and removal both are present, and the larger one contains all
    // hints.
    runs.sort_by_key(|run| Reverse(run.covers.len()));
    let mut covered = BTreeSet::new();
    runs.retain(|run| {
        let fresh = run.covers.iter().all(|segment| !covered.contains(segment));
        if fresh {
            covered.extend(run.covers.iter().copied());
        } else {
            run.remove_file();
        }
        fresh
    });
    runs
}

/// Returns `true` if the file is so old that no process can still be writing to it.
fn is_stale(path: &Path, now_ns: i64) -> bool {
    let now = UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).unwrap_or(0));
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > STAGED_AGE_MAX))
}

/// Opens a run file; `None` if any part of it is invalid.
fn open(path: &Path) -> Option<Run> {
    let mut file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    let mut fixed = [0; FIXED_LEN];
    file.read_exact(&mut fixed).ok()?;
    let count =
        |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let (covers_count, container_count) = (u64::from(count(8)), u64::from(count(12)));
    let mut hints = [0; 8];
    hints.copy_from_slice(&fixed[16..24]);
    let hint_count = u64::from_le_bytes(hints);
    let tables_len = covers_count * 16 + container_count * CONTAINER_RECORD_LEN as u64;
    // The numbers are compared with the length of the file before anything is allocated or
    // multiplied.
    if fixed[..8] != MAGIC || hint_count > len {
        return None;
    }
    let head_len = FIXED_LEN as u64 + tables_len + Filter::encoded_len(hint_count);
    if head_len + blocks_len(hint_count) != len {
        return None;
    }
    let mut tail = vec![0; usize::try_from(head_len).ok()? - FIXED_LEN];
    file.read_exact(&mut tail).ok()?;
    let mut hasher = Xxh3::new();
    hasher.update(&fixed[..24]);
    hasher.update(&tail);
    if hasher.digest().to_le_bytes() != fixed[24..32] {
        return None;
    }
    let (covers_bytes, rest) = tail.split_at(usize::try_from(covers_count * 16).ok()?);
    let (tables, filter) = rest.split_at(usize::try_from(tables_len - covers_count * 16).ok()?);
    let part = |bytes: &[u8]| bytes.first_chunk::<16>().map(|bytes| PartName::from_bytes(*bytes));
    let covers = covers_bytes.chunks_exact(16).map(part).collect::<Option<Vec<_>>>()?;
    let container = |record: &[u8]| ContainerRecord::decode(record).ok();
    let containers =
        tables.chunks_exact(CONTAINER_RECORD_LEN).map(container).collect::<Option<Vec<_>>>()?;
    let filter = Filter::decode(hint_count, filter)?;
    let hints = Hints::File { file, path: path.to_path_buf(), offset: head_len };
    Some(Run { covers, containers, hint_count, filter, hints, is_found: true })
}

/// Reads a run sequentially.
struct Cursor<'a> {
    run: &'a Run,
    next: u64,
    window: Window,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run) -> Cursor<'a> {
        Cursor { run, next: 0, window: Window::default() }
    }

    fn next(&mut self) -> io::Result<Option<(u64, u32)>> {
        if self.next == self.run.hint_count {
            return Ok(None);
        }
        let record = self.run.record(self.next, WINDOW_BLOCKS, &mut self.window)?;
        self.next += 1;
        Ok(Some(record))
    }
}

/// Merges the hints of several runs in rising order.
pub(super) struct Merge<'a> {
    cursors: Vec<Cursor<'a>>,
    heap: BinaryHeap<Reverse<((u64, u32), usize)>>,
}

impl<'a> Merge<'a> {
    /// Creates a merge of `runs`.
    ///
    /// # Errors
    ///
    /// Returns the number of a run that cannot be read.
    pub(super) fn new(runs: &[&'a Run]) -> Result<Merge<'a>, usize> {
        let cursors = runs.iter().map(|run| Cursor::new(run)).collect();
        let mut merge = Merge { cursors, heap: BinaryHeap::with_capacity(runs.len()) };
        for number in 0..runs.len() {
            merge.advance(number)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, number: usize) -> Result<(), usize> {
        if let Some(next) = self.cursors[number].next().map_err(|_| number)? {
            self.heap.push(Reverse((next, number)));
        }
        Ok(())
    }

    /// Returns the next hint, the number of the container in its run's table, and the run's number.
    ///
    /// # Errors
    ///
    /// Returns the number of a run that cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<(u64, u32, usize)>, usize> {
        let Some(Reverse(((hint, container), number))) = self.heap.pop() else { return Ok(None) };
        self.advance(number)?;
        Ok(Some((hint, container, number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TicketId;

    fn part(count: u32) -> PartName {
        PartName { ticket: TicketId([1; 12]), count }
    }

    /// Returns a segment of one container with `count` hints, of which every third occurs twice.
    fn segment(number: u32, count: u64) -> Segment {
        let name = part(number);
        let container = ContainerRecord {
            name,
            class: Class::Data,
            has_delta_chunks: number.is_multiple_of(2),
            stored_len: 1,
            toc_offset: 2,
            toc_len: 3,
        };
        let hint = |n: u64| (n + (u64::from(number) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hints = (0..count).flat_map(|n| vec![(hint(n), 0); if n % 3 == 0 { 2 } else { 1 }]);
        let mut hints: Vec<_> = hints.collect();
        hints.sort_unstable();
        Segment { containers: vec![container], hints, ..Segment::default() }
    }

    fn expect_found(run: &Run, segment: &Segment) {
        for at in segment.hints.chunk_by(|one, other| one.0 == other.0) {
            let mut found = Vec::new();
            run.find(at[0].0, &mut found).expect("nothing is damaged");
            assert_eq!(found, vec![segment.containers[0]; at.len()], "hint {:x}", at[0].0);
            run.find(at[0].0 ^ 1, &mut found).expect("nothing is damaged");
            assert_eq!(found.len(), at.len(), "nobody has inserted {:x}", at[0].0 ^ 1);
        }
    }

    #[test]
    fn runs_find_what_their_segments_name() {
        let folder = tempfile::tempdir().expect("made");
        for count in [0, 1, 255, 256, 257, 1000, 5000] {
            let segment = segment(0, count);
            expect_found(&Run::create(None, part(0), &segment), &segment);
            let written = Run::create(Some(folder.path()), part(0), &segment);
            let Hints::File { path, .. } = &written.hints else { panic!("it can be written") };
            expect_found(&written, &segment);
            expect_found(&open(path).expect("it is what was written"), &segment);
        }
        let segments: Vec<_> = (0..10).map(|number| segment(number, 2000)).collect();
        let create =
            |(number, segment)| Arc::new(Run::create(Some(folder.path()), part(number), segment));
        let mut runs: Vec<_> = (0..).zip(&segments).map(create).collect();
        assert!(merge_tiers(Some(folder.path()), &mut runs).is_none(), "nothing is damaged");
        let [merged] = &runs[..] else { panic!("they become one, not {}", runs.len()) };
        segments.iter().for_each(|segment| expect_found(merged, segment));
        assert_eq!(std::fs::read_dir(folder.path()).expect("it lists").count(), 1, "files");
    }

    /// Clustered hints are far from the position that is tried first.
    #[test]
    fn hints_that_crowd_are_found() {
        let folder = tempfile::tempdir().expect("made");
        for move_to in [|hint: u64| hint >> 20, |hint: u64| hint >> 20 | u64::MAX << 44] {
            let mut segment = segment(0, 5000);
            segment.hints.iter_mut().for_each(|(hint, _)| *hint = move_to(*hint));
            expect_found(&Run::create(None, part(0), &segment), &segment);
            expect_found(&Run::create(Some(folder.path()), part(0), &segment), &segment);
        }
    }

    /// Whichever bit of a file is flipped, either the file or the block is refused, or the bit is
    /// never used.
    #[test]
    fn flipped_bits_and_moved_blocks_are_detected() {
        let folder = tempfile::tempdir().expect("made");
        let segment = segment(0, 600);
        let run = Run::create(Some(folder.path()), part(0), &segment);
        let Hints::File { path, .. } = &run.hints else { panic!("it can be written") };
        let whole = std::fs::read(path).expect("it is there");
        let all = |run: &Run| {
            segment.hints.iter().all(|(hint, _)| run.find(*hint, &mut Vec::new()).is_ok())
        };
        assert!(all(&open(path).expect("whole")), "whole");
        for place in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            std::fs::write(path, &bytes).expect("written");
            assert!(!open(path).is_some_and(|run| all(&run)), "byte {place} was flipped");
        }
        // A block in the place of another one, and the block of another run in the same place.
        let hints_len = usize::try_from(blocks_len(run.hint_count)).expect("it is small");
        let block = whole.len() - hints_len;
        let mut bytes = whole.clone();
        bytes.copy_within(block..block + BLOCK_LEN, block + BLOCK_LEN);
        std::fs::write(path, &bytes).expect("written");
        assert!(!open(path).is_some_and(|run| all(&run)), "the first block twice");
        let other = Run::create(Some(folder.path()), part(1), &segment);
        let Hints::File { path: other, .. } = &other.hints else { panic!("it can be written") };
        let mut bytes = std::fs::read(other).expect("it is there");
        bytes[block..].copy_from_slice(&whole[block..]);
        std::fs::write(other, &bytes).expect("written");
        assert!(!open(other).is_some_and(|run| all(&run)), "another's blocks");
        let other = Run::create(Some(folder.path()), part(2), &segment);
        let Hints::File { path: other, .. } = &other.hints else { panic!("it can be written") };
        let mut bytes = std::fs::read(other).expect("it is there");
        bytes[block..block + BLOCK_LEN].copy_from_slice(&whole[block..block + BLOCK_LEN]);
        std::fs::write(other, &bytes).expect("written");
        assert!(!open(other).is_some_and(|run| all(&run)), "another's first block");
    }

    #[test]
    fn damaged_run_is_not_merged() {
        let folder = tempfile::tempdir().expect("made");
        let create = |number| {
            Arc::new(Run::create(Some(folder.path()), part(number), &segment(number, 2000)))
        };
        for place in [0, 20_000] {
            let mut runs: Vec<_> = (0..10).map(create).collect();
            let Hints::File { path, offset, .. } = &runs[7].hints else { panic!("in a file") };
            let mut bytes = std::fs::read(path).expect("it is there");
            bytes[usize::try_from(*offset).expect("it is small") + place] ^= 1;
            std::fs::write(path, bytes).expect("written");
            let damaged = merge_tiers(Some(folder.path()), &mut runs).expect("it is found");
            assert_eq!(damaged.covers(), [part(7)], "the damaged one");
            assert_eq!(runs.len(), 9, "the others are as they were");
            assert!(merge_tiers(Some(folder.path()), &mut runs).is_none(), "they are whole");
            let staged = std::fs::read_dir(folder.path()).expect("it lists").flatten();
            let staged =
                staged.filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp"));
            assert_eq!(staged.count(), 0, "nothing half written is left");
        }
    }

    #[test]
    fn staged_files_are_not_shared() {
        let folder = tempfile::tempdir().expect("made");
        let (one, _) = stage(folder.path(), "a.run").expect("staged");
        let (other, _) = stage(folder.path(), "a.run").expect("staged");
        assert_ne!(one, other, "of one run, by one process");
    }

    #[test]
    fn taken_staged_name_is_skipped() {
        let folder = tempfile::tempdir().expect("made");
        let (path, _) = stage(folder.path(), "a.run").expect("staged");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let (front, count) = name.trim_end_matches(".tmp").rsplit_once('-').expect("a number");
        let count: u64 = count.parse().expect("a number");
        let taken: BTreeSet<PathBuf> = (count..count + 500)
            .map(|count| folder.path().join(format!("{front}-{count}.tmp")))
            .collect();
        taken.iter().for_each(|path| drop(File::create(path).expect("made")));
        let (path, _) = stage(folder.path(), "a.run").expect("another name");
        assert!(!taken.contains(&path), "{}", path.display());
        let missing = folder.path().join("missing");
        stage(&missing, "a.run").expect_err("there is no folder");
    }
}
