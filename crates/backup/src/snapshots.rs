//! The implementation of [`SnapshotReader`] by the reader of the store.

use bytes::Bytes;
use cutpoint_store::error::Result;
use cutpoint_store::fingerprint::{Class, Fingerprint};
use cutpoint_store::format::recipe::{Content, Segment};
use cutpoint_store::format::tree::Entry;
use cutpoint_store::reader::{Plan, Reader};

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
