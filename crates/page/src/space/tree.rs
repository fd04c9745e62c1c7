//! Paths, and the space that they take.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// The space that a file or folder takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Number of files in the newest snapshots.
    pub files: u64,
    /// The size of the files in the newest snapshots.
    pub logical: u64,
    /// The size of their chunks, each counted where it is met first.
    pub unique: u64,
    /// The space of these chunks in the repository.
    pub current: u64,
    /// The space of chunks that only older snapshots have.
    pub older: u64,
}

impl Sizes {
    /// Returns the space that all versions take in the repository.
    pub fn stored(&self) -> u64 {
        self.current.saturating_add(self.older)
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, other: Sizes) {
        self.files = self.files.saturating_add(other.files);
        self.logical = self.logical.saturating_add(other.logical);
        self.unique = self.unique.saturating_add(other.unique);
        self.current = self.current.saturating_add(other.current);
        self.older = self.older.saturating_add(other.older);
    }
}

/// A file or folder, with what is below it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The space of the node and of everything below it.
    pub sizes: Sizes,
    /// Set for a folder.
    pub is_folder: bool,
    /// What is below it, by name: folders, and files of some size.
    pub children: BTreeMap<Box<[u8]>, Node>,
}

impl Node {
    /// Returns the node at a path below this one.
    pub fn find(&self, path: &[&[u8]]) -> Option<&Node> {
        path.iter().try_fold(self, |node, name| node.children.get(*name))
    }

    /// Adds the sizes of all children to their parents, from below.
    pub(super) fn sum_up(&mut self) {
        for child in self.children.values_mut() {
            child.sum_up();
            self.sizes += child.sizes;
        }
    }

    /// Returns the children, those that take most first, and the sizes of what is in none of them.
    pub fn largest(&self) -> (Vec<(&[u8], &Node)>, Sizes) {
        let mut children: Vec<(&[u8], &Node)> =
            self.children.iter().map(|(name, node)| (&**name, node)).collect();
        children.sort_by_key(|(_, node)| std::cmp::Reverse(node.sizes.stored()));
        let mut below = Sizes::default();
        children.iter().for_each(|(_, node)| below += node.sizes);
        let rest = Sizes {
            files: self.sizes.files.saturating_sub(below.files),
            logical: self.sizes.logical.saturating_sub(below.logical),
            unique: self.sizes.unique.saturating_sub(below.unique),
            current: self.sizes.current.saturating_sub(below.current),
            older: self.sizes.older.saturating_sub(below.older),
        };
        (children, rest)
    }
}
