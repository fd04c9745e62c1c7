//! Saves a device or image by a map of its changed blocks.

use std::io;

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Class, Content, Entry, EntryKind, Keys, Reader};
use cutpoint_storage::{Error, Result as StoreResult};

use super::base_segments::{BaseSegments, SamePart};
use super::changed_blocks::ChangedBlocks;
use super::cutter::{CutEnd, Cutter};
use super::shutdown::Result;
use crate::source::{FileExtent, SourceFile};

/// The number of chunks taken over of which one is read and compared.
const SAMPLE_INTERVAL: u64 = 64;
/// The number of bytes that are read at once between parts that are taken over.
const READ_LEN: usize = 128 * 1024;
/// The maximum size of a file that is read completely, because it may share chunks with others.
const SMALL_FILE_LEN: u64 = 1 << 20;

/// A map of changed blocks, with the properties of the repository.
#[derive(Clone, Copy)]
pub(super) struct BlockMap<'a> {
    pub(super) changed: &'a ChangedBlocks,
    pub(super) keys: &'a Keys,
    /// The cut specification.
    pub(super) cut: &'a str,
}

/// A file of which only the changed blocks are read.
pub(super) struct ChangedFile<'f, 'a> {
    pub(super) file: &'f SourceFile,
    /// The path, for messages.
    pub(super) path: String,
    pub(super) base: BaseSegments<'a>,
    pub(super) keys: &'a Keys,
    /// A number by which the sample differs from run to run.
    pub(super) salt: u64,
}

/// Returns the reason why the previous version `before` cannot stand for the unchanged parts of
/// `entry`; `None` if it can.
pub(super) fn unsuitable(before: &Entry, entry: &Entry, map: &ChangedBlocks) -> Option<String> {
    if before.kind != EntryKind::File {
        return Some("the previous snapshot has something else there".to_owned());
    }
    if before.size != entry.size {
        let (old, new) = (before.size, entry.size);
        return Some(format!("the size has changed (expected {old} bytes, found {new})"));
    }
    if before.defect.is_some() {
        return Some("the previous snapshot has it incomplete".to_owned());
    }
    if map.end() > entry.size {
        let (end, size) = (map.end(), entry.size);
        return Some(format!("the map reaches to byte {end} (expected {size} at most)"));
    }
    None
}

/// Returns `true` if the cut-points of the file `before` are those of the cut specification `cut`.
/// `snapshot_cut` is that of its snapshot.
///
/// # Errors
///
/// Returns an error if the recipe cannot be read.
pub(super) fn is_cut_by(
    reader: &Reader,
    before: &Entry,
    cut: &str,
    snapshot_cut: &str,
) -> StoreResult<bool> {
    if before.size <= SMALL_FILE_LEN {
        return Ok(false);
    }
    match &before.content {
        Content::Recipe(fingerprint) => Ok(reader.recipe_chunk(fingerprint, None)?.cut == cut),
        Content::Segments(_) => Ok(snapshot_cut == cut),
        Content::Empty | Content::Raw(_) => Ok(false),
    }
}

impl ChangedFile<'_, '_> {
    /// Covers the file by events: with the chunks of its previous version where nothing has
    /// changed, and with new chunks elsewhere. The chunks are those of a run that reads everything.
    /// The outer error ends the run, the inner error ends the file.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if a sample shows that the map is wrong.
    pub(super) fn save(mut self, cutter: &mut Cutter<'_>) -> Result<io::Result<CutEnd>> {
        let file = self.file;
        for extent in file.extents(0) {
            match extent {
                Err(error) => return Ok(Err(error)),
                Ok(FileExtent::Hole { len, .. }) => {
                    cutter.push_segment(Segment::Hole { length: len })?;
                }
                Ok(FileExtent::Data { offset, len }) => {
                    match self.save_extent(cutter, offset + len)? {
                        Ok(CutEnd::End | CutEnd::Stopped) => {}
                        other => return Ok(other),
                    }
                }
            }
        }
        Ok(Ok(CutEnd::End))
    }

    /// Covers the file up to `end`, where the data or the file ends.
    fn save_extent(&mut self, cutter: &mut Cutter<'_>, end: u64) -> Result<io::Result<CutEnd>> {
        while cutter.covered_len() < end {
            cutter.batches.check_stop()?;
            let offset = cutter.covered_len();
            if let Some(part) = self.base.same_part(offset, end)? {
                if let Err(error) = self.sample(offset, part)? {
                    return Ok(Err(error));
                }
                cutter.push_segment(part.segment())?;
                continue;
            }
            let (mut at, file) = (offset, self.file);
            let read = |buffer: &mut [u8]| {
                let left = usize::try_from(end - at).unwrap_or(usize::MAX);
                let want = left.min(buffer.len()).min(READ_LEN);
                let count = file.read_at(&mut buffer[..want], at)?;
                at += count as u64;
                Ok((count, at < end && count == want))
            };
            let base = &mut self.base;
            let mut is_end = |cut_point| Ok(base.same_part(cut_point, end)?.is_some());
            match cutter.cut_until(&[], read, |_| false, &mut is_end)? {
                Ok(CutEnd::Stopped) => {}
                Ok(CutEnd::End) if cutter.covered_len() < end => return Ok(Ok(CutEnd::Short)),
                other => return Ok(other),
            }
        }
        Ok(Ok(CutEnd::End))
    }

    /// Reads and compares the part at `offset`, if it is in the sample. The inner error is one of
    /// the file.
    fn sample(&self, offset: u64, part: SamePart) -> Result<io::Result<()>> {
        // A multiplicative hash spreads the sample over the file.
        let hash = (offset ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if !hash.is_multiple_of(SAMPLE_INTERVAL) {
            return Ok(Ok(()));
        }
        let len_max = match part {
            SamePart::Chunk(..) => usize::MAX,
            SamePart::Zeros(_) => READ_LEN,
        };
        let len = usize::try_from(part.len()).unwrap_or(usize::MAX).min(len_max);
        let mut bytes = vec![0; len];
        match self.file.read_at(&mut bytes, offset) {
            Ok(count) => bytes.truncate(count),
            Err(error) => return Ok(Err(error)),
        }
        let is_same = match part {
            SamePart::Chunk(fingerprint, _) => {
                self.keys.fingerprint(Class::Data, &bytes) == fingerprint
            }
            SamePart::Zeros(_) => bytes.len() == len && bytes.iter().all(|&byte| byte == 0),
        };
        if is_same {
            return Ok(Ok(()));
        }
        let message = format!(
            "the {len} bytes at offset {offset} differ from the previous snapshot, and the map of \
             changed blocks does not list them\n  the map is wrong, or begins after that snapshot; \
             run the backup without --changed-blocks"
        );
        Err(Error::invalid(&self.path, message).into())
    }
}
