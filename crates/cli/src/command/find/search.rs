//! The search of many snapshots at once.
//!
//! First each thread reads the trees of a snapshot in its order, except those that another snapshot
//! has at the same path. Then all snapshots are walked side by side. Snapshots whose tree of a
//! folder is the same are one from there on. Memory is needed for the matches and folders of all
//! trees, and for 24 bytes of each entry of a snapshot.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use cutpoint_repository::{Content, Reader};
use cutpoint_storage::Error as StoreError;

use super::folder::{Folder, Job, Query};
use super::version::{Presence, Version};
use crate::args::Find;
use crate::report::Report;
use crate::units;

/// A version of an entry that was found.
#[derive(Debug)]
pub(super) struct Match<'a> {
    pub(super) path: &'a [u8],
    pub(super) version: &'a Version,
    pub(super) presence: Presence,
}

/// The versions and trees of one name in a folder.
struct Node {
    name: Vec<u8>,
    /// The versions that match, in the order of their first snapshots.
    versions: Vec<(Version, Presence)>,
    /// The folder to search, if there is one, and the numbers of its trees. A tree can be there
    /// several times, with different snapshots.
    folder: Option<Arc<Folder>>,
    trees: Vec<(u32, Presence)>,
}

impl Node {
    /// Adds a version that some snapshots have, none of which is counted yet.
    fn add_version(&mut self, version: Version, presence: Presence) {
        // Most entries are as they were in the previous snapshot.
        match self.versions.iter_mut().rev().find(|(known, _)| known.is_same(&version)) {
            Some((known, known_presence)) => {
                *known = version;
                known_presence.add(presence);
            }
            None => self.versions.push((version, presence)),
        }
    }
}

/// A search.
pub(super) struct Search<'a> {
    query: Query<'a>,
    report: &'a Report,
}

impl<'s> Search<'s> {
    /// Creates a search of snapshots that `reader` reads.
    pub(super) fn new(reader: &'s Reader, args: &'s Find, report: &'s Report) -> Search<'s> {
        let seed = RandomState::new().hash_one(());
        Search { query: Query { reader, args, seed }, report }
    }

    /// Searches the snapshots with these roots, oldest first, and passes each match to `show`, in
    /// the order of the paths; versions of one path follow each other by their first snapshots.
    ///
    /// # Errors
    ///
    /// Returns any error of `show` and any error of reading, except damage, which is reported as a
    /// problem.
    pub(super) fn run(
        &self,
        roots: &[&Content],
        mut show: impl FnMut(&Match<'_>) -> Result<()>,
    ) -> Result<()> {
        let root = Folder::new(Vec::new());
        self.read(&root, roots)?;
        let presence = |at| Presence { count: 1, first: at, last: at };
        let trees = roots.iter().enumerate().map(|(at, tree)| (root.add(tree).0, presence(at)));
        let trees: Vec<_> = trees.collect();
        let mut path = Vec::new();
        // An explicit stack: folders can be nested as deeply as paths.
        let mut levels = vec![(self.nodes(&root, &trees).into_iter(), 0)];
        while let Some((nodes, len)) = levels.last_mut() {
            path.truncate(*len);
            let Some(node) = nodes.next() else {
                levels.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(&node.name);
            for (version, presence) in &node.versions {
                show(&Match { path: &path, version, presence: *presence })?;
            }
            if let Some(folder) = node.folder {
                levels.push((self.nodes(&folder, &node.trees).into_iter(), path.len()));
            }
        }
        Ok(())
    }

    /// Reads all trees of the snapshots with these roots. Each thread reads one snapshot at a time.
    fn read(&self, root: &Arc<Folder>, roots: &[&Content]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let read = || {
            while let Some(tree) = roots.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.read_snapshot(root, tree) {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    // The other threads find no more snapshots.
                    next.store(roots.len(), Ordering::Relaxed);
                }
            }
        };
        let thread_count = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..thread_count.min(roots.len()) {
                scope.spawn(read);
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Reads the trees of a snapshot that no other one has at the same path. The order of a snapshot
    /// is that in which its trees are stored, so that each region is decoded about once.
    fn read_snapshot(&self, root: &Arc<Folder>, tree: &Content) -> Result<(), StoreError> {
        let mut pending = Vec::new();
        if let (number, true) = root.add(tree) {
            pending.push(Job { folder: root.clone(), tree: tree.clone(), number });
        }
        while let Some(Job { folder, tree, number }) = pending.pop() {
            let found = folder.read(&tree, number, &self.query)?;
            pending.extend(found.into_iter().rev());
        }
        Ok(())
    }

    /// Returns the names in `folder`, in ascending order, of its trees of these numbers.
    fn nodes(&self, folder: &Folder, trees: &[(u32, Presence)]) -> Vec<Node> {
        let read = folder.take();
        let mut of_trees = vec![None; read.trees.len()];
        trees.iter().for_each(|&(number, presence)| add(&mut of_trees, number, presence));
        let of_trees = read.trees.into_iter().zip(of_trees);
        let mut trees: Vec<_> =
            of_trees.filter_map(|(tree, presence)| Some((tree, presence?))).collect();
        trees.sort_by_key(|(_, presence)| presence.first);
        let mut presences = vec![None; read.items.len()];
        for (tree, presence) in trees {
            tree.items.iter().for_each(|&item| add(&mut presences, item, presence));
            if let Some(error) = tree.error {
                self.damaged(&folder.path, presence, &error);
            }
        }
        let items = read.items.into_iter().zip(presences);
        let mut items: Vec<_> =
            items.filter_map(|(item, presence)| Some((item, presence?))).collect();
        items.sort_by(|(one, presence), (other, other_presence)| {
            one.name.cmp(&other.name).then(presence.first.cmp(&other_presence.first))
        });
        let mut nodes: Vec<Node> = Vec::new();
        for (item, presence) in items {
            let mut node = match nodes.pop() {
                Some(node) if node.name == item.name => node,
                other => {
                    nodes.extend(other);
                    let (versions, trees) = (Vec::new(), Vec::new());
                    Node { name: item.name, versions, folder: None, trees }
                }
            };
            if let Some(version) = item.version {
                node.add_version(version, presence);
            }
            if let Some((folder, number)) = item.folder {
                node.folder = Some(folder);
                node.trees.push((number, presence));
            }
            nodes.push(node);
        }
        nodes
    }

    /// Reports a folder that is damaged. The search continues without the rest of it.
    fn damaged(&self, path: &[u8], presence: Presence, error: &StoreError) {
        let path = if path.is_empty() { b"/" } else { path };
        self.report.problem(
            Path::new(OsStr::from_bytes(path)),
            &format!("{error}; not searched in {}", units::count(presence.count, "snapshot")),
        );
    }
}

/// Adds snapshots to those that have the tree or the item of this number.
fn add(presences: &mut [Option<Presence>], number: u32, presence: Presence) {
    match &mut presences[number as usize] {
        Some(known) => known.add(presence),
        none => *none = Some(presence),
    }
}
