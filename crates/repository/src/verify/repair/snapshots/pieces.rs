//! The pieces of a stream: the segments that are left, and the missing bytes between them.

use cutpoint_storage::Result;

use super::chunks::ChunkStates;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::recipe::{Content, Segment};
use crate::snapshots::mark::decode_recipe;
use crate::write::{ChunkSink, Inline};

/// A piece of a stream.
pub(super) enum Piece {
    Present(Segment),
    /// Missing bytes, with their number if it is known.
    Missing(Option<u64>),
}

/// An iterator over the pieces of a stream, in order.
pub(super) struct Pieces {
    class: Class,
    stack: Vec<(u32, std::vec::IntoIter<Segment>)>,
    /// The next recipe chunk, with its level and its length if the one above records them.
    next: Option<(Fingerprint, Option<(u32, u64)>)>,
    /// Set if a chunk was suspect.
    pub(super) is_suspect: bool,
    /// The cutting algorithm of the stream, if a recipe records it.
    pub(super) cut: Option<String>,
}

impl Pieces {
    pub(super) fn new(class: Class, content: &Content) -> Pieces {
        let (mut stack, mut next) = (Vec::new(), None);
        match content {
            Content::Empty | Content::Raw(_) => {}
            Content::Segments(segments) => stack.push((0, segments.clone().into_iter())),
            Content::Recipe(fingerprint) => next = Some((*fingerprint, None)),
        }
        Pieces { class, stack, next, is_suspect: false, cut: None }
    }

    /// Returns the next piece. Suspect recipes are stored again.
    pub(super) fn next(
        &mut self,
        chunks: &mut ChunkStates<'_>,
        sink: Option<&mut Inline>,
    ) -> Result<Option<Piece>> {
        let mut sink = sink;
        loop {
            if let Some((fingerprint, expected)) = self.next.take() {
                if chunks.is_missing(Class::Meta, fingerprint) {
                    return Ok(Some(Piece::Missing(expected.map(|(_, length)| length))));
                }
                let bytes = chunks.reader.chunk(Class::Meta, &fingerprint)?;
                // Levels fall by one at each step, so that every traversal ends, whatever a chunk
                // contains.
                let recipe = decode_recipe(fingerprint, expected, &bytes)?;
                if chunks.is_suspect(&fingerprint) {
                    self.is_suspect = true;
                    sink.as_mut().map_or(Ok(fingerprint), |sink| sink.store_meta(&bytes))?;
                }
                self.cut.get_or_insert(recipe.cut);
                self.stack.push((recipe.level, recipe.segments.into_iter()));
            }
            let Some((level, segments)) = self.stack.last_mut() else { return Ok(None) };
            match (segments.next(), *level) {
                (None, _) => {
                    self.stack.pop();
                }
                (Some(Segment::Chunk { fingerprint, length, .. }), level) if level > 0 => {
                    self.next = Some((fingerprint, Some((level - 1, length))));
                }
                (Some(Segment::Chunk { fingerprint, length, .. }), _)
                    if chunks.is_missing(self.class, fingerprint) =>
                {
                    return Ok(Some(Piece::Missing(Some(length))));
                }
                (Some(segment), _) => return Ok(Some(Piece::Present(segment))),
            }
        }
    }
}
