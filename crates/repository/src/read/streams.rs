//! Streams: from the content of a file or folder to its segments and entries.

use std::iter;
use std::ops::Deref;

use cutpoint_storage::{Error, Result};
use minicbor::Decoder;

use super::chunk_bytes::ChunkBytes;
use super::plan::ReadStep;
use super::reader::Reader;
use super::trees_ahead::TreesAhead;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::recipe::{Content, RecipeChunk, Segment};
use crate::format::tree::{Entry, entries_in, not_ascending};

/// The maximum number of recipe chunks that are fetched at once. Each describes some 30 MiB.
const AHEAD_MAX: usize = 16;

impl Reader {
    /// Returns the segments of a stream, in order. Recipes are read when the iterator needs them.
    /// Bytes that lie in the entry itself have no segments.
    ///
    /// # Errors
    ///
    /// An item is an error if a recipe cannot be read; the iterator then ends.
    pub fn segments<'a>(&'a self, content: &Content) -> Segments<'a> {
        let mut stack = Vec::new();
        let mut next = None;
        match content {
            Content::Empty | Content::Raw(_) => {}
            Content::Segments(segments) => stack.push((0, segments.clone().into_iter())),
            Content::Recipe(fingerprint) => next = Some((*fingerprint, None)),
        }
        Segments { reader: self, stack, next, ahead: None, trees_ahead: None }
    }

    /// Returns the chunk of a tree that a segment of the tree names. It holds complete entries.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::chunk`], and `Corrupt` if the segment is not one complete
    /// chunk.
    pub fn tree_chunk(&self, segment: &Segment) -> Result<ChunkBytes> {
        self.tree_chunk_of_walk(segment, None)
    }

    /// Returns the same as [`Reader::tree_chunk`], which may have been read ahead.
    fn tree_chunk_of_walk(
        &self,
        segment: &Segment,
        ahead: Option<&TreesAhead<'_>>,
    ) -> Result<ChunkBytes> {
        let Segment::Chunk { fingerprint, offset: 0, length } = segment else {
            return Err(Error::corrupt("tree", "has holes"));
        };
        let chunk = match ahead.and_then(|ahead| ahead.reach(fingerprint)) {
            Some(chunk) => chunk,
            None => self.chunk(Class::Meta, fingerprint)?,
        };
        if chunk.len() as u64 != *length {
            return Err(Error::corrupt(
                format!("tree {fingerprint}"),
                format!("has {} bytes (expected {length})", chunk.len()),
            ));
        }
        Ok(chunk)
    }

    /// Returns the entries in the chunk of a tree that a segment of the tree names.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::tree_chunk`], and `Corrupt` if the chunk has anything but
    /// entries with ascending names.
    pub fn tree_entries(&self, segment: &Segment) -> Result<Vec<Entry>> {
        entries_in(&self.tree_chunk(segment)?).map_err(|error| error.of("tree"))
    }

    /// Returns a chunk of a recipe. `expected` is the level and the length of the stream below it
    /// that the chunk above states; the first chunk of a recipe has none above it.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Reader::chunk`], and `Corrupt` if the chunk is not what is expected.
    pub fn recipe_chunk(
        &self,
        fingerprint: &Fingerprint,
        expected: Option<(u32, u64)>,
    ) -> Result<RecipeChunk> {
        let object = || format!("recipe {fingerprint}");
        let bytes = self.chunk(Class::Meta, fingerprint)?;
        let recipe = RecipeChunk::decode(&bytes).map_err(|error| error.of(object()))?;
        if let Some((level, length)) = expected {
            let found: u64 = recipe.segments.iter().map(Segment::length).sum();
            // The level falls by one at each step, so a walk ends whatever a chunk contains.
            if recipe.level != level || found != length {
                return Err(Error::corrupt(
                    object(),
                    format!(
                        "has level {} and {found} bytes (expected level {level} and {length} \
                         bytes)",
                        recipe.level
                    ),
                ));
            }
        }
        Ok(recipe)
    }

    /// Returns the entries of a folder, in order. Trees are read when the iterator needs them.
    pub fn tree<'a>(&'a self, content: &Content) -> Entries<'a> {
        self.tree_of_walk(content, None)
    }

    /// Returns the same as [`Reader::tree`] for a walk whose trees are read ahead.
    fn tree_of_walk<'a>(
        &'a self,
        content: &Content,
        ahead: Option<&'a TreesAhead<'a>>,
    ) -> Entries<'a> {
        let inline = match content {
            Content::Raw(tree) => Some(TreeBytes::Inline(tree.clone())),
            _ => None,
        };
        Entries {
            segments: Segments { trees_ahead: ahead, ..self.segments(content) },
            reader: self,
            chunk: inline,
            position: 0,
            name_last: Vec::new(),
        }
    }
}

impl TreesAhead<'_> {
    /// Returns the entries of a folder that the walk has reached, in order.
    pub fn tree(&self, content: &Content) -> Entries<'_> {
        self.reader.tree_of_walk(content, Some(self))
    }
}

/// An iterator over the segments of a stream.
#[derive(Debug)]
pub struct Segments<'a> {
    reader: &'a Reader,
    stack: Vec<(u32, std::vec::IntoIter<Segment>)>,
    /// The next recipe chunk to read, with the level and the length that it must have.
    next: Option<(Fingerprint, Option<(u32, u64)>)>,
    /// Recipe chunks that were fetched, and the number of those that were not read yet.
    ahead: Option<(Box<ReadStep>, usize)>,
    /// The walk, if the stream is a tree that may have been read ahead.
    trees_ahead: Option<&'a TreesAhead<'a>>,
}

impl Segments<'_> {
    /// Has the recipe chunk `next` fetched together with those that follow it, if the storage is far.
    fn fetch_ahead(&mut self, next: Fingerprint) {
        if let Some((_, left @ 1..)) = &mut self.ahead {
            *left -= 1;
            return;
        }
        self.ahead = None;
        let Some((1, siblings)) = self.stack.last() else { return };
        if !self.reader.index.reads_ahead() {
            return;
        }
        let fingerprint = |segment: &Segment| match segment {
            Segment::Chunk { fingerprint, .. } => Some(*fingerprint),
            Segment::Hole { .. } | Segment::Zeros { .. } => None,
        };
        let siblings = siblings.as_slice().iter().filter_map(fingerprint);
        let chunks: Vec<_> = iter::once(next).chain(siblings).take(AHEAD_MAX).collect();
        let (step, count) = self.reader.fetch_meta(&chunks, usize::MAX);
        self.ahead = Some((Box::new(step), count - 1));
    }

    fn descend(&mut self) -> Result<()> {
        let Some((fingerprint, expected)) = self.next.take() else { return Ok(()) };
        match self.trees_ahead {
            Some(ahead) => drop(ahead.reach(&fingerprint)),
            None => self.fetch_ahead(fingerprint),
        }
        let recipe = self.reader.recipe_chunk(&fingerprint, expected)?;
        self.stack.push((recipe.level, recipe.segments.into_iter()));
        Ok(())
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Result<Segment>> {
        loop {
            if let Err(error) = self.descend() {
                self.stack.clear();
                return Some(Err(error));
            }
            let (level, segments) = self.stack.last_mut()?;
            match (segments.next(), *level) {
                (None, _) => {
                    self.stack.pop();
                }
                (Some(segment), 0) => return Some(Ok(segment)),
                (Some(segment), level) => {
                    if let Segment::Chunk { fingerprint, length, .. } = segment {
                        self.next = Some((fingerprint, Some((level - 1, length))));
                    }
                }
            }
        }
    }
}

/// The bytes of entries: those of a chunk, or of a whole tree that lies in its folder's entry.
#[derive(Debug)]
enum TreeBytes {
    Chunk(ChunkBytes),
    Inline(Vec<u8>),
}

impl Deref for TreeBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TreeBytes::Chunk(chunk) => chunk,
            TreeBytes::Inline(tree) => tree,
        }
    }
}

/// An iterator over the entries of a folder.
#[derive(Debug)]
pub struct Entries<'a> {
    reader: &'a Reader,
    segments: Segments<'a>,
    chunk: Option<TreeBytes>,
    position: usize,
    name_last: Vec<u8>,
}

impl Entries<'_> {
    fn next_entry(&mut self) -> Result<Option<Entry>> {
        loop {
            if let Some(chunk) = &self.chunk {
                if self.position < chunk.len() {
                    let d = &mut Decoder::new(chunk);
                    d.set_position(self.position);
                    let entry = Entry::decode(d).map_err(|error| error.of("tree"))?;
                    self.position = d.position();
                    // Ascending names cannot repeat, and two folders can be compared in one pass.
                    if !self.name_last.is_empty() && self.name_last >= entry.name {
                        return Err(not_ascending().of("tree"));
                    }
                    self.name_last.clone_from(&entry.name);
                    return Ok(Some(entry));
                }
                self.chunk = None;
            }
            match self.segments.next().transpose()? {
                None => return Ok(None),
                Some(segment) => {
                    let ahead = self.segments.trees_ahead;
                    let chunk = self.reader.tree_chunk_of_walk(&segment, ahead)?;
                    self.chunk = Some(TreeBytes::Chunk(chunk));
                    self.position = 0;
                }
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        let next = self.next_entry().transpose();
        if matches!(next, Some(Err(_))) {
            // Nothing that follows an error can be trusted.
            self.chunk = None;
            self.segments.stack.clear();
            self.segments.next = None;
        }
        next
    }
}
