//! Paths in a snapshot.

use cutpoint_repository::{Content, Entry, EntryKind, Reader};
use cutpoint_storage::Error as StoreError;

/// Returns the names in a path of a snapshot, which begins at the root, with or without a `/`.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|&name| !matches!(name, b"" | b"."))
}

/// Normalizes a path of a snapshot, to one `/` before each name, with `..` removed together with the
/// name before it. The root is empty.
pub(crate) fn normal(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for name in names(path) {
        match name {
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    kept.iter().flat_map(|name| [b"/", *name].concat()).collect()
}

/// Returns the normalized paths that a path given by a user can denote, in the order in which they
/// are tried. `current` is the current folder, if it is known.
///
/// A path that begins with `/` starts at the root of the snapshot, and one that begins with `./` or
/// `../` in the current folder. Any other path starts at the root, or else in the current folder.
pub(crate) fn candidates(given: &[u8], current: Option<&[u8]>) -> Vec<Vec<u8>> {
    let below = current.map(|current| normal(&[current, given].join(&b'/')));
    match given.split(|&byte| byte == b'/').next() {
        Some(b"." | b"..") => below.into_iter().collect(),
        None | Some(b"") => vec![normal(given)],
        Some(_) => {
            let mut candidates = vec![normal(given)];
            candidates.extend(below.filter(|below| *below != candidates[0]));
            candidates
        }
    }
}

/// The result of following a path in a snapshot.
#[derive(Debug)]
pub(crate) enum Found {
    /// The root of the snapshot, which has no entry.
    Root,
    /// Any other entry.
    Entry {
        /// The entry.
        entry: Box<Entry>,
        /// The tree of the folder that contains the entry.
        parent: Content,
    },
    /// Nothing.
    Nothing,
    /// Nothing, because this part of the path is not a folder.
    NoFolder(Vec<u8>),
}

/// Follows `path` from the root of a snapshot, without following symbolic links.
///
/// # Errors
///
/// Fails if a tree cannot be read.
pub(crate) fn follow(reader: &Reader, root: &Content, path: &[u8]) -> Result<Found, StoreError> {
    let mut found = Found::Root;
    let mut walked = Vec::new();
    for name in names(path) {
        let tree = match found {
            Found::Root => root.clone(),
            Found::Entry { entry, .. } if entry.kind == EntryKind::Folder => entry.content,
            _ => return Ok(Found::NoFolder(walked)),
        };
        walked.push(b'/');
        walked.extend_from_slice(name);
        let Some(entry) = child(reader, &tree, name)? else {
            return Ok(Found::Nothing);
        };
        found = Found::Entry { entry: Box::new(entry), parent: tree };
    }
    Ok(found)
}

/// Returns the entry `name` of a folder, if there is one.
///
/// # Errors
///
/// Fails if the tree cannot be read.
pub(crate) fn child(
    reader: &Reader,
    tree: &Content,
    name: &[u8],
) -> Result<Option<Entry>, StoreError> {
    for entry in reader.tree(tree) {
        let entry = entry?;
        // The names ascend, so the name cannot follow a greater one.
        if entry.name.as_slice() >= name {
            return Ok((entry.name == name).then_some(entry));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized() {
        assert_eq!(normal(b"a//b/./c/"), b"/a/b/c", "untidy");
        assert_eq!(normal(b"/"), b"", "the root");
        assert_eq!(normal(b"/a/../b/c/.."), b"/b", "parents");
        assert_eq!(normal(b"/../.."), b"", "above the root");
    }

    #[test]
    fn paths_start_at_the_root_or_in_the_current_folder() {
        for (given, expected) in [
            ("/a", &["/a"][..]),
            ("", &[""]),
            ("./a", &["/home/me/a"]),
            (".", &["/home/me"]),
            ("../x/../a", &["/home/a"]),
            ("..", &["/home"]),
            ("a", &["/a", "/home/me/a"]),
            ("a/../b", &["/b", "/home/me/b"]),
            (".hidden", &["/.hidden", "/home/me/.hidden"]),
        ] {
            let candidates = candidates(given.as_bytes(), Some(b"/home/me"));
            let candidates: Vec<_> =
                candidates.iter().map(|path| String::from_utf8_lossy(path)).collect();
            assert_eq!(candidates, expected, "{given}");
        }
        assert_eq!(candidates(b"a", Some(b"/")), [b"/a"], "in the root");
        assert_eq!(candidates(b"a", None), [b"/a"], "an unknown current folder");
        assert!(candidates(b"./a", None).is_empty(), "below an unknown current folder");
    }
}
