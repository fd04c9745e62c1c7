//! A folder of a search, with its trees of all snapshots.
//!
//! Two trees of a folder have most entries in common. An entry that the tree read before has as
//! well is recognized by a hash of its encoding, and is not decoded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cutpoint_repository::format::encoded_entry::EncodedEntry;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Reader};
use cutpoint_storage::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::query::{Hit, hit};
use super::version::Version;
use crate::args::Find;

/// The maximum number of entries of the previous tree that are skipped to find a name.
const SKIPPED_MAX: usize = 64;

/// A search, as far as folders need it.
pub(super) struct Query<'a> {
    pub(super) reader: &'a Reader,
    pub(super) args: &'a Find,
    /// The seed of the hashes, a secret of the run, so that no one can prepare two entries with the
    /// same hash.
    pub(super) seed: u64,
}

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
    trees: Mutex<Trees>,
}

/// The trees of a folder.
#[derive(Default)]
pub(super) struct Trees {
    pub(super) items: Vec<Item>,
    /// The trees, by their numbers.
    pub(super) trees: Vec<Tree>,
    numbers: HashMap<Content, u32>,
    folders: HashMap<Vec<u8>, Arc<Folder>>,
    previous: Scanned,
}

/// An entry that matches, or a folder to search. The trees that have it refer to it by its position
/// in [`Trees::items`].
pub(super) struct Item {
    pub(super) name: Vec<u8>,
    /// The version, if the entry matches.
    pub(super) version: Option<Version>,
    /// The folder to search, with the number of its tree there.
    pub(super) folder: Option<(Arc<Folder>, u32)>,
}

/// A tree of a folder.
#[derive(Default)]
pub(super) struct Tree {
    /// The positions of its items, in the order of their names.
    pub(super) items: Vec<u32>,
    /// The damage after these items.
    pub(super) error: Option<Error>,
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
        Arc::new(Folder { path, trees: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Trees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that was read.
    pub(super) fn take(&self) -> Trees {
        std::mem::take(&mut *self.lock())
    }

    /// Adds a tree. Returns its number, and `true` if it was not there before: the caller then has
    /// to read it.
    pub(super) fn add(&self, tree: &Content) -> (u32, bool) {
        let mut trees = self.lock();
        if let Some(&number) = trees.numbers.get(tree) {
            return (number, false);
        }
        // There is a snapshot for each tree, so that their number has 32 bits.
        let number = u32::try_from(trees.trees.len()).unwrap_or(u32::MAX);
        trees.numbers.insert(tree.clone(), number);
        trees.trees.push(Tree::default());
        (number, true)
    }

    /// Reads the tree of this number, which was added. Returns the trees below it that no other
    /// folder had named before, in the order of their names.
    ///
    /// # Errors
    ///
    /// Returns any error of the storage. Damaged and missing data is recorded in the tree.
    pub(super) fn read(&self, tree: &Content, number: u32, query: &Query<'_>) -> Result<Vec<Job>> {
        let mut trees = self.lock();
        let previous = std::mem::take(&mut trees.previous);
        let entries = Vec::with_capacity(previous.entries.len());
        let mut scan = Scan {
            query,
            path: [&self.path, &b"/"[..]].concat(),
            position: 0,
            previous,
            current: Scanned { entries, chunks: HashMap::new() },
            jobs: Vec::new(),
        };
        let error = match scan.tree(&mut trees, tree) {
            Ok(()) => None,
            Err(error) if error.is_loss() => Some(error),
            Err(error) => return Err(error),
        };
        let items = scan.current.entries.iter().map(|known| known.item);
        let items = items.filter(|&item| item != NO_ITEM).collect();
        trees.trees[number as usize] = Tree { items, error };
        trees.previous = scan.current;
        Ok(scan.jobs)
    }
}

/// The state of the reading of one tree.
struct Scan<'a> {
    query: &'a Query<'a>,
    /// The path of the current entry. The beginning, up to its last `/`, is that of the folder.
    path: Vec<u8>,
    /// The position in `previous` before which nothing is expected.
    position: usize,
    previous: Scanned,
    current: Scanned,
    jobs: Vec<Job>,
}

impl Scan<'_> {
    fn tree(&mut self, trees: &mut Trees, tree: &Content) -> Result<()> {
        let mut chunks = Vec::new();
        for segment in self.query.reader.segments(tree) {
            let segment = segment?;
            let start = self.current.entries.len();
            if let Some(range) = self.previous.chunks.get(&segment) {
                self.current.entries.extend_from_slice(&self.previous.entries[range.clone()]);
                self.position = range.end;
            } else {
                let chunk = self.query.reader.tree_chunk(&segment)?;
                let mut rest: &[u8] = &chunk;
                while !rest.is_empty() {
                    let (known, behind) = self.first_entry(trees, rest)?;
                    self.current.entries.push(known);
                    rest = behind;
                }
            }
            chunks.push((segment, start..self.current.entries.len()));
        }
        if chunks.len() > 1 {
            self.current.chunks.extend(chunks);
        }
        Ok(())
    }

    /// Returns the first entry of `chunk`, and the bytes behind it.
    fn first_entry<'c>(&mut self, trees: &mut Trees, chunk: &'c [u8]) -> Result<(Known, &'c [u8])> {
        let hash_of = |bytes: &[u8]| xxh3_64_with_seed(bytes, self.query.seed);
        let ahead = &self.previous.entries[self.position..];
        // The end of an entry is the end of an equal one.
        if let Some(known) = ahead.first()
            && let Some((bytes, behind)) = chunk.split_at_checked(known.len as usize)
            && hash_of(bytes) == known.hash
        {
            self.position += 1;
            return Ok((*known, behind));
        }
        let (entry, behind) = EncodedEntry::split_first(chunk)?;
        let hash = hash_of(entry.bytes);
        // The upper half of a hash has 32 bits.
        let name_hash = u32::try_from(hash_of(entry.name) >> 32).unwrap_or_default();
        let is_named = |known: &Known| known.name_hash == name_hash;
        if let Some(skipped) = ahead.iter().take(SKIPPED_MAX).position(is_named) {
            let known = ahead[skipped];
            self.position += skipped + 1;
            if known.hash == hash {
                return Ok((known, behind));
            }
        }
        let item = self.item(trees, &entry)?;
        // The length of a chunk has 32 bits.
        let len = u32::try_from(entry.bytes.len()).unwrap_or(u32::MAX);
        Ok((Known { hash, name_hash, len, item }, behind))
    }

    /// Adds the item of an entry, if the search needs it, and returns the position of the item.
    fn item(&mut self, trees: &mut Trees, entry: &EncodedEntry<'_>) -> Result<u32> {
        let parent_len = self.path.len();
        self.path.extend_from_slice(entry.name);
        let hit = hit(self.query.args, entry, &self.path);
        let item = hit.and_then(|hit| match hit {
            Some(hit) => self.add_item(trees, entry.name, hit),
            None => Ok(NO_ITEM),
        });
        self.path.truncate(parent_len);
        item
    }

    /// Adds an item for the entry at the current path, and returns its position.
    fn add_item(&mut self, trees: &mut Trees, name: &[u8], hit: Hit) -> Result<u32> {
        let position = u32::try_from(trees.items.len()).ok().filter(|&at| at != NO_ITEM);
        let position = position.ok_or_else(|| {
            Error::invalid(String::from_utf8_lossy(&self.path), "too many versions to search")
        })?;
        let name = name.to_vec();
        let folder = hit.tree.map(|tree| {
            let new = || Folder::new(self.path.clone());
            let folder = trees.folders.entry(name.clone()).or_insert_with(new).clone();
            let (number, is_new) = folder.add(&tree);
            if is_new {
                self.jobs.push(Job { folder: folder.clone(), tree, number });
            }
            (folder, number)
        });
        trees.items.push(Item { name, version: hit.version, folder });
        Ok(position)
    }
}
