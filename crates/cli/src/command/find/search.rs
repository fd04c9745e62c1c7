//! The search of many snapshots at once.
//!
//! First each thread reads the trees of a snapshot in its order, except those that another snapshot
//! has at the same path. Then all snapshots are walked side by side. Snapshots whose tree of a
//! folder is the same are one from there on. Memory is needed for the versions that match and for
//! the folders, 200 to 400 bytes each and their names once, and for 24 bytes of each entry of a
//! snapshot.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use cutpoint_repository::{Content, Reader};
use cutpoint_storage::Error as StoreError;

use super::folder::{Folder, Job};
use super::query::Query;
use super::trees::Listing;
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

/// A search.
pub(super) struct Search<'a> {
    query: Query<'a>,
    report: &'a Report,
}

impl<'s> Search<'s> {
    /// Creates a search of snapshots that `reader` reads.
    pub(super) fn new(reader: &'s Reader, args: &'s Find, report: &'s Report) -> Search<'s> {
        Search { query: Query::new(reader, args), report }
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
        let mut levels = vec![(self.list(&root, &trees), 0)];
        while let Some((listing, len)) = levels.last_mut() {
            path.truncate(*len);
            let Some(node) = listing.next() else {
                levels.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(&node.name);
            for (version, presence) in &node.versions {
                show(&Match { path: &path, version, presence: *presence })?;
            }
            if let Some(folder) = node.folder {
                levels.push((self.list(&folder, &node.trees), path.len()));
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

    /// Returns the listing of `folder`, of its trees of these numbers, and reports their damage.
    fn list(&self, folder: &Folder, trees: &[(u32, Presence)]) -> Listing<Arc<Folder>> {
        let (listing, damage) = Listing::new(folder.take(), trees);
        for (presence, error) in damage {
            self.damaged(&folder.path, presence, &error);
        }
        listing
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
