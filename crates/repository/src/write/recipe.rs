//! Writing of recipes.

use cutpoint_storage::{Error, Result};

use super::dedup::ChunkSink;
use super::width::narrow;
use crate::format::fingerprint::Fingerprint;
use crate::format::recipe::{Content, LEVEL_MAX, RecipeChunk, SEGMENTS_INLINE_MAX, Segment};

/// Name of the cut specification in recipes of trees.
pub const TREE_CUT: &str = "tree";

/// Minimum number of entries of a recipe chunk, unless it is the last of its level.
const ENTRIES_MIN: usize = 16;
/// Maximum number of entries of a recipe chunk. Between the limits a recipe chunk ends after a
/// fingerprint that ends in nine zero bits.
const ENTRIES_MAX: usize = 4096;

/// Builds the recipe of one stream, chunk by chunk. Holds at most one recipe chunk for each level
/// in memory.
#[derive(Clone, Debug)]
pub struct RecipeWriter {
    cut: String,
    levels: Vec<Vec<Segment>>,
    size: u64,
}

impl RecipeWriter {
    /// Creates the recipe of a stream that is cut by the specification `cut`.
    pub fn new(cut: impl Into<String>) -> RecipeWriter {
        RecipeWriter { cut: cut.into(), levels: vec![Vec::new()], size: 0 }
    }

    /// Returns the length of the stream so far, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the next segment of the stream. Neighbouring holes are merged, and so are
    /// neighbouring zeros.
    ///
    /// # Errors
    ///
    /// Returns any error of the sink.
    pub fn push(&mut self, segment: Segment, sink: &mut dyn ChunkSink) -> Result<()> {
        if segment.length() == 0 {
            return Ok(());
        }
        self.size += segment.length();
        match (self.levels[0].last_mut(), segment) {
            (Some(Segment::Hole { length }), Segment::Hole { length: more })
            | (Some(Segment::Zeros { length }), Segment::Zeros { length: more }) => {
                *length += more;
                Ok(())
            }
            _ => self.push_at(0, segment, sink),
        }
    }

    fn push_at(&mut self, level: usize, segment: Segment, sink: &mut dyn ChunkSink) -> Result<()> {
        if level == self.levels.len() {
            if level > LEVEL_MAX as usize {
                return Err(Error::invalid("recipe", "a stream of more chunks than there can be"));
            }
            self.levels.push(Vec::new());
        }
        self.levels[level].push(segment);
        let entries = self.levels[level].len();
        let ends = match segment {
            Segment::Chunk { fingerprint, .. } => ends_recipe(&fingerprint),
            Segment::Hole { .. } | Segment::Zeros { .. } => false,
        };
        if (ends && entries >= ENTRIES_MIN) || entries >= ENTRIES_MAX {
            self.close(level, sink)?;
        }
        Ok(())
    }

    /// Stores the entries of one level as a recipe chunk, and names the chunk on the level above.
    fn close(&mut self, level: usize, sink: &mut dyn ChunkSink) -> Result<()> {
        let (fingerprint, length) = self.store(level, sink)?;
        self.push_at(level + 1, Segment::Chunk { fingerprint, offset: 0, length }, sink)
    }

    fn store(&mut self, level: usize, sink: &mut dyn ChunkSink) -> Result<(Fingerprint, u64)> {
        let segments = std::mem::take(&mut self.levels[level]);
        let length = segments.iter().map(Segment::length).sum();
        let chunk = RecipeChunk {
            level: narrow(level, "level of a recipe")?,
            cut: self.cut.clone(),
            segments,
            extra: Vec::new(),
        };
        Ok((sink.store_meta(&chunk.encode())?, length))
    }

    /// Ends the stream. The result has either a few segments or the topmost recipe chunk.
    ///
    /// # Errors
    ///
    /// Returns any error of the sink.
    pub fn finish(mut self, sink: &mut dyn ChunkSink) -> Result<Content> {
        if self.levels.len() == 1 && self.levels[0].len() <= SEGMENTS_INLINE_MAX {
            let segments = std::mem::take(&mut self.levels[0]);
            return Ok(if segments.is_empty() {
                Content::Empty
            } else {
                Content::Segments(segments)
            });
        }
        let mut level = 0;
        loop {
            let is_top = level + 1 == self.levels.len();
            if is_top
                && level > 0
                && let [Segment::Chunk { fingerprint, .. }] = self.levels[level][..]
            {
                // The level below had a single recipe chunk, which is then the top.
                return Ok(Content::Recipe(fingerprint));
            }
            if !self.levels[level].is_empty() {
                if is_top {
                    return Ok(Content::Recipe(self.store(level, sink)?.0));
                }
                self.close(level, sink)?;
            }
            level += 1;
        }
    }
}

/// Returns `true` if the fingerprint ends in nine zero bits: every 512th on average.
fn ends_recipe(fingerprint: &Fingerprint) -> bool {
    fingerprint.0[31] == 0 && fingerprint.0[30] & 1 == 0
}
