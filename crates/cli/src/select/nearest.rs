//! The search for a path in other snapshots than the one that was named.

use std::collections::HashMap;

use cutpoint_repository::{Content, EntryKind, Reader, Snapshot, TicketId, View};

use super::path::{child, names};

/// The maximum number of snapshots that are searched, which bounds the time until the user is told
/// that the path does not exist.
const SEARCHED_MAX: usize = 100;

/// Finds the snapshot that has one of `paths` and is nearest in time to the listed snapshot `taken`;
/// those of the same host come first. Returns its id and the path that it has. A snapshot that
/// cannot be read counts as one without the paths.
pub(crate) fn nearest<'a>(
    reader: &Reader,
    view: &'a View,
    taken: (TicketId, &Snapshot),
    paths: &[Vec<u8>],
) -> Option<(TicketId, &'a Snapshot, Vec<u8>)> {
    let (taken, snapshot) = taken;
    let mut others = view.snapshots();
    others.retain(|(id, _)| *id != taken);
    others.sort_by_key(|(_, other)| {
        (other.host != snapshot.host, other.started_ns.abs_diff(snapshot.started_ns))
    });
    let mut searches: Vec<Search<'_>> =
        paths.iter().map(|path| Search::new(reader, path)).collect();
    others.into_iter().take(SEARCHED_MAX).find_map(|(id, other)| {
        let mut searches = searches.iter_mut();
        let path = searches.find_map(|search| search.has(&other.root).then_some(search.path))?;
        Some((id, other, path.to_vec()))
    })
}

/// The search for one path in many trees.
struct Search<'a> {
    reader: &'a Reader,
    path: &'a [u8],
    names: Vec<&'a [u8]>,
    /// The trees that were read, each with the number of names that led to it, and whether the rest
    /// of the path exists there. Snapshots share most of their trees.
    known: HashMap<(Content, usize), bool>,
}

impl<'a> Search<'a> {
    fn new(reader: &'a Reader, path: &'a [u8]) -> Search<'a> {
        Search { reader, path, names: names(path).collect(), known: HashMap::new() }
    }

    /// Returns `true` if the path exists below the root folder `root`.
    fn has(&mut self, root: &Content) -> bool {
        let mut tree = root.clone();
        let mut visited = Vec::new();
        let mut has_path = true;
        for (depth, name) in self.names.iter().enumerate() {
            if let Some(known) = self.known.get(&(tree.clone(), depth)) {
                has_path = *known;
                break;
            }
            visited.push((tree.clone(), depth));
            let is_last = depth + 1 == self.names.len();
            match child(self.reader, &tree, name) {
                Ok(Some(_)) if is_last => {}
                Ok(Some(entry)) if entry.kind == EntryKind::Folder => tree = entry.content,
                _ => {
                    has_path = false;
                    break;
                }
            }
        }
        self.known.extend(visited.into_iter().map(|tree| (tree, has_path)));
        has_path
    }
}
