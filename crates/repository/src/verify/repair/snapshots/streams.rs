//! The state of streams: which of them have lost a part.

use cutpoint_storage::Result;

use super::chunks::ChunkStates;
use crate::format::fingerprint::{Class, Fingerprint};
use crate::format::recipe::{Content, Segment};
use crate::snapshots::mark::decode_recipe;
use crate::util::cache::{self, TwoGenerationCache};

/// The state of a stream, or of a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamState {
    /// Set if no part of the stream is missing or suspect.
    pub(super) is_undamaged: bool,
    pub(super) piece_count: u64,
}

/// The states of the streams below recipes, each of which is examined once.
#[derive(Default)]
pub(super) struct StreamStates {
    states: TwoGenerationCache<StreamState>,
}

impl StreamStates {
    pub(super) fn clear(&mut self) {
        self.states.clear();
    }

    /// Examines each recipe of a stream once.
    pub(super) fn of(
        &mut self,
        chunks: &mut ChunkStates<'_>,
        class: Class,
        content: &Content,
    ) -> Result<StreamState> {
        match content {
            Content::Empty | Content::Raw(_) => {
                Ok(StreamState { is_undamaged: true, piece_count: 0 })
            }
            Content::Segments(segments) => self.of_segments(chunks, class, 0, segments),
            Content::Recipe(fingerprint) => self.below_recipe(chunks, class, *fingerprint, None),
        }
    }

    fn of_segments(
        &mut self,
        chunks: &mut ChunkStates<'_>,
        class: Class,
        level: u32,
        segments: &[Segment],
    ) -> Result<StreamState> {
        let mut stream = StreamState { is_undamaged: true, piece_count: 0 };
        for segment in segments {
            let part = match *segment {
                Segment::Chunk { fingerprint, length, .. } if level > 0 => {
                    self.below_recipe(chunks, class, fingerprint, Some((level - 1, length)))?
                }
                Segment::Chunk { fingerprint, .. } => {
                    let is_suspect = chunks.is_suspect(&fingerprint);
                    let is_undamaged = !chunks.is_missing(class, fingerprint) && !is_suspect;
                    StreamState { is_undamaged, piece_count: 1 }
                }
                Segment::Hole { .. } | Segment::Zeros { .. } => {
                    StreamState { is_undamaged: true, piece_count: 1 }
                }
            };
            stream.is_undamaged &= part.is_undamaged;
            stream.piece_count = stream.piece_count.saturating_add(part.piece_count);
        }
        Ok(stream)
    }

    /// Examines the stream below a recipe. Levels fall, so that the recursion is shallow.
    fn below_recipe(
        &mut self,
        chunks: &mut ChunkStates<'_>,
        class: Class,
        fingerprint: Fingerprint,
        expected: Option<(u32, u64)>,
    ) -> Result<StreamState> {
        let key = cache::key(&fingerprint, u8::from(class == Class::Meta));
        if let Some(stream) = self.states.get(&key) {
            return Ok(*stream);
        }
        let stream = if chunks.is_missing(Class::Meta, fingerprint) {
            StreamState { is_undamaged: false, piece_count: 1 }
        } else {
            let bytes = chunks.reader.chunk(Class::Meta, &fingerprint)?;
            let recipe = decode_recipe(fingerprint, expected, &bytes)?;
            let mut stream = self.of_segments(chunks, class, recipe.level, &recipe.segments)?;
            stream.is_undamaged &= !chunks.is_suspect(&fingerprint);
            stream
        };
        self.states.put(key, stream);
        Ok(stream)
    }
}
