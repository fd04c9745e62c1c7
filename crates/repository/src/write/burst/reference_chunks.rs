//! The chunks that a new chunk may become a burst on.

use std::collections::VecDeque;

use cutpoint_delta::burst::{Side, Tau};
use cutpoint_delta::common_edges;
use cutpoint_storage::Result;

use crate::format::bursts::with_sub_chunks;
use crate::format::extents::extent_count_max;
use crate::format::fingerprint::Fingerprint;
use crate::format::names::PartName;
use crate::write::delta::{Delta, Part};
use crate::write::references::References;

/// Maximum number and total size of recent full chunks of this writer that are remembered. They
/// cannot be read back from the storage, because the time at which that is possible depends on
/// timing, and the stored bytes must not.
const RECENT_COUNT_MAX: usize = 64 * 1024;
const RECENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The reference chunk of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// The number of a stored chunk, counted over the containers of [`ReferenceChunks`].
    Stored(u32),
    /// The number of full chunks that this writer had stored before the chunk.
    Own(u64),
}

/// A burst on a reference chunk.
pub(super) struct Burst {
    /// The container of the reference chunk, if another writer has stored the chunk.
    pub(super) container: Option<PartName>,
    /// The delta; `None` if it would have too many extents.
    pub(super) delta: Option<Delta>,
}

/// Finds the bytes of reference chunks.
#[derive(Debug)]
pub(super) struct ReferenceChunks<'a> {
    references: References<'a>,
    tau: Tau,
    /// Containers with the number of their first chunk. The numbers count all chunks with head and
    /// tail.
    containers: Vec<(u32, PartName)>,
    chunk_count: u32,
    recent: OwnFullChunks,
}

/// The full chunks that this writer has stored last.
#[derive(Debug)]
struct OwnFullChunks {
    list: VecDeque<(Fingerprint, Box<[u8]>)>,
    /// The number of the first chunk in `list`.
    first: u64,
    bytes: usize,
    bytes_max: usize,
}

impl<'a> ReferenceChunks<'a> {
    pub(super) fn new(references: References<'a>, tau: Tau) -> ReferenceChunks<'a> {
        ReferenceChunks {
            references,
            tau,
            containers: Vec::new(),
            chunk_count: 0,
            recent: OwnFullChunks {
                list: VecDeque::new(),
                first: 0,
                bytes: 0,
                bytes_max: RECENT_BYTES_MAX,
            },
        }
    }

    /// Sets the maximum total size of remembered full chunks of this writer, in bytes.
    pub(super) fn set_recent_bytes_max(&mut self, bytes: usize) {
        self.recent.bytes_max = bytes;
    }

    pub(super) fn references(&self) -> &References<'a> {
        &self.references
    }

    /// Adds a container with `count` chunks that have head and tail. Returns the numbers of the
    /// chunks, or `None` if there are too many.
    pub(super) fn add_container(
        &mut self,
        container: PartName,
        count: usize,
    ) -> Option<std::ops::Range<u32>> {
        let first = self.chunk_count;
        let next = first.checked_add(u32::try_from(count).ok()?)?;
        self.containers.push((first, container));
        self.chunk_count = next;
        Some(first..next)
    }

    /// Remembers a full chunk of this writer.
    pub(super) fn add_own(&mut self, fingerprint: Fingerprint, chunk: &[u8]) -> Reference {
        let recent = &mut self.recent;
        let number = recent.first + recent.list.len() as u64;
        recent.list.push_back((fingerprint, chunk.into()));
        recent.bytes += chunk.len();
        Reference::Own(number)
    }

    /// Forgets the oldest remembered full chunk of this writer if there are too many. Returns the
    /// chunk.
    pub(super) fn forget_oldest(&mut self) -> Option<(Reference, Box<[u8]>)> {
        let recent = &mut self.recent;
        if recent.list.len() <= RECENT_COUNT_MAX && recent.bytes <= recent.bytes_max {
            return None;
        }
        let (_, chunk) = recent.list.pop_front()?;
        let reference = Reference::Own(recent.first);
        recent.bytes -= chunk.len();
        recent.first += 1;
        Some((reference, chunk))
    }

    /// Returns `chunk` as a burst on `reference`, to which one of its edges has led. Returns
    /// `None` if the reference chunk cannot be read or does not have this edge.
    pub(super) fn burst(
        &self,
        reference: Reference,
        side: Side,
        chunk: &[u8],
    ) -> Result<Option<Burst>> {
        // Compared because hashes may collide and hints may be wrong.
        let is_alike =
            |old: &[u8]| self.tau.sub_chunk(side, old) == self.tau.sub_chunk(side, chunk);
        match reference {
            Reference::Own(number) => {
                let index = number.checked_sub(self.recent.first);
                let index = index.and_then(|index| usize::try_from(index).ok());
                let old = index.and_then(|index| self.recent.list.get(index));
                let old = old.filter(|(_, old)| is_alike(old));
                Ok(old
                    .map(|(name, old)| Burst { container: None, delta: delta(*name, old, chunk) }))
            }
            Reference::Stored(number) => {
                let Some(name) = self.name(number)? else { return Ok(None) };
                let found = self.references.full_chunk(&name)?;
                let found = found.filter(|(old, _)| is_alike(old));
                Ok(found
                    .map(|(old, container)| Burst { container, delta: delta(name, &old, chunk) }))
            }
        }
    }

    /// Returns the fingerprint of the stored chunk with this number.
    fn name(&self, number: u32) -> Result<Option<Fingerprint>> {
        let next = self.containers.partition_point(|(first, _)| *first <= number);
        let Some((first, container)) = next.checked_sub(1).map(|index| self.containers[index])
        else {
            return Ok(None);
        };
        let Some(loaded) = self.references.container(container)? else { return Ok(None) };
        let mut chunks = with_sub_chunks(self.tau, &loaded.toc.chunks);
        Ok(chunks.nth((number - first) as usize).map(|chunk| chunk.fingerprint))
    }
}

/// Expresses `chunk` as a prefix and a suffix of the full chunk `name`, whose bytes are `old`, and
/// a literal between them (C5: the parts are exactly what was compared). Returns `None` if a delta
/// chunk must not have that number of extents (C4).
fn delta(name: Fingerprint, old: &[u8], chunk: &[u8]) -> Option<Delta> {
    let narrow = |len: usize| u32::try_from(len).ok();
    let (prefix, suffix) = common_edges(old, chunk);
    let literal = chunk.get(prefix..chunk.len() - suffix)?;
    let suffix_at = narrow(old.len() - suffix)?;
    let copy = |offset, len| Part::Copy { source: 0, offset, len };
    let parts = [
        (prefix, copy(0, narrow(prefix)?)),
        (literal.len(), Part::Literal { len: literal.len() }),
        (suffix, copy(suffix_at, narrow(suffix)?)),
    ];
    let parts: Vec<Part> =
        parts.into_iter().filter(|(len, _)| *len > 0).map(|(_, part)| part).collect();
    let is_allowed = parts.len() <= extent_count_max(chunk.len());
    is_allowed.then(|| Delta { parts, literals: literal.to_vec(), sources: vec![name] })
}
