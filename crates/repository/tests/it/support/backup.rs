//! A small backup through the crate's own writer, and a restore that compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutpoint_repository::format::commit::Outcome;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::write::{DeltaEncoder, Inline, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    CipherSuite, Class, CommitResult, Content, Entry, EntryKind, InitOptions, Purpose, Reader,
    Repository, Secret, Snapshot, Unlock, Verify, Writer,
};
use cutpoint_storage::{Result, Storage};
use cutpoint_testing::SplitMix64;

use super::complete_reader::reader_of_all;
use super::machine::Machine;

pub(crate) fn unlock() -> Unlock {
    Unlock::KeyFile(Secret([7; 32]))
}

pub(crate) fn init(storage: Arc<dyn Storage>) -> Result<Repository> {
    init_by(storage, 0)
}

/// Creates a repository as this process.
pub(crate) fn init_by(storage: Arc<dyn Storage>, process: u32) -> Result<Repository> {
    init_with(storage, process, false, 0)
}

/// Creates a repository with or without delta chunks, and with the given share of parity, in
/// percent.
pub(crate) fn init_with(
    storage: Arc<dyn Storage>,
    process: u32,
    delta_chunks: bool,
    parity_percent: u32,
) -> Result<Repository> {
    init_of(storage, process, &options(delta_chunks, parity_percent))
}

/// Returns the settings of repositories with small regions.
pub(crate) fn options(delta_chunks: bool, parity_percent: u32) -> InitOptions {
    InitOptions {
        suite: CipherSuite::ChaCha20Poly1305,
        cut: "fixed".to_owned(),
        region_size: 16 * 1024,
        container_size: 4 * 1024 * 1024,
        compression_level: 1,
        delta_chunks,
        parity_percent,
        // The storages of tests pass a probe.
        may_be_shared: Some(true),
        ..InitOptions::default()
    }
}

/// Creates a repository with these settings.
pub(crate) fn init_of(
    storage: Arc<dyn Storage>,
    process: u32,
    options: &InitOptions,
) -> Result<Repository> {
    Repository::init(storage, Machine::new(process), &unlock(), options)
}

pub(crate) fn open(storage: Arc<dyn Storage>, process: u32) -> Result<Arc<Repository>> {
    Ok(Arc::new(Repository::open(storage, Machine::new(process), &unlock())?))
}

pub(crate) const CHUNK_LEN: usize = 5000;

/// Minimum number of a file that is a version of the one whose number ends in two zeros.
const VERSIONS_FROM: u64 = 100;
/// Minimum number of a file that is a version of the one whose number has three digits less.
const LATER_FROM: u64 = 1000;

/// Returns the bytes of a file. Equal numbers have equal bytes in every backup. In a version below
/// 1000, every other chunk is unchanged, and the others differ in one byte; from the fiftieth
/// version on, all chunks differ. Number 1000 n + m is a later version of file n with other bytes
/// in each chunk, and may itself have later versions.
pub(crate) fn file(number: u64) -> Vec<u8> {
    if number >= LATER_FROM {
        let mut bytes = file(number / LATER_FROM);
        let at = if number < LATER_FROM * LATER_FROM { 2000 } else { 3000 };
        let new = SplitMix64::bytes(number, 600);
        for (chunk, new) in bytes.chunks_mut(CHUNK_LEN).zip(new.chunks(100)) {
            chunk[at..at + 100].copy_from_slice(new);
        }
        return bytes;
    }
    let version = if number < VERSIONS_FROM { 0 } else { number % 100 };
    let mut bytes = SplitMix64::bytes(number - version, 30_000);
    let changed = bytes
        .chunks_mut(CHUNK_LEN)
        .zip(0..)
        .filter(|(_, at)| (at + version) % 2 == 0 || version >= 50);
    for (chunk, _) in changed.filter(|_| version > 0) {
        chunk[usize::try_from(version).expect("it is small") * 40] ^= 1;
    }
    bytes
}

/// Returns the content of another version of a file in the newest snapshot that has one.
pub(crate) fn previous(reader: &Reader, number: u64) -> Result<Option<Content>> {
    for (_, snapshot) in reader.view().snapshots().into_iter().rev() {
        for entry in reader.tree(&snapshot.root) {
            let entry = entry?;
            let other = number_of(&entry);
            if other >= VERSIONS_FROM && other / 100 == number / 100 {
                return Ok(Some(entry.content));
            }
        }
    }
    Ok(None)
}

fn number_of(entry: &Entry) -> u64 {
    String::from_utf8_lossy(&entry.name)[5..].parse().expect("a number")
}

/// Backs up `files`. A repository with delta chunks compares them with previous versions. Publishes
/// in the middle if `publish` is set.
pub(crate) fn back_up(
    repository: &Arc<Repository>,
    files: &[u64],
    publish: bool,
) -> Result<CommitResult> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    back_up_by(writer, files, BTreeMap::new(), publish, Snapshot::empty())
}

/// Does the same as [`back_up`], with the properties of the snapshot. `taken` are entries that are
/// taken over.
pub(crate) fn back_up_by(
    writer: Writer,
    files: &[u64],
    taken: BTreeMap<Vec<u8>, Entry>,
    publish: bool,
    snapshot: Snapshot,
) -> Result<CommitResult> {
    let (inline, root) = store_files(writer, files, taken, publish)?;
    inline.commit(Outcome::Snapshot(Box::new(Snapshot { root, ..snapshot })))
}

/// Does the same as [`back_up`], with the last index segment in the commit.
pub(crate) fn back_up_embedding(
    repository: &Arc<Repository>,
    files: &[u64],
    publish: bool,
) -> Result<CommitResult> {
    let writer = Writer::begin(repository.clone(), Purpose::Backup)?;
    let (inline, root) = store_files(writer, files, BTreeMap::new(), publish)?;
    inline.commit_embedding(Snapshot { root, ..Snapshot::empty() })
}

/// Stores the files of [`back_up_by`] and their tree.
fn store_files(
    writer: Writer,
    files: &[u64],
    taken: BTreeMap<Vec<u8>, Entry>,
    publish: bool,
) -> Result<(Inline, Content)> {
    let repository = writer.repository().clone();
    let (view, ticket) = (writer.view().clone(), writer.ticket());
    let mut inline = Inline::new(writer, Verify::All)?;
    let index = inline.index().clone();
    let reader = Reader::new(repository.clone(), Arc::new(index.fork()), view);
    let mut encoder = DeltaEncoder::new(&reader, &index, ticket);
    let mut entries = taken;
    for (place, number) in files.iter().enumerate() {
        let bytes = file(*number);
        let mut recipe = RecipeWriter::new("fixed");
        let is_similar = repository.config().uses_delta_chunks();
        let old = if is_similar { previous(&reader, *number)? } else { None };
        encoder.begin(old.as_ref());
        for chunk in bytes.chunks(CHUNK_LEN) {
            let (fingerprint, _) = inline.store_similar(chunk, &mut encoder)?;
            let length = chunk.len() as u64;
            recipe.push(Segment::Chunk { fingerprint, offset: 0, length }, &mut inline)?;
        }
        let mut entry = Entry::new(format!("file {number:04}"), EntryKind::File);
        entry.size = recipe.size();
        entry.content = recipe.finish(&mut inline)?;
        entries.insert(entry.name.clone(), entry);
        if publish && place % 2 == 0 {
            inline.publish()?;
        }
    }
    let mut tree = TreeWriter::new();
    for entry in entries.values() {
        tree.push(entry, repository.keys(), &mut inline)?;
    }
    let root = tree.finish(&mut inline)?;
    Ok((inline, root))
}

/// Restores every listed snapshot and compares each file. Returns the number of snapshots.
pub(crate) fn restore_all(repository: &Arc<Repository>) -> Result<usize> {
    let reader = reader_of_all(repository)?;
    let view = reader.view();
    for (ticket, snapshot) in view.snapshots() {
        for entry in reader.tree(&snapshot.root) {
            let entry = entry?;
            let number = number_of(&entry);
            let found = read(&reader, &entry.content)?;
            assert!(found == file(number), "{ticket}: file {number} comes back as other bytes");
        }
    }
    Ok(view.snapshots().len())
}

fn read(reader: &Reader, content: &Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for segment in reader.segments(content) {
        if let Segment::Chunk { fingerprint, .. } = segment? {
            bytes.extend_from_slice(&reader.chunk(Class::Data, &fingerprint)?);
        }
    }
    Ok(bytes)
}
