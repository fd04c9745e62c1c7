//! The implementation of [`SnapshotReader`] by the reader of the store.

use bytes::Bytes;
use cutpoint_repository::format::recipe::Segment;
use cutpoint_repository::read::Plan;
use cutpoint_repository::{Class, Content, Entry, Fingerprint, Reader};
use cutpoint_storage::Result;

use crate::restore::SnapshotReader;

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

    fn plan(&self, bytes_max: usize) -> Option<Plan<'_>> {
        Some(Reader::plan(self, bytes_max))
    }
}
