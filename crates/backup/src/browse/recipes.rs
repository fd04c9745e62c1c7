//! Segments of files by their offsets. Recipes are read chunk by chunk, so that a file of any size
//! takes little memory.

use std::sync::{Arc, Mutex, PoisonError};

use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::{Content, Fingerprint, Reader};
use cutpoint_storage::Result;

use crate::trees::SizedCache;

/// The maximum size of decoded recipe chunks that are kept, in bytes.
const BYTES_MAX: usize = 6 << 20;

/// The size of a page, in which holes are counted.
const PAGE_LEN: u64 = 4096;
/// The maximum number of recipe chunks that are read to count the blocks of a file. What lies behind
/// them counts as allocated. 64 of them stand for some 10 GiB of data.
const COUNTED_CHUNKS_MAX: usize = 64;

/// A decoded chunk of a recipe.
#[derive(Debug)]
struct RecipeNode {
    level: u32,
    /// The offset of each segment from the start of the chunk's stream, in bytes.
    starts: Vec<u64>,
    segments: Vec<Segment>,
}

impl RecipeNode {
    /// Returns the segment that has the byte at `offset`, with its start.
    fn at(&self, offset: u64) -> Option<(u64, Segment)> {
        let index = self.starts.partition_point(|start| *start <= offset).checked_sub(1)?;
        let (start, segment) = (self.starts[index], self.segments[index]);
        (offset - start < segment.length()).then_some((start, segment))
    }
}

/// The recipes that were read last.
#[derive(Debug)]
pub(super) struct Recipes {
    reader: Arc<Reader>,
    nodes: Mutex<SizedCache<Arc<RecipeNode>>>,
}

impl Recipes {
    pub(super) fn new(reader: Arc<Reader>) -> Recipes {
        Recipes { reader, nodes: Mutex::new(SizedCache::new(BYTES_MAX)) }
    }

    fn node(
        &self,
        fingerprint: &Fingerprint,
        expected: Option<(u32, u64)>,
    ) -> Result<Arc<RecipeNode>> {
        let lock = || self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = lock().get(fingerprint)
            && expected.is_none_or(|(level, _)| level == node.level)
        {
            return Ok(node);
        }
        let chunk = self.reader.recipe_chunk(fingerprint, expected)?;
        let mut end = 0_u64;
        let starts = chunk.segments.iter().map(|segment| {
            let start = end;
            end += segment.length();
            start
        });
        let starts = starts.collect();
        let node = RecipeNode { level: chunk.level, starts, segments: chunk.segments };
        let node = Arc::new(node);
        let len = node.segments.len() * (size_of::<Segment>() + size_of::<u64>());
        lock().put(*fingerprint, Arc::clone(&node), len);
        Ok(node)
    }

    /// Returns the segment that has the byte at `offset` of a stream, with its start. `None` if the
    /// stream ends before.
    pub(super) fn segment_at(
        &self,
        content: &Content,
        offset: u64,
    ) -> Result<Option<(u64, Segment)>> {
        let fingerprint = match content {
            Content::Empty | Content::Raw(_) => return Ok(None),
            Content::Segments(segments) => {
                let mut start = 0;
                for segment in segments {
                    if offset - start < segment.length() {
                        return Ok(Some((start, *segment)));
                    }
                    start += segment.length();
                }
                return Ok(None);
            }
            Content::Recipe(fingerprint) => fingerprint,
        };
        let mut node = self.node(fingerprint, None)?;
        let mut base = 0;
        loop {
            let Some((start, segment)) = node.at(offset - base) else { return Ok(None) };
            match segment {
                Segment::Chunk { fingerprint, length, .. } if node.level > 0 => {
                    node = self.node(&fingerprint, Some((node.level - 1, length)))?;
                    base += start;
                }
                segment => return Ok(Some((base + start, segment))),
            }
        }
    }

    /// Returns the number of blocks of 512 bytes that a restored file of `size` bytes takes on a
    /// file system with blocks of 4 KiB. Holes and stored runs of zeros take none.
    pub(super) fn block_count(&self, content: &Content, size: u64) -> Result<u64> {
        let mut pages = PageCount::default();
        match content {
            Content::Empty => {}
            Content::Raw(bytes) => pages.add(0, bytes.len() as u64),
            Content::Segments(segments) => pages.add_all(0, segments),
            Content::Recipe(fingerprint) => {
                let mut rest = COUNTED_CHUNKS_MAX;
                let mut stack = vec![(0, *fingerprint, None)];
                while let Some((base, fingerprint, expected)) = stack.pop() {
                    // A node is not read then, of whatever level: a hostile tree whose entries name
                    // the same few chunks has visits without number.
                    if let (Some((_, length)), 0) = (expected, rest) {
                        pages.add(base, length);
                        continue;
                    }
                    rest = rest.saturating_sub(1);
                    let node = self.node(&fingerprint, expected)?;
                    if node.level == 0 {
                        pages.add_all(base, &node.segments);
                        continue;
                    }
                    for (start, segment) in node.starts.iter().zip(&node.segments).rev() {
                        if let Segment::Chunk { fingerprint, length, .. } = segment {
                            let expected = Some((node.level - 1, *length));
                            stack.push((base + start, *fingerprint, expected));
                        }
                    }
                }
            }
        }
        Ok(pages.count.min(size.div_ceil(PAGE_LEN)) * (PAGE_LEN / 512))
    }
}

/// A count of the pages that a file takes.
#[derive(Default)]
struct PageCount {
    count: u64,
    /// The pages before this one were counted.
    end: u64,
}

impl PageCount {
    fn add_all(&mut self, mut start: u64, segments: &[Segment]) {
        for segment in segments {
            if let Segment::Chunk { .. } = segment {
                self.add(start, segment.length());
            }
            start += segment.length();
        }
    }

    fn add(&mut self, start: u64, len: u64) {
        let first = (start / PAGE_LEN).max(self.end);
        let end = (start + len).div_ceil(PAGE_LEN).max(first);
        self.count += end - first;
        self.end = end;
    }
}
