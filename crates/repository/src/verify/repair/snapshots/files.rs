//! Files of the repaired copy: what is left of each one.

use std::ops::Range;

use cutpoint_storage::Result;

use super::folder::{FolderFrame, PartialFile};
use super::losses::Counts;
use super::pieces::{Piece, Pieces};
use super::report::PathLoss;
use super::rewriter::{PIECES_MAX, Rewriter};
use crate::format::fingerprint::Class;
use crate::format::recipe::{Content, Segment};
use crate::format::tree::Entry;
use crate::write::{Inline, RecipeWriter};

/// The suffix of the name of a file that has lost parts.
const DAMAGED_SUFFIX: &[u8] = b".cutpoint-damaged";

/// Maximum number of ranges that are listed for a file: 16 MB.
const RANGES_MAX: usize = 1 << 20;

/// The remains of a file.
enum FileRemains {
    Everything,
    /// Everything; some suspect chunks were stored again.
    Suspect,
    Nothing,
    Parts(Content, Vec<Range<u64>>),
}

impl<'a> Rewriter<'a> {
    /// Adds a file, or the remains of it.
    pub(super) fn file(
        &mut self,
        frame: &mut FolderFrame<'a>,
        entry: Entry,
        path: Vec<u8>,
        mut sink: Option<&mut Inline>,
    ) -> Result<()> {
        match self.remains(&entry, sink.as_deref_mut())? {
            FileRemains::Everything => frame.push(entry, &mut self.losses, sink),
            FileRemains::Suspect => {
                frame.is_undamaged = false;
                frame.push(entry, &mut self.losses, sink)
            }
            FileRemains::Nothing => {
                frame.is_undamaged = false;
                let left_out_bytes = entry.size;
                self.losses.counts.add(Counts { left_out: 1, left_out_bytes, ..Counts::default() });
                self.losses.loss(&path, &PathLoss::File { size: entry.size });
                Ok(())
            }
            FileRemains::Parts(content, ranges) => {
                frame.is_undamaged = false;
                // A file that has the suffix from an earlier repair keeps its name.
                let suffix =
                    if entry.name.ends_with(DAMAGED_SUFFIX) { &[] } else { DAMAGED_SUFFIX };
                let name = [&entry.name[..], suffix].concat();
                frame.rename(name, PartialFile { entry: Entry { content, ..entry }, path, ranges });
                Ok(())
            }
        }
    }

    /// Returns the remains of a file. Suspect chunks are stored again.
    fn remains(&mut self, entry: &Entry, mut sink: Option<&mut Inline>) -> Result<FileRemains> {
        let stream = self.streams.of(&mut self.chunks, Class::Data, &entry.content)?;
        if stream.is_undamaged {
            return Ok(FileRemains::Everything);
        }
        if stream.piece_count > PIECES_MAX {
            return Ok(FileRemains::Nothing);
        }
        let mut pieces = Pieces::new(Class::Data, &entry.content);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut offset, mut lost) = (0_u64, 0_u64);
        while let Some(piece) = pieces.next(&mut self.chunks, sink.as_deref_mut())? {
            self.stop_if_cancelled()?;
            let start = offset;
            match piece {
                Piece::Present(segment) => {
                    offset = offset.saturating_add(segment.length());
                    let Segment::Chunk { fingerprint, .. } = segment else { continue };
                    if self.chunks.is_suspect(&fingerprint) {
                        pieces.is_suspect = true;
                        if let Some(sink) = sink.as_deref_mut() {
                            sink.store_data(&self.chunks.reader.chunk(Class::Data, &fingerprint)?)?;
                        }
                    }
                }
                Piece::Missing(length) => {
                    offset = offset.saturating_add(length.unwrap_or(entry.size));
                    lost = lost.saturating_add(offset - start);
                    let has_room = ranges.len() < RANGES_MAX;
                    match ranges.last_mut() {
                        Some(last) if last.end == start => last.end = offset,
                        _ if has_room => ranges.push(start..offset),
                        _ => {}
                    }
                }
            }
        }
        if ranges.is_empty() {
            return Ok(if pieces.is_suspect {
                FileRemains::Suspect
            } else {
                FileRemains::Everything
            });
        }
        if lost >= entry.size {
            return Ok(FileRemains::Nothing);
        }
        let Some(sink) = sink else { return Ok(FileRemains::Parts(Content::Empty, ranges)) };
        let mut recipe = RecipeWriter::new(pieces.cut.unwrap_or_else(|| self.cut.clone()));
        let mut pieces = Pieces::new(Class::Data, &entry.content);
        while let Some(piece) = pieces.next(&mut self.chunks, None)? {
            let segment = match piece {
                Piece::Present(segment) => segment,
                Piece::Missing(length) => Segment::Hole { length: length.unwrap_or(entry.size) },
            };
            recipe.push(segment, sink)?;
        }
        Ok(FileRemains::Parts(recipe.finish(sink)?, ranges))
    }
}
