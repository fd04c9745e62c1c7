//! The walk through the trees of all snapshots.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Entry, EntryKind, Reader, Snapshot, TicketId, View};
use cutpoint_storage::{Kind, Result};

use super::NODES_MAX;
use super::costs::Costs;
use super::tree::{Node, Sizes};

/// The maximum depth of a folder that is told apart, below its host.
const DEPTH_MAX: usize = 24;
/// The share of the repository from which on a file has a node of its own: one in this many.
const FILE_SHARE: u64 = 2000;
/// The minimum space of a file that has a node of its own.
const FILE_SIZE_MIN: u64 = 4096;

/// Returns the snapshots in the order in which chunks count: first the newest ones of each host and set
/// of sources, which are marked, then the others from new to old.
pub(super) fn in_order(view: &View) -> Vec<(TicketId, bool)> {
    let mut snapshots = view.snapshots();
    snapshots.sort_by_key(|(id, snapshot)| (std::cmp::Reverse(snapshot.started_ns), *id));
    let mut known = HashSet::new();
    let mut order: Vec<(TicketId, bool)> = snapshots
        .iter()
        .map(|(id, snapshot)| (*id, known.insert((&snapshot.host, &snapshot.sources))))
        .collect();
    order.sort_by_key(|(_, is_current)| !is_current);
    order
}

/// The paths that were met, and what they take.
pub(super) struct Survey<'a> {
    reader: &'a Reader,
    costs: Costs,
    root: Node,
    node_count: usize,
    file_min: u64,
    /// Hashes of paths with the contents that were met there.
    met: HashSet<u64>,
    unreadable_count: u64,
}

/// A folder to walk through.
struct Folder {
    content: Content,
    /// The names of the nodes on the way. What is deeper counts in the last of them.
    path: Vec<Box<[u8]>>,
    /// A hash of the complete path.
    hash: u64,
}

impl<'a> Survey<'a> {
    pub(super) fn new(reader: &'a Reader, costs: Costs, stored_bytes: u64) -> Survey<'a> {
        Survey {
            reader,
            costs,
            root: Node { is_folder: true, ..Node::default() },
            node_count: 0,
            file_min: (stored_bytes / FILE_SHARE).max(FILE_SIZE_MIN),
            met: HashSet::new(),
            unreadable_count: 0,
        }
    }

    /// Walks through a snapshot, except what was met at the same path before.
    ///
    /// # Errors
    ///
    /// Returns any error of `stop`, and any error of the storage.
    pub(super) fn snapshot(
        &mut self,
        snapshot: &Snapshot,
        is_current: bool,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let host = snapshot.host.as_bytes();
        let path = vec![Box::from(host)];
        let hash = hash(&(0_u64, host));
        let mut folders = vec![Folder { content: snapshot.root.clone(), path, hash }];
        let reader = self.reader;
        while let Some(folder) = folders.pop() {
            if !self.met.insert(self::hash(&(folder.hash, &folder.content))) {
                continue;
            }
            stop()?;
            let mut own = Sizes::default();
            for entry in reader.tree(&folder.content) {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) if error.kind() == Kind::Storage => return Err(error),
                    Err(_) => {
                        self.unreadable_count += 1;
                        break;
                    }
                };
                let hash = hash_below(folder.hash, &entry.name);
                match entry.kind {
                    EntryKind::Folder => {
                        let mut path = folder.path.clone();
                        if path.len() <= DEPTH_MAX {
                            path.push(entry.name.into_boxed_slice());
                        }
                        folders.push(Folder { content: entry.content, path, hash });
                    }
                    EntryKind::File => {
                        let sizes = self.file(&entry, hash, is_current)?;
                        if sizes.stored().max(sizes.unique) < self.file_min {
                            own += sizes;
                        } else {
                            let mut path = folder.path.clone();
                            path.push(entry.name.into_boxed_slice());
                            self.add(&path, sizes, false);
                        }
                    }
                    _ => {}
                }
            }
            self.add(&folder.path, own, true);
        }
        Ok(())
    }

    /// Returns what a file takes that was not counted elsewhere.
    fn file(&mut self, entry: &Entry, hash: u64, is_current: bool) -> Result<Sizes> {
        let mut sizes = Sizes::default();
        if is_current {
            sizes.files = 1;
            sizes.logical = entry.size;
        }
        // The recipe of a large file that was met is not read again.
        if matches!(entry.content, Content::Recipe(_))
            && !self.met.insert(self::hash(&(hash, &entry.content)))
        {
            return Ok(sizes);
        }
        let rate = self.costs.rate();
        for segment in self.reader.segments(&entry.content) {
            let segment = match segment {
                Ok(segment) => segment,
                Err(error) if error.kind() == Kind::Storage => return Err(error),
                Err(_) => {
                    self.unreadable_count += 1;
                    break;
                }
            };
            let Segment::Chunk { fingerprint, length, .. } = segment else { continue };
            let Some(cost) = self.costs.take(&fingerprint, length) else { continue };
            let stored = u64::from(cost.stored) * rate;
            if is_current {
                sizes.unique += u64::from(cost.len) * rate;
                sizes.current += stored;
            } else {
                sizes.older += stored;
            }
        }
        Ok(sizes)
    }

    /// Adds sizes to the node at a path, or to the deepest one above it if there is no place for more.
    fn add(&mut self, path: &[Box<[u8]>], sizes: Sizes, is_folder: bool) {
        if sizes == Sizes::default() {
            return;
        }
        let mut node = &mut self.root;
        for (depth, name) in path.iter().enumerate() {
            if !node.children.contains_key(name) {
                if self.node_count >= NODES_MAX {
                    break;
                }
                self.node_count += 1;
                let is_folder = is_folder || depth + 1 < path.len();
                node.children.insert(name.clone(), Node { is_folder, ..Node::default() });
            }
            match node.children.get_mut(name) {
                Some(child) => node = child,
                None => return,
            }
        }
        node.sizes += sizes;
    }

    /// Returns the paths with their sums, and the number of folders and recipes that could not be read.
    pub(super) fn finish(mut self) -> (Node, u64) {
        self.root.sum_up();
        (self.root, self.unreadable_count)
    }
}

fn hash_below(parent: u64, name: &[u8]) -> u64 {
    hash(&(parent, name))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
