//! What snapshots reach: every tree and recipe, looked at once, and the chunks that they name.

use minicbor::Decoder;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{Entry, EntryKind};
use crate::reader::ChunkBytes;
use crate::recent::{Key, Recent, key};

/// Hears of what is reached.
pub(crate) trait Visit {
    /// Returns the bytes of a tree or recipe that is reached, verified.
    ///
    /// # Errors
    ///
    /// Go to [`Visit::unreadable`].
    fn meta(&mut self, fingerprint: &Fingerprint) -> Result<ChunkBytes>;

    /// Some of a chunk of a file is reached: `length` bytes from `offset` on. Comes for every
    /// reference in a tree or recipe that is looked at.
    ///
    /// # Errors
    ///
    /// Stop the walk.
    fn data(&mut self, fingerprint: &Fingerprint, offset: u64, length: u64) -> Result<()>;

    /// A tree or recipe cannot be read, or is not what what names it says.
    ///
    /// # Errors
    ///
    /// Stop the walk.
    fn unreadable(&mut self, fingerprint: &Fingerprint, error: Error) -> Result<()>;
}

/// A walk over what several snapshots reach.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The nodes that were looked at, and what they were found to be, unless they are unreadable.
    /// What is forgotten is looked at again.
    seen: Recent<Option<(u32, u64)>>,
}

/// A metadata chunk that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    /// A recipe of a tree or of a file, and what the recipe above it says of its level and length.
    Recipe { fingerprint: Fingerprint, expected: Option<(u32, u64)>, is_tree: bool },
    /// A chunk of a tree, and its length.
    Tree { fingerprint: Fingerprint, length: u64 },
}

/// What is in a metadata chunk.
#[derive(Debug)]
pub(crate) enum Inside {
    Recipe(RecipeChunk),
    Tree(Vec<Entry>),
}

impl Node {
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let (Node::Recipe { fingerprint, .. } | Node::Tree { fingerprint, .. }) = self;
        *fingerprint
    }

    /// What tells it from others: its chunk, and what that is taken for.
    pub(crate) fn key(&self) -> Key {
        let kind = match self {
            Node::Recipe { is_tree, .. } => u8::from(*is_tree),
            Node::Tree { .. } => 2,
        };
        key(&self.fingerprint(), kind)
    }

    /// The level and length that what names it says; a chunk of a tree has no level.
    fn expected(&self) -> Option<(u32, u64)> {
        match *self {
            Node::Recipe { expected, .. } => expected,
            Node::Tree { length, .. } => Some((0, length)),
        }
    }

    /// Reads its bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` where they are malformed, or something else than what names it says.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Inside> {
        match *self {
            Node::Recipe { fingerprint, expected, .. } => {
                decode_recipe(fingerprint, expected, bytes).map(Inside::Recipe)
            }
            Node::Tree { fingerprint, length } => {
                decode_tree(fingerprint, length, bytes).map(Inside::Tree)
            }
        }
    }
}

impl Inside {
    /// What its node was found to be: see [`Node::expected`].
    fn found(&self, bytes: &[u8]) -> (u32, u64) {
        match self {
            Inside::Recipe(recipe) => {
                (recipe.level, recipe.segments.iter().map(Segment::length).sum())
            }
            Inside::Tree(_) => (0, bytes.len() as u64),
        }
    }
}

impl Walk {
    /// Visits what the tree `root` reaches and was not visited before; some of it again, where it
    /// is very much.
    ///
    /// # Errors
    ///
    /// Those of `visit`.
    pub(crate) fn walk(&mut self, root: &Content, visit: &mut impl Visit) -> Result<()> {
        // A stack of its own: folders can be nested deeper than a thread's stack.
        let mut nodes = Vec::new();
        enter(root, true, &mut nodes, &mut |f, offset, length| visit.data(f, offset, length))?;
        while let Some(node) = nodes.pop() {
            let fingerprint = node.fingerprint();
            if let Some(found) = self.seen.get(&node.key()) {
                // Whoever names it otherwise than another does lies.
                if found.zip(node.expected()).is_some_and(|(found, expected)| found != expected) {
                    visit.unreadable(&fingerprint, not_as_said(&fingerprint))?;
                }
                continue;
            }
            let bytes = visit.meta(&fingerprint);
            let inside = bytes
                .and_then(|bytes| node.decode(&bytes).map(|inside| (inside.found(&bytes), inside)));
            self.seen.put(node.key(), inside.as_ref().ok().map(|(found, _)| *found));
            // The error is the chunk's; those of the visitor end the walk.
            let mut data =
                |fingerprint: &_, offset, length| visit.data(fingerprint, offset, length);
            match inside {
                Ok((_, Inside::Recipe(recipe))) => {
                    let is_tree = matches!(node, Node::Recipe { is_tree: true, .. });
                    enter_recipe(&recipe, is_tree, &mut nodes, &mut data)?;
                }
                Ok((_, Inside::Tree(entries))) => {
                    for entry in entries {
                        let is_tree = entry.kind == EntryKind::Folder;
                        enter(&entry.content, is_tree, &mut nodes, &mut data)?;
                    }
                }
                Err(error) => visit.unreadable(&fingerprint, error)?,
            }
        }
        Ok(())
    }
}

/// Hears of chunks of files: see [`Visit::data`].
type Data<'a> = dyn FnMut(&Fingerprint, u64, u64) -> Result<()> + 'a;

/// Adds the metadata chunks that `content` names to `nodes`, and gives `data` the others.
///
/// # Errors
///
/// Those of `data`.
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

/// As [`enter`], for what a recipe names.
///
/// # Errors
///
/// Those of `data`.
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

fn not_as_said(fingerprint: &Fingerprint) -> Error {
    Error::corrupt(format!("metadata chunk {fingerprint}"), "is not what is said of it elsewhere")
}

/// Reads a recipe, of which the one above it says the level and the length of what it names.
///
/// # Errors
///
/// `Corrupt` where it is malformed, or something else.
pub(crate) fn decode_recipe(
    fingerprint: Fingerprint,
    expected: Option<(u32, u64)>,
    bytes: &[u8],
) -> Result<RecipeChunk> {
    let object = || format!("recipe {fingerprint}");
    let recipe = RecipeChunk::decode(bytes).map_err(|error| error.of(object()))?;
    let length = recipe.segments.iter().map(Segment::length).sum();
    if expected.is_some_and(|expected| expected != (recipe.level, length)) {
        return Err(Error::corrupt(object(), "is not what the recipe above it says"));
    }
    Ok(recipe)
}

fn decode_tree(fingerprint: Fingerprint, length: u64, bytes: &[u8]) -> Result<Vec<Entry>> {
    let object = || format!("tree {fingerprint}");
    if bytes.len() as u64 != length {
        let message = format!("has {} bytes, not {length}", bytes.len());
        return Err(Error::corrupt(object(), message));
    }
    let d = &mut Decoder::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while d.position() < bytes.len() {
        let entry = Entry::decode(d).map_err(|error| error.of(object()))?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(Error::corrupt(object(), "names do not rise"));
        }
        entries.push(entry);
    }
    Ok(entries)
}
