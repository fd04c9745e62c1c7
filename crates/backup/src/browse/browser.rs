//! The browser: the questions of a file system, and their answers from the repository.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::ChunkBytes;
use cutpoint_repository::{Content, Entry, EntryKind, Fingerprint, Reader, Time, thread_count};
use cutpoint_storage::Error;
use rustix::io::Errno;

use super::attributes::Attributes;
use super::chunks::Chunks;
use super::contents::{AHEAD_THREADS_MAX, fill, read_ahead, wrong_size};
use super::follower::{FilesToHandOver, Follower};
use super::lock;
use super::position::{ListedEntry, parts, position};
use super::read_ahead::ReadAhead;
use super::recipes::Recipes;
use super::snapshots::SnapshotSource;
use super::table::{NodeIdentity, NodeKind, NodeTable};
use super::top::{SnapshotRoot, TopEntry, TopFolder};
use crate::source::OwnerIds;
use crate::trees::{EntryPlace, Trees};

/// The maximum length of a name that can be shown, in bytes. Linux refuses to list longer ones.
const NAME_LEN_MAX: usize = 1024;
/// The maximum number of problems that are remembered, so that each is reported once.
const PROBLEMS_MAX: usize = 10_000;

/// Options of a [`Browser`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowseOptions {
    /// The owner of the folders at the top.
    pub user_id: u32,
    /// The group of the folders at the top.
    pub group_id: u32,
    /// The minimum time between two listings of the repository.
    pub refresh_interval: Duration,
    /// The number of threads that read ahead; 0 stands for as many as the machine has. For a remote
    /// storage, there are more.
    pub threads: usize,
}

impl Default for BrowseOptions {
    /// The folders at the top belong to the caller, and the repository is listed every 3 seconds at
    /// most.
    fn default() -> BrowseOptions {
        BrowseOptions {
            user_id: rustix::process::geteuid().as_raw(),
            group_id: rustix::process::getegid().as_raw(),
            refresh_interval: Duration::from_secs(3),
            threads: 0,
        }
    }
}

/// The snapshots of a repository as a tree of nodes. Can be shared by threads.
///
/// Errors are those of a file system: `ENOENT` if there is no such name, `ESTALE` if the caller does
/// not refer to the node any more, `ENOTDIR` and `EINVAL` for a question that the kind of the node
/// does not answer, and `EIO` for what cannot be read.
pub struct Browser {
    source: Box<dyn SnapshotSource>,
    options: BrowseOptions,
    table: Arc<Mutex<NodeTable>>,
    top: Mutex<Arc<TopFolder>>,
    /// The time of the last listing of the repository.
    listed: Mutex<Option<Instant>>,
    trees: Arc<Trees>,
    recipes: Arc<Recipes>,
    chunks: Arc<Chunks>,
    ahead: ReadAhead,
    follower: Follower,
    owners: Mutex<OwnerIds>,
    /// The paths whose problems were reported.
    reported: Mutex<HashSet<Vec<u8>>>,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").finish_non_exhaustive()
    }
}

/// A node with what it stands for.
enum Found {
    Folder(Arc<TopFolder>),
    Link(Vec<u8>, Time),
    Snapshot(Arc<SnapshotRoot>),
    Entry(EntryPlace),
}

/// The name and the value of an extended attribute.
pub type Xattr = (Vec<u8>, Vec<u8>);

impl Browser {
    /// Creates a browser that reads by `reader`, and lists the snapshots of `source`.
    pub fn new(
        reader: Arc<Reader>,
        source: Box<dyn SnapshotSource>,
        options: BrowseOptions,
    ) -> Browser {
        let requests = reader.repository().storage().requests_ahead_max().min(AHEAD_THREADS_MAX);
        let threads = thread_count(options.threads).max(requests);
        let chunks = Arc::new(Chunks::new(Arc::clone(&reader)));
        let table = Arc::new(Mutex::new(NodeTable::new()));
        let trees = Arc::new(Trees::new(Arc::clone(&reader)));
        let recipes = Arc::new(Recipes::new(reader));
        let ahead = ReadAhead::new(&chunks, threads);
        let browser = Browser {
            source,
            options,
            follower: Follower::new(table.clone(), trees.clone(), recipes.clone(), ahead.jobs()),
            table,
            top: Mutex::default(),
            listed: Mutex::default(),
            trees,
            recipes,
            ahead,
            chunks,
            owners: Mutex::default(),
            reported: Mutex::default(),
        };
        browser.refresh();
        browser
    }

    /// Returns the number of nodes that are referred to.
    pub fn node_count(&self) -> usize {
        lock(&self.table).len()
    }

    /// Returns up to `count` nodes, as the numbers of their parents and their names, that a caller
    /// with a limited memory should forget.
    pub fn some_nodes(&self, count: usize) -> Vec<(u64, Arc<[u8]>)> {
        lock(&self.table).some_leaves(count)
    }

    /// Finds the node `name` in the folder `parent`, and adds a reference to it.
    ///
    /// # Errors
    ///
    /// Returns `ENOENT`, `ESTALE`, `ENOTDIR` or `EIO`.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attributes, Errno> {
        let found = match self.found(parent, true)? {
            Found::Folder(folder) => match folder.entries.get(name).ok_or(Errno::NOENT)? {
                TopEntry::Folder(folder) => Found::Folder(Arc::clone(folder)),
                TopEntry::Link(target, time) => Found::Link(target.clone(), *time),
                TopEntry::Snapshot(root) => Found::Snapshot(Arc::clone(root)),
            },
            folder => {
                let content = folder.tree().ok_or(Errno::NOTDIR)?;
                let entry = self.trees.find(content, name);
                let entry = entry.map_err(|error| self.fail(parent, Some(name), &error))?;
                Found::Entry(entry.ok_or(Errno::NOENT)?)
            }
        };
        self.add(parent, name, &found)
    }

    /// Removes `count` references to a node, each of which a lookup or a listing has added.
    pub fn forget(&self, node: u64, count: u64) {
        lock(&self.table).forget(node, count);
    }

    /// Returns the properties of a node.
    ///
    /// # Errors
    ///
    /// Returns `ESTALE` or `EIO`.
    pub fn attributes(&self, node: u64) -> Result<Attributes, Errno> {
        let found = self.found(node, false)?;
        self.properties(node, &found)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// Returns `EINVAL` if the node is none, `ESTALE` or `EIO`.
    pub fn read_link(&self, node: u64) -> Result<Vec<u8>, Errno> {
        match self.found(node, false)? {
            Found::Link(target, _) => Ok(target),
            Found::Entry(entry) if entry.kind == EntryKind::Symlink => match &entry.content {
                Content::Raw(target) if !target.contains(&0) => Ok(target.clone()),
                _ => {
                    let error = Error::corrupt("", "a symbolic link without a target");
                    Err(self.fail(node, None, &error))
                }
            },
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns the extended attributes of a node: names and values, sorted by name.
    ///
    /// # Errors
    ///
    /// Returns `ESTALE` or `EIO`.
    pub fn xattrs(&self, node: u64) -> Result<Vec<Xattr>, Errno> {
        match self.found(node, false)? {
            Found::Entry(entry) => Ok(entry.xattrs.clone()),
            _ => Ok(Vec::new()),
        }
    }

    /// Lists the folder `node` from `from` on: 0 at first, then [`ListedEntry::next`]. Positions 1
    /// and 2 stand for the first entry, too. `visit` gets each entry, and returns `false` if it does
    /// not take the entry and those behind it. Each entry that it takes adds a reference.
    ///
    /// # Errors
    ///
    /// Returns `ESTALE`, `ENOTDIR`, or `EIO` if the next entry cannot be read.
    pub fn list(
        &self,
        node: u64,
        from: u64,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let folder = self.found(node, from == 0)?;
        if let Found::Folder(folder) = &folder {
            return self.list_top(node, folder, from, visit);
        }
        let content = folder.tree().ok_or(Errno::NOTDIR)?;
        let (mut at, mut is_first) = (parts(from), true);
        loop {
            let (place, entry) = match self.trees.entry_at(content, at) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                // The entries before the problem are delivered first.
                Err(_) if !is_first => return Ok(()),
                Err(error) => return Err(self.fail(node, None, &error)),
            };
            at = (place.0, place.1 + 1);
            if entry.name.len() > NAME_LEN_MAX {
                let error = Error::invalid("", "the name is too long for this system");
                self.fail(node, Some(&entry.name), &error);
                continue;
            }
            let next = position(at.0, at.1);
            let name = entry.name.clone();
            if !self.visit(node, &name, next, &Found::Entry(entry), visit)? {
                return Ok(());
            }
            is_first = false;
        }
    }

    fn list_top(
        &self,
        node: u64,
        folder: &TopFolder,
        from: u64,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let (_, first) = parts(from);
        for (index, (name, entry)) in folder.entries.iter().enumerate().skip(first) {
            let found = match entry {
                TopEntry::Folder(folder) => Found::Folder(Arc::clone(folder)),
                TopEntry::Link(target, time) => Found::Link(target.clone(), *time),
                TopEntry::Snapshot(root) => Found::Snapshot(Arc::clone(root)),
            };
            if !self.visit(node, name, position(0, index + 1), &found, visit)? {
                break;
            }
        }
        Ok(())
    }

    /// Shows an entry of a listing. Returns `false` if it was not taken.
    fn visit(
        &self,
        parent: u64,
        name: &[u8],
        next: u64,
        found: &Found,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> bool,
    ) -> Result<bool, Errno> {
        let attributes = &self.add(parent, name, found)?;
        let is_taken = visit(&ListedEntry { name, next, attributes });
        if !is_taken {
            self.forget(attributes.node, 1);
        }
        Ok(is_taken)
    }

    /// Returns `len` bytes of a file from `offset` on, or fewer at its end.
    ///
    /// # Errors
    ///
    /// Returns `EISDIR` or `EINVAL` if the node is no file, `ESTALE`, or `EIO` if any of the bytes
    /// cannot be read.
    pub fn read(&self, node: u64, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let entry = match self.found(node, false)? {
            Found::Entry(entry) if entry.kind == EntryKind::File => entry,
            Found::Entry(entry) if entry.kind != EntryKind::Folder => return Err(Errno::INVAL),
            Found::Link(..) => return Err(Errno::INVAL),
            _ => return Err(Errno::ISDIR),
        };
        let read =
            read_ahead((&self.recipes, &self.chunks, &self.ahead), node, &entry, offset, len);
        read.map_err(|error| self.fail(node, None, &error))
    }

    /// Follows a reader that goes from file to file: the file `node` was read from `offset` on.
    /// Decodes ahead what such a reader will need, and returns complete files that were listed and
    /// will probably be read next: their numbers and bytes, or `None` for one that cannot be handed
    /// over. While a thread has such an iterator with files, other threads get none: the kernel takes
    /// a page that it has asked for only after the answer, so that threads must be left that answer.
    pub fn follow_read(
        &self,
        node: u64,
        offset: u64,
    ) -> impl Iterator<Item = Option<(u64, Vec<u8>)>> {
        let files = (offset == 0).then(|| self.follower.read(node));
        self.complete_files(files.unwrap_or_default())
    }

    /// Follows such a reader: the folder `node` was listed to its end. Returns the same as
    /// [`Browser::follow_read`].
    pub fn follow_listing(&self, node: u64) -> impl Iterator<Item = Option<(u64, Vec<u8>)>> {
        self.complete_files(self.follower.listed(node))
    }

    /// Reads files, but for those that are damaged, because their readers get the error, and those
    /// that the caller does not refer to by these numbers.
    fn complete_files(
        &self,
        files: FilesToHandOver<'_>,
    ) -> impl Iterator<Item = Option<(u64, Vec<u8>)>> {
        let mut verified = None;
        files.map(move |(node, entry)| {
            if entry.is_hard_link() || lock(&self.table).get(node).is_none() {
                return None;
            }
            let mut bytes = Vec::new();
            self.fill(&entry, (0, entry.size), &mut verified, &mut bytes).ok()?;
            (bytes.len() as u64 == entry.size).then_some((node, bytes))
        })
    }

    /// Appends the bytes `offset..end` of the file `entry`. Keeps the last chunk in `verified`,
    /// because small files share chunks.
    fn fill(
        &self,
        entry: &Entry,
        range: (u64, u64),
        verified: &mut Option<(Fingerprint, ChunkBytes)>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Arc<Error>> {
        fill((&self.recipes, &self.chunks), entry, range, verified, bytes)
    }

    /// Returns the first offset from `offset` on that lies in data or, if `is_hole` is set, in a hole
    /// of a file. The end of the file counts as a hole.
    ///
    /// # Errors
    ///
    /// Returns `ENXIO` if there is none, `EINVAL` if the node is no file, `ESTALE` or `EIO`.
    pub fn seek(&self, node: u64, offset: u64, is_hole: bool) -> Result<u64, Errno> {
        let entry = match self.found(node, false)? {
            Found::Entry(entry) if entry.kind == EntryKind::File => entry,
            _ => return Err(Errno::INVAL),
        };
        let mut at = offset;
        while at < entry.size {
            if matches!(entry.content, Content::Raw(_)) {
                return Ok(if is_hole { entry.size } else { at });
            }
            let found = self.recipes.segment_at(&entry.content, at);
            let found = found.map_err(|error| self.fail(node, None, &error))?;
            let Some((start, segment)) = found else {
                return Err(self.fail(node, None, &wrong_size(entry.size)));
            };
            if is_hole != matches!(segment, Segment::Chunk { .. }) {
                return Ok(at);
            }
            at = start + segment.length();
        }
        if is_hole && offset < entry.size { Ok(entry.size) } else { Err(Errno::NXIO) }
    }

    // -----------------------------------------------------------------------------------------
    // Nodes.

    /// Returns what a node stands for. With `refreshes`, the folders at the top may be brought up to
    /// date.
    fn found(&self, node: u64, refreshes: bool) -> Result<Found, Errno> {
        let known = lock(&self.table).get(node).cloned().ok_or(Errno::STALE)?;
        match known.kind {
            NodeKind::Snapshot(root) => Ok(Found::Snapshot(root)),
            NodeKind::Top => {
                if refreshes {
                    self.refresh();
                }
                self.found_at_top(node)
            }
            NodeKind::Folder(_) | NodeKind::Leaf => {
                let parent = lock(&self.table).get(known.parent).cloned().ok_or(Errno::STALE)?;
                let entry = match &parent.kind {
                    NodeKind::Snapshot(root) => self.trees.find(&root.content, &known.name),
                    NodeKind::Folder(content) => self.trees.find(content, &known.name),
                    NodeKind::Top | NodeKind::Leaf => return Err(Errno::STALE),
                };
                let entry = entry.map_err(|error| self.fail(node, None, &error))?;
                Ok(Found::Entry(entry.ok_or(Errno::STALE)?))
            }
        }
    }

    fn found_at_top(&self, node: u64) -> Result<Found, Errno> {
        let mut folder = Arc::clone(&*lock(&self.top));
        let names = lock(&self.table).names(node);
        for (index, name) in names.iter().enumerate() {
            match folder.entries.get(&**name).ok_or(Errno::STALE)? {
                TopEntry::Folder(below) => folder = Arc::clone(below),
                TopEntry::Link(target, time) if index + 1 == names.len() => {
                    return Ok(Found::Link(target.clone(), *time));
                }
                _ => return Err(Errno::STALE),
            }
        }
        Ok(Found::Folder(folder))
    }

    /// Lists the repository again, unless that was done a moment ago, or another thread is doing it.
    fn refresh(&self) {
        let mut listed = match self.listed.try_lock() {
            Ok(listed) => listed,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if listed.is_some_and(|time| time.elapsed() < self.options.refresh_interval) {
            return;
        }
        if let Some(snapshots) = self.source.list() {
            *lock(&self.top) = Arc::new(TopFolder::root(&snapshots));
        }
        *listed = Some(Instant::now());
    }

    /// Adds a reference to the node `name` of `parent`, and returns its properties.
    fn add(&self, parent: u64, name: &[u8], found: &Found) -> Result<Attributes, Errno> {
        let kind = match found {
            Found::Folder(_) | Found::Link(..) => NodeKind::Top,
            Found::Snapshot(root) => NodeKind::Snapshot(Arc::clone(root)),
            Found::Entry(entry) if entry.kind == EntryKind::Folder => {
                NodeKind::Folder(Arc::new(entry.content.clone()))
            }
            Found::Entry(_) => NodeKind::Leaf,
        };
        let mut table = lock(&self.table);
        let identity = match found {
            Found::Entry(entry) => {
                let (snapshot, _) = table.snapshot(parent).ok_or(Errno::STALE)?;
                NodeIdentity::of_entry(snapshot, parent, entry)
            }
            // A link that leads elsewhere is another node, because targets are cached by node.
            Found::Link(target, _) => NodeIdentity::of(&(parent, name, target)),
            _ => NodeIdentity::of(&(parent, name)),
        };
        let node = table.add(parent, name, kind, identity).ok_or(Errno::STALE)?;
        drop(table);
        self.properties(node, found).inspect_err(|_| self.forget(node, 1))
    }

    fn properties(&self, node: u64, found: &Found) -> Result<Attributes, Errno> {
        let top = |kind, mode, size, time, is_constant| Attributes {
            node,
            kind,
            mode,
            user_id: self.options.user_id,
            group_id: self.options.group_id,
            size,
            blocks: 0,
            mtime: time,
            ctime: time,
            links: 1,
            device_number: 0,
            is_constant,
        };
        let entry = match found {
            Found::Folder(folder) => {
                return Ok(top(EntryKind::Folder, 0o555, 0, folder.time, false));
            }
            Found::Link(target, time) => {
                return Ok(top(EntryKind::Symlink, 0o777, target.len() as u64, *time, false));
            }
            Found::Snapshot(root) => return Ok(top(EntryKind::Folder, 0o555, 0, root.time, false)),
            Found::Entry(entry) => entry,
        };
        let blocks = match entry.kind {
            EntryKind::File => {
                let counted = self.recipes.block_count(&entry.content, entry.size);
                // A file that cannot be read is listed nevertheless.
                counted.unwrap_or_else(|error| {
                    self.fail(node, None, &error);
                    entry.size.div_ceil(512)
                })
            }
            _ => 0,
        };
        let has_size = matches!(entry.kind, EntryKind::File | EntryKind::Symlink);
        let (user_id, group_id) = self.owners(entry);
        let (mut mtime, mut ctime) = (entry.mtime, entry.ctime);
        if entry.is_above_sources() {
            let snapshot = lock(&self.table).snapshot(node);
            mtime = snapshot.map_or(mtime, |(_, root)| root.time);
            ctime = mtime;
        }
        Ok(Attributes {
            node,
            kind: entry.kind,
            mode: entry.mode,
            user_id,
            group_id,
            size: if has_size { entry.size } else { 0 },
            blocks,
            mtime,
            ctime,
            links: if entry.kind == EntryKind::Folder { 1 } else { entry.links },
            device_number: entry.device_number,
            is_constant: true,
        })
    }

    /// Returns the owner and the group of `entry` on this system, as a restore sets them.
    fn owners(&self, entry: &Entry) -> (u32, u32) {
        let mut ids = lock(&self.owners);
        let user = (!entry.user.is_empty()).then(|| ids.user(&entry.user)).flatten();
        let group = (!entry.group.is_empty()).then(|| ids.group(&entry.group)).flatten();
        (user.unwrap_or(entry.user_id), group.unwrap_or(entry.group_id))
    }

    /// Reports that `node`, or `name` in it, cannot be read, once.
    fn fail(&self, node: u64, name: Option<&[u8]>, error: &Error) -> Errno {
        let table = lock(&self.table);
        let id = table.snapshot(node).map(|(_, root)| root.id.short());
        let names = table.names(node);
        drop(table);
        let mut path = id.unwrap_or_default().into_bytes();
        path.push(b':');
        // The folder `ids` and the snapshot are not part of the path.
        for name in names.iter().skip(2).map(|name| &**name).chain(name) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        let mut reported = lock(&self.reported);
        if reported.len() >= PROBLEMS_MAX {
            reported.clear();
        }
        let is_new = reported.insert(path.clone());
        drop(reported);
        if is_new {
            self.source.problem(Path::new(OsStr::from_bytes(&path)), error);
        }
        Errno::IO
    }
}

impl Found {
    /// Returns the tree of a folder in a snapshot.
    fn tree(&self) -> Option<&Content> {
        match self {
            Found::Snapshot(root) => Some(&root.content),
            Found::Entry(entry) if entry.kind == EntryKind::Folder => Some(&entry.content),
            _ => None,
        }
    }
}
