//! The search for a path in other snapshots than the one that was named.

use std::collections::HashMap;

use cutpoint_repository::{Content, EntryKind, Reader, Snapshot, TicketId, View};

use super::path::{child, names};

/// The maximum number of snapshots that are searched, which bounds the time until the user is told
/// that the path does not exist.
const SEARCHED_MAX: usize = 100;

/// The nearest snapshot that has a path.
#[derive(Debug)]
pub(crate) struct Nearest<'a> {
    pub(crate) id: TicketId,
    pub(crate) snapshot: &'a Snapshot,
    /// The path that the snapshot has.
    pub(crate) path: Vec<u8>,
    /// The kind of the entry at the path.
    pub(crate) kind: EntryKind,
}

/// Finds the snapshot that has one of `paths` and is nearest in time to the listed snapshot `taken`;
/// those of the same host come first. A snapshot that cannot be read counts as one without the paths.
pub(crate) fn nearest<'a>(
    reader: &Reader,
    view: &'a View,
    taken: (TicketId, &Snapshot),
    paths: &[Vec<u8>],
) -> Option<Nearest<'a>> {
    let (taken, snapshot) = taken;
    let mut others = view.snapshots();
    others.retain(|(id, _)| *id != taken);
    others.sort_by_key(|(_, other)| {
        (other.host != snapshot.host, other.started_ns.abs_diff(snapshot.started_ns))
    });
    let mut searches: Vec<Search<'_>> =
        paths.iter().map(|path| Search::new(reader, path)).collect();
    others.into_iter().take(SEARCHED_MAX).find_map(|(id, snapshot)| {
        searches.iter_mut().find_map(|search| {
            let kind = search.kind_below(&snapshot.root)?;
            Some(Nearest { id, snapshot, path: search.path.to_vec(), kind })
        })
    })
}

/// The search for one path in many trees.
struct Search<'a> {
    reader: &'a Reader,
    path: &'a [u8],
    names: Vec<&'a [u8]>,
    /// The trees that were read, each with the number of names that led to it, and the kind of the
    /// entry at the rest of the path, if it exists there. Snapshots share most of their trees.
    known: HashMap<(Content, usize), Option<EntryKind>>,
}

impl<'a> Search<'a> {
    fn new(reader: &'a Reader, path: &'a [u8]) -> Search<'a> {
        Search { reader, path, names: names(path).collect(), known: HashMap::new() }
    }

    /// Returns the kind of the entry at the path below the root folder `root`, if there is one.
    fn kind_below(&mut self, root: &Content) -> Option<EntryKind> {
        let mut tree = root.clone();
        let mut visited = Vec::new();
        let mut found = Some(EntryKind::Folder);
        for (depth, name) in self.names.iter().enumerate() {
            if let Some(known) = self.known.get(&(tree.clone(), depth)) {
                found = *known;
                break;
            }
            visited.push((tree.clone(), depth));
            let is_last = depth + 1 == self.names.len();
            match child(self.reader, &tree, name) {
                Ok(Some(entry)) if is_last => found = Some(entry.kind),
                Ok(Some(entry)) if entry.kind == EntryKind::Folder => tree = entry.content,
                _ => {
                    found = None;
                    break;
                }
            }
        }
        self.known.extend(visited.into_iter().map(|tree| (tree, found)));
        found
    }
}
