//! Sorted runs: the local form of index segments. May be deleted at any time.
//!
//! A run file: magic 8, number of covered segments 4, of containers 4, of hints 8, checksum of the
//! rest without the hints 8, covered segments (16 each), containers, filter, hints (12 each,
//! rising). Ten runs of like size are merged into one; a run is never written to again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::filter::Filter;
use crate::error::{Error, Kind, Result};
use crate::fingerprint::Class;
use crate::format::segment::{CONTAINER_RECORD_LEN, ContainerRecord, HINT_LEN, Segment};
use crate::name::PartName;

const MAGIC: [u8; 8] = *b"CutPrun1";
const FIXED_LEN: usize = 8 + 4 + 4 + 8 + 8;
/// As many runs of like size become one.
const TIER_RUNS: usize = 10;
/// How many hints a lookup reads at once: hints are uniform, so that the one that is looked for is
/// within two standard deviations of where its value says, in runs of a million.
const WINDOW: u64 = 1024;

/// Where a run's hints are.
#[derive(Debug)]
enum Hints {
    Memory(Vec<u8>),
    File { file: File, path: PathBuf, offset: u64 },
}

/// Hints in rising order, and the containers to which they lead.
#[derive(Debug)]
pub(super) struct Run {
    covers: Vec<PartName>,
    containers: Vec<ContainerRecord>,
    hint_count: u64,
    filter: Filter,
    hints: Hints,
}

fn cache_error(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Media, path.display(), format!("the cache: {error}")).with_source(error)
}

impl Run {
    /// A run of one segment, in `folder` where there is one.
    pub(super) fn create(folder: Option<&Path>, name: PartName, segment: &Segment) -> Result<Run> {
        let mut filter = Filter::with_room_for(segment.hints.len() as u64);
        let mut bytes = Vec::with_capacity(segment.hints.len() * HINT_LEN);
        for (hint, container) in &segment.hints {
            filter.insert(*hint);
            bytes.extend_from_slice(&hint.to_be_bytes());
            bytes.extend_from_slice(&container.to_le_bytes());
        }
        let run = Run {
            covers: vec![name],
            containers: segment.containers.clone(),
            hint_count: segment.hints.len() as u64,
            filter,
            hints: Hints::Memory(bytes),
        };
        match folder {
            // A cache that cannot be written is no reason to fail: memory will do.
            Some(folder) => match run.write(folder) {
                Ok(written) => Ok(written),
                Err(_) => Ok(run),
            },
            None => Ok(run),
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

    pub(super) fn memory_bytes(&self) -> u64 {
        let hints = match &self.hints {
            Hints::Memory(bytes) => bytes.len() as u64,
            Hints::File { .. } => 0,
        };
        self.filter.bytes() + hints
    }

    fn read(&self, start: u64, count: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let len = usize::try_from(count).unwrap_or(usize::MAX) * HINT_LEN;
        buffer.clear();
        match &self.hints {
            Hints::Memory(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX) * HINT_LEN;
                buffer.extend_from_slice(&bytes[start..start + len]);
                Ok(())
            }
            Hints::File { file, path, offset } => {
                buffer.resize(len, 0);
                file.read_exact_at(buffer, offset + start * HINT_LEN as u64)
                    .map_err(|error| cache_error(path, error))
            }
        }
    }

    /// Adds the containers to which `hint` leads to `found`.
    pub(super) fn find(&self, hint: u64, found: &mut Vec<ContainerRecord>) -> Result<()> {
        if self.hint_count == 0 || !self.filter.may_hold(hint) {
            return Ok(());
        }
        // The first place whose hint is not below `hint` lies in low..=high.
        let (mut low, mut high) = (0, self.hint_count);
        let mut guess = u64::try_from((u128::from(hint) * u128::from(self.hint_count)) >> 64);
        let mut buffer = Vec::new();
        while low < high {
            let middle = guess.unwrap_or(low + (high - low) / 2).clamp(low, high - 1);
            let start = middle.saturating_sub(WINDOW / 2).max(low);
            let end = (start + WINDOW).min(high);
            self.read(start, end - start, &mut buffer)?;
            let below = partition(&buffer, hint);
            if below == 0 {
                high = start;
            } else if below == end - start {
                low = end;
            } else {
                low = start + below;
                high = low;
            }
            guess = Ok(low + (high - low) / 2);
        }
        let mut at = low;
        while at < self.hint_count {
            self.read(at, (self.hint_count - at).min(4), &mut buffer)?;
            for record in buffer.chunks_exact(HINT_LEN) {
                let (each, container) = decode(record);
                if each != hint {
                    return Ok(());
                }
                // The cache is not checked bit by bit: a wrong number is a wrong hint.
                found.extend(self.containers.get(container as usize));
                at += 1;
            }
        }
        Ok(())
    }

    fn write(&self, folder: &Path) -> Result<Run> {
        merge(folder, &[self])
    }
}

/// The number of records in `bytes` whose hint is below `hint`.
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

/// Merges runs until no ten have like size.
pub(super) fn merge_tiers(folder: Option<&Path>, runs: &mut Vec<Run>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    loop {
        let mut tiers: HashMap<u32, usize> = HashMap::new();
        for run in runs.iter() {
            *tiers.entry(tier(run)).or_default() += 1;
        }
        let Some((&full, _)) = tiers.iter().find(|(_, count)| **count >= TIER_RUNS) else {
            return Ok(());
        };
        let (parts, rest): (Vec<Run>, Vec<Run>) = runs.drain(..).partition(|run| tier(run) == full);
        *runs = rest;
        let merged = merge(folder, &parts.iter().collect::<Vec<_>>());
        match merged {
            Ok(merged) => {
                for part in &parts {
                    if let Hints::File { path, .. } = &part.hints {
                        // Left over, it would only be read and dropped next time.
                        std::fs::remove_file(path).ok();
                    }
                }
                runs.push(merged);
            }
            Err(_) => {
                // A full disk under the cache: go on with what there is.
                runs.extend(parts);
                return Ok(());
            }
        }
    }
}

fn tier(run: &Run) -> u32 {
    run.hint_count.max(1).ilog10()
}

/// Writes the union of `runs` as one run file. Memory: a filter, container tables, small buffers.
fn merge(folder: &Path, runs: &[&Run]) -> Result<Run> {
    let mut covers = Vec::new();
    let mut containers: Vec<ContainerRecord> = Vec::new();
    let mut numbers: HashMap<(Class, PartName), u32> = HashMap::new();
    let mut renumber: Vec<Vec<u32>> = Vec::new();
    for run in runs {
        covers.extend_from_slice(&run.covers);
        let table = run.containers.iter().map(|container| {
            *numbers.entry((container.class, container.name)).or_insert_with(|| {
                containers.push(*container);
                u32::try_from(containers.len() - 1).unwrap_or(u32::MAX)
            })
        });
        renumber.push(table.collect());
    }
    covers.sort_unstable();
    covers.dedup();
    let hint_count: u64 = runs.iter().map(|run| run.hint_count).sum();
    let mut filter = Filter::with_room_for(hint_count);
    let name = run_name(&covers);
    let path = folder.join(&name);
    let staged = folder.join(format!("{name}.{}.tmp", std::process::id()));
    let io = |error| cache_error(&staged, error);
    std::fs::create_dir_all(folder).map_err(io)?;
    let head_len = FIXED_LEN as u64
        + covers.len() as u64 * 16
        + containers.len() as u64 * CONTAINER_RECORD_LEN as u64
        + Filter::encoded_len(hint_count);
    let file = private_file(&staged).map_err(io)?;
    let mut out = BufWriter::with_capacity(64 * 1024, file);
    out.seek(SeekFrom::Start(head_len)).map_err(io)?;
    let mut cursors: Vec<Cursor<'_>> = runs.iter().map(|run| Cursor::new(run)).collect();
    let mut heap = BinaryHeap::new();
    for (number, cursor) in cursors.iter_mut().enumerate() {
        if let Some(next) = cursor.next()? {
            heap.push(Reverse((next, number)));
        }
    }
    while let Some(Reverse(((hint, container), number))) = heap.pop() {
        let container = renumber[number].get(container as usize).copied().unwrap_or(u32::MAX);
        filter.insert(hint);
        out.write_all(&hint.to_be_bytes()).map_err(io)?;
        out.write_all(&container.to_le_bytes()).map_err(io)?;
        if let Some(next) = cursors[number].next()? {
            heap.push(Reverse((next, number)));
        }
    }
    out.seek(SeekFrom::Start(0)).map_err(io)?;
    let tail = encode_tail(&covers, &containers, &filter);
    out.write_all(&encode_fixed(covers.len(), containers.len(), hint_count, &tail)).map_err(io)?;
    out.write_all(&tail).map_err(io)?;
    let file = out.into_inner().map_err(|error| cache_error(&staged, error.into_error()))?;
    drop(file);
    std::fs::rename(&staged, &path).map_err(io)?;
    let file = File::open(&path).map_err(io)?;
    let hints = Hints::File { file, path, offset: head_len };
    Ok(Run { covers, containers, hint_count, filter, hints })
}

/// Hints are halves of keyed fingerprints: nobody else's business.
fn private_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
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
        tail.extend_from_slice(&container.name.to_bytes());
        tail.push(u8::from(container.class == Class::Meta));
        tail.extend_from_slice(&container.stored_len.to_le_bytes());
        tail.extend_from_slice(&container.directory_offset.to_le_bytes());
        tail.extend_from_slice(&container.directory_len.to_le_bytes());
    }
    tail.extend_from_slice(&filter.encode());
    tail
}

fn run_name(covers: &[PartName]) -> String {
    let mut hasher = Xxh3::new();
    covers.iter().for_each(|part| hasher.update(&part.to_bytes()));
    format!("{:032x}.run", hasher.digest128())
}

/// Opens the runs in `folder` whose segments are all live, each segment at most once; removes the
/// others.
pub(super) fn open_all(folder: &Path, live: &BTreeSet<PartName>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return runs };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "run") {
            continue;
        }
        match open(&path) {
            Some(run) if run.covers.iter().all(|segment| live.contains(segment)) => runs.push(run),
            _ => {
                std::fs::remove_file(&path).ok();
            }
        }
    }
    // After a crash between merge and removal both lie there: the larger says it all.
    runs.sort_by_key(|run| Reverse(run.covers.len()));
    let mut covered = BTreeSet::new();
    runs.retain(|run| {
        let fresh = run.covers.iter().all(|segment| !covered.contains(segment));
        if fresh {
            covered.extend(run.covers.iter().copied());
        }
        fresh
    });
    runs
}

/// Opens a run file; `None` where anything about it is wrong.
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
    let hints_len = hint_count.checked_mul(HINT_LEN as u64)?;
    // Before anything is allocated: do the numbers fit the file?
    let head_len =
        (FIXED_LEN as u64 + tables_len).checked_add(Filter::encoded_len(hint_count.min(len)))?;
    if fixed[..8] != MAGIC || hint_count > len || head_len.checked_add(hints_len)? != len {
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
    let number = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let container = |record: &[u8]| {
        Some(ContainerRecord {
            name: part(record)?,
            class: if record[16] == 1 { Class::Meta } else { Class::Data },
            stored_len: number(&record[17..])?,
            directory_offset: number(&record[21..])?,
            directory_len: number(&record[25..])?,
        })
    };
    let containers =
        tables.chunks_exact(CONTAINER_RECORD_LEN).map(container).collect::<Option<Vec<_>>>()?;
    let filter = Filter::decode(hint_count, filter)?;
    let hints = Hints::File { file, path: path.to_path_buf(), offset: head_len };
    Some(Run { covers, containers, hint_count, filter, hints })
}

/// Reads a run from front to back.
struct Cursor<'a> {
    run: &'a Run,
    next: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run) -> Cursor<'a> {
        Cursor { run, next: 0, buffer: Vec::new(), taken: 0 }
    }

    fn next(&mut self) -> Result<Option<(u64, u32)>> {
        if self.taken == self.buffer.len() {
            let count = (self.run.hint_count - self.next).min(WINDOW);
            if count == 0 {
                return Ok(None);
            }
            self.run.read(self.next, count, &mut self.buffer)?;
            self.next += count;
            self.taken = 0;
        }
        let record = decode(&self.buffer[self.taken..]);
        self.taken += HINT_LEN;
        Ok(Some(record))
    }
}
