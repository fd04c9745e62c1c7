//! Writing recipes.

use super::packer::ChunkSink;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::format::recipe::{Content, LEVEL_MAX, RecipeChunk, SEGMENTS_INLINE_MAX, Segment};

/// What stands for the cut specification in recipes of trees.
pub const TREE_CUT: &str = "tree";

/// A recipe chunk has at least so many entries, unless it is the last of its level ...
const ENTRIES_MIN: usize = 16;
/// ... and at most so many. In between it ends after a fingerprint that ends in nine zero bits.
const ENTRIES_MAX: usize = 4096;

/// Builds the recipe of one stream, chunk by chunk. Memory: at most one recipe chunk a level.
#[derive(Clone, Debug)]
pub struct RecipeWriter {
    cut: String,
    levels: Vec<Vec<Segment>>,
    size: u64,
}

impl RecipeWriter {
    /// A recipe of a stream that is cut as `cut` says.
    pub fn new(cut: impl Into<String>) -> RecipeWriter {
        RecipeWriter { cut: cut.into(), levels: vec![Vec::new()], size: 0 }
    }

    /// The bytes of the stream so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds the next piece of the stream. Neighbouring holes, and neighbouring zeros, become one.
    ///
    /// # Errors
    ///
    /// As the sink.
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

    /// Stores the entries of one level as a recipe chunk, and names it on the level above.
    fn close(&mut self, level: usize, sink: &mut dyn ChunkSink) -> Result<()> {
        let (fingerprint, length) = self.store(level, sink)?;
        self.push_at(level + 1, Segment::Chunk { fingerprint, offset: 0, length }, sink)
    }

    fn store(&mut self, level: usize, sink: &mut dyn ChunkSink) -> Result<(Fingerprint, u64)> {
        let segments = std::mem::take(&mut self.levels[level]);
        let length = segments.iter().map(Segment::length).sum();
        let chunk = RecipeChunk {
            level: u32::try_from(level).unwrap_or(u32::MAX),
            cut: self.cut.clone(),
            segments,
            extra: Vec::new(),
        };
        Ok((sink.store_meta(&chunk.encode())?, length))
    }

    /// Ends the stream: a few segments, or the topmost recipe chunk.
    ///
    /// # Errors
    ///
    /// As the sink.
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
                // The level below had one recipe chunk only: that one is the top.
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

/// Nine zero bits at the end of a fingerprint: on average every 512th.
fn ends_recipe(fingerprint: &Fingerprint) -> bool {
    fingerprint.0[31] == 0 && fingerprint.0[30] & 1 == 0
}
