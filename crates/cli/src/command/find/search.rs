//! The search of many snapshots at once.
//!
//! First the trees of each snapshot are read in its order, except those that an earlier snapshot has
//! at the same path. Then all snapshots are walked side by side. Snapshots whose tree of a folder is
//! the same are one from there on. Memory is needed for the matches and folders of all trees.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cutpoint_repository::{Content, Entry, EntryKind, Reader, Time};
use cutpoint_storage::Error as StoreError;

use crate::args::Find;
use crate::command::ls::is_above_sources;
use crate::exit::Exit;
use crate::report::Report;
use crate::units;

/// The snapshots that have something, by their positions in the list of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Presence {
    pub(super) count: u64,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Presence {
    /// Adds snapshots, none of which is counted yet.
    fn add(&mut self, other: Presence) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// A version of an entry.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    /// `None` for a folder above the sources.
    pub(super) mtime: Option<Time>,
    /// The content; empty for a folder, whose tree differs whenever anything below it does.
    content: Content,
    ctime: Time,
}

impl Version {
    fn new(entry: &Entry) -> Version {
        let content = match entry.kind {
            EntryKind::Folder => Content::Empty,
            _ => entry.content.clone(),
        };
        Version {
            kind: entry.kind,
            size: entry.size,
            mtime: (!is_above_sources(entry)).then_some(entry.mtime),
            content,
            ctime: entry.ctime,
        }
    }

    /// Returns `true` if the versions are the same. Small files share chunks, so equal bytes can
    /// have several contents; a file that is as it was has its ctime, however.
    fn is_same(&self, other: &Version) -> bool {
        self.kind == other.kind
            && self.size == other.size
            && self.mtime == other.mtime
            && (self.ctime == other.ctime || self.content == other.content)
    }
}

/// A version of an entry that was found.
#[derive(Debug)]
pub(super) struct Match<'a> {
    pub(super) path: &'a [u8],
    pub(super) version: &'a Version,
    pub(super) presence: Presence,
}

/// The versions and trees of one name in a folder.
#[derive(Debug, Default)]
struct Node {
    /// The versions that match, in the order of their first snapshots.
    versions: Vec<(Version, Presence)>,
    /// The trees, if the name is a folder that has to be searched.
    trees: HashMap<Content, Presence>,
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
    reader: &'a Reader,
    args: &'a Find,
    report: &'a Report,
    /// The folders that were read, by path and tree.
    folders: HashMap<(Vec<u8>, Content), Folder>,
}

/// The part of a tree that a search needs.
struct Folder {
    items: Vec<Item>,
    /// The damage after the items.
    error: Option<StoreError>,
}

/// An entry that matches, or a folder to search.
struct Item {
    name: Vec<u8>,
    version: Option<Version>,
    tree: Option<Content>,
}

impl<'s> Search<'s> {
    /// Creates a search of snapshots that `reader` reads.
    pub(super) fn new(reader: &'s Reader, args: &'s Find, report: &'s Report) -> Search<'s> {
        Search { reader, args, report, folders: HashMap::new() }
    }

    /// Searches the snapshots with these roots, oldest first, and passes each match to `show`, in
    /// the order of the paths; versions of one path follow each other by their first snapshots.
    ///
    /// # Errors
    ///
    /// Returns any error of `show` and any error of reading, except damage, which is reported as a
    /// problem.
    pub(super) fn run<'a>(
        mut self,
        roots: impl Iterator<Item = &'a Content>,
        mut show: impl FnMut(&Match<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut trees = HashMap::new();
        for (at, root) in roots.enumerate() {
            self.read(root)?;
            add(&mut trees, root.clone(), Presence { count: 1, first: at, last: at });
        }
        let mut path = Vec::new();
        // An explicit stack: folders can be nested as deeply as paths.
        let mut levels = vec![(self.folder(trees, &path).into_iter(), 0)];
        while let Some((nodes, len)) = levels.last_mut() {
            path.truncate(*len);
            let Some((name, node)) = nodes.next() else {
                levels.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(&name);
            for (version, presence) in node.versions {
                show(&Match { path: &path, version: &version, presence })?;
            }
            if !node.trees.is_empty() {
                let len = path.len();
                levels.push((self.folder(node.trees, &path).into_iter(), len));
            }
        }
        Ok(())
    }

    /// Merges the trees of the folder at `path`.
    fn folder(
        &mut self,
        trees: HashMap<Content, Presence>,
        path: &[u8],
    ) -> BTreeMap<Vec<u8>, Node> {
        let mut nodes = BTreeMap::<Vec<u8>, Node>::new();
        for (tree, presence) in by_first(trees) {
            let key = (path.to_owned(), tree);
            let Some(folder) = self.folders.remove(&key) else { continue };
            for item in folder.items {
                let node = nodes.entry(item.name).or_default();
                if let Some(version) = item.version {
                    node.add_version(version, presence);
                }
                if let Some(tree) = item.tree {
                    add(&mut node.trees, tree, presence);
                }
            }
            if let Some(error) = folder.error {
                self.damaged(path, presence, &error);
            }
        }
        nodes
    }

    /// Reads each tree of a snapshot that was not read at its path. The order of a snapshot is that
    /// in which its trees are stored, so that each region is decoded about once.
    fn read(&mut self, root: &Content) -> Result<()> {
        let mut pending = vec![(Vec::new(), root.clone())];
        while let Some(key) = pending.pop() {
            if self.folders.contains_key(&key) {
                continue;
            }
            let folder = self.read_folder(&key.0, &key.1)?;
            for item in folder.items.iter().rev() {
                if let Some(tree) = &item.tree {
                    pending.push(([&key.0, &b"/"[..], &item.name].concat(), tree.clone()));
                }
            }
            self.folders.insert(key, folder);
        }
        Ok(())
    }

    /// Reads the tree of the folder at `path`.
    fn read_folder(&self, path: &[u8], tree: &Content) -> Result<Folder> {
        let mut folder = Folder { items: Vec::new(), error: None };
        let mut path = path.to_owned();
        path.push(b'/');
        let len = path.len();
        for entry in self.reader.tree(tree) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if Exit::of_kind(error.kind()) == Exit::Damaged => {
                    folder.error = Some(error);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            path.truncate(len);
            path.extend_from_slice(&entry.name);
            let version = self.matches(&entry, &path).then(|| Version::new(&entry));
            let is_searched = entry.kind == EntryKind::Folder
                && entry.content != Content::Empty
                && self.args.pattern.may_match_below(&path);
            if version.is_some() || is_searched {
                let tree = is_searched.then_some(entry.content);
                folder.items.push(Item { name: entry.name, version, tree });
            }
        }
        Ok(folder)
    }

    /// Returns `true` if the entry at `path` fulfils all conditions. The pattern is the most
    /// expensive one.
    fn matches(&self, entry: &Entry, path: &[u8]) -> bool {
        let args = self.args;
        let is_timed = args.newer.is_some() || args.older.is_some();
        args.kind.is_none_or(|kind| entry.kind == kind.into())
            && (args.sizes.is_empty() || entry.kind == EntryKind::File)
            && args.sizes.iter().all(|condition| condition.accepts(entry.size))
            && !(is_timed && is_above_sources(entry))
            && args.newer.is_none_or(|time| entry.mtime >= time)
            && args.older.is_none_or(|time| entry.mtime < time)
            && args.pattern.matches(path, entry.kind == EntryKind::Folder)
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

fn add<K: Eq + Hash>(map: &mut HashMap<K, Presence>, key: K, presence: Presence) {
    map.entry(key).and_modify(|known| known.add(presence)).or_insert(presence);
}

/// Returns the items of `map` in the order of their first snapshots.
fn by_first<K>(map: HashMap<K, Presence>) -> Vec<(K, Presence)> {
    let mut items: Vec<_> = map.into_iter().collect();
    items.sort_by_key(|(_, presence)| presence.first);
    items
}
