//! What metadata costs, as the store keeps it: trees and recipes are made, by the store's own writers,
//! and go nowhere.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::io;
use std::sync::Arc;

use cutpoint_store::error::Result;
use cutpoint_store::fingerprint::{Class, Fingerprint};
use cutpoint_store::format::directory::{CHUNK_RECORD_LEN, DIRECTORY_PADDING, REGION_RECORD_LEN};
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::segment::{CONTAINER_RECORD_LEN, HINT_LEN};
use cutpoint_store::format::tree::Entry;
use cutpoint_store::seal::{Keyring, Keys, RepositoryId, Secret, Suite};
use cutpoint_store::writer::{ChunkSink, RecipeWriter, TreeWriter};

use super::regions::{Packed, Regions};
use crate::counter::{Key, KeyHasher};
use crate::scan::Job;

/// What stands around the parts of an object: a header of 64 bytes, a trailer of 32. This and the rest
/// is `docs/format.md`, sections 2, 3, 7 and 8.
const AROUND_LEN: u64 = 64 + 32;
/// The tag behind each sealed part.
const TAG_LEN: u64 = 16;
/// A directory begins with three numbers, and ends with an empty map.
const DIRECTORY_FIXED_LEN: u64 = 3 * 4 + 1;
/// An index segment begins with two numbers, and ends with an empty map.
const SEGMENT_FIXED_LEN: u64 = 2 * 4 + 1;
/// Containers are padded to a multiple of this, and closed where less than so much would be padding;
/// that is half of it on average.
const CONTAINER_PADDING: u64 = 64 * 1024;
const FULL_PADDING_MEAN: u64 = 8192 / 2;
/// Other objects are padded to a multiple of this.
const OBJECT_PADDING: u64 = 256;
/// A segment is put for so many stored bytes.
const SEGMENT_STORED_BYTES: u64 = 256 << 20;
/// Beside containers and index there are: settings and a key with a copy of each, a ticket, a commit.
const SMALL_OBJECT_COUNT: u64 = 6;

/// What a chunk costs beside its payload and what names it: a record in the directory, a hint.
pub(crate) const CHUNK_COST: u64 = (CHUNK_RECORD_LEN + HINT_LEN) as u64;
/// What a chunk that is stored as a burst costs beside its new bytes: the same, a reference of 32 bytes
/// and a payload of some 12 (three extents).
pub(super) const BURST_COST: u64 = CHUNK_COST + 32 + 12;
/// What a whole costs where others may resemble it: hashes of head and tail.
pub(super) const ENDS_COST: u64 = 8;

/// Makes trees and recipes of what comes.
pub(super) struct Metadata {
    keys: Keys,
    cut: String,
    /// From the root on.
    folders: Vec<(Option<Arc<Entry>>, TreeWriter)>,
    recipe: RecipeWriter,
    chunks: MetaChunks,
    /// Contents of files that have several names.
    links: HashMap<(u64, u64), (Content, u64)>,
    /// What the folder that ended last holds; at the end the root.
    root: Content,
}

/// Where chunks of trees and recipes go.
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

/// What trees and recipes came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaPacked {
    pub(super) chunk_count: u64,
    pub(super) packed: Packed,
}

impl Metadata {
    /// For files that are cut by `cut`.
    ///
    /// # Errors
    ///
    /// Where zstd has no memory.
    pub(super) fn new(cut: String, region_size: usize) -> io::Result<Metadata> {
        // Nothing is kept: any keys will do.
        let keyring =
            Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret([0; 32]))] };
        let keys = Keys::derive(&keyring, Suite::None);
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
        self.root = tree.finish(&mut self.chunks).unwrap_or(Content::Empty);
        if let Some(entry) = entry {
            let content = std::mem::replace(&mut self.root, Content::Empty);
            self.item(&Entry { content, ..(*entry).clone() });
        }
    }

    /// Adds an entry that is complete. One that does not fit, as in a walk that was cut off, is left
    /// out.
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

    /// What there is to compress.
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

    /// What came of it, once all jobs are done.
    pub(super) fn packed(&self) -> MetaPacked {
        MetaPacked {
            chunk_count: self.chunks.seen.len() as u64,
            packed: self.chunks.regions.packed(),
        }
    }
}

/// What containers of so many regions and chunks take, in bytes, and how many containers these are.
/// `region_bytes` is what is in the regions, `extra_bytes` what directories have besides.
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
    let directories = chunk_count * CHUNK_RECORD_LEN as u64
        + region_count * REGION_RECORD_LEN as u64
        + extra_bytes;
    let parts = region_bytes + region_count * TAG_LEN;
    let count = (parts + directories).div_ceil(container_size).max(1);
    let around = AROUND_LEN + TAG_LEN + DIRECTORY_FIXED_LEN + DIRECTORY_PADDING as u64 / 2;
    let bytes = parts + directories + count * around;
    // All but the last are full.
    let padding = (count - 1) * FULL_PADDING_MEAN;
    let last = (bytes % container_size).next_multiple_of(CONTAINER_PADDING);
    (bytes - bytes % container_size + last + padding, count)
}

/// What index segments and the small objects of one snapshot take, in bytes.
pub(super) fn index(chunk_count: u64, container_count: u64, stored_bytes: u64) -> u64 {
    let segment_count = stored_bytes / SEGMENT_STORED_BYTES + 1;
    let hints = chunk_count * HINT_LEN as u64 + container_count * CONTAINER_RECORD_LEN as u64;
    let fixed = segment_count * (AROUND_LEN + TAG_LEN + SEGMENT_FIXED_LEN);
    (hints + fixed).next_multiple_of(OBJECT_PADDING) + SMALL_OBJECT_COUNT * 2 * OBJECT_PADDING
}
