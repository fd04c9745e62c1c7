//! Marking: reads every tree and recipe that snapshots reach once, and reports every chunk that
//! these name.

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use crate::format::fingerprint::Fingerprint;
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{Entry, EntryKind};
use crate::read::ChunkBytes;
use crate::util::cache::{Key, TwoGenerationCache, key};

/// Callbacks of a [`Marker`].
pub(crate) trait MarkSink {
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

    /// Decodes the bytes of the node.
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
            NodeContents::Tree(entries) => entries.iter().try_for_each(|entry| {
                enter(&entry.content, entry.kind == EntryKind::Folder, nodes, data)
            }),
        }
    }
}

impl Marker {
    /// Marks everything that the tree `root` reaches and that was not marked before. In very
    /// large repositories some nodes are marked again.
    ///
    /// # Errors
    ///
    /// Returns any error of `sink`.
    pub(crate) fn mark(&mut self, root: &Content, sink: &mut impl MarkSink) -> Result<()> {
        // The stack is explicit because folders can be nested deeper than a thread's stack allows.
        let mut nodes = Vec::new();
        enter(root, true, &mut nodes, &mut |f, offset, length| sink.data(f, offset, length))?;
        while let Some(node) = nodes.pop() {
            let fingerprint = node.fingerprint();
            if let Some(found) = self.seen.get(&node.key()) {
                // Two references to one node that disagree: at least one of them is wrong.
                if found.zip(node.expected()).is_some_and(|(found, expected)| found != expected) {
                    sink.unreadable(&fingerprint, contradiction(&fingerprint))?;
                }
                continue;
            }
            let bytes = sink.meta(&fingerprint);
            let inside = bytes
                .and_then(|bytes| node.decode(&bytes).map(|inside| (inside.found(&bytes), inside)));
            self.seen.put(node.key(), inside.as_ref().ok().map(|(found, _)| *found));
            // An error up to here belongs to the chunk; an error of another call of the sink ends
            // the marking.
            let mut data = |fingerprint: &_, offset, length| sink.data(fingerprint, offset, length);
            match inside {
                Ok((_, inside)) => inside.enter(&node, &mut nodes, &mut data)?,
                Err(error) => sink.unreadable(&fingerprint, error)?,
            }
        }
        Ok(())
    }
}

/// A callback for chunks of files (see [`MarkSink::data`]).
type Data<'a> = dyn FnMut(&Fingerprint, u64, u64) -> Result<()> + 'a;

/// Appends the metadata chunks that `content` names to `nodes`, and passes its file chunks to
/// `data`.
///
/// # Errors
///
/// Returns any error of `data`.
pub(crate) fn enter(
    content: &Content,
    is_tree: bool,
    nodes: &mut Vec<Node>,
    data: &mut Data<'_>,
) -> Result<()> {
    match content {
        Content::Empty | Content::Raw(_) => Ok(()),
        Content::Segments(segments) => enter_segments(segments, is_tree, nodes, data),
        Content::Recipe(fingerprint) => {
            nodes.push(Node::Recipe { fingerprint: *fingerprint, expected: None, is_tree });
            Ok(())
        }
    }
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
    let d = &mut Decoder::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while d.position() < bytes.len() {
        let entry = Entry::decode(d).map_err(|error| error.of(object()))?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(Error::corrupt(object(), "names are not in ascending order"));
        }
        entries.push(entry);
    }
    Ok(entries)
}
