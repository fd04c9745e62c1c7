//! The source of a restore: a reader of snapshots, and its implementation by the reader of the
//! repository.

use bytes::Bytes;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::{ReadPlan, TreesAhead};
use cutpoint_repository::{Class, Content, Entry, Fingerprint, MemoryUse, Reader, thread_count};
use cutpoint_storage::Result;

/// The source of a restore: a reader of one snapshot's trees, recipes and chunks.
pub trait SnapshotReader: Sync {
    /// Returns the entries of the folder with the content `content`, which is not `Raw`.
    ///
    /// # Errors
    ///
    /// Returns an error at the start, or yields one in place of an entry. The caller does not ask
    /// for the entries after an error.
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>>;

    /// Returns the segments of the file with the content `content`, in order. `content` is a
    /// `Recipe`, because the other kinds need no reader.
    ///
    /// # Errors
    ///
    /// Returns an error at the start, or yields one in place of a segment. The caller does not ask
    /// for the segments after an error.
    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>>;

    /// Returns the verified bytes of the data chunk `fingerprint`. Called from several threads at
    /// once.
    ///
    /// # Errors
    ///
    /// Returns `Corrupt`, `Missing` or `Storage`. The file that needs the chunk fails, and the
    /// others are restored.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes>;

    /// Returns the fingerprint that a data chunk with these bytes has.
    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint;

    /// Returns a plan, which learns in advance which chunks will be requested and may hold up to
    /// `bytes_max` bytes for them. Without a plan, each chunk is read when it is requested.
    fn plan(&self, bytes_max: usize) -> Option<ReadPlan<'_>> {
        let _ = bytes_max;
        None
    }

    /// Returns the trees of a walk that begins at the tree `root`, to be read ahead by a thread of their
    /// own that may hold up to `bytes_max` bytes; `None` if that is not worthwhile.
    fn trees_ahead(&self, root: &Content, bytes_max: usize) -> Option<TreesAhead<'_>> {
        let _ = (root, bytes_max);
        None
    }

    /// Returns the number of threads for a request of `wanted` (0: the number of processors).
    ///
    /// # Errors
    ///
    /// Returns `Invalid` if a limit of the memory does not suffice for one.
    fn thread_count(&self, wanted: usize) -> Result<usize> {
        Ok(thread_count(wanted))
    }
}

impl SnapshotReader for Reader {
    fn tree<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + 'a>> {
        Ok(Box::new(Reader::tree(self, content)))
    }

    fn segments<'a>(
        &'a self,
        content: &Content,
    ) -> Result<Box<dyn Iterator<Item = Result<Segment>> + 'a>> {
        Ok(Box::new(Reader::segments(self, content)))
    }

    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes> {
        Reader::chunk(self, Class::Data, fingerprint).map(Bytes::from_owner)
    }

    fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.repository().keys().fingerprint(Class::Data, bytes)
    }

    fn plan(&self, bytes_max: usize) -> Option<ReadPlan<'_>> {
        Some(Reader::plan(self, bytes_max))
    }

    fn trees_ahead(&self, root: &Content, bytes_max: usize) -> Option<TreesAhead<'_>> {
        Reader::trees_ahead(self, root, bytes_max)
    }

    fn thread_count(&self, wanted: usize) -> Result<usize> {
        let repository = self.repository();
        // Chunks are cut out of regions, so that those of the default sizes count little.
        let memory = MemoryUse::restore(repository.part_sizes(0));
        let index_bytes = self.index().statistics().memory_bytes;
        repository.memory().thread_count(wanted, &memory, index_bytes)
    }
}

/// Returns `true` if `segment` is a complete chunk with these bytes. `false` decides nothing for a
/// segment that is a part of a chunk.
pub(super) fn is_chunk(reader: &dyn SnapshotReader, segment: &Segment, bytes: &[u8]) -> bool {
    match segment {
        Segment::Chunk { fingerprint, offset: 0, .. } => reader.fingerprint(bytes) == *fingerprint,
        _ => false,
    }
}
