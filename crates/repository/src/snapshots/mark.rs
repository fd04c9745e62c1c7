//! Marking: reads every tree and recipe that snapshots reach once, and reports every chunk that
//! these name.

use cutpoint_storage::{Error, Result};

use crate::format::fingerprint::Fingerprint;
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{Entry, EntryKind, entries_in};
use crate::read::ChunkBytes;
use crate::util::cache::{Key, TwoGenerationCache, key};

/// Maximum number of nodes that the nodes of a batch may name before the rest of the batch has to wait.
/// Otherwise wide folders side by side would take too much memory.
const FOUND_MAX: usize = 64 * 1024;

/// Callbacks of a [`Marker`].
pub(crate) trait MarkSink {
    /// Returns the maximum number of trees and recipes that are announced at once; 0 if they are read
    /// one by one.
    fn ahead_max(&self) -> usize {
        0
    }

    /// Called with the trees and recipes that are read next, in this order, so that several can be
    /// fetched at once. Returns the number of those that were fetched; the others are announced
    /// again.
    fn prepare(&mut self, next: &[Fingerprint]) -> usize {
        next.len()
    }

    /// Called with the number of the root that reaches what is reported next.
    fn enter_root(&mut self, root: usize) {
        let _ = root;
    }

    /// Returns the verified bytes of a tree or recipe that is reached.
    ///
    /// # Errors
    ///
    /// Any error is forwarded to [`MarkSink::unreadable`].
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes>;

    /// Called for a part of a file's chunk that is reached: `length` bytes from `offset` on. Called
    /// once for every reference in a marked tree or recipe.
    ///
    /// # Errors
    ///
    /// Any error ends the marking.
    fn data(&mut self, fingerprint: &Fingerprint, offset: u64, length: u64) -> Result<()>;

    /// Called if a tree or recipe cannot be read, or differs from what the reference to it says.
    ///
    /// # Errors
    ///
    /// Any error ends the marking.
    fn unreadable(&mut self, fingerprint: &Fingerprint, error: Error) -> Result<()>;
}

/// Marks everything that a number of snapshots reach.
#[derive(Debug, Default)]
pub(crate) struct Marker {
    /// The level and length that each marked node was found to have, or `None` if the node is
    /// unreadable. A node that has left this cache is marked again.
    seen: TwoGenerationCache<Option<(u32, u64)>>,
}

/// A metadata chunk to mark.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    /// A recipe of a tree or of a file. `expected` is the level and the length that the recipe
    /// above it records.
    Recipe { fingerprint: Fingerprint, expected: Option<(u32, u64)>, is_tree: bool },
    /// A chunk of a tree, with its expected length.
    Tree { fingerprint: Fingerprint, length: u64 },
}

/// The decoded contents of a metadata chunk.
#[derive(Debug)]
pub(crate) enum NodeContents {
    Recipe(RecipeChunk),
    Tree(Vec<Entry>),
}

impl Node {
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let (Node::Recipe { fingerprint, .. } | Node::Tree { fingerprint, .. }) = self;
        *fingerprint
    }

    /// Returns the key that identifies the node: its chunk, and the kind of node that the chunk is
    /// decoded as.
    pub(crate) fn key(&self) -> Key {
        let kind = match self {
            Node::Recipe { is_tree, .. } => u8::from(*is_tree),
            Node::Tree { .. } => 2,
        };
        key(&self.fingerprint(), kind)
    }

    /// Returns the level and length that the reference to the node records. A chunk of a tree
    /// counts as level 0.
    fn expected(&self) -> Option<(u32, u64)> {
        match *self {
            Node::Recipe { expected, .. } => expected,
            Node::Tree { length, .. } => Some((0, length)),
        }
    }

    /// Decodes the bytes of the node. Trees that lie in the entries of their folders are checked.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt` if the bytes are malformed or contradict the reference to the node.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<NodeContents> {
        match *self {
            Node::Recipe { fingerprint, expected, .. } => {
                decode_recipe(fingerprint, expected, bytes).map(NodeContents::Recipe)
            }
            Node::Tree { fingerprint, length } => {
                decode_tree(fingerprint, length, bytes).map(NodeContents::Tree)
            }
        }
    }
}

impl NodeContents {
    /// Returns the level and length that the node was found to have (see [`Node::expected`]).
    fn found(&self, bytes: &[u8]) -> (u32, u64) {
        match self {
            NodeContents::Recipe(recipe) => {
                (recipe.level, recipe.segments.iter().map(Segment::length).sum())
            }
            NodeContents::Tree(_) => (0, bytes.len() as u64),
        }
    }
}

impl NodeContents {
    /// Appends the metadata chunks that these contents of `node` name to `nodes`, and passes their
    /// file chunks to `data`.
    ///
    /// # Errors
    ///
    /// Returns any error of `data`.
    pub(crate) fn enter(
        &self,
        node: &Node,
        nodes: &mut Vec<Node>,
        data: &mut Data<'_>,
    ) -> Result<()> {
        match self {
            NodeContents::Recipe(recipe) => {
                let is_tree = matches!(node, Node::Recipe { is_tree: true, .. });
                enter_recipe(recipe, is_tree, nodes, data)
            }
            NodeContents::Tree(entries) => enter_entries(entries, nodes, data),
        }
    }
}

impl Marker {
    /// Marks everything that the trees `roots` reach and that was not marked before. In very large
    /// repositories some nodes are marked again.
    ///
    /// # Errors
    ///
    /// Returns any error of `sink`.
    pub(crate) fn mark(&mut self, roots: &[&Content], sink: &mut impl MarkSink) -> Result<()> {
        // The stack is explicit because folders can be nested deeper than a thread's stack allows.
        let mut stack: Vec<(usize, Node)> = Vec::new();
        for (root, content) in roots.iter().enumerate().rev() {
            sink.enter_root(root);
            let mut inside = Vec::new();
            let data = &mut |f: &_, offset, length| sink.data(f, offset, length);
            enter(content, true, &mut inside, data)?;
            stack.extend(inside.into_iter().map(|node| (root, node)));
        }
        let (mut batch, mut found) = (Vec::new(), Vec::new());
        while self.take_batch(&mut stack, &mut batch, sink) {
            // Sorted from the last to the first, as on the stack.
            while found.len() < FOUND_MAX
                && let Some((root, node)) = batch.pop()
            {
                self.visit(root, &node, &mut found, sink)?;
            }
            stack.append(&mut batch);
            stack.append(&mut found);
        }
        Ok(())
    }

    /// Moves the nodes that are read next from `stack` to `batch`, after the sink has fetched them.
    /// Returns `false` if there are none.
    fn take_batch(
        &mut self,
        stack: &mut Vec<(usize, Node)>,
        batch: &mut Vec<(usize, Node)>,
        sink: &mut impl MarkSink,
    ) -> bool {
        let count = sink.ahead_max().clamp(1, stack.len().max(1));
        batch.extend(stack.drain(stack.len().saturating_sub(count)..));
        if count > 1 {
            let is_new = |marker: &mut Marker, node: &Node| marker.seen.get(&node.key()).is_none();
            let next: Vec<(usize, Fingerprint)> = batch
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, (_, node))| is_new(self, node))
                .map(|(place, (_, node))| (place, node.fingerprint()))
                .collect();
            let fingerprints: Vec<Fingerprint> = next.iter().map(|(_, chunk)| *chunk).collect();
            if !next.is_empty()
                && let Some((behind, _)) = next.get(sink.prepare(&fingerprints).max(1))
            {
                stack.extend(batch.drain(..=*behind));
            }
        }
        !batch.is_empty()
    }

    /// Marks a node that `root` reaches, and appends the nodes that it names to `found`.
    fn visit(
        &mut self,
        root: usize,
        node: &Node,
        found: &mut Vec<(usize, Node)>,
        sink: &mut impl MarkSink,
    ) -> Result<()> {
        sink.enter_root(root);
        let fingerprint = node.fingerprint();
        if let Some(known) = self.seen.get(&node.key()) {
            // Two references to one node that disagree: at least one of them is wrong.
            if known.zip(node.expected()).is_some_and(|(known, expected)| known != expected) {
                sink.unreadable(&fingerprint, contradiction(&fingerprint))?;
            }
            return Ok(());
        }
        let bytes = sink.meta(&fingerprint);
        let contents = bytes.and_then(|bytes| {
            node.decode(&bytes).map(|contents| (contents.found(&bytes), contents))
        });
        self.seen.put(node.key(), contents.as_ref().ok().map(|(known, _)| *known));
        // An error up to here belongs to the chunk; an error of another call of the sink ends the
        // marking.
        let mut data = |fingerprint: &_, offset, length| sink.data(fingerprint, offset, length);
        match contents {
            Ok((_, contents)) => {
                let mut inside = Vec::new();
                contents.enter(node, &mut inside, &mut data)?;
                found.extend(inside.into_iter().map(|node| (root, node)));
                Ok(())
            }
            Err(error) => sink.unreadable(&fingerprint, error),
        }
    }
}

/// A callback for chunks of files (see [`MarkSink::data`]).
type Data<'a> = dyn FnMut(&Fingerprint, u64, u64) -> Result<()> + 'a;

/// Appends the metadata chunks that `content` names to `nodes`, and passes its file chunks to
/// `data`. A tree that lies in the content itself is entered as well.
///
/// # Errors
///
/// Returns any error of `data`, and `Corrupt` for an invalid tree in the content.
pub(crate) fn enter(
    content: &Content,
    is_tree: bool,
    nodes: &mut Vec<Node>,
    data: &mut Data<'_>,
) -> Result<()> {
    match content {
        // A content has at most 4096 bytes, which bounds the depth.
        Content::Raw(tree) if is_tree => enter_entries(&entries_in(tree)?, nodes, data),
        Content::Empty | Content::Raw(_) => Ok(()),
        Content::Segments(segments) => enter_segments(segments, is_tree, nodes, data),
        Content::Recipe(fingerprint) => {
            nodes.push(Node::Recipe { fingerprint: *fingerprint, expected: None, is_tree });
            Ok(())
        }
    }
}

fn enter_entries(entries: &[Entry], nodes: &mut Vec<Node>, data: &mut Data<'_>) -> Result<()> {
    entries
        .iter()
        .try_for_each(|entry| enter(&entry.content, entry.kind == EntryKind::Folder, nodes, data))
}

fn enter_segments(
    segments: &[Segment],
    is_tree: bool,
    nodes: &mut Vec<Node>,
    data: &mut Data<'_>,
) -> Result<()> {
    for segment in segments {
        let Segment::Chunk { fingerprint, offset, length } = *segment else { continue };
        if is_tree {
            nodes.push(Node::Tree { fingerprint, length });
        } else {
            data(&fingerprint, offset, length)?;
        }
    }
    Ok(())
}

/// Does the same as [`enter`] for the references of a recipe.
///
/// # Errors
///
/// Returns any error of `data`.
pub(crate) fn enter_recipe(
    recipe: &RecipeChunk,
    is_tree: bool,
    nodes: &mut Vec<Node>,
    data: &mut Data<'_>,
) -> Result<()> {
    if recipe.level == 0 {
        return enter_segments(&recipe.segments, is_tree, nodes, data);
    }
    nodes.extend(recipe.segments.iter().filter_map(|segment| match *segment {
        Segment::Chunk { fingerprint, length, .. } => {
            Some(Node::Recipe { fingerprint, expected: Some((recipe.level - 1, length)), is_tree })
        }
        _ => None,
    }));
    Ok(())
}

fn contradiction(fingerprint: &Fingerprint) -> Error {
    Error::corrupt(format!("metadata chunk {fingerprint}"), "differs from what its references say")
}

/// Decodes a recipe and compares it with the level and length that the recipe above it records.
///
/// # Errors
///
/// Returns `Corrupt` if the recipe is malformed or differs from `expected`.
pub(crate) fn decode_recipe(
    fingerprint: Fingerprint,
    expected: Option<(u32, u64)>,
    bytes: &[u8],
) -> Result<RecipeChunk> {
    let object = || format!("recipe {fingerprint}");
    let recipe = RecipeChunk::decode(bytes).map_err(|error| error.of(object()))?;
    let length = recipe.segments.iter().map(Segment::length).sum();
    if expected.is_some_and(|expected| expected != (recipe.level, length)) {
        return Err(Error::corrupt(object(), "differs from what the recipe above it says"));
    }
    Ok(recipe)
}

fn decode_tree(fingerprint: Fingerprint, length: u64, bytes: &[u8]) -> Result<Vec<Entry>> {
    let object = || format!("tree {fingerprint}");
    if bytes.len() as u64 != length {
        let message = format!("has {} bytes (expected {length})", bytes.len());
        return Err(Error::corrupt(object(), message));
    }
    let entries = entries_in(bytes).map_err(|error| error.of(object()))?;
    check_inline_trees(&entries).map_err(|error| error.of(object()))?;
    Ok(entries)
}

/// Checks the trees that lie in the entries of their folders, at every depth.
fn check_inline_trees(entries: &[Entry]) -> Result<()> {
    for entry in entries {
        if let (EntryKind::Folder, Content::Raw(tree)) = (entry.kind, &entry.content) {
            check_inline_trees(&entries_in(tree)?)?;
        }
    }
    Ok(())
}
