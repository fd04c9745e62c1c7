//! Writing of trees.

use cutpoint_storage::{Error, Result};

use super::dedup::ChunkSink;
use super::recipe::{RecipeWriter, TREE_CUT};
use crate::crypto::Keys;
use crate::format::recipe::{Content, Segment};
use crate::format::tree::{Entry, EntryKind};

/// Minimum size of a chunk of a tree in bytes, unless it is the last.
const CHUNK_SIZE_MIN: usize = 4 * 1024;
/// Maximum size of a chunk of a tree in bytes, unless one entry is larger. Between the limits a
/// chunk ends before a name whose keyed hash ends in seven zero bits, or in five if the entry has a
/// tree in it, because such entries are longer.
const CHUNK_SIZE_MAX: usize = 64 * 1024;
const HASH_MASK: u64 = 0x7f;
const HASH_MASK_INLINE: u64 = 0x1f;
/// Maximum size of a tree that lies in the entry of its folder, in bytes.
const INLINE_LEN_MAX: usize = 1024;

/// Builds the tree of one folder, entry by entry.
#[derive(Clone, Debug)]
pub struct TreeWriter {
    recipe: RecipeWriter,
    chunk: Vec<u8>,
    name_last: Vec<u8>,
}

impl Default for TreeWriter {
    fn default() -> Self {
        TreeWriter { recipe: RecipeWriter::new(TREE_CUT), chunk: Vec::new(), name_last: Vec::new() }
    }
}

impl TreeWriter {
    /// Creates an empty tree.
    pub fn new() -> TreeWriter {
        TreeWriter::default()
    }

    /// Appends the next entry.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if names do not ascend, and any error of the sink.
    pub fn push(&mut self, entry: &Entry, keys: &Keys, sink: &mut dyn ChunkSink) -> Result<()> {
        if !self.name_last.is_empty() && self.name_last >= entry.name {
            return Err(Error::invalid(
                String::from_utf8_lossy(&entry.name),
                "names of a tree must be in ascending order",
            ));
        }
        self.name_last.clear();
        self.name_last.extend_from_slice(&entry.name);
        let start = self.chunk.len();
        entry.encode_into(&mut self.chunk);
        // The name decides, so that a changed time moves no cut.
        let has_tree = entry.kind == EntryKind::Folder && matches!(entry.content, Content::Raw(_));
        let mask = if has_tree { HASH_MASK_INLINE } else { HASH_MASK };
        let may_cut = start >= CHUNK_SIZE_MIN && keys.name_hash(&entry.name) & mask == 0;
        if start > 0 && (may_cut || self.chunk.len() > CHUNK_SIZE_MAX) {
            let entry = self.chunk.split_off(start);
            self.close(sink)?;
            self.chunk = entry;
        }
        Ok(())
    }

    fn close(&mut self, sink: &mut dyn ChunkSink) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let fingerprint = sink.store_meta(&self.chunk)?;
        let length = self.chunk.len() as u64;
        self.chunk.clear();
        self.recipe.push(Segment::Chunk { fingerprint, offset: 0, length }, sink)
    }

    /// Ends the tree of a folder whose entry is in another tree. A short tree is not stored, and
    /// its bytes are the content.
    ///
    /// # Errors
    ///
    /// Returns any error of the sink.
    pub fn finish_below(self, sink: &mut dyn ChunkSink) -> Result<Content> {
        let is_one_chunk = self.recipe.size() == 0;
        if is_one_chunk && !self.chunk.is_empty() && self.chunk.len() <= INLINE_LEN_MAX {
            return Ok(Content::Raw(self.chunk));
        }
        self.finish(sink)
    }

    /// Ends the tree of a root.
    ///
    /// # Errors
    ///
    /// Returns any error of the sink.
    pub fn finish(mut self, sink: &mut dyn ChunkSink) -> Result<Content> {
        self.close(sink)?;
        self.recipe.finish(sink)
    }
}
