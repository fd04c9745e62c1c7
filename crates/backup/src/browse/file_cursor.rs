//! A cursor that goes through the files of a snapshot in the order in which programs read folders:
//! by names, and through a subfolder where its name stands.

use cutpoint_repository::{Content, EntryKind};
use cutpoint_storage::Result;

use super::table::{Ancestor, NodeIdentity};
use crate::trees::{EntryPlace, EntryPosition, Trees};

/// The maximum number of entries that are passed over to find a file, because a hostile snapshot can
/// have folders without number.
const PASSED_MAX: usize = 10_000;

/// A file that a cursor has found.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// The number of the node of the file's folder.
    pub(super) parent: u64,
    /// The number of the node, unless another node has taken this number.
    pub(super) node: u64,
    pub(super) entry: EntryPlace,
}

/// A folder that a cursor is in.
#[derive(Debug)]
struct Level {
    node: u64,
    content: Content,
    next: EntryPosition,
}

/// A position between two files of a snapshot.
#[derive(Debug)]
pub(super) struct FileCursor {
    /// The number of the node of the snapshot's root folder.
    snapshot: u64,
    levels: Vec<Level>,
}

impl FileCursor {
    /// Creates a cursor behind the node that has `ancestors`, innermost first. `None` if the node is
    /// not in a snapshot, or no folder has it.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder above the node cannot be read.
    pub(super) fn behind(ancestors: &[Ancestor], trees: &Trees) -> Result<Option<FileCursor>> {
        let Some(snapshot) = ancestors.last().map(|ancestor| ancestor.node) else {
            return Ok(None);
        };
        let mut levels = Vec::new();
        for Ancestor { node, content, name } in ancestors.iter().rev() {
            let Some(((number, index), _)) = trees.find_position(content, name)? else {
                return Ok(None);
            };
            let next = (number, index + 1);
            levels.push(Level { node: *node, content: content.clone(), next });
        }
        Ok(Some(FileCursor { snapshot, levels }))
    }

    /// Creates a cursor at the end of a snapshot.
    #[cfg(test)]
    pub(super) fn at_end() -> FileCursor {
        FileCursor { snapshot: 0, levels: Vec::new() }
    }

    /// Goes to the next file. `None` at the end of the snapshot.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder cannot be read.
    pub(super) fn next_file(&mut self, trees: &Trees) -> Result<Option<FoundFile>> {
        for _ in 0..PASSED_MAX {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some((place, entry)) = trees.entry_at(&level.content, level.next)? else {
                self.levels.pop();
                continue;
            };
            level.next = (place.0, place.1 + 1);
            let parent = level.node;
            let node = NodeIdentity::of_entry(self.snapshot, parent, &entry).number();
            match entry.kind {
                EntryKind::Folder => {
                    let content = entry.content.clone();
                    self.levels.push(Level { node, content, next: (0, 0) });
                }
                EntryKind::File => return Ok(Some(FoundFile { parent, node, entry })),
                _ => {}
            }
        }
        Ok(None)
    }
}
