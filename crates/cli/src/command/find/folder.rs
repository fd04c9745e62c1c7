//! A folder of a search, and the reading of its trees.
//!
//! Two trees of a folder have most entries in common. An entry that the tree read before has as
//! well is recognized by a hash of its encoding, and is not decoded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_repository::Content;
use cutpoint_repository::format::encoded_entry::EncodedEntry;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_storage::{Error, Result};

use super::query::{Hit, Query};
use super::trees::Trees;

/// The maximum number of entries of the previous tree that are skipped to find a name.
const SKIPPED_MAX: usize = 64;

/// A tree that has to be read.
pub(super) struct Job {
    pub(super) folder: Arc<Folder>,
    pub(super) tree: Content,
    /// The number of the tree in its folder.
    pub(super) number: u32,
}

/// A folder: a path, and all trees that snapshots have there.
pub(super) struct Folder {
    /// The path, without a `/` at its end.
    pub(super) path: Vec<u8>,
    state: Mutex<State>,
}

/// What was read of a folder.
#[derive(Default)]
struct State {
    trees: Trees<Arc<Folder>>,
    folders: HashMap<Vec<u8>, Arc<Folder>>,
    previous: Scanned,
}

/// All entries of the tree that was read last.
#[derive(Default)]
struct Scanned {
    entries: Vec<Known>,
    /// The places in `entries` of the chunks of the tree, if there are several. A tree of one chunk
    /// is known as a whole.
    chunks: HashMap<Segment, Range<usize>>,
}

/// An entry that was decoded before.
#[derive(Clone, Copy)]
struct Known {
    /// The hash of the encoded entry.
    hash: u64,
    name_hash: u32,
    /// The length of the encoded entry in bytes.
    len: u32,
    /// The position of its item; [`NO_ITEM`] if the search does not need the entry.
    item: u32,
}

const NO_ITEM: u32 = u32::MAX;

impl Folder {
    /// Creates the folder at `path`, without trees.
    pub(super) fn new(path: Vec<u8>) -> Arc<Folder> {
        Arc::new(Folder { path, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that was read.
    pub(super) fn take(&self) -> Trees<Arc<Folder>> {
        std::mem::take(&mut *self.lock()).trees
    }

    /// Adds a tree. Returns its number, and `true` if it was not there before: the caller then has
    /// to read it.
    pub(super) fn add(&self, tree: &Content) -> (u32, bool) {
        self.lock().trees.add(tree)
    }

    /// Reads the tree of this number, which was added. Returns the trees below it that no other
    /// folder had named before, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. Damaged and missing data is recorded in the tree.
    pub(super) fn read(&self, tree: &Content, number: u32, query: &Query<'_>) -> Result<Vec<Job>> {
        let mut state = self.lock();
        let State { trees, folders, previous } = &mut *state;
        let previous = std::mem::take(previous);
        let entries = Vec::with_capacity(previous.entries.len());
        trees.begin(number);
        let mut scan = Scan {
            query,
            trees,
            folders,
            path: [&self.path, &b"/"[..]].concat(),
            position: 0,
            previous,
            current: Scanned { entries, chunks: HashMap::new() },
            jobs: Vec::new(),
        };
        let result = scan.tree(tree);
        let Scan { current, jobs, .. } = scan;
        match result {
            Ok(()) => {}
            Err(error) if error.is_loss() => trees.note_damage(number, error),
            Err(error) => return Err(error),
        }
        let items = current.entries.iter().map(|known| known.item);
        items.filter(|&item| item != NO_ITEM).for_each(|item| trees.note(item));
        state.previous = current;
        Ok(jobs)
    }
}

/// The state of the reading of one tree.
struct Scan<'a> {
    query: &'a Query<'a>,
    trees: &'a mut Trees<Arc<Folder>>,
    folders: &'a mut HashMap<Vec<u8>, Arc<Folder>>,
    /// The path of the current entry. The beginning, up to its last `/`, is that of the folder.
    path: Vec<u8>,
    /// The position in `previous` before which nothing is expected.
    position: usize,
    previous: Scanned,
    current: Scanned,
    jobs: Vec<Job>,
}

impl Scan<'_> {
    fn tree(&mut self, tree: &Content) -> Result<()> {
        if let Content::Raw(tree) = tree {
            return self.entries(tree);
        }
        let mut chunks = Vec::new();
        for segment in self.query.reader.segments(tree) {
            let segment = segment?;
            let start = self.current.entries.len();
            if let Some(range) = self.previous.chunks.get(&segment) {
                self.current.entries.extend_from_slice(&self.previous.entries[range.clone()]);
                self.position = range.end;
            } else {
                let chunk = self.query.reader.tree_chunk(&segment)?;
                self.entries(&chunk)?;
            }
            chunks.push((segment, start..self.current.entries.len()));
        }
        if chunks.len() > 1 {
            self.current.chunks.extend(chunks);
        }
        Ok(())
    }

    /// Adds the entries in the bytes of a chunk, or of a tree that lies in its folder's entry.
    fn entries(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (known, behind) = self.first_entry(rest)?;
            self.current.entries.push(known);
            rest = behind;
        }
        Ok(())
    }

    /// Returns the first entry of `chunk`, and the bytes behind it.
    fn first_entry<'c>(&mut self, chunk: &'c [u8]) -> Result<(Known, &'c [u8])> {
        let query = self.query;
        let ahead = &self.previous.entries[self.position..];
        // The end of an entry is the end of an equal one.
        if let Some(known) = ahead.first()
            && let Some((bytes, behind)) = chunk.split_at_checked(known.len as usize)
            && query.hash(bytes) == known.hash
        {
            self.position += 1;
            return Ok((*known, behind));
        }
        let (entry, behind) = EncodedEntry::split_first(chunk)?;
        let hash = query.hash(entry.bytes);
        // The upper half of a hash has 32 bits.
        let name_hash = u32::try_from(query.hash(entry.name) >> 32).unwrap_or_default();
        let is_named = |known: &Known| known.name_hash == name_hash;
        let mut like = None;
        if let Some(skipped) = ahead.iter().take(SKIPPED_MAX).position(is_named) {
            let known = ahead[skipped];
            self.position += skipped + 1;
            if known.hash == hash {
                return Ok((known, behind));
            }
            like = Some(known.item);
        }
        let item = self.item(&entry, hash, like)?;
        // The length of a chunk has 32 bits.
        let len = u32::try_from(entry.bytes.len()).unwrap_or(u32::MAX);
        Ok((Known { hash, name_hash, len, item }, behind))
    }

    /// Returns the position of the item of an entry, which is added if it is new and the search
    /// needs it. `hash` is that of the encoded entry, and `like` an item that may have the same name.
    fn item(&mut self, entry: &EncodedEntry<'_>, hash: u64, like: Option<u32>) -> Result<u32> {
        let parent_len = self.path.len();
        self.path.extend_from_slice(entry.name);
        let item = match self.query.hit(entry, &self.path) {
            Ok(Some(hit)) => self.add_item(entry.name, hash, like, hit),
            Ok(None) => Ok(NO_ITEM),
            Err(error) => Err(error),
        };
        self.path.truncate(parent_len);
        item
    }

    /// Returns the position of the item for the entry at the current path, which is added if it is
    /// new.
    fn add_item(&mut self, name: &[u8], hash: u64, like: Option<u32>, hit: Hit) -> Result<u32> {
        let key = match &hit {
            Hit { version: Some(version), tree: None } => self.query.key(name, version),
            _ => hash,
        };
        if let Some(item) = self.trees.find(key, hit.version.as_ref()) {
            return Ok(item);
        }
        let folder = hit.tree.map(|tree| {
            let new = || Folder::new(self.path.clone());
            let folder = self.folders.entry(name.to_vec()).or_insert_with(new).clone();
            let (number, is_new) = folder.add(&tree);
            if is_new {
                self.jobs.push(Job { folder: folder.clone(), tree, number });
            }
            (folder, number)
        });
        self.trees.add_item(key, name, like, hit.version, folder).ok_or_else(|| {
            Error::invalid(String::from_utf8_lossy(&self.path), "too many versions to search")
        })
    }
}
