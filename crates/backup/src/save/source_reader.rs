//! The repository that a snapshot is read from: of this program, or of another one.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::{ChunkBytes, Entries, ReadPlan, ReadStep, Segments};
use cutpoint_repository::{Class, Content, Entry, Fingerprint, Reader};
use cutpoint_storage::Result;

use super::foreign::{ForeignFolder, ForeignRepository};
use super::foreign_plan::{ForeignPlan, ForeignStep};

/// The repository that a snapshot is read from.
#[derive(Clone, Debug)]
pub enum SourceRepository {
    /// A repository of this program.
    Own(Arc<Reader>),
    /// A repository of another program.
    Foreign(Arc<dyn ForeignRepository>),
}

impl SourceRepository {
    /// Returns a reader of the repository.
    pub(crate) fn reader(&self) -> SourceReader<'_> {
        match self {
            SourceRepository::Own(reader) => SourceReader::Own(reader),
            SourceRepository::Foreign(repository) => SourceReader::Foreign(&**repository),
        }
    }

    /// Returns the reader of a repository of this program.
    pub fn own(&self) -> Option<&Reader> {
        match self {
            SourceRepository::Own(reader) => Some(reader),
            SourceRepository::Foreign(_) => None,
        }
    }
}

/// A reader of the repository that a snapshot is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceReader<'a> {
    Own(&'a Reader),
    Foreign(&'a dyn ForeignRepository),
}

/// An iterator over the entries of a folder, in order.
pub(crate) enum SourceEntries<'a> {
    Own(Entries<'a>),
    Foreign {
        entries: std::vec::IntoIter<Entry>,
        warnings: std::vec::IntoIter<(Vec<u8>, String)>,
    },
    /// A folder that cannot be read.
    Failed(Option<cutpoint_storage::Error>),
}

/// An iterator over the segments of a file.
pub(crate) enum SourceSegments<'a> {
    Own(Segments<'a>),
    Listed(std::vec::IntoIter<Segment>),
}

/// The bytes of a chunk.
pub(super) enum SourceChunk {
    Own(ChunkBytes),
    Foreign(Bytes),
}

/// The chunks that are going to be read.
pub(super) enum SourcePlan<'a> {
    Own(ReadPlan<'a>),
    Foreign(ForeignPlan<'a>),
}

/// Chunks that will be read together. It should be dropped once they have been read.
#[derive(Debug)]
pub(super) enum SourceStep {
    Own(ReadStep),
    Foreign { _kept: ForeignStep },
}

impl<'a> SourceReader<'a> {
    /// Returns the entries of a folder. Trees are read when the iterator needs them, or at once.
    pub(crate) fn tree(self, content: &Content) -> SourceEntries<'a> {
        match self {
            SourceReader::Own(reader) => SourceEntries::Own(reader.tree(content)),
            SourceReader::Foreign(repository) => match repository.tree(content) {
                Ok(ForeignFolder { entries, warnings }) => SourceEntries::Foreign {
                    entries: entries.into_iter(),
                    warnings: warnings.into_iter(),
                },
                Err(error) => SourceEntries::Failed(Some(error)),
            },
        }
    }

    /// Returns the segments of a file.
    pub(crate) fn segments(self, content: &Content) -> SourceSegments<'a> {
        match (self, content) {
            (SourceReader::Own(reader), _) => SourceSegments::Own(reader.segments(content)),
            (SourceReader::Foreign(_), Content::Segments(segments)) => {
                SourceSegments::Listed(segments.clone().into_iter())
            }
            (SourceReader::Foreign(_), _) => SourceSegments::Listed(Vec::new().into_iter()),
        }
    }

    /// Creates a plan that holds at most about `bytes_max` of decoded bytes.
    pub(super) fn plan(self, bytes_max: usize) -> SourcePlan<'a> {
        match self {
            SourceReader::Own(reader) => SourcePlan::Own(reader.plan(bytes_max)),
            SourceReader::Foreign(repository) => {
                SourcePlan::Foreign(ForeignPlan::new(repository, bytes_max))
            }
        }
    }

    /// Returns the bytes of a chunk that the plan may have.
    pub(super) fn chunk(self, plan: &SourcePlan<'_>, id: &Fingerprint) -> Result<SourceChunk> {
        match (self, plan) {
            (SourceReader::Own(reader), _) => Ok(SourceChunk::Own(reader.chunk(Class::Data, id)?)),
            (_, SourcePlan::Foreign(plan)) => Ok(SourceChunk::Foreign(plan.chunk(id)?)),
            (SourceReader::Foreign(repository), SourcePlan::Own(_)) => {
                let plan = ForeignPlan::new(repository, 0);
                Ok(SourceChunk::Foreign(plan.chunk(id)?))
            }
        }
    }
}

impl SourceEntries<'_> {
    /// Returns the next entry of the folder that lacks something: its name, and a message.
    pub(super) fn next_warning(&mut self) -> Option<(Vec<u8>, String)> {
        match self {
            SourceEntries::Foreign { warnings, .. } => warnings.next(),
            SourceEntries::Own(_) | SourceEntries::Failed(_) => None,
        }
    }
}

impl Iterator for SourceEntries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        match self {
            SourceEntries::Own(entries) => entries.next(),
            SourceEntries::Foreign { entries, .. } => entries.next().map(Ok),
            SourceEntries::Failed(error) => error.take().map(Err),
        }
    }
}

impl Iterator for SourceSegments<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Result<Segment>> {
        match self {
            SourceSegments::Own(segments) => segments.next(),
            SourceSegments::Listed(segments) => segments.next().map(Ok),
        }
    }
}

impl Deref for SourceChunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SourceChunk::Own(bytes) => bytes,
            SourceChunk::Foreign(bytes) => bytes,
        }
    }
}

impl SourcePlan<'_> {
    /// Returns the number of threads that should [`fetch`](SourcePlan::fetch).
    pub(super) fn fetcher_count(&self) -> usize {
        match self {
            SourcePlan::Own(plan) => plan.fetcher_count(),
            SourcePlan::Foreign(plan) => plan.fetcher_count(),
        }
    }

    /// Fetches what the plan wants until it ends.
    pub(super) fn fetch(&self) {
        match self {
            SourcePlan::Own(plan) => plan.fetch(),
            SourcePlan::Foreign(plan) => plan.fetch(),
        }
    }

    /// Ends all fetching.
    pub(super) fn end(&self) {
        match self {
            SourcePlan::Own(plan) => plan.end(),
            SourcePlan::Foreign(plan) => plan.end(),
        }
    }

    /// Returns `true` if there is room to begin another step.
    pub(super) fn has_room(&self) -> bool {
        match self {
            SourcePlan::Own(plan) => plan.has_room(),
            SourcePlan::Foreign(plan) => plan.has_room(),
        }
    }

    /// Returns `true` if it is worth looking up many chunks together.
    pub(super) fn looks_up(&self) -> bool {
        match self {
            SourcePlan::Own(plan) => plan.fetcher_count() > 0,
            SourcePlan::Foreign(_) => false,
        }
    }

    /// Finds out where the chunks of these segments are, by several requests at a time, if that is
    /// worthwhile. What is not found is left to the steps.
    pub(super) fn look_up<'s>(&self, needed: impl Iterator<Item = &'s Segment>) {
        if let SourcePlan::Own(plan) = self
            && self.looks_up()
        {
            let chunks = needed.filter_map(|segment| match segment {
                Segment::Chunk { fingerprint, .. } => Some(*fingerprint),
                Segment::Hole { .. } | Segment::Zeros { .. } => None,
            });
            plan.look_up(&chunks.collect::<Vec<_>>());
        }
    }

    /// Begins a step that reads the chunks of these segments. Never waits.
    pub(super) fn begin<'s>(&self, needed: impl Iterator<Item = &'s Segment>) -> SourceStep {
        let chunks = needed.filter_map(|segment| match segment {
            Segment::Chunk { fingerprint, length, .. } => Some((fingerprint, *length)),
            Segment::Hole { .. } | Segment::Zeros { .. } => None,
        });
        match self {
            SourcePlan::Own(plan) => SourceStep::Own(plan.begin(chunks.map(|(id, _)| id))),
            SourcePlan::Foreign(plan) => {
                let _kept = plan.begin(chunks.map(|(id, len)| (*id, len)));
                SourceStep::Foreign { _kept }
            }
        }
    }

    /// Prepares a step that is about to be read.
    pub(super) fn hand_over(&self, step: &mut SourceStep) {
        if let (SourcePlan::Own(plan), SourceStep::Own(step)) = (self, step) {
            plan.hand_over(step);
        }
    }
}
