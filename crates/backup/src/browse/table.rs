//! The nodes that the caller has been told of.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use cutpoint_repository::{Content, Entry};

use super::top::SnapshotRoot;
use crate::restore::SnapshotLinkKey;

/// The number of the root folder.
pub const ROOT: u64 = 1;

/// The kind of a node, with what leads to the entries below it.
#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// A folder or link at the top.
    Top,
    Snapshot(Arc<SnapshotRoot>),
    /// A folder in a snapshot.
    Folder(Arc<Content>),
    /// Anything else in a snapshot.
    Leaf,
}

/// A node that is referred to.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u64,
    pub(super) name: Arc<[u8]>,
    pub(super) kind: NodeKind,
    /// A second hash of the identity, which tells nodes with the same first hash apart.
    check: u64,
    /// The number of references that the caller has.
    lookups: u64,
    /// The number of nodes that have this node as their parent.
    children: u64,
}

/// The identity of a node: nodes with the same identity are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeIdentity {
    first: u64,
    second: u64,
}

impl NodeIdentity {
    /// The identity of a node that is determined by `parts`.
    pub(super) fn of(parts: &impl Hash) -> NodeIdentity {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            parts.hash(&mut hasher);
            hasher.finish()
        };
        NodeIdentity { first: hash(1), second: hash(2) }
    }

    /// The identity of `entry` in the folder `parent` of the snapshot whose root folder is `snapshot`.
    /// The names of a file have the same identity.
    pub(super) fn of_entry(snapshot: u64, parent: u64, entry: &Entry) -> NodeIdentity {
        if entry.is_hard_link() {
            return NodeIdentity::of(&(snapshot, SnapshotLinkKey::of(entry)));
        }
        NodeIdentity::of(&(parent, entry.name.as_slice()))
    }

    /// Returns the number that the node has, unless another node has it already. It is positive as a
    /// signed number, too.
    pub(super) fn number(&self) -> u64 {
        (self.first >> 1).max(ROOT + 1)
    }
}

/// A folder in a snapshot, on the way to a node.
#[derive(Debug)]
pub(super) struct Ancestor {
    /// The number of the folder.
    pub(super) node: u64,
    /// The tree of the folder.
    pub(super) content: Content,
    /// The name in the folder that leads to the node.
    pub(super) name: Arc<[u8]>,
}

/// The nodes that are referred to, by their numbers.
#[derive(Debug)]
pub(super) struct NodeTable(HashMap<u64, Node>);

impl NodeTable {
    /// Creates a table with the root folder, which is never forgotten.
    pub(super) fn new() -> NodeTable {
        let root = Node {
            parent: ROOT,
            name: Arc::default(),
            kind: NodeKind::Top,
            check: 0,
            lookups: 1,
            children: 0,
        };
        NodeTable(HashMap::from([(ROOT, root)]))
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a node, if the caller still refers to it or to something below it.
    pub(super) fn get(&self, number: u64) -> Option<&Node> {
        self.0.get(&number)
    }

    /// Adds a reference to a node, and returns its number. `None` if the parent is not known.
    pub(super) fn add(
        &mut self,
        parent: u64,
        name: &[u8],
        kind: NodeKind,
        identity: NodeIdentity,
    ) -> Option<u64> {
        let mut number = identity.number();
        while let Some(node) = self.0.get_mut(&number) {
            if node.check == identity.second && number != ROOT {
                node.lookups += 1;
                // The folders at the top change.
                node.kind = kind;
                return Some(number);
            }
            number = ((number + 1) & (u64::MAX >> 1)).max(ROOT + 1);
        }
        self.0.get_mut(&parent)?.children += 1;
        let node = Node {
            parent,
            name: name.into(),
            kind,
            check: identity.second,
            lookups: 1,
            children: 0,
        };
        self.0.insert(number, node);
        Some(number)
    }

    /// Removes `count` references to a node. The node goes with the last reference, unless there
    /// are nodes below it.
    pub(super) fn forget(&mut self, number: u64, count: u64) {
        let Some(node) = self.0.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(count);
        let mut number = number;
        while let Some(node) = self.0.get(&number)
            && node.lookups == 0
            && node.children == 0
            && number != ROOT
        {
            let parent = node.parent;
            self.0.remove(&number);
            if let Some(parent) = self.0.get_mut(&parent) {
                parent.children -= 1;
            }
            number = parent;
        }
    }

    /// Returns the names from the root to a node.
    pub(super) fn names(&self, mut number: u64) -> Vec<Arc<[u8]>> {
        let mut names = Vec::new();
        while number != ROOT
            && let Some(node) = self.0.get(&number)
        {
            names.push(Arc::clone(&node.name));
            number = node.parent;
        }
        names.reverse();
        names
    }

    /// Returns the folders from a node up to the root folder of its snapshot. Empty if the node is not
    /// below such a folder.
    pub(super) fn ancestors(&self, number: u64) -> Vec<Ancestor> {
        let mut ancestors = Vec::new();
        let mut below = self.0.get(&number);
        while let Some(node) = below {
            let parent = self.0.get(&node.parent).filter(|_| node.parent != ROOT);
            let (content, is_root) = match parent.map(|parent| &parent.kind) {
                Some(NodeKind::Folder(content)) => (Content::clone(content), false),
                Some(NodeKind::Snapshot(root)) => (root.content.clone(), true),
                _ => return Vec::new(),
            };
            let name = Arc::clone(&node.name);
            ancestors.push(Ancestor { node: node.parent, content, name });
            if is_root {
                return ancestors;
            }
            below = parent;
        }
        Vec::new()
    }

    /// Returns the root folder of the snapshot that has a node, with its number.
    pub(super) fn snapshot(&self, mut number: u64) -> Option<(u64, Arc<SnapshotRoot>)> {
        loop {
            let node = self.0.get(&number)?;
            if let NodeKind::Snapshot(root) = &node.kind {
                return Some((number, Arc::clone(root)));
            }
            if number == ROOT {
                return None;
            }
            number = node.parent;
        }
    }

    /// Returns up to `count` nodes in snapshots that have no other node below them, as parents and
    /// names.
    pub(super) fn some_leaves(&self, count: usize) -> Vec<(u64, Arc<[u8]>)> {
        let is_leaf = |node: &&Node| {
            matches!(node.kind, NodeKind::Leaf | NodeKind::Folder(_)) && node.children == 0
        };
        let leaves = self.0.values().filter(is_leaf);
        leaves.take(count).map(|node| (node.parent, Arc::clone(&node.name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(table: &mut NodeTable, parent: u64, name: &str) -> u64 {
        let identity = NodeIdentity::of(&(parent, name));
        table.add(parent, name.as_bytes(), NodeKind::Leaf, identity).expect("the parent is there")
    }

    #[test]
    fn node_stays_until_it_and_those_below_it_are_forgotten() {
        let mut table = NodeTable::new();
        let folder = add(&mut table, ROOT, "a");
        let file = add(&mut table, folder, "b");
        assert_eq!(add(&mut table, folder, "b"), file, "the same node");
        let names: Vec<_> = table.names(file).iter().map(|name| name.to_vec()).collect();
        assert_eq!(names, [b"a", b"b"], "its path");
        table.forget(folder, 1);
        assert!(table.get(folder).is_some(), "the file is below it");
        table.forget(file, 1);
        assert!(table.get(file).is_some(), "one reference is left");
        table.forget(file, 1);
        assert_eq!(table.len(), 1, "only the root is left");
        table.forget(ROOT, 5);
        assert!(table.get(ROOT).is_some(), "the root stays");
        assert_eq!(add(&mut table, ROOT, "a"), folder, "the number is the same again");
    }

    #[test]
    fn equal_hashes_get_different_numbers() {
        let mut table = NodeTable::new();
        let mut of = |second| {
            let identity = NodeIdentity { first: u64::MAX, second };
            table.add(ROOT, b"x", NodeKind::Leaf, identity).expect("the root is there")
        };
        let (first, second) = (of(1), of(2));
        assert_ne!(first, second, "two nodes");
        assert_eq!((of(1), of(2)), (first, second), "found again");
        assert!(second > ROOT, "a number that wraps around is not that of the root");
    }
}
