//! Run files: their format, how one is written, and how one is opened.
//!
//! A run file without a name has the same form as one in the cache. A run file consists of: magic 8, number of covered segments 4, of containers 4, of hints 8,
//! checksum of the rest without the hints 8, covered segments (16 each), containers, filter, hints
//! (12 each, rising) in blocks of 341, each followed by a checksum of 4.
//!
//! Files are not synced. Data that a power failure has left unwritten fails its checksum like any
//! other damage, and can be restored from the segments.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::Xxh3;

use super::block::{BlockWriter, blocks_len, identity};
use super::filter::Filter;
use super::merge::MergedHints;
use super::run::{Run, RunHints};
use super::store::RunStore;
use crate::format::fingerprint::Class;
use crate::format::names::PartName;
use crate::format::segment::{CONTAINER_RECORD_LEN, ContainerRecord};
use crate::util::private_file::{create_private_file, create_private_folder, create_unnamed_file};

/// The magic number, which ends with the version. Files of other versions are removed.
const MAGIC: [u8; 8] = *b"CutPrun3";
const FIXED_LEN: usize = 8 + 4 + 4 + 8 + CHECKSUM_LEN;
/// The length of the checksum at the end of the part of fixed length, in bytes.
const CHECKSUM_LEN: usize = 8;

/// The reason for which runs were not merged.
#[derive(Debug)]
pub(super) enum MergeFailure {
    /// The run of this number cannot be read.
    Damaged(usize),
    /// The cache cannot be written.
    Unwritten,
}

impl From<io::Error> for MergeFailure {
    fn from(_: io::Error) -> MergeFailure {
        MergeFailure::Unwritten
    }
}

/// Writes the union of `runs` as one run file. The memory is that of a filter, container tables,
/// and small buffers.
pub(super) fn merge(store: &RunStore, runs: &[&Run]) -> Result<Run, MergeFailure> {
    let mut covers: Vec<PartName> = runs.iter().flat_map(|run| run.covers.clone()).collect();
    covers.sort_unstable();
    covers.dedup();
    match store {
        RunStore::Folder(folder) => merge_in_cache(folder, covers, runs),
        RunStore::Temporary(folder) => {
            let file = create_unnamed_file(folder)?;
            let own = file.try_clone()?;
            let (run, offset) = write_merged(file, covers, runs)?;
            Ok(Run { hints: RunHints::File { file: own, path: None, offset }, ..run })
        }
        RunStore::Memory => Err(MergeFailure::Unwritten),
    }
}

/// Writes the union of `runs` as a file of the cache.
fn merge_in_cache(
    folder: &Path,
    covers: Vec<PartName>,
    runs: &[&Run],
) -> Result<Run, MergeFailure> {
    create_private_folder(folder)?;
    let name = run_name(&covers);
    let (staged, file) = stage(folder, &name)?;
    let own = file.try_clone()?;
    let merged = write_merged(file, covers, runs).and_then(|(run, offset)| {
        let path = folder.join(&name);
        std::fs::rename(&staged, &path)?;
        // The handle is that of the written file. Another process may have replaced the file under
        // this name by one with other container numbers.
        let hints = RunHints::File { file: own, path: Some(path), offset };
        Ok(Run { hints, ..run })
    });
    if merged.is_err() {
        std::fs::remove_file(&staged).ok();
    }
    merged
}

/// Writes the union of `runs` to `file`. Returns the run without its hints, and the offset of the
/// hints.
fn write_merged(
    file: File,
    covers: Vec<PartName>,
    runs: &[&Run],
) -> Result<(Run, u64), MergeFailure> {
    let mut containers: Vec<ContainerRecord> = Vec::new();
    let mut numbers: HashMap<(Class, PartName), u32> = HashMap::new();
    let mut renumber: Vec<Vec<u32>> = Vec::new();
    for run in runs {
        let mut table = Vec::with_capacity(run.containers.len());
        for container in &run.containers {
            let next = u32::try_from(containers.len()).map_err(io::Error::other)?;
            let number = *numbers.entry((container.class, container.name)).or_insert(next);
            if number == next {
                containers.push(*container);
            }
            table.push(number);
        }
        renumber.push(table);
    }
    let hint_count: u64 = runs.iter().map(|run| run.hint_count).sum();
    let mut filter = Filter::with_room_for(hint_count);
    let head_len = FIXED_LEN as u64
        + covers.len() as u64 * 16
        + containers.len() as u64 * CONTAINER_RECORD_LEN as u64
        + Filter::encoded_len(hint_count);
    let mut out = BufWriter::with_capacity(64 * 1024, file);
    out.seek(SeekFrom::Start(head_len))?;
    let identity = identity(&covers);
    let mut blocks = BlockWriter::new(identity);
    let mut merge = MergedHints::new(runs).map_err(MergeFailure::Damaged)?;
    while let Some((hint, container, number)) = merge.next().map_err(MergeFailure::Damaged)? {
        let container = renumber[number].get(container as usize);
        let container = *container.ok_or(MergeFailure::Damaged(number))?;
        filter.insert(hint);
        blocks.push(hint, container, &mut out)?;
    }
    blocks.end(&mut out)?;
    out.seek(SeekFrom::Start(0))?;
    write_head(&mut out, &covers, &containers, hint_count, &filter)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let is_found = runs.iter().any(|run| run.is_found);
    let hints = RunHints::Memory(Vec::new());
    Ok((Run { covers, identity, containers, hint_count, filter, hints, is_found }, head_len))
}

/// Creates a new file that no other index writes to, in any process. The file is private, because
/// hints are parts of keyed fingerprints.
pub(super) fn stage(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    static STAGED: AtomicU64 = AtomicU64::new(0);
    loop {
        let (process, count) = (std::process::id(), STAGED.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(format!("{name}.{process}-{count}.tmp"));
        match create_private_file(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes everything that comes before the hints, at the start of the file.
fn write_head(
    out: &mut (impl Write + Seek),
    covers: &[PartName],
    containers: &[ContainerRecord],
    hint_count: u64,
    filter: &Filter,
) -> io::Result<()> {
    let count = |count: usize| u32::try_from(count).map_err(io::Error::other);
    let mut fixed = Vec::with_capacity(FIXED_LEN - CHECKSUM_LEN);
    fixed.extend_from_slice(&MAGIC);
    fixed.extend_from_slice(&count(covers.len())?.to_le_bytes());
    fixed.extend_from_slice(&count(containers.len())?.to_le_bytes());
    fixed.extend_from_slice(&hint_count.to_le_bytes());
    out.write_all(&fixed)?;
    // In the place of the checksum, which is known at the end.
    out.write_all(&[0; CHECKSUM_LEN])?;
    let mut hasher = Xxh3::new();
    hasher.update(&fixed);
    let mut write = |bytes: &[u8]| {
        hasher.update(bytes);
        out.write_all(bytes)
    };
    covers.iter().try_for_each(|part| write(&part.to_bytes()))?;
    let mut record = Vec::with_capacity(CONTAINER_RECORD_LEN);
    for container in containers {
        record.clear();
        container.encode(&mut record);
        write(&record)?;
    }
    filter.encode(write)?;
    let digest = hasher.digest().to_le_bytes();
    out.seek(SeekFrom::Start((FIXED_LEN - CHECKSUM_LEN) as u64))?;
    out.write_all(&digest)
}

fn run_name(covers: &[PartName]) -> String {
    let mut hasher = Xxh3::new();
    covers.iter().for_each(|part| hasher.update(&part.to_bytes()));
    format!("{:032x}.run", hasher.digest128())
}

/// Opens a run file; `None` if any part of it is invalid.
pub(super) fn open(path: &Path) -> Option<Run> {
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
    let mut hasher = Xxh3::new();
    hasher.update(&fixed[..24]);
    let mut read = |bytes: &mut [u8]| {
        file.read_exact(bytes)?;
        hasher.update(bytes);
        io::Result::Ok(())
    };
    let mut tables = vec![0; usize::try_from(tables_len).ok()?];
    read(&mut tables).ok()?;
    let filter = Filter::decode(hint_count, read).ok()?;
    if hasher.digest().to_le_bytes() != fixed[24..32] {
        return None;
    }
    let (covers_bytes, tables) = tables.split_at(usize::try_from(covers_count * 16).ok()?);
    let part = |bytes: &[u8]| bytes.first_chunk::<16>().map(|bytes| PartName::from_bytes(*bytes));
    let covers = covers_bytes.chunks_exact(16).map(part).collect::<Option<Vec<_>>>()?;
    let tables = tables.chunks_exact(CONTAINER_RECORD_LEN);
    let mut containers = Vec::with_capacity(tables.len());
    for record in tables {
        containers.push(ContainerRecord::decode(record).ok()?);
    }
    let hints = RunHints::File { file, path: Some(path.to_path_buf()), offset: head_len };
    let identity = identity(&covers);
    Some(Run { covers, identity, containers, hint_count, filter, hints, is_found: true })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn staged_files_of_one_run_have_different_names() {
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
