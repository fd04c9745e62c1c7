//! The cost of metadata as the store keeps it. The writers of the store make trees and recipes,
//! which are then discarded.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::io;
use std::sync::Arc;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::format::segment::{CONTAINER_RECORD_LEN, HINT_LEN};
use cutpoint_repository::format::toc::{CHUNK_RECORD_LEN, REGION_RECORD_LEN, TOC_PADDING};
use cutpoint_repository::write::{ChunkSink, RecipeWriter, TreeWriter};
use cutpoint_repository::{
    CipherSuite, Class, Content, Entry, Fingerprint, Keyring, Keys, RepositoryId, Secret,
};
use cutpoint_storage::Result;

use super::regions::{RegionTotals, Regions};
use crate::counter::{Key, KeyHasher};
use crate::scan::Job;

/// The length of the header (64 bytes) and the trailer (32 bytes) around the parts of an object.
/// All numbers here are from `docs/format.md`, sections 2, 3, 7 and 8.
const AROUND_LEN: u64 = 64 + 32;
/// The length of the tag after each sealed part, in bytes.
const TAG_LEN: u64 = 16;
/// The length of the fixed parts of a table of contents, in bytes: three numbers at its start and an empty
/// map at its end.
const TOC_FIXED_LEN: u64 = 3 * 4 + 1;
/// The length of the fixed parts of an index segment, in bytes: two numbers at its start and an
/// empty map at its end.
const SEGMENT_FIXED_LEN: u64 = 2 * 4 + 1;
/// The multiple to which a container is padded, in bytes.
const CONTAINER_PADDING: u64 = 64 * 1024;
/// The mean padding of a full container, in bytes. A container is closed if less than 8192 bytes
/// would be padding, and the mean is half of that.
const FULL_PADDING_MEAN: u64 = 8192 / 2;
/// The multiple to which other objects are padded, in bytes.
const OBJECT_PADDING: u64 = 256;
/// The number of stored bytes for which one index segment is written.
const SEGMENT_STORED_BYTES: u64 = 256 << 20;
/// The number of objects other than containers and index: settings and a key with a copy of each, a
/// ticket, and a commit.
const SMALL_OBJECT_COUNT: u64 = 6;

/// The cost of a chunk in bytes, without its payload and the references to it: a record in the
/// table of contents and a hint.
pub const CHUNK_COST: u64 = (CHUNK_RECORD_LEN + HINT_LEN) as u64;
/// The cost of a chunk that is stored as a burst, in bytes and without its new bytes: the cost of a
/// chunk, a reference of 32 bytes and a payload of about 12 bytes (three extents).
pub(super) const BURST_COST: u64 = CHUNK_COST + 32 + 12;
/// The additional cost of a whole chunk that others may resemble, in bytes: hashes of head and
/// tail.
pub(super) const ENDS_COST: u64 = 8;

/// Builds the trees and recipes of the scanned files.
pub(super) struct Metadata {
    keys: Keys,
    cut: String,
    /// The open folders, from the root on.
    folders: Vec<(Option<Arc<Entry>>, TreeWriter)>,
    recipe: RecipeWriter,
    chunks: MetaChunks,
    /// The contents of files that have several names, by device and inode.
    links: HashMap<(u64, u64), (Content, u64)>,
    /// The content of the root at the end.
    root: Content,
}

/// The sink for the chunks of trees and recipes.
struct MetaChunks {
    keys: Keys,
    seen: HashSet<Key, BuildHasherDefault<KeyHasher>>,
    regions: Regions,
    jobs: Vec<Job>,
}

impl ChunkSink for MetaChunks {
    fn store_meta(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.keys.fingerprint(Class::Meta, chunk);
        let mut first = [0; 16];
        first.copy_from_slice(&fingerprint.0[..16]);
        if self.seen.insert(Key::new(&first, chunk.len() as u64)) {
            self.regions.push(chunk, 1, &mut self.jobs);
        }
        Ok(fingerprint)
    }
}

/// The size of trees and recipes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaPacked {
    pub(super) chunk_count: u64,
    pub(super) packed: RegionTotals,
}

impl Metadata {
    /// Creates the metadata of files that are cut by `cut`.
    ///
    /// # Errors
    ///
    /// Returns an error if zstd has no memory.
    pub(super) fn new(cut: String, region_size: usize) -> io::Result<Metadata> {
        // Any keys will do, because nothing is stored.
        let keyring =
            Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret([0; 32]))] };
        let keys = Keys::derive(&keyring, CipherSuite::None);
        let chunks = MetaChunks {
            keys: keys.clone(),
            seen: HashSet::default(),
            regions: Regions::new(region_size)?,
            jobs: Vec::new(),
        };
        Ok(Metadata {
            keys,
            recipe: RecipeWriter::new(cut.clone()),
            cut,
            folders: vec![(None, TreeWriter::new())],
            chunks,
            links: HashMap::new(),
            root: Content::Empty,
        })
    }

    pub(super) fn enter(&mut self, entry: &Arc<Entry>) {
        self.folders.push((Some(entry.clone()), TreeWriter::new()));
    }

    pub(super) fn leave(&mut self) {
        let Some((entry, tree)) = self.folders.pop() else { return };
        match entry {
            None => self.root = tree.finish(&mut self.chunks).unwrap_or(Content::Empty),
            Some(entry) => {
                let content = tree.finish_below(&mut self.chunks).unwrap_or(Content::Empty);
                self.item(&Entry { content, ..(*entry).clone() });
            }
        }
    }

    /// Adds an entry that is complete. An entry that does not fit, as after a walk that was cut
    /// off, is omitted.
    pub(super) fn item(&mut self, entry: &Entry) {
        if let Some((_, tree)) = self.folders.last_mut() {
            tree.push(entry, &self.keys, &mut self.chunks).ok();
        }
    }

    pub(super) fn link(&mut self, entry: &Entry) {
        if let Some((content, size)) = self.links.get(&(entry.device, entry.inode)) {
            let entry = Entry { content: content.clone(), size: *size, ..entry.clone() };
            self.item(&entry);
        }
    }

    pub(super) fn segment(&mut self, segment: Segment) {
        self.recipe.push(segment, &mut self.chunks).ok();
    }

    pub(super) fn file(&mut self, entry: &Entry) {
        let recipe = std::mem::replace(&mut self.recipe, RecipeWriter::new(self.cut.clone()));
        let content = recipe.finish(&mut self.chunks).unwrap_or(Content::Empty);
        if entry.is_hard_link() {
            let value = (content.clone(), entry.size);
            self.links.insert((entry.device, entry.inode), value);
        }
        self.item(&Entry { content, ..entry.clone() });
    }

    pub(super) fn dropped(&mut self) {
        self.recipe = RecipeWriter::new(self.cut.clone());
    }

    /// Moves the compression jobs to `jobs`.
    pub(super) fn take_jobs(&mut self, jobs: &mut Vec<Job>) {
        jobs.append(&mut self.chunks.jobs);
    }

    pub(super) fn finish(&mut self, jobs: &mut Vec<Job>) {
        while !self.folders.is_empty() {
            self.leave();
        }
        self.take_jobs(jobs);
        self.chunks.regions.finish(jobs);
    }

    /// Returns the size of trees and recipes, once all jobs are done.
    pub(super) fn packed(&self) -> MetaPacked {
        MetaPacked {
            chunk_count: self.chunks.seen.len() as u64,
            packed: self.chunks.regions.packed(),
        }
    }
}

/// Returns the size of the containers for these regions and chunks, in bytes, and the number of
/// containers. `region_bytes` is the size of the regions, and `extra_bytes` is the additional size
/// of the tables of contents.
pub(super) fn containers(
    region_bytes: u64,
    region_count: u64,
    chunk_count: u64,
    extra_bytes: u64,
    container_size: u64,
) -> (u64, u64) {
    if chunk_count == 0 {
        return (0, 0);
    }
    let tocs = chunk_count * CHUNK_RECORD_LEN as u64
        + region_count * REGION_RECORD_LEN as u64
        + extra_bytes;
    let parts = region_bytes + region_count * TAG_LEN;
    let count = (parts + tocs).div_ceil(container_size).max(1);
    let around = AROUND_LEN + TAG_LEN + TOC_FIXED_LEN + TOC_PADDING as u64 / 2;
    let bytes = parts + tocs + count * around;
    // All containers except the last are full.
    let padding = (count - 1) * FULL_PADDING_MEAN;
    let last = (bytes % container_size).next_multiple_of(CONTAINER_PADDING);
    (bytes - bytes % container_size + last + padding, count)
}

/// Returns the size of the index segments and of the small objects of one snapshot, in bytes.
pub(super) fn index(chunk_count: u64, container_count: u64, stored_bytes: u64) -> u64 {
    let segment_count = stored_bytes / SEGMENT_STORED_BYTES + 1;
    let hints = chunk_count * HINT_LEN as u64 + container_count * CONTAINER_RECORD_LEN as u64;
    let fixed = segment_count * (AROUND_LEN + TAG_LEN + SEGMENT_FIXED_LEN);
    (hints + fixed).next_multiple_of(OBJECT_PADDING) + SMALL_OBJECT_COUNT * 2 * OBJECT_PADDING
}
